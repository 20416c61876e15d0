"""Tells a person what an anomaly is: in a sentence, from its evidence."""

from collections.abc import Mapping

from dutycycle.contract.records.insights import Anomaly
from streams.operators.workload.anomalies import kinds
from streams.operators.workload.rules.bottleneck import FAR_BELOW_LIMIT_PCT
from streams.operators.workload.rules.stats import three_digits


def anomaly_of(anomaly: kinds.Found) -> Anomaly:
    """Return the anomaly as it is published. Raises ``ValueError`` for a kind that no sentence tells."""
    of = {name: three_digits(value) for name, value in anomaly.evidence.items()}
    gpu = anomaly.gpu or "a GPU"
    match anomaly.kind:
        case kinds.SLOW_STEPS:
            more = 100 * (of["period_s"] / of["usual_period_s"] - 1)
            text = (
                f"steps take {of['period_s']:.3g} s, {more:.0f} % longer than usual "
                f"({of['usual_period_s']:.3g} s): look at data loading, neighbours, and clocks"
            )
        case kinds.HOT_GPU:
            text = (
                f"{gpu} is {of['hotter_c']:.0f} °C hotter than the others, usually "
                f"{of['usually_hotter_c']:.0f}: look at its fan, dust and air flow"
            )
        case kinds.SLOW_GPU:
            text = _slow_gpu(gpu, of)
        case kinds.POWER:
            text = f"power is {of['power_pct']:.0f} % of the limit at {of['gpu_util_pct']:.0f} % utilization"
            if "usual_power_pct" in of:
                text += (
                    f", usually {of['usual_power_pct']:.0f} %, and the clock {of['sm_clock_mhz']:.0f} MHz "
                    f"instead of {of['usual_sm_clock_mhz']:.0f}: something holds the clocks down"
                )
            else:
                text += ": something works there that does not show as utilization"
        case kinds.HANG:
            rank = f"the rank on {gpu}" if of["stopped_gpus"] == 1 else "a rank"
            text = (
                f"GPUs wait at full utilization and {of['power_pct']:.0f} % of the power limit, usually "
                f"{of['usual_power_pct']:.0f} %: {rank} hangs; look at its stack"
            )
        case kinds.STALL:
            text = (
                f"no step comes any more, one took {of['usual_step_s']:.3g} s, and the GPUs rest with their "
                "memory held: look at the training's log, its storage and its stack"
            )
        case kinds.FROZEN:
            text = (
                f"every figure of {gpu} is the same to the last bit, tick after tick: its driver hangs, or "
                "what reads it repeats itself; what the GPU does is not known until they move"
            )
        case _:
            raise ValueError(f"no sentence says what {anomaly.kind!r} is")
    return Anomaly(kind=anomaly.kind, since_ms=anomaly.since_ms, gpu=anomaly.gpu, evidence=of, advice=text)


def _slow_gpu(gpu: str, of: Mapping[str, float]) -> str:
    off = f"its clock is {-of['clock_off_pct']:.0f} % below the others, and what works in step waits for it"
    if "throttled_heat_pct" in of:
        return f"{gpu} is held down by heat: {off}; look at its cooling"
    if "throttled_power_pct" in of:
        if of["power_pct"] < FAR_BELOW_LIMIT_PCT:
            return f"{gpu} is held down by a power brake: {off}; look at its power supply, cables and rack"
        return f"{gpu} is held down by its power limit: {off}; compare its limit with theirs"
    return (
        f"the clock of {gpu} is {-of['clock_off_pct']:.0f} % below the others, at "
        f"{-of['power_off_pct']:.0f} % less power: they wait for it; see nvidia-smi -q -d PERFORMANCE"
    )

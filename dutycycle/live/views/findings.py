"""Says what the streams say of a subject, in words: what it does, its cycle, where it is heading."""

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.metering import HELD_DOWN
from dutycycle.contract.records.health import GpuHealth
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, Row
from dutycycle.words import digits, does, short_duration

_UNSAID_MS = 180_000
"""Memory that runs out is told again every minute or so: what was not for so long has ended."""
_THROTTLES = {
    "sw_power_cap": "power",
    "hw_power_brake_slowdown": "a power brake",
    "sw_thermal_slowdown": "heat",
    "hw_thermal_slowdown": "heat",
    "hw_slowdown": "its hardware",
    "sync_boost": "",
    "gpu_idle": "",
    "applications_clocks_setting": "",
    "display_clock_setting": "",
}


def throttle_words(row: GpuRow) -> str:
    """Return ``heat``, ``a power brake``: what holds the clocks down; empty for nothing, and for what is
    nobody's fault."""
    words = (_THROTTLES.get(reason, reason.replace("_", " ")) for reason in row.now.throttle or ())
    return ", ".join(dict.fromkeys(filter(None, words)))


def slowed_words(state: LiveState, row: Row) -> str:
    """Return ``slowed by a power brake`` of a GPU; empty where nothing slows it, where nobody samples it, and
    where what its pods do says so."""
    by = throttle_words(row) if isinstance(row, GpuRow) and not row.is_silent else ""
    return f"slowed by {by}" if by and "slowed" not in activity(state, row) else ""


def is_held_down(row: Row) -> bool:
    """Tell whether a GPU is slowed now by what should not be: by heat, a power brake or its hardware, and not
    by its power limit alone."""
    return isinstance(row, GpuRow) and not HELD_DOWN.isdisjoint(row.now.throttle or ())


def sick_gpus(state: LiveState, node: str) -> list[GpuHealth]:
    """List the GPUs of a node that are not healthy; without those that nobody has judged for long."""
    health = state.health.get(node)
    return [
        gpu
        for gpu in (() if health is None else health.gpus)
        if gpu.reason is not None and state.now_ms - gpu.seen_ms <= HEARD_OF_MS
    ]


def health_words(state: LiveState, row: Row) -> str:
    """Return ``reset: Xid 48: uncorrectable ECC error`` of a GPU; empty while nothing is known to ail it."""
    if not isinstance(row, GpuRow):
        return ""
    words = (f"{gpu.level}: {gpu.reason}" for gpu in sick_gpus(state, row.node) if gpu.gpu == row.now.uuid)
    return next(words, "")


def activity(state: LiveState, row: Row) -> str:
    """Return what a pod or job does; of a GPU, what the pods on it do; empty where that is not known, and
    while nobody samples it."""
    if row.is_silent:
        return ""
    if isinstance(row, GpuRow):
        on_it = (state.rows.get(f"pod/{uid}") for uid in row.pods)
        return " + ".join(sorted({activity(state, pod) for pod in on_it if pod is not None} - {""}))
    insight = row.derived.read_insight()
    return "" if insight is None else does(insight)


def period_s(row: Row) -> float | None:
    """Return the period of the main metric, while it is measured."""
    cycle = None if row.is_silent else row.derived.cycle(row.main)
    return None if cycle is None else cycle.period_s


def cycle_words(row: Row) -> str:
    """Return ``cycle 10 s``; empty without a cycle."""
    period = period_s(row)
    return "" if period is None else f"cycle {digits(period)} s"


def full_in_s(row: Row) -> float | None:
    """Tell when memory is full, of a pod or job its own or that of its GPUs, whichever is first, from now;
    None while it does not run out, or that is no longer said."""
    if row.is_silent:
        return None
    trends = (row.derived.trend(metric) for metric in ("gpu_mem_used_bytes", "mem_used_bytes"))
    full = (
        max(trend.exhausts_in_s - (row.ts_ms - ts_ms) / 1000, 0.0)
        for trend, ts_ms in filter(None, trends)
        if trend.exhausts_in_s is not None and row.ts_ms - ts_ms < _UNSAID_MS
    )
    return min(full, default=None)


def full_words(row: Row) -> str:
    """Return ``memory full in 14m``; empty while it does not run out."""
    full_s = full_in_s(row)
    return "" if full_s is None else f"memory full in {short_duration(full_s)}"


def forecast_words(row: Row) -> str:
    """Return ``58 % in 5m``: where the main metric goes, while it is measured.

    A trend that does not change is told once: it holds for as long as its metric is measured.
    """
    trend = row.derived.trend(row.main)
    if trend is None or not trend[0].forecast or main_value(row) is None:
        return ""
    last = trend[0].forecast[-1]
    return f"{last.value:.0f} % in {short_duration(last.horizon_s)}"


def main_value(row: Row) -> float | None:
    """Return the newest value of the metric that counts most."""
    if isinstance(row, GpuRow):
        return row.now.gpu_util_pct
    if isinstance(row, NodeRow):
        return row.now.cpu_util_pct
    if isinstance(row, JobRow):
        return row.gpu_util if row.main == "gpu_util_pct" else row.total("cpu")
    return row.gpu_util if row.main == "gpu_util_pct" else row.cpu


def silence_words(state: LiveState, row: Row) -> str:
    """Return ``silent for 12s``; empty while it is sampled."""
    silent_s = row.silent_s(state.now_ms)
    return "" if silent_s is None else f"silent for {short_duration(silent_s)}"


def says(state: LiveState, row: Row) -> str:
    """Return all of it, what is urgent first."""
    sick = health_words(state, row)
    if row.is_silent:
        return ", ".join(filter(None, (silence_words(state, row), sick)))
    does, slowed = activity(state, row), slowed_words(state, row)
    return ", ".join(
        filter(None, (sick, full_words(row), does, slowed, cycle_words(row), forecast_words(row)))
    )

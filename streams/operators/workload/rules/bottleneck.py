"""What holds a pod back: rules over its figures, the plainest cause first.

Each rule looks at the figures and says how sure it is, 0-1, or None. The order is one of causes: a GPU that
is held down by power is busy, too, and one that waits for data may also be short of memory bandwidth when
it has some. Power is a mean over all GPUs: that little of it is needed says something only where all work.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from streams.operators.workload.rules.figures import Figures

NONE, UNKNOWN, IDLE, OVER = "none", "unknown", "idle", "over_provisioned"
IDLE_PCT = 5.0
_STARVED_PCT = 75.0
_MB = 1e3
"""Kilobytes."""
_INDIRECT = 0.65
"""How sure a rule may be at most that sees an effect, and not the cause."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A bottleneck, how sure that is, and the figures that only it needs."""

    bottleneck: str
    confidence: float
    evidence: dict[str, float] = field(default_factory=dict)


def find(of: Figures | None, kind: str, gpus: int) -> Finding:
    """The first rule that is sure enough; ``kind`` is what the pod does, ``gpus`` how many it holds."""
    if of is None:
        return Finding(UNKNOWN, 1.0)
    for rule in _RULES:
        found = rule(of, kind, gpus)
        if found is not None and found.confidence >= 0.5:
            return found
    if kind == "training" and of.mean("gpu_util_pct") < _STARVED_PCT:
        return Finding(UNKNOWN, 1.0)  # it would use more if it could: what it waits for cannot be seen
    return Finding(NONE, 0.6)


def _ramp(value: float, low: float, high: float) -> float:
    """0 below ``low``, 1 above ``high``, straight in between."""
    return min(max((value - low) / (high - low), 0.0), 1.0)


def _sure(*parts: float) -> float:
    """As sure as the weakest of what has to hold: 0 if one does not at all, else 0.5 to 0.98."""
    weakest = min(parts)
    return 0.0 if weakest <= 0 else 0.5 + 0.48 * weakest


def _idle(of: Figures, kind: str, _gpus: int) -> Finding | None:
    if kind == "loading" or of.most["gpu_util_pct"] >= IDLE_PCT:
        return None
    return Finding(IDLE, _sure(_ramp(of.seconds, 30, 120)))


def _loading(of: Figures, kind: str, _gpus: int) -> Finding | None:
    rate = of.sum_of("read_kb_per_s", "rx_kb_per_s")
    if kind != "loading" or rate is None:
        return None
    return Finding("input", _sure(_ramp(rate, 5 * _MB, 100 * _MB)), {"input_bytes_per_s": 1e3 * rate})


def _heat(of: Figures, _kind: str, _gpus: int) -> Finding | None:
    held = of.mean("throttled_heat_pct")
    sure = _sure(_ramp(held, 10, 40), _ramp(of.mean("gpu_util_pct"), 10, 40))
    return Finding("heat", sure, {"throttled_heat_pct": held})


def _power(of: Figures, _kind: str, _gpus: int) -> Finding | None:
    held = of.mean("throttled_power_pct")
    sure = _sure(
        _ramp(held, 30, 70), _ramp(of.mean("gpu_util_pct"), 30, 70), _ramp(of.mean("power_pct", 100), 70, 92)
    )
    return Finding("power", sure, {"throttled_power_pct": held})


def _input(of: Figures, kind: str, _gpus: int) -> Finding | None:
    if kind == "inference":  # a server waits for requests
        return None
    waits = _waits(of)
    below = 1 - of.mean("gpu_util_pct") / 100
    throttled = of.mean("cpu_throttled_pct")
    more, rate = max(of.contrast("read_kb_per_s"), of.contrast("rx_kb_per_s"))
    causes = {
        "cpu_throttled_pct": _sure(_ramp(throttled, 5, 25), max(waits, _ramp(below, 0.2, 0.5))),
        "input_bytes_per_s": _sure(waits, _ramp(more, 1.3, 2.0), _ramp(rate, 5 * _MB, 40 * _MB)),
        "host_cpu_pct": _sure(waits, _ramp(of.mean("host_cpu_pct"), 88, 97)),
    }
    cause = max(causes, key=lambda name: causes[name])
    told = {"cpu_throttled_pct": throttled, "input_bytes_per_s": 1e3 * rate,
            "host_cpu_pct": of.mean("host_cpu_pct")}  # fmt: skip
    return Finding("input", causes[cause], {cause: told[cause]})


def _communication(of: Figures, kind: str, _gpus: int) -> Finding | None:
    if kind == "inference":
        return None
    both_kb = of.sum_of("rx_kb_per_s", "tx_kb_per_s") or 0.0
    spins = _sure(_spins(of), _ramp(of.mean("tx_kb_per_s"), 20 * _MB, 200 * _MB))
    more, rate = of.contrast("tx_kb_per_s")
    waits = _sure(_waits(of), _ramp(more, 1.3, 2.0), _ramp(rate, 10 * _MB, 100 * _MB))
    return Finding("communication", max(spins, waits), {"net_bytes_per_s": 1e3 * both_kb})


def _unseen_network(of: Figures, kind: str, gpus: int) -> Finding | None:
    """Kernels wait, and for what cannot be seen: what is sent by RDMA, or on the host's network, is in no
    counter of the pod's. It still crosses PCIe, and unlike data that are read it does so both ways."""
    spins, measured = _spins(of), "tx_kb_per_s" in of.means
    if kind == "inference" or spins < 0.5 or (gpus < 2 and measured):
        return None
    each_kb = of.mean("pcie_kb_per_s")
    sure = min(_sure(_ramp(each_kb, 50 * _MB, 200 * _MB)), _INDIRECT)
    if sure >= _INDIRECT:
        return Finding("communication", sure, {"pcie_bytes_per_s": 2e3 * each_kb * gpus})
    return None if measured else Finding(UNKNOWN, _sure(spins))


def _one_core(of: Figures, kind: str, _gpus: int) -> Finding | None:
    """One thread that prepares data is a whole core, no more and no less, while the GPU waits."""
    _, cpu = of.contrast("cpu_pct")
    if kind == "inference":
        return None
    sure = min(_sure(_waits(of), _ramp(10 - abs(cpu - 100), 0, 5)), _INDIRECT)
    return Finding("input", sure, {"cpu_waiting_pct": cpu})


def _waits(of: Figures) -> float:
    """Whether the GPU waits in some seconds, and works in others."""
    return min(_ramp(of.waits, 0.08, 0.25), _ramp(of.level_pct, 10, 25))


def _spins(of: Figures) -> float:
    """Whether kernels wait: that counts as utilization, but needs little power and memory."""
    return min(
        _ramp(of.mean("gpu_util_pct"), 70, 90),
        _ramp(-of.mean("power_pct", 100), -60, -45),
        _ramp(-of.mean("mem_copy_util_pct", 100), -45, -30),
    )


def _unused(of: Figures, _kind: str, gpus: int) -> Finding | None:
    """Some of its GPUs do nothing while others work."""
    idle = of.loads.get("idle_gpus", (0.0, 0.0))[1]
    if gpus < 2 or of.level_pct < IDLE_PCT:
        return None
    return Finding(OVER, _sure(_ramp(idle, 0.7, 0.98)), {"idle_gpus": round(idle)})


def _imbalance(of: Figures, _kind: str, gpus: int) -> Finding | None:
    """Its own GPUs: one works, another waits."""
    gap = of.mean("gpu_util_pct") - of.mean("least_gpu_util_pct", of.mean("gpu_util_pct"))
    if gpus < 2:
        return None
    return Finding("imbalance", _sure(_ramp(gap, 15, 35)), {"gpu_util_gap_pct": gap})


def _memory(of: Figures, _kind: str, _gpus: int) -> Finding | None:
    share = of.mean("mem_copy_util_pct")
    return Finding("memory_bandwidth", _sure(_ramp(of.mean("gpu_util_pct"), 60, 85), _ramp(share, 50, 65)))


def _gpu(of: Figures, _kind: str, _gpus: int) -> Finding | None:
    return Finding("gpu", _sure(_ramp(of.mean("gpu_util_pct"), 75, 92)))


def _too_large(of: Figures, kind: str, _gpus: int) -> Finding | None:
    """Neither its time nor its memory is needed: a smaller GPU, or a slice, would do."""
    if kind == "loading" or "gpu_mem_pct" not in of.most:
        return None
    sure = _sure(
        _ramp(of.seconds, 100, 180), _ramp(-of.level_pct, -45, -25), _ramp(-of.most["gpu_mem_pct"], -45, -25)
    )
    return Finding(OVER, sure, {"gpu_mem_most_pct": of.most["gpu_mem_pct"]})


_RULES: tuple[Callable[[Figures, str, int], Finding | None], ...] = (
    _idle, _loading, _heat, _power, _input, _unused, _imbalance, _communication, _one_core, _unseen_network,
    _memory, _gpu, _too_large,
)  # fmt: skip

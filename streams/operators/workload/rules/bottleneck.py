"""Finds what holds a pod back: rules over its statistics, the plainest cause first.

Each rule looks at the statistics of a pod's last minutes and says how sure it is, or None. The order is one
of causes: a GPU that is held down by power is busy, too, and one that waits for data may also be short of
memory bandwidth while it has some. Where the GPU has counters of what it really does (``sm_active_pct`` is
there), they count; elsewhere utilization and power do. Power is a mean over all GPUs of the pod: that little
of it is needed says something only where all of them work. The limits of the counters are those of NVIDIA's
guide to DCGM's profiling metrics: memory can be 80 % busy at most, and less than half of the multiprocessors
busy is little.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from dutycycle.contract.units import Number
from streams.operators.workload.channels import IDLE_PCT
from streams.operators.workload.kinds.classifier import UNKNOWN_KIND
from streams.operators.workload.rules.finding import (
    NO_BOTTLENECK,
    UNKNOWN_BOTTLENECK,
    Finding,
    confidence,
    ramp,
)
from streams.operators.workload.rules.stats import HourlyMax, PodStats

IDLE, OVER_PROVISIONED = "idle", "over_provisioned"
_UTIL = "busiest_gpu_util_pct"
"""A pod works as long as one of its GPUs does."""
_STARVED_PCT = 75.0
_MB = 1e3
"""In kilobytes."""
FAR_BELOW_LIMIT_PCT = 65.0
"""Of their power limit: GPUs that draw less are not held down by that limit."""
_MOST_WAITS = 0.5
_INDIRECT = 0.65
"""The most confidence of a rule that sees an effect, and not the cause."""
_OF_SOME = 0.9
"""How sure it is that GPUs hold the pod back whose clocks are held down far below those of its others."""
HELD_GPUS = "held_gpus"
"""The evidence of how many those are."""
_LEVEL, _MEMORY_PCT = "level_pct", "gpu_mem_pct"
_HOURLY = (_LEVEL, _MEMORY_PCT)
_TOO_LARGE = "gpu_mem_most_pct"
"""The evidence of the only rule that looks back an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """Says what a pod is and what holds it back, at the end of a span. Times in Unix milliseconds."""

    ts_ms: int
    since_ms: int
    kind: str
    confidence: float
    bottleneck: str
    bottleneck_confidence: float
    evidence: dict[str, Number] = field(default_factory=dict)
    advice: str | None = None

    def fields(self) -> dict[str, Any]:
        """Return the fields by name; they are not copied."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class BottleneckFinder:
    """Finds a pod's bottleneck. Whether a smaller GPU would do is a matter of the last hour, as requests of
    CPU and memory are, and not of minutes: a server with few requests now may have many soon."""

    hour: dict[str, HourlyMax] = field(default_factory=lambda: {name: HourlyMax() for name in _HOURLY})
    """The highest values of the last hour, in half percents."""

    def find(self, end_ms: int, stats: PodStats | None, kind: str, gpus: int) -> Finding:
        """Return what holds the pod back, by its statistics until ``end_ms``; see ``find_bottleneck``."""
        finding = find_bottleneck(stats, kind, gpus)
        if stats is None:
            return finding
        self.hour[_LEVEL].add(end_ms, round(2 * stats.level_pct))
        if _MEMORY_PCT in stats.most:
            self.hour[_MEMORY_PCT].add(end_ms, round(2 * stats.most[_MEMORY_PCT]))
        if _TOO_LARGE not in finding.evidence:
            return finding
        level, memory = (self.hour[name].value / 2 for name in _HOURLY)
        most = stats.most | {_MEMORY_PCT: memory}
        of_hour = find_bottleneck(replace(stats, level_pct=level, waits=0.0, most=most), kind, gpus)
        if _TOO_LARGE in of_hour.evidence:
            return of_hour
        del most[_MEMORY_PCT]  # without it the rule does not apply
        return find_bottleneck(replace(stats, most=most), kind, gpus)


def find_bottleneck(stats: PodStats | None, kind: str, gpus: int) -> Finding:
    """Return the first rule that is sure enough.

    ``kind`` is what the pod does, ``gpus`` how many GPUs it holds; ``stats`` None: too little is known of it.
    """
    if stats is None:
        return Finding(UNKNOWN_BOTTLENECK, 1.0)
    for rule in _RULES:
        finding = rule(stats, kind, gpus)
        if finding is not None and finding.confidence >= 0.5:
            return finding
    if kind in ("training", UNKNOWN_KIND) and stats.mean(_UTIL) < _STARVED_PCT:
        # It would use more if it could; what it waits for is not seen.
        return Finding(UNKNOWN_BOTTLENECK, 1.0)
    return Finding(NO_BOTTLENECK, 0.6)


def _idle(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    if kind == "loading" or stats.most[_UTIL] >= IDLE_PCT:
        return None
    return Finding(IDLE, confidence(ramp(stats.seconds, 30, 120)))


def _loading(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    rate = stats.sum_of("read_kb_per_s", "rx_kb_per_s")
    if kind != "loading" or rate is None:
        return None
    return Finding("input", confidence(ramp(rate, 5 * _MB, 100 * _MB)), {"input_bytes_per_s": 1e3 * rate})


def _heat(stats: PodStats, _kind: str, _gpus: int) -> Finding | None:
    if "heat" in stats.held:
        return Finding("heat", _OF_SOME, {HELD_GPUS: stats.held["heat"]})
    held = stats.mean("throttled_heat_pct")
    sure = confidence(ramp(held, 10, 40), ramp(stats.mean(_UTIL), 10, 40))
    return Finding("heat", sure, {"throttled_heat_pct": held})


def _power(stats: PodStats, _kind: str, _gpus: int) -> Finding | None:
    """Find power that holds the clocks down: at the GPUs' own limit, or nearly always and far below it, as a
    power brake of the machine or its rack does. In between the driver's reason alone says little. Some GPUs
    that it holds down while others run free hardly change the mean: those were compared with one another."""
    if "power" in stats.held:
        return Finding("power", _OF_SOME, {HELD_GPUS: stats.held["power"]})
    held = stats.mean("throttled_power_pct")
    util, power = stats.mean(_UTIL), stats.mean("power_pct", 100)
    at_limit = min(ramp(held, 30, 70), ramp(power, 70, 92))
    braked = min(ramp(held, 60, 90), ramp(-power, -FAR_BELOW_LIMIT_PCT, -FAR_BELOW_LIMIT_PCT + 15))
    sure = confidence(ramp(util, 30, 70), max(at_limit, braked))
    return Finding("power", sure, {"throttled_power_pct": held})


def _input(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    if kind == "inference":  # a server waits for requests
        return None
    waits = _waits(stats)
    below = 1 - stats.mean(_UTIL) / 100
    throttled = stats.mean("cpu_throttled_pct")
    more, rate = max(stats.contrast("read_kb_per_s"), stats.contrast("rx_kb_per_s"))
    causes = {
        "cpu_throttled_pct": confidence(ramp(throttled, 5, 25), max(waits, ramp(below, 0.2, 0.5))),
        "input_bytes_per_s": confidence(waits, ramp(more, 1.3, 2.0), ramp(rate, 5 * _MB, 40 * _MB)),
        "host_cpu_pct": confidence(waits, ramp(stats.mean("host_cpu_pct"), 88, 97)),
    }
    cause = max(causes, key=lambda name: causes[name])
    evidence = {"cpu_throttled_pct": throttled, "input_bytes_per_s": 1e3 * rate,
                "host_cpu_pct": stats.mean("host_cpu_pct")}  # fmt: skip
    return Finding("input", causes[cause], {cause: evidence[cause]})


def _checkpoint(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    """Return a training that rests while it writes, and writes little otherwise: each save stops it."""
    if kind != "training":
        return None
    more, rate = stats.contrast("write_kb_per_s")
    sure = confidence(_waits(stats), ramp(more, 3, 8), ramp(rate, 20 * _MB, 100 * _MB))
    return Finding("checkpoint", sure, {"write_bytes_per_s": 1e3 * rate})


def _host(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    """Find own CPUs that work while the GPU waits, and rest while it works: what the GPU waits for is
    computed there, as with an optimizer or parameters that live on the host. Workers that prepare data go on
    while the GPU works."""
    if kind in ("inference", "loading"):
        return None
    more, cpu = stats.contrast("cpu_pct")
    sure = confidence(_waits(stats), ramp(more, 1.4, 2.5), ramp(cpu, 130, 250))
    return Finding("host", sure, {"cpu_waiting_pct": cpu})


def _communication(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    if kind == "inference":
        return None
    both_kb = stats.sum_of("rx_kb_per_s", "tx_kb_per_s") or 0.0
    spins = confidence(_spins(stats), ramp(stats.mean("tx_kb_per_s"), 20 * _MB, 200 * _MB))
    more, rate = stats.contrast("tx_kb_per_s")
    waits = confidence(_waits(stats), ramp(more, 1.3, 2.0), ramp(rate, 10 * _MB, 100 * _MB))
    return Finding("communication", max(spins, waits), {"net_bytes_per_s": 1e3 * both_kb})


def _unseen_network(stats: PodStats, kind: str, gpus: int) -> Finding | None:
    """Find kernels that wait, and for what cannot be seen: what is sent by RDMA, or on the host's network, is
    in no counter of the pod's. It still crosses PCIe, and unlike data that are read it does so both ways."""
    spins, measured = _spins(stats), "tx_kb_per_s" in stats.means
    if kind == "inference" or spins < 0.5 or (gpus < 2 and measured):
        return None
    each_kb = stats.mean("pcie_kb_per_s")
    sure = min(confidence(ramp(each_kb, 50 * _MB, 200 * _MB)), _INDIRECT)
    if sure >= _INDIRECT:
        return Finding("communication", sure, {"pcie_bytes_per_s": 2e3 * each_kb * gpus})
    if measured:
        return None
    # Nothing that computes on several GPUs, and is busy all the time, is content with a fifth of their power.
    collective = confidence(float(gpus > 1), spins, ramp(-stats.mean("power_pct", 100), -28, -20))
    if collective >= 0.5:
        return Finding(
            "communication", min(collective, _INDIRECT), {"spins_power_pct": stats.mean("power_pct")}
        )
    return Finding(UNKNOWN_BOTTLENECK, confidence(spins))


def _one_core(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    """Find one thread that prepares data: it is a whole core, no more and no less, while the GPU waits."""
    _, cpu = stats.contrast("cpu_pct")
    if kind == "inference":
        return None
    sure = min(confidence(_waits(stats), ramp(10 - abs(cpu - 100), 0, 5)), _INDIRECT)
    return Finding("input", sure, {"cpu_waiting_pct": cpu})


def _waits(stats: PodStats) -> float:
    """Tell whether the GPU waits in some seconds, and works in others."""
    return min(ramp(stats.waits, 0.08, 0.25), ramp(stats.level_pct, 10, 25))


def _spins(stats: PodStats) -> float:
    """Tell whether kernels wait: that counts as utilization, but needs little power and memory."""
    return min(
        ramp(stats.mean(_UTIL), 70, 90),
        ramp(-stats.mean("power_pct", 100), -60, -45),
        ramp(-stats.mean("mem_copy_util_pct", 100), -45, -30),
    )


def _unused(stats: PodStats, _kind: str, gpus: int) -> Finding | None:
    """Find GPUs of its own that do nothing while others work. Where even the busiest waits most of the time,
    each may rest in another second, and how many rest does not say that the same ones always do."""
    if gpus < 2 or stats.level_pct < IDLE_PCT or not stats.idle_gpus or stats.waits > _MOST_WAITS:
        return None
    sure = confidence(ramp(stats.loads.get("idle_gpus", (0.0, 0.0))[1], 0.7, 0.98))
    return Finding(OVER_PROVISIONED, sure, {"idle_gpus": stats.idle_gpus})


def _imbalance(stats: PodStats, _kind: str, gpus: int) -> Finding | None:
    """Find imbalance among its own GPUs: one works, another waits. Where even the busiest of each second
    rests most of the time, all of them wait, at other moments, and for something else."""
    gap = stats.mean(_UTIL) - stats.mean("least_gpu_util_pct", stats.mean(_UTIL))
    if gpus < 2 or stats.waits > _MOST_WAITS:
        return None
    sure = confidence(ramp(gap, 15, 35), ramp(stats.mean(_UTIL), 30, 50))
    return Finding("imbalance", sure, {"gpu_util_gap_pct": gap})


def _collective(stats: PodStats, kind: str, gpus: int) -> Finding | None:
    """Find kernels that move data between GPUs, or spin until the others come: nothing is computed meanwhile.

    What NVLink carries tells the one. The other is a GPU that is busy, hardly touches its memory, has idle
    tensor cores and needs little power. How many multiprocessors spin says nothing: it depends on NCCL. That
    is no server's work either, whatever the pod is taken for; much on NVLink may be.
    """
    if gpus < 2 or not _has_work(stats):
        return None
    tensor, nvlink_mb = stats.mean("tensor_active_pct"), stats.mean("nvlink_mb_per_s")
    moves = confidence(ramp(nvlink_mb, 100e3, 200e3), ramp(-tensor, -40, -20), float(kind != "inference"))
    spins = confidence(
        ramp(stats.mean(_UTIL), 80, 95), ramp(-tensor, -3, -1), ramp(-stats.mean("dram_active_pct"), -5, -2),
        ramp(-stats.mean("power_pct", 100), -55, -45),
    )  # fmt: skip
    # What kernels that spin send is little, or not measured.
    evidence = {"spins_power_pct": stats.mean("power_pct")}
    if moves >= spins:
        evidence = {"nvlink_bytes_per_s": 1e6 * nvlink_mb}
    return Finding("communication", max(moves, spins), evidence)


def _launch(stats: PodStats, _kind: str, gpus: int) -> Finding | None:
    """Find launches that limit: a kernel runs most of the time, and most multiprocessors have nothing to do
    then: kernels are too small, or too few at a time. One that only spins until other GPUs come looks alike,
    but touches no memory."""
    if not _has_counters(stats):
        return None
    # Of the time in which it is in use: a server without requests has nothing to do, either.
    in_use_pct = 100 * stats.mean("sm_active_pct") / max(stats.mean("gpu_util_pct"), 1.0)
    sure = confidence(
        ramp(stats.mean(_UTIL), 40, 60), ramp(-in_use_pct, -30, -20), _computes(stats, gpus),
    )  # fmt: skip
    return Finding("launch", sure)


def _computes(stats: PodStats, gpus: int) -> float:
    """Tell whether kernels compute, and do not spin until other GPUs come: these touch no memory, or need
    little power while gigabytes a second cross PCIe both ways, as for a network that no counter of the pod's
    has."""
    if gpus < 2 and "tx_kb_per_s" in stats.means:
        return 1.0  # others are on other nodes, and what they send was seen
    works = max(stats.mean("tensor_active_pct"), stats.mean("dram_active_pct"))
    waits = min(_spins(stats), ramp(stats.mean("pcie_kb_per_s"), 1e3 * _MB, 3e3 * _MB))
    return min(1.0 if gpus < 2 else ramp(works, 1, 3), 1 - waits)


def _transfers(stats: PodStats, kind: str, gpus: int) -> Finding | None:
    """Find copies that limit: the host and the GPU copy, and most multiprocessors have nothing to do
    meanwhile. Several GPUs that send as much as they receive may also talk to one another."""
    if kind == "loading" or not _has_counters(stats):
        return None
    most_kb = stats.mean("pcie_most_kb_per_s")
    one_way = 1 - stats.mean("pcie_kb_per_s") / max(most_kb, 1.0)
    sure = confidence(
        ramp(most_kb, 2e3 * _MB, 6e3 * _MB), ramp(-stats.mean("sm_active_pct"), -45, -30),
        1.0 if gpus < 2 else ramp(one_way, 0.4, 0.7),
    )  # fmt: skip
    return Finding("transfers", sure, {"pcie_most_bytes_per_s": 1e3 * most_kb})


def _occupancy(stats: PodStats, _kind: str, gpus: int) -> Finding | None:
    """Find low occupancy: multiprocessors have warps, but few, and neither a pipe nor memory is near its
    limit: each warp waits for itself. What is not measured (pipes for integers and 64-bit floats) would need
    power."""
    occupancy, sm = stats.mean("sm_occupancy_pct", 100), stats.mean("sm_active_pct")
    tensor, dram = stats.mean("tensor_active_pct", 100), stats.mean("dram_active_pct", 100)
    sure = confidence(
        ramp(stats.mean(_UTIL), 75, 92), ramp(sm, 50, 65), ramp(-100 * occupancy / max(sm, 1.0), -25, -15),
        ramp(-tensor, -20, -10), ramp(-dram, -35, -25),
        ramp(-stats.mean("fp32_active_pct", 100), -25, -15), ramp(-stats.mean("power_pct", 100), -65, -50),
        _computes(stats, gpus),
    )  # fmt: skip
    return Finding("occupancy", sure, {"sm_occupancy_pct": occupancy})


def _precision(stats: PodStats, _kind: str, _gpus: int) -> Finding | None:
    """Find computing in 32-bit floats, for which there is another way."""
    fp32 = stats.mean("fp32_active_pct")
    sure = confidence(
        ramp(fp32, 15, 30), ramp(-stats.mean("tensor_active_pct", 100), -6, -3),
        ramp(stats.mean("sm_active_pct"), 40, 60), ramp(-stats.mean("dram_active_pct", 100), -50, -40),
    )  # fmt: skip
    return Finding("precision", sure, {"fp32_active_pct": fp32})


def _has_counters(stats: PodStats) -> bool:
    """Tell whether the multiprocessors say what they do."""
    return "sm_active_pct" in stats.means


def _has_work(stats: PodStats) -> bool:
    """Tell whether they say what tensor cores and memory do: all that dcgm-exporter tells by its default
    list, which has no SM activity."""
    return "tensor_active_pct" in stats.means and "dram_active_pct" in stats.means


def _memory(stats: PodStats, _kind: str, _gpus: int) -> Finding | None:
    """Find memory whose bandwidth is used up; about 80 % can be had. Where it is not measured, the share of
    time in which the memory controller was busy stands for it."""
    if _has_work(stats):
        full = ramp(stats.mean("dram_active_pct"), 45, 60)
        sure = confidence(full, ramp(-stats.mean("tensor_active_pct"), -60, -40))
    else:
        full = ramp(stats.mean("mem_copy_util_pct"), 50, 65)
        sure = confidence(ramp(stats.mean(_UTIL), 60, 85), full)
    return Finding("memory_bandwidth", sure)


def _gpu(stats: PodStats, _kind: str, _gpus: int) -> Finding | None:
    return Finding("gpu", confidence(ramp(stats.mean(_UTIL), 75, 92)))


def _too_large(stats: PodStats, kind: str, _gpus: int) -> Finding | None:
    """Find a GPU of which neither time nor memory is needed: a smaller GPU, or a slice, would do."""
    if kind == "loading" or _MEMORY_PCT not in stats.most:
        return None
    most = stats.most[_MEMORY_PCT]
    sure = confidence(ramp(stats.seconds, 100, 180), ramp(-stats.level_pct, -45, -25), ramp(-most, -45, -25))
    return Finding(OVER_PROVISIONED, sure, {_TOO_LARGE: most})


_RULES: tuple[Callable[[PodStats, str, int], Finding | None], ...] = (
    _idle, _loading, _heat, _power, _checkpoint, _input, _unused, _imbalance, _communication, _collective,
    _transfers, _launch, _occupancy, _host, _one_core, _unseen_network, _precision, _memory, _gpu, _too_large,
)  # fmt: skip

"""Finds what holds a pod back: rules over its statistics, the plainest cause first.

Each rule looks at the statistics of a pod's last minutes and yields what may hold it back, and how sure that
is. The order is one of causes: a GPU that is held down by power is busy, too, and one that waits for data may
also be short of memory bandwidth while it has some. Where the GPU has counters of what it really does
(``sm_active_pct`` is there), they count; elsewhere utilization and power do. Power is a mean over all GPUs of
the pod: that little of it is needed says something only where all of them work. The limits of the counters
are those of NVIDIA's guide to DCGM's profiling metrics: memory can be 80 % busy at most, and less than half
of the multiprocessors busy is little.
"""

from collections.abc import Callable, Iterator
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
    """Return the first finding that is sure enough.

    ``kind`` is what the pod does, ``gpus`` how many GPUs it holds; ``stats`` None: too little is known of it.
    """
    if stats is None:
        return Finding(UNKNOWN_BOTTLENECK, 1.0)
    for rule in _RULES:
        for finding in rule(stats, kind, gpus):
            if finding.confidence >= 0.5:
                return finding
    if kind in ("training", UNKNOWN_KIND) and stats.mean(_UTIL) < _STARVED_PCT:
        # It would use more if it could; what it waits for is not seen.
        return Finding(UNKNOWN_BOTTLENECK, 1.0)
    return Finding(NO_BOTTLENECK, 0.6)


def _find_rest(stats: PodStats, kind: str, _gpus: int) -> Iterator[Finding]:
    """Find a pod that does no work: its GPUs are idle, or what they will work on is loaded."""
    if kind != "loading" and stats.most[_UTIL] < IDLE_PCT:
        yield Finding(IDLE, confidence(ramp(stats.seconds, 30, 120)))
    rate = stats.sum_of("read_kb_per_s", "rx_kb_per_s")
    if kind == "loading" and rate is not None:
        yield Finding("input", confidence(ramp(rate, 5 * _MB, 100 * _MB)), {"input_bytes_per_s": 1e3 * rate})


def _find_held_clocks(stats: PodStats, _kind: str, _gpus: int) -> Iterator[Finding]:
    """Find heat or power that holds the clocks down. Some GPUs that are held down while others run free
    hardly change the mean: those were compared with one another."""
    util = stats.mean(_UTIL)
    if "heat" in stats.held:
        yield Finding("heat", _OF_SOME, {HELD_GPUS: stats.held["heat"]})
    else:
        held = stats.mean("throttled_heat_pct")
        sure = confidence(ramp(held, 10, 40), ramp(util, 10, 40))
        yield Finding("heat", sure, {"throttled_heat_pct": held})
    if "power" in stats.held:
        yield Finding("power", _OF_SOME, {HELD_GPUS: stats.held["power"]})
    else:
        held, power = stats.mean("throttled_power_pct"), stats.mean("power_pct", 100)
        # At the GPUs' own limit, or nearly always and far below it, as a power brake of the machine or its
        # rack does. In between the driver's reason alone says little.
        at_limit = min(ramp(held, 30, 70), ramp(power, 70, 92))
        braked = min(ramp(held, 60, 90), ramp(-power, -FAR_BELOW_LIMIT_PCT, -FAR_BELOW_LIMIT_PCT + 15))
        sure = confidence(ramp(util, 30, 70), max(at_limit, braked))
        yield Finding("power", sure, {"throttled_power_pct": held})


def _find_slow_data(stats: PodStats, kind: str, _gpus: int) -> Iterator[Finding]:
    """Find a GPU that waits while data are written or read. A server waits for requests."""
    waits = _waits(stats)
    if kind == "training":  # it rests while it writes, and writes little otherwise: each save stops it
        more, rate = stats.contrast("write_kb_per_s")
        sure = confidence(waits, ramp(more, 3, 8), ramp(rate, 20 * _MB, 100 * _MB))
        yield Finding("checkpoint", sure, {"write_bytes_per_s": 1e3 * rate})
    if kind != "inference":
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
        yield Finding("input", causes[cause], {cause: evidence[cause]})


def _find_uneven_gpus(stats: PodStats, _kind: str, gpus: int) -> Iterator[Finding]:
    """Find GPUs of its own that do nothing, or less, while others work. Where even the busiest waits most of
    the time, each may rest in another second, and for something else: how many rest does not say that the
    same ones always do."""
    if gpus < 2 or stats.waits > _MOST_WAITS:
        return
    if stats.level_pct >= IDLE_PCT and stats.idle_gpus:
        sure = confidence(ramp(stats.loads.get("idle_gpus", (0.0, 0.0))[1], 0.7, 0.98))
        yield Finding(OVER_PROVISIONED, sure, {"idle_gpus": stats.idle_gpus})
    util = stats.mean(_UTIL)
    gap = util - stats.mean("least_gpu_util_pct", util)
    yield Finding("imbalance", confidence(ramp(gap, 15, 35), ramp(util, 30, 50)), {"gpu_util_gap_pct": gap})


def _find_communication(stats: PodStats, kind: str, gpus: int) -> Iterator[Finding]:
    """Find a GPU that waits, or kernels that wait, while much is sent; and kernels that move data between
    GPUs, or spin until the others come: nothing is computed meanwhile."""
    if kind != "inference":
        both_kb = stats.sum_of("rx_kb_per_s", "tx_kb_per_s") or 0.0
        spins = confidence(_spins(stats), ramp(stats.mean("tx_kb_per_s"), 20 * _MB, 200 * _MB))
        more, rate = stats.contrast("tx_kb_per_s")
        waits = confidence(_waits(stats), ramp(more, 1.3, 2.0), ramp(rate, 10 * _MB, 100 * _MB))
        yield Finding("communication", max(spins, waits), {"net_bytes_per_s": 1e3 * both_kb})
    if gpus < 2 or not _has_work(stats):
        return
    # What NVLink carries tells the one. The other is a GPU that is busy, hardly touches its memory, has idle
    # tensor cores and needs little power. How many multiprocessors spin says nothing: it depends on NCCL.
    # That is no server's work either, whatever the pod is taken for; much on NVLink may be.
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
    yield Finding("communication", max(moves, spins), evidence)


def _find_idle_multiprocessors(stats: PodStats, kind: str, gpus: int) -> Iterator[Finding]:
    """Find multiprocessors that have little to do, as far as they say what they do: while the host and the
    GPU copy, because kernels are too small or too few at a time, or because warps are few."""
    sm, has_counters = stats.mean("sm_active_pct"), "sm_active_pct" in stats.means
    if has_counters and kind != "loading":
        # Several GPUs that send as much as they receive may also talk to one another.
        most_kb = stats.mean("pcie_most_kb_per_s")
        one_way = 1 - stats.mean("pcie_kb_per_s") / max(most_kb, 1.0)
        sure = confidence(
            ramp(most_kb, 2e3 * _MB, 6e3 * _MB), ramp(-sm, -45, -30),
            1.0 if gpus < 2 else ramp(one_way, 0.4, 0.7),
        )  # fmt: skip
        yield Finding("transfers", sure, {"pcie_most_bytes_per_s": 1e3 * most_kb})
    if has_counters:
        # Of the time in which it is in use: a server without requests has nothing to do, either.
        in_use_pct = 100 * sm / max(stats.mean("gpu_util_pct"), 1.0)
        sure = confidence(
            ramp(stats.mean(_UTIL), 40, 60), ramp(-in_use_pct, -30, -20), _computes(stats, gpus),
        )  # fmt: skip
        yield Finding("launch", sure)
    # Low occupancy: multiprocessors have warps, but few, and neither a pipe nor memory is near its limit:
    # each warp waits for itself. What is not measured (pipes for integers and 64-bit floats) would need
    # power.
    occupancy = stats.mean("sm_occupancy_pct", 100)
    tensor, dram = stats.mean("tensor_active_pct", 100), stats.mean("dram_active_pct", 100)
    sure = confidence(
        ramp(stats.mean(_UTIL), 75, 92), ramp(sm, 50, 65), ramp(-100 * occupancy / max(sm, 1.0), -25, -15),
        ramp(-tensor, -20, -10), ramp(-dram, -35, -25),
        ramp(-stats.mean("fp32_active_pct", 100), -25, -15), ramp(-stats.mean("power_pct", 100), -65, -50),
        _computes(stats, gpus),
    )  # fmt: skip
    yield Finding("occupancy", sure, {"sm_occupancy_pct": occupancy})


def _find_busy_host(stats: PodStats, kind: str, _gpus: int) -> Iterator[Finding]:
    """Find own CPUs that work while the GPU waits, and rest while it works: what the GPU waits for is
    computed there, as with an optimizer or parameters that live on the host. Workers that prepare data go on
    while the GPU works; one thread that prepares them is a whole core, no more and no less, while it
    waits."""
    if kind == "inference":
        return
    more, cpu = stats.contrast("cpu_pct")
    if kind != "loading":
        sure = confidence(_waits(stats), ramp(more, 1.4, 2.5), ramp(cpu, 130, 250))
        yield Finding("host", sure, {"cpu_waiting_pct": cpu})
    sure = min(confidence(_waits(stats), ramp(10 - abs(cpu - 100), 0, 5)), _INDIRECT)
    yield Finding("input", sure, {"cpu_waiting_pct": cpu})


def _find_unseen_network(stats: PodStats, kind: str, gpus: int) -> Iterator[Finding]:
    """Find kernels that wait, and for what cannot be seen: what is sent by RDMA, or on the host's network, is
    in no counter of the pod's. It still crosses PCIe, and unlike data that are read it does so both ways."""
    spins, measured = _spins(stats), "tx_kb_per_s" in stats.means
    if kind == "inference" or spins < 0.5 or (gpus < 2 and measured):
        return
    each_kb = stats.mean("pcie_kb_per_s")
    sure = min(confidence(ramp(each_kb, 50 * _MB, 200 * _MB)), _INDIRECT)
    if sure >= _INDIRECT:
        yield Finding("communication", sure, {"pcie_bytes_per_s": 2e3 * each_kb * gpus})
    if measured:
        return
    # Nothing that computes on several GPUs, and is busy all the time, is content with a fifth of their power.
    collective = confidence(float(gpus > 1), spins, ramp(-stats.mean("power_pct", 100), -28, -20))
    yield Finding("communication", min(collective, _INDIRECT), {"spins_power_pct": stats.mean("power_pct")})
    yield Finding(UNKNOWN_BOTTLENECK, confidence(spins))


def _find_limit(stats: PodStats, kind: str, _gpus: int) -> Iterator[Finding]:
    """Find which part of the GPU is at its limit; or that a smaller GPU, or a slice, would do."""
    util, tensor = stats.mean(_UTIL), stats.mean("tensor_active_pct", 100)
    # Computing in 32-bit floats, for which there is another way.
    fp32 = stats.mean("fp32_active_pct")
    sure = confidence(
        ramp(fp32, 15, 30), ramp(-tensor, -6, -3),
        ramp(stats.mean("sm_active_pct"), 40, 60), ramp(-stats.mean("dram_active_pct", 100), -50, -40),
    )  # fmt: skip
    yield Finding("precision", sure, {"fp32_active_pct": fp32})
    # Memory whose bandwidth is used up; about 80 % can be had. Where it is not measured, the share of time in
    # which the memory controller was busy stands for it.
    if _has_work(stats):
        sure = confidence(ramp(stats.mean("dram_active_pct"), 45, 60), ramp(-tensor, -60, -40))
    else:
        sure = confidence(ramp(util, 60, 85), ramp(stats.mean("mem_copy_util_pct"), 50, 65))
    yield Finding("memory_bandwidth", sure)
    yield Finding("gpu", confidence(ramp(util, 75, 92)))
    if kind != "loading" and _MEMORY_PCT in stats.most:
        most, level = stats.most[_MEMORY_PCT], stats.level_pct
        sure = confidence(ramp(stats.seconds, 100, 180), ramp(-level, -45, -25), ramp(-most, -45, -25))
        yield Finding(OVER_PROVISIONED, sure, {_TOO_LARGE: most})


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


def _computes(stats: PodStats, gpus: int) -> float:
    """Tell whether kernels compute, and do not spin until other GPUs come: these touch no memory, or need
    little power while gigabytes a second cross PCIe both ways, as for a network that no counter of the pod's
    has."""
    if gpus < 2 and "tx_kb_per_s" in stats.means:
        return 1.0  # others are on other nodes, and what they send was seen
    works = max(stats.mean("tensor_active_pct"), stats.mean("dram_active_pct"))
    waits = min(_spins(stats), ramp(stats.mean("pcie_kb_per_s"), 1e3 * _MB, 3e3 * _MB))
    return min(1.0 if gpus < 2 else ramp(works, 1, 3), 1 - waits)


def _has_work(stats: PodStats) -> bool:
    """Tell whether a GPU's counters say what tensor cores and memory do: all that dcgm-exporter tells by its
    default list, which has no SM activity."""
    return "tensor_active_pct" in stats.means and "dram_active_pct" in stats.means


_RULES: tuple[Callable[[PodStats, str, int], Iterator[Finding]], ...] = (
    _find_rest, _find_held_clocks, _find_slow_data, _find_uneven_gpus, _find_communication,
    _find_idle_multiprocessors, _find_busy_host, _find_unseen_network, _find_limit,
)  # fmt: skip
"""In the order of causes, as is what each of them finds."""

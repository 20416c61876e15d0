"""Busy seconds and joules of the GPUs of one node and of the pods on them, integrated from the samples. Pure.

The driver's own samples count, each for the time since the one before; where there are none, the utilization
of the tick counts for its interval. So the sums are the same however often somebody scrapes. Measured time,
busy and energy are those of the ledger (``contract.records.hours``), which takes the utilization of ticks.
"""

from dataclasses import dataclass, field

from dutycycle.contract.records.hours import counted_ms, is_gap
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.contract.records.usage import GpuUsage, NodeUsage, PodUsage
from sinks.prometheus.usage import SHARED, Use, uses

_DRIVER_PERIOD_MS = 1000
"""The longest time that one of the driver's samples is about."""
_FORGET_MS = 600_000
"""A pod that was not seen on a GPU for so long is no longer counted there."""
Key = tuple[str, str, str]
"""Pod uid, GPU's uuid, attribution."""


@dataclass(slots=True)
class GpuCount:
    """As in ``GpuUsage``."""

    busy_s: float = 0.0
    energy_j: float = 0.0
    driver_j: float | None = None
    covered_ms: int = 0


@dataclass(slots=True)
class PodCount:
    """As in ``PodUsage``."""

    busy_s: float | None = None
    energy_j: float | None = None
    seen_ms: int = 0


@dataclass(slots=True)
class NodeCounters:
    """What was used on one node so far. ``newest`` and ``uses``: the last sample, and whose each GPU was."""

    partition: int = -1
    offset: int = -1
    collector: str = ""
    seq: int = -1
    ts_ms: int = 0
    gpus: dict[str, GpuCount] = field(default_factory=dict)
    pods: dict[Key, PodCount] = field(default_factory=dict)
    newest: NvmlSample | None = None
    uses: dict[str, list[Use]] = field(default_factory=dict)

    @classmethod
    def of(cls, usage: NodeUsage) -> "NodeCounters":
        """As they were when ``usage`` was written."""
        gpus = {
            uuid: GpuCount(one.busy_s, one.energy_j, one.driver_j, one.covered_ms)
            for uuid, one in usage.gpus.items()
        }
        pods = {
            (one.pod_uid, one.gpu, one.attribution): PodCount(one.busy_s, one.energy_j, one.seen_ms)
            for one in usage.pods
        }
        return cls(usage.partition, usage.offset, usage.collector, usage.seq, usage.ts_ms, gpus, pods)

    def add(self, sample: NvmlSample, partition: int, offset: int) -> None:
        """Count one sample; one that was counted before changes no counter."""
        counted = partition == self.partition and offset <= self.offset
        if not counted:
            self.partition, self.offset = partition, offset
        if counted or (sample.collector == self.collector and sample.seq <= self.seq):
            if self.newest is None or sample.ts_ms > self.newest.ts_ms:  # restored: this is what it last said
                self._show(sample)
            return
        interval_ms = sample.interval_ms or _DRIVER_PERIOD_MS
        step_ms = sample.ts_ms - self.ts_ms
        gap = is_gap(step_ms, interval_ms)
        self.collector, self.seq, self.ts_ms = sample.collector, sample.seq, sample.ts_ms
        self._show(sample)
        for gpu in sample.gpus:
            self._add_gpu(gpu, counted_ms(step_ms, interval_ms), gap=gap)
        self._forget()

    def _show(self, sample: NvmlSample) -> None:
        self.newest = sample
        self.uses = {gpu.uuid: uses(gpu) for gpu in sample.gpus}

    def _add_gpu(self, gpu: Gpu, step_ms: int, *, gap: bool) -> None:
        new = gpu.uuid not in self.gpus
        count = self.gpus.setdefault(gpu.uuid, GpuCount())
        if new:  # from now on
            count.covered_ms, count.driver_j = self.ts_ms, gpu.energy_j
        elif gap:
            count.covered_ms = self.ts_ms - step_ms
        busy_s = 0.0 if new else _busy_s(gpu, count, self.ts_ms)
        energy_j = 0.0 if new else _energy_j(gpu, count, step_ms)
        count.busy_s += busy_s
        count.energy_j += energy_j
        seen = bool(gpu.util_burst) or gpu.gpu_util_pct is not None
        for use in self.uses[gpu.uuid]:
            if use.alone and seen:
                self._add(use, gpu.uuid, use.attribution, busy_s=busy_s)
            elif use.util_pct is not None:
                used_s = 0.0 if new else use.util_pct / 100 * step_ms / 1000
                self._add(use, gpu.uuid, use.attribution, busy_s=used_s)
            if use.share is not None and (gpu.energy_j is not None or gpu.power_w is not None):
                # Who used it during a gap is not known.
                word = use.attribution if use.share == 1 else SHARED
                self._add(use, gpu.uuid, word, energy_j=0.0 if gap else use.share * energy_j)

    def _add(
        self, use: Use, gpu: str, word: str, *, busy_s: float | None = None, energy_j: float | None = None
    ) -> None:
        count = self.pods.setdefault((use.pod_uid, gpu, word), PodCount())
        count.seen_ms = self.ts_ms
        if busy_s is not None:
            count.busy_s = (count.busy_s or 0.0) + busy_s
        if energy_j is not None:
            count.energy_j = (count.energy_j or 0.0) + energy_j

    def _forget(self) -> None:
        oldest_ms = self.ts_ms - _FORGET_MS
        if any(count.seen_ms < oldest_ms for count in self.pods.values()):
            self.pods = {key: count for key, count in self.pods.items() if count.seen_ms >= oldest_ms}

    def record(self, node: str, complete_to: int) -> NodeUsage:
        """The state, for another process."""
        return NodeUsage(
            node=node,
            partition=self.partition,
            offset=self.offset,
            complete_to=complete_to,
            collector=self.collector,
            seq=self.seq,
            ts_ms=self.ts_ms,
            gpus={
                uuid: GpuUsage(
                    busy_s=one.busy_s, energy_j=one.energy_j, driver_j=one.driver_j, covered_ms=one.covered_ms
                )
                for uuid, one in self.gpus.items()
            },
            pods=tuple(
                PodUsage(
                    pod_uid=uid, gpu=gpu, attribution=word, busy_s=one.busy_s, energy_j=one.energy_j,
                    seen_ms=one.seen_ms,
                )
                for (uid, gpu, word), one in self.pods.items()
            ),
        )  # fmt: skip


def _busy_s(gpu: Gpu, count: GpuCount, ts_ms: int) -> float:
    """How long a kernel ran since ``covered_ms``, which moves on."""
    busy_ms = 0.0
    if gpu.util_burst:
        for offset_ms, pct in gpu.util_burst:
            at_ms = ts_ms + offset_ms
            if at_ms > count.covered_ms:
                busy_ms += pct / 100 * min(at_ms - count.covered_ms, _DRIVER_PERIOD_MS)
                count.covered_ms = at_ms
    elif gpu.gpu_util_pct is not None:
        busy_ms = gpu.gpu_util_pct / 100 * max(0, ts_ms - count.covered_ms)
        count.covered_ms = ts_ms
    else:
        count.covered_ms = ts_ms
    return busy_ms / 1000


def _energy_j(gpu: Gpu, count: GpuCount, step_ms: int) -> float:
    """By the driver's counter; a step down is a reset, and adds nothing. Without one, by the power."""
    if gpu.energy_j is None:
        return 0.0 if gpu.power_w is None else gpu.power_w * step_ms / 1000
    before, count.driver_j = count.driver_j, gpu.energy_j
    return 0.0 if before is None else max(0.0, gpu.energy_j - before)

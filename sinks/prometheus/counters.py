"""Busy seconds and joules of the GPUs of one node and of the pods on them, integrated from the samples. Pure.

So the sums are the same however often somebody scrapes. Measured time, busy and energy are those of the
ledger (``contract.records.hours``, ``contract.metering``).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.metering import (
    DRIVER_PERIOD_MS,
    SET_BACK_MS,
    counted_ms,
    is_gap,
    joules_of_tick,
    with_means,
)
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.contract.records.usage import GpuUsage, NodeUsage, PodUsage
from sinks.prometheus.usage import SHARED, PodGpuUse, uses

_NAN = float("nan")
_FORGET_MS = 600_000
"""A pod that was not seen on a GPU for so long is no longer counted there."""
Key = tuple[str, str, str]
"""Pod uid, GPU's uuid, attribution."""


@dataclass(slots=True)
class GpuCount:
    """As in ``GpuUsage``."""

    busy_s: float = 0.0
    sm_s: float | None = None
    tensor_s: float | None = None
    energy_j: float = 0.0
    driver_j: float | None = None
    guessed_j: float = 0.0
    owed_j: float = 0.0


@dataclass(slots=True)
class PodCount:
    """As in ``PodUsage``."""

    busy_s: float | None = None
    sm_s: float | None = None
    tensor_s: float | None = None
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
    uses: dict[str, list[PodGpuUse]] = field(default_factory=dict)

    @classmethod
    def of(cls, usage: NodeUsage) -> "NodeCounters":
        """As they were when ``usage`` was written."""
        gpus = {
            uuid: GpuCount(
                one.busy_s, one.sm_s, one.tensor_s, one.energy_j, one.driver_j, one.guessed_j, one.owed_j
            )
            for uuid, one in usage.gpus.items()
        }
        pods = {
            (pod.pod_uid, pod.gpu, pod.attribution): PodCount(
                pod.busy_s, pod.sm_s, pod.tensor_s, pod.energy_j, pod.seen_ms
            )
            for pod in usage.pods
        }
        return cls(usage.partition, usage.offset, usage.collector, usage.seq, usage.ts_ms, gpus, pods)

    def add(self, sample: NvmlSample, partition: int, offset: int) -> None:
        """Count one sample; one that was counted before changes no counter. ``newest`` has the means of its
        tick."""
        sample = with_means(sample)
        counted = partition == self.partition and offset <= self.offset
        if not counted:
            self.partition, self.offset = partition, offset
        if counted or (sample.collector == self.collector and sample.seq <= self.seq):
            if self.newest is None or sample.ts_ms > self.newest.ts_ms:  # restored: this is what it last said
                self._show(sample)
            return
        interval_ms = sample.interval_ms or DRIVER_PERIOD_MS
        step_ms = sample.ts_ms - self.ts_ms
        gap = is_gap(step_ms, interval_ms)
        self.collector, self.seq, self.ts_ms = sample.collector, sample.seq, sample.ts_ms
        if step_ms < -SET_BACK_MS:  # no pod was seen later than now
            for count in self.pods.values():
                count.seen_ms = min(count.seen_ms, self.ts_ms)
        self._show(sample)
        for gpu in sample.gpus:
            self._add_gpu(gpu, counted_ms(step_ms, interval_ms), gap=gap)
        self._forget()

    def _show(self, sample: NvmlSample) -> None:
        self.newest = sample
        self.uses = {gpu.uuid: uses(gpu) for gpu in sample.gpus}

    def _add_gpu(self, gpu: Gpu, step_ms: int, *, gap: bool) -> None:
        """Add a tick that counts for ``step_ms``; the first of a GPU begins its counters."""
        new = gpu.uuid not in self.gpus
        count = self.gpus.setdefault(gpu.uuid, GpuCount())
        seconds = 0.0 if new else step_ms / 1000
        active = {
            name: pct / 100 * seconds
            for name, pct in (("sm_s", gpu.sm_active_pct), ("tensor_s", gpu.tensor_active_pct))
            if pct is not None
        }
        busy_s = 0.0 if gpu.gpu_util_pct is None else gpu.gpu_util_pct / 100 * seconds
        energy_j = self._energy_j(gpu, count, seconds)
        _add_to(count, active)
        count.busy_s += busy_s
        count.energy_j += energy_j or 0.0
        for use in self.uses[gpu.uuid]:
            if use.alone and gpu.gpu_util_pct is not None:
                self._add(use, gpu.uuid, use.attribution, busy_s=busy_s)
            elif use.util_pct is not None:
                self._add(use, gpu.uuid, use.attribution, busy_s=use.util_pct / 100 * seconds)
            if use.share is None:
                continue
            parts = {name: use.share * amount for name, amount in active.items()}
            if energy_j is not None:  # who used it during a gap is not known
                parts["energy_j"] = 0.0 if gap else use.share * energy_j
            if parts:
                self._add(use, gpu.uuid, use.attribution if use.share == 1 else SHARED, **parts)

    def _energy_j(self, gpu: Gpu, count: GpuCount, seconds: float) -> float | None:
        """Of a tick; None where nothing measures it."""
        absent = (_NAN if value is None else value for value in (gpu.energy_j, gpu.power_w, count.driver_j))
        counter_j, power_w, last_j = absent
        joules, last_j, count.guessed_j, count.owed_j = joules_of_tick(
            counter_j, power_w, seconds, last_j, count.guessed_j, count.owed_j
        )
        count.driver_j = None if isnan(last_j) else last_j
        return None if isnan(joules) else joules

    def _add(self, use: PodGpuUse, gpu: str, word: str, **amounts: float) -> None:
        count = self.pods.setdefault((use.pod_uid, gpu, word), PodCount())
        count.seen_ms = self.ts_ms
        _add_to(count, amounts)

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
                    busy_s=one.busy_s, sm_s=one.sm_s, tensor_s=one.tensor_s, energy_j=one.energy_j,
                    driver_j=one.driver_j, guessed_j=one.guessed_j, owed_j=one.owed_j,
                )
                for uuid, one in self.gpus.items()
            },
            pods=tuple(
                PodUsage(
                    pod_uid=uid, gpu=gpu, attribution=word, busy_s=pod.busy_s, sm_s=pod.sm_s,
                    tensor_s=pod.tensor_s, energy_j=pod.energy_j, seen_ms=pod.seen_ms,
                )
                for (uid, gpu, word), pod in self.pods.items()
            ),
        )  # fmt: skip


def _add_to(count: GpuCount | PodCount, amounts: Mapping[str, float]) -> None:
    """Add to fields that are absent until something is known of them."""
    for name, amount in amounts.items():
        setattr(count, name, (getattr(count, name) or 0.0) + amount)

"""What the topics say of nodes, of the pods that run on them, and of those that have ended. Pure."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from contract.records.derived import Cycle, PodPeaks
from contract.records.insights import Insight
from contract.records.pods import Pod
from contract.records.samples import CgroupSample, NvmlSample
from contract.records.samples import Gpu as MeasuredGpu
from sinks.scheduling.core.kin import KinIndex, Template
from sinks.scheduling.core.node import Gpu, Node
from sinks.scheduling.core.prediction import Prediction, predict
from sinks.scheduling.pods import outcome, template_of_record

STALE_MS = 60_000
"""A node of which nothing came for so long is not known: its figures may be anything now."""
EVERY_MS = 5_000
"""So often a node's samples are read; those between say little more of what is free."""
_RECENT = 60
"""Of the CPU so many readings count: five minutes."""
_HELD_DOWN = frozenset(
    {"sw_thermal_slowdown", "hw_thermal_slowdown", "hw_slowdown", "hw_power_brake_slowdown"}
)


@dataclass(slots=True)
class _Node:
    gpus: tuple[Gpu, ...] = ()
    gpus_at_ms: int = 0
    cpu_at_ms: int = 0
    cpu_count: float | None = None
    cpu_used: deque[float] = field(default_factory=lambda: deque(maxlen=_RECENT))


class KnownCluster:
    """Takes records in the order of their topics, and answers from memory."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._pods: dict[str, Pod] = {}
        """Those that run, by uid."""
        self._jobs: dict[str, set[str]] = {}
        """Their uids, by that of their job."""
        self._kin = KinIndex()
        self._ended: set[str] = set()
        self._kinds: dict[str, str] = {}
        self._periods: dict[str, float] = {}
        """By the uid of a pod, which had a cycle when it was last evaluated."""

    def wants(self, topic: str, key: str, ts_ms: int) -> bool:
        """Whether a record is worth decoding."""
        if topic not in ("nvml-samples", "cgroup-samples"):
            return True
        node = self._nodes.get(key)
        if node is None:
            return True
        return ts_ms - (node.gpus_at_ms if topic == "nvml-samples" else node.cpu_at_ms) >= EVERY_MS

    def take(self, key: str, record: Any) -> None:
        """A record of one of ``wants``' topics; None is a tombstone of a pod."""
        match record:
            case NvmlSample():
                node = self._nodes.setdefault(record.node, _Node())
                node.gpus, node.gpus_at_ms = tuple(map(_gpu, record.gpus)), record.ts_ms
            case CgroupSample():
                self._take_host(record)
            case Pod():
                self._take_pod(record)
            case PodPeaks():
                self._take_peaks(record)
            case Insight() if record.subject.pod_uid:
                self._kinds[record.subject.pod_uid] = record.kind
            case Cycle() if record.subject.pod_uid:
                self._take_cycle(record.subject.pod_uid, record)
            case None:
                self._leave(key)
                for known in (self._kinds, self._periods):
                    known.pop(key, None)
                self._ended.discard(key)

    def _take_host(self, record: CgroupSample) -> None:
        node = self._nodes.setdefault(record.node, _Node())
        node.cpu_at_ms = record.ts_ms
        if record.host is not None:
            node.cpu_count = record.host.cpu_count
            if record.host.cpu_util_pct is not None:
                node.cpu_used.append(record.host.cpu_util_pct / 100)

    def _take_pod(self, pod: Pod) -> None:
        self._leave(pod.uid)
        if not pod.finished:
            self._pods[pod.uid] = pod
            if pod.job is not None:
                self._jobs.setdefault(pod.job.uid, set()).add(pod.uid)

    def _leave(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        if pod is not None and pod.job is not None:
            ranks = self._jobs[pod.job.uid]
            ranks.discard(uid)
            if not ranks:
                del self._jobs[pod.job.uid]

    def _take_peaks(self, peaks: PodPeaks) -> None:
        uid = peaks.pod.uid
        if peaks.final and uid not in self._ended:
            self._ended.add(uid)
            found = outcome(peaks, self._kinds.get(uid), self._periods.get(uid))
            self._kin.add(template_of_record(peaks.pod), found)

    def _take_cycle(self, uid: str, record: Cycle) -> None:
        periods = [one.period_s for one in record.metrics.values() if one.period_s is not None]
        if periods:
            self._periods[uid] = periods[0]

    def prediction(self, template: Template) -> Prediction | None:
        """What a pod of this template will need; None without kin."""
        return predict(self._kin.nearest(template))

    def ranks(self, job_uid: str | None) -> dict[str, int]:
        """How many pods of a job run on each node."""
        return Counter(self._pods[uid].node for uid in self._jobs.get(job_uid or "", ()))

    def node(self, name: str, ranks: int, now_ms: int) -> Node:
        """What is known of a node now; ``ranks``: pods of the same job that it has."""
        known = self._nodes.get(name, _Node())
        gpus = known.gpus if now_ms - known.gpus_at_ms < STALE_MS else ()
        cpu = _idle_cores(known) if now_ms - known.cpu_at_ms < STALE_MS else None
        return Node(name, gpus, cpu_free_cores=cpu, ranks=ranks, near_ranks=ranks)


def _gpu(gpu: MeasuredGpu) -> Gpu:
    free = None
    if gpu.mem_total_bytes is not None and gpu.mem_used_bytes is not None:
        free = max(gpu.mem_total_bytes - gpu.mem_used_bytes, 0.0)
    return Gpu(
        taken=bool(gpu.processes if gpu.allocated is None else gpu.allocated),
        mem_free_bytes=free,
        duty=None if gpu.gpu_util_pct is None else gpu.gpu_util_pct / 100,
        throttled=None if gpu.throttle is None else not _HELD_DOWN.isdisjoint(gpu.throttle),
    )


def _idle_cores(node: _Node) -> float | None:
    """What is idle nearly always: all cores less the 95th of a hundred readings."""
    if node.cpu_count is None or not node.cpu_used:
        return None
    used = sorted(node.cpu_used)
    return node.cpu_count - used[round(0.95 * (len(used) - 1))]

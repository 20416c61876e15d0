"""What the topics say now of nodes, pods and jobs: the newest record of each."""

import time
from collections.abc import Callable
from typing import Any

from dutycycle.contract.metering import SET_BACK_MS, heard_ms, is_outdated, with_means
from dutycycle.contract.ownership.now import PodGpuUse, uses_of_gpus
from dutycycle.contract.records.derived import Cycle, Subject, Trend, WindowAggregate
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import NvmlSample
from sinks.prometheus.steps import StepReports

FORGET_MS = 3_600_000
"""What is said of a subject without samples is forgotten after so long."""
NODE_GONE_MS = 86_400_000
"""Nothing is known of a node that was silent for so long: the streams begin it anew, too."""


class NodeNow:
    """A node's ``newest`` sample. ``seen_ms``: when each pod was last seen on one of its GPUs.

    ``heard_ms``: of the newest sample, as ``metering.heard_ms`` tells.
    """

    def __init__(self, newest: NvmlSample) -> None:
        self.newest = newest
        self.heard_ms = newest.ts_ms
        self.seen_ms: dict[str, int] = {}
        self._looked: tuple[NvmlSample, tuple[NvmlSample, dict[str, list[PodGpuUse]]]] | None = None
        """Of which sample, and what."""

    def sample(self, sample: NvmlSample, now_s: float) -> None:
        """Take a sample; one that comes late, or again, changes nothing."""
        if is_outdated(sample.ts_ms, self.newest.ts_ms):
            return
        if self.newest.ts_ms - sample.ts_ms > SET_BACK_MS:  # no pod was seen later than now
            self.seen_ms = {uid: min(ms, sample.ts_ms) for uid, ms in self.seen_ms.items()}
        self.newest, self.heard_ms = sample, heard_ms(sample.ts_ms, now_s)
        for gpu in sample.gpus:
            uids = {process.pod_uid for process in gpu.processes or ()}
            uids.update(allocation.pod_uid for allocation in gpu.allocated or ())
            self.seen_ms |= {uid: self.heard_ms for uid in uids if uid is not None}

    def look(self) -> tuple[NvmlSample, dict[str, list[PodGpuUse]]]:
        """Return the newest sample with the means of its tick, and whose each of its GPUs is, by UUID. It is
        worked out when somebody asks: most samples are followed by another one before."""
        newest, looked = self.newest, self._looked
        if looked is None or looked[0] is not newest:
            sample = with_means(newest)
            looked = self._looked = newest, (sample, uses_of_gpus(sample))
        return looked[1]


class MetricsView:
    """Fed with records in their order. ``window_ms``: the length of the windows that are kept; ``wall``: Unix
    seconds.

    A scrape reads it in a thread of its own, without a lock that the event loop would have to wait for:
    records never change, and who goes over a dictionary goes over a copy of it.
    """

    def __init__(self, window_ms: int, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self.nodes: dict[str, NodeNow] = {}
        self.parts: dict[str, NodePart] = {}
        self.pods: dict[str, Pod] = {}
        self.windows: dict[str, WindowAggregate] = {}
        self.trends: dict[tuple[str, str], Trend] = {}
        self.cycles: dict[tuple[str, str], Cycle] = {}
        self.insights: dict[str, Insight] = {}
        self.health: dict[str, NodeHealth] = {}
        self.steps = StepReports()
        self._window_ms = window_ms
        self._take: dict[type, Callable[[Any], None]] = {
            WindowAggregate: self._window,
            Trend: self._trend,
            Cycle: self._cycle,
            Insight: self._insight,
            Pod: self._pod,
            ProcessSample: self.steps.add,
            NodeHealth: self._health,
            NvmlSample: self._sample,
            NodePart: self._part,
        }

    def hear(self, topic: str, key: str, record: Any) -> None:
        """Take what a subscription gives: of tombstones only that of a pod says something."""
        if record is not None:
            self.take(record)
        elif topic == "pods":
            self.pods.pop(key, None)

    def _sample(self, record: NvmlSample) -> None:
        self.nodes.setdefault(record.node, NodeNow(record)).sample(record, self._wall())

    def _part(self, record: NodePart) -> None:
        """A worker that starts again repeats parts: an older one of the same state never takes a counter
        back."""
        known = self.parts.get(record.node)
        if known is None or known.since_ms != record.since_ms or known.ts_ms <= record.ts_ms:
            self.parts[record.node] = record

    def _window(self, record: WindowAggregate) -> None:
        if record.source == "nvml" and record.size_ms == self._window_ms:
            known = self.windows.get(record.subject.key)
            if known is None or not is_outdated(record.end_ms, known.end_ms):
                self.windows[record.subject.key] = record

    def _trend(self, record: Trend) -> None:
        self.trends[record.subject.key, record.source] = record

    def _cycle(self, record: Cycle) -> None:
        self.cycles[record.subject.key, record.source] = record

    def _insight(self, record: Insight) -> None:
        self.insights[record.subject.key] = record

    def _pod(self, record: Pod) -> None:
        self.pods[record.uid] = record

    def _health(self, record: NodeHealth) -> None:
        self.health[record.node] = record

    def take(self, record: Any) -> None:
        """Take a record."""
        self._take[type(record)](record)

    def forget(self, now_ms: int) -> None:
        """Drop what nobody asks for any more."""
        gone, old = now_ms - NODE_GONE_MS, now_ms - FORGET_MS
        self.nodes = {name: node for name, node in self.nodes.items() if node.heard_ms > gone}
        self.parts = {name: part for name, part in self.parts.items() if part.ts_ms > gone}
        alive = self._alive(old)

        def stays(record: Trend | Cycle | Insight) -> bool:
            return record.ts_ms > old or _of(record.subject) in alive

        self.steps.forget(old)
        self.health = {name: record for name, record in self.health.items() if record.ts_ms > old}
        self.windows = {k: window for k, window in self.windows.items() if window.end_ms > old}
        self.trends = {k: trend for k, trend in self.trends.items() if stays(trend)}
        self.cycles = {k: cycle for k, cycle in self.cycles.items() if stays(cycle)}
        self.insights = {k: insight for k, insight in self.insights.items() if stays(insight)}

    def _alive(self, old_ms: int) -> set[str | None]:
        """GPUs, pods and jobs of the nodes whose samples still come."""
        fresh = [node for node in self.nodes.values() if node.heard_ms > old_ms]
        for node in fresh:
            node.seen_ms = {uid: ms for uid, ms in node.seen_ms.items() if ms > old_ms}
        pods = {uid for node in fresh for uid in node.seen_ms}
        jobs = {pod.job.uid for uid in pods if (pod := self.pods.get(uid)) and pod.job}
        gpus = {gpu.uuid for node in fresh for gpu in node.newest.gpus}
        return {*gpus, *pods, *jobs}


def _of(subject: Subject) -> str | None:
    return subject.gpu or subject.pod_uid or subject.job_uid

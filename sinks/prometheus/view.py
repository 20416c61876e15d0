"""What the topics say now of nodes, pods and jobs: the newest record of each. Pure."""

from collections.abc import Callable, Iterator
from typing import Any

from dutycycle.contract.metering import is_outdated
from dutycycle.contract.records.derived import Cycle, Subject, Trend, WindowAggregate
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.records.usage import NodeUsage
from sinks.prometheus.counters import NodeCounters
from sinks.prometheus.steps import StepReports

FORGET_MS = 3_600_000
"""What is said of a subject without samples is forgotten after so long."""
NODE_GONE_MS = 86_400_000
"""A node that was silent for so long begins anew."""


class MetricsView:
    """Fed with records in their order. ``window_ms``: the length of the windows that are kept."""

    def __init__(self, window_ms: int) -> None:
        self.nodes: dict[str, NodeCounters] = {}
        self.pods: dict[str, Pod] = {}
        self.windows: dict[str, WindowAggregate] = {}
        self.trends: dict[tuple[str, str], Trend] = {}
        self.cycles: dict[tuple[str, str], Cycle] = {}
        self.insights: dict[str, Insight] = {}
        self.health: dict[str, NodeHealth] = {}
        self.steps = StepReports()
        self.complete_to: dict[int, int] = {}
        """Of each partition of the samples, where a reader has to begin."""
        self._window_ms = window_ms
        self._take: dict[type, Callable[[Any], None]] = {
            WindowAggregate: self._window,
            Trend: self._trend,
            Cycle: self._cycle,
            Insight: self._insight,
            Pod: self._pod,
            ProcessSample: self.steps.add,
            NodeHealth: self._health,
            NodeUsage: self._usage,
        }

    def sample(self, record: NvmlSample, partition: int, offset: int) -> None:
        """Take the GPUs of a node at one tick."""
        self.nodes.setdefault(record.node, NodeCounters()).add(record, partition, offset)

    def take(self, record: Any) -> None:
        """Take any other record."""
        self._take[type(record)](record)

    def remove(self, topic: str, key: str) -> None:
        """A tombstone."""
        if topic == "pods":
            self.pods.pop(key, None)

    def partition_moved(self, partition: int) -> None:
        """The samples of ``partition`` begin anew: what was counted stays, and no offset was seen."""
        for node in self.nodes.values():
            if node.partition == partition:
                node.offset = -1

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

    def _usage(self, record: NodeUsage) -> None:
        """Of another process, or of this one before: only what is new to us counts."""
        place = record.partition
        self.complete_to[place] = max(self.complete_to.get(place, 0), record.complete_to)
        if record.node not in self.nodes:
            self.nodes[record.node] = NodeCounters.of(record)

    def forget(self, now_ms: int) -> Iterator[str]:
        """Drop what nobody asks for any more; the nodes whose counters are to be removed from the topic."""
        for name in [name for name, node in self.nodes.items() if now_ms - node.ts_ms > NODE_GONE_MS]:
            del self.nodes[name]
            yield name
        alive = self._alive(now_ms)
        old = now_ms - FORGET_MS

        def stays(one: Trend | Cycle | Insight) -> bool:
            return one.ts_ms > old or _of(one.subject) in alive

        self.steps.forget(old)
        self.health = {name: one for name, one in self.health.items() if one.ts_ms > old}
        self.windows = {k: window for k, window in self.windows.items() if window.end_ms > old}
        self.trends = {k: trend for k, trend in self.trends.items() if stays(trend)}
        self.cycles = {k: cycle for k, cycle in self.cycles.items() if stays(cycle)}
        self.insights = {k: insight for k, insight in self.insights.items() if stays(insight)}

    def _alive(self, now_ms: int) -> set[str | None]:
        """GPUs, pods and jobs of the nodes whose samples still come."""
        fresh = [node for node in self.nodes.values() if now_ms - node.ts_ms < FORGET_MS]
        pods = {uid for node in fresh for uid, _, _ in node.pods}
        jobs = {pod.job.uid for uid in pods if (pod := self.pods.get(uid)) and pod.job}
        gpus = {uuid for node in fresh for uuid in node.gpus}
        return {*gpus, *pods, *jobs}


def _of(subject: Subject) -> str | None:
    return subject.gpu or subject.pod_uid or subject.job_uid

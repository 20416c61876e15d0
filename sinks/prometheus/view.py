"""Keeps what the topics say now of nodes, pods and jobs: the newest record of each."""

import time
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.metering import with_means
from dutycycle.contract.ownership.now import PodGpuUse, uses_of_gpus
from dutycycle.contract.records.derived import Cycle, Trend, WindowAggregate
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import NodePart, PodSteps, steps_of_pods
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.view.newest import NewestRecords

_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class StepRates:
    """Holds rates a second. ``samples``: None where a process does not count them."""

    steps: float
    samples: float | None


@dataclass(slots=True)
class StepReports:
    """Keeps the reports of all pods: of each the steps by time, a minute of them."""

    _by_pod: dict[str, deque[tuple[int, PodSteps]]] = field(default_factory=lambda: defaultdict(deque))

    def add(self, record: ProcessSample) -> None:
        """Take the reports of a node at one tick."""
        for uid, steps in steps_of_pods(record).items():
            reports = self._by_pod[uid]
            reports.append((record.ts_ms, steps))
            while reports[0][0] <= record.ts_ms - _WINDOW_MS:
                reports.popleft()

    def rates(self, uid: str, now_ms: int) -> StepRates | None:
        """Return the rates of the minute before ``now_ms``; None of a pod that reported nothing in it."""
        recent = [steps for ts_ms, steps in list(self._by_pod.get(uid, ())) if now_ms - ts_ms < _WINDOW_MS]
        seconds = sum(steps.seconds for steps in recent)
        if seconds <= 0:
            return None
        counted = [steps.samples for steps in recent if steps.samples is not None]
        samples_per_s = sum(counted) / seconds if len(counted) == len(recent) else None
        return StepRates(sum(steps.steps for steps in recent) / seconds, samples_per_s)

    def forget(self, old_ms: int) -> None:
        """Drop the pods that have reported nothing since."""
        for uid in [uid for uid, reports in self._by_pod.items() if reports[-1][0] <= old_ms]:
            del self._by_pod[uid]


FORGET_MS = 3_600_000
"""What is said of a subject without samples is forgotten after so long."""
_NODE_GONE_MS = 86_400_000
"""Nothing is known of a node that was silent for so long: the streams begin it anew, too."""


class NodeNow:
    """Holds a node's ``newest`` sample. ``seen_ms``: when each pod was last seen on one of its GPUs.

    ``heard_ms``: from when on the sample gets old, as ``NewestRecords`` has it.
    """

    def __init__(self) -> None:
        self.newest: NvmlSample
        self.heard_ms = 0
        self.seen_ms: dict[str, int] = {}
        self._looked: tuple[NvmlSample, tuple[NvmlSample, dict[str, list[PodGpuUse]]]] | None = None
        """Of which sample, and what."""

    def sample(self, sample: NvmlSample, heard_ms: int) -> None:
        """Take a newer sample."""
        if heard_ms < self.heard_ms:  # the clock was set back: no pod was seen later than now
            self.seen_ms = {uid: min(ms, heard_ms) for uid, ms in self.seen_ms.items()}
        self.newest, self.heard_ms = sample, heard_ms
        for gpu in sample.gpus:
            uids = {process.pod_uid for process in gpu.processes or ()}
            uids.update(allocation.pod_uid for allocation in gpu.allocated or ())
            self.seen_ms |= {uid: heard_ms for uid in uids if uid is not None}

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

    A scrape reads it in a thread of its own, without a lock that the event loop would have to wait for.
    """

    def __init__(self, window_ms: int, wall: Callable[[], float] = time.time) -> None:
        self._newest = NewestRecords(wall)
        self.nodes: dict[str, NodeNow] = {}
        self.steps = StepReports()
        self._window_ms = window_ms
        self.parts, self.pods = self._newest.of(NodePart), self._newest.of(Pod)
        self.windows, self.health = self._newest.of(WindowAggregate), self._newest.of(NodeHealth)
        self.trends, self.cycles = self._newest.of(Trend), self._newest.of(Cycle)
        self.insights = self._newest.of(Insight)

    def hear(self, topic: str, key: str, record: Any) -> None:
        """Take what a subscription gives; None is a tombstone."""
        if isinstance(record, ProcessSample):
            self.steps.add(record)
        elif isinstance(record, WindowAggregate):
            if record.source == "nvml" and record.size_ms == self._window_ms:
                self._newest.put(key, record)
        elif self._newest.hear(topic, key, record) and isinstance(record, NvmlSample):
            self.nodes.setdefault(key, NodeNow()).sample(record, self._newest.heard_ms(NvmlSample, key))

    def forget(self, now_ms: int) -> None:
        """Drop what nobody asks for any more."""
        gone, old = now_ms - _NODE_GONE_MS, now_ms - FORGET_MS
        # GPUs, pods and jobs of the nodes whose samples still come
        fresh = [node for node in self.nodes.values() if node.heard_ms > old]
        for node in fresh:
            node.seen_ms = {uid: ms for uid, ms in node.seen_ms.items() if ms > old}
        pods = {uid for node in fresh for uid in node.seen_ms}
        jobs = {pod.job.uid for uid in pods if (pod := self.pods.get(uid)) and pod.job}
        gpus = {gpu.uuid for node in fresh for gpu in node.newest.gpus}
        alive = {*gpus, *pods, *jobs}
        self.nodes = {name: node for name, node in self.nodes.items() if node.heard_ms > gone}
        self._newest.forget((NvmlSample, NodePart), gone)
        self._newest.forget((NodeHealth, WindowAggregate), old)
        self._newest.forget(
            (Trend, Cycle, Insight),
            old,
            lambda record: (record.subject.gpu or record.subject.pod_uid or record.subject.job_uid) in alive,
        )
        self.steps.forget(old)

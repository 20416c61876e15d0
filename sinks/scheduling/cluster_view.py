"""Keeps what the topics say of nodes, of the pods that run on them, and of those that have ended."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dutycycle.contract.records.derived import Cycle, PodPeaks
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from sinks.scheduling.core.node import Nodes
from sinks.scheduling.core.prediction import Prediction, predict
from sinks.scheduling.core.similar import SimilarPodIndex, Template
from sinks.scheduling.pods import add_ended
from sinks.scheduling.table import NodeTable

EVERY_MS = 5_000
"""So often a node's samples are read; those between say little more of what is free."""
_SOURCES = {"nvml-samples": NodeTable.GPUS, "cgroup-samples": NodeTable.HOST}


class ClusterView:
    """Takes records in the order of their topics, and answers from memory. ``wall``: Unix seconds."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._nodes = NodeTable(wall)
        self._pods: dict[str, Pod] = {}
        """Those that run, by uid."""
        self._jobs: dict[str | tuple[str, str], set[str]] = {}
        """Their uids, by that of their job, and by its namespace and name."""
        self._similar = SimilarPodIndex()
        self._ended: set[str] = set()
        """In ``_similar`` by now: after an outage all is read again, also of pods that have a tombstone."""
        self._kinds: dict[str, str] = {}
        self._periods: dict[str, float] = {}
        """By the uid of a pod, which had a cycle when it was last evaluated."""

    def wants(self, topic: str, key: str, ts_ms: int) -> bool:
        """Tell whether a record is worth decoding."""
        source = _SOURCES.get(topic)
        return source is None or ts_ms - self._nodes.newest_ms(key, source) >= EVERY_MS

    def hear(self, topic: str, key: str, record: Any) -> None:
        """Take what a subscription gives: of tombstones only that of a pod says something."""
        if record is not None or topic == "pods":
            self.take(key, record)

    def take(self, key: str, record: Any) -> None:
        """Take a record of one of ``wants``' topics; None is a tombstone of a pod."""
        match record:
            case NvmlSample():
                self._nodes.take_gpus(record)
            case NodeHealth():
                self._nodes.take_health(record)
            case CgroupSample():
                self._nodes.take_host(record)
            case Pod():
                self._take_pod(record)
            case PodPeaks():
                self._take_peaks(record)
            case Insight() if record.subject.pod_uid:
                self._kinds[record.subject.pod_uid] = record.kind
            case Cycle() if record.subject.pod_uid:
                periods = (metric.period_s for metric in record.metrics.values())
                if (period_s := next(filter(None, periods), None)) is not None:
                    self._periods[record.subject.pod_uid] = period_s
            case None:
                self._leave(key)
                self._kinds.pop(key, None)
                self._periods.pop(key, None)

    def _take_pod(self, pod: Pod) -> None:
        self._leave(pod.uid)
        if not pod.finished:
            self._pods[pod.uid] = pod
            for job in _jobs_of(pod):
                self._jobs.setdefault(job, set()).add(pod.uid)

    def _leave(self, uid: str) -> None:
        pod = self._pods.pop(uid, None)
        for job in _jobs_of(pod) if pod is not None else ():
            ranks = self._jobs[job]
            ranks.discard(uid)
            if not ranks:
                del self._jobs[job]

    def _take_peaks(self, peaks: PodPeaks) -> None:
        uid = peaks.pod.uid
        if peaks.final and uid not in self._ended:
            self._ended.add(uid)
            add_ended(self._similar, peaks, self._kinds.get(uid), self._periods.get(uid))

    def prediction(self, template: Template) -> Prediction | None:
        """Return what a pod of this template will need; None without similar pods."""
        return predict(self._similar.nearest(template))

    def ranks(self, job_uid: str | None, group: tuple[str, str] | None = None) -> dict[str, int]:
        """Tell how many pods of a job run on each node. ``group``: the job's namespace and name, where its
        pods say it; ``job_uid``: of a pod's controller, which may be below the job."""
        job = job_uid or "" if group is None else group
        return Counter(self._pods[uid].node for uid in self._jobs.get(job, ()))

    def nodes(self, names: Sequence[str], ranks: Mapping[str, int], now_ms: int) -> Nodes:
        """Return what is known of nodes now; ``ranks``: pods of the same job that they have."""
        return self._nodes.nodes(names, ranks, now_ms)


def _jobs_of(pod: Pod) -> tuple[str | tuple[str, str], ...]:
    return () if pod.job is None else (pod.job.uid, (pod.namespace or "", pod.job.name))

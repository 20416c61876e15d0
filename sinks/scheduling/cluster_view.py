"""Keeps what the topics say of nodes, of the pods that run on them, and of those that have ended."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dutycycle.contract.metering import is_outdated
from dutycycle.contract.records.derived import Cycle, PodPeaks, pod_subject, source_key
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from dutycycle.view.newest import NewestRecords
from sinks.scheduling.core.node import Nodes
from sinks.scheduling.core.prediction import Prediction, predict
from sinks.scheduling.core.similar import SimilarPodIndex, Template
from sinks.scheduling.pods import add_ended
from sinks.scheduling.table import NodeTable

EVERY_MS = 5_000
"""So often a node's samples are read; those between say little more of what is free."""
_CYCLE_SOURCES = ("nvml", "cgroup")
_SOURCES = {"nvml-samples": NodeTable.GPUS, "cgroup-samples": NodeTable.HOST}


class ClusterView:
    """Takes records in the order of their topics, and answers from memory. ``wall``: Unix seconds."""

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._nodes = NodeTable(wall)
        self._newest = NewestRecords(wall)
        self._pods, self._insights = self._newest.of(Pod), self._newest.of(Insight)
        """Pods that run."""
        self._cycles = self._newest.of(Cycle)
        """Those that have a period; a pod that has lost its cycle is still predicted by it."""
        self._jobs: dict[str | tuple[str, str], set[str]] = {}
        """The uids of their pods that run, by that of the job, and by its namespace and name."""
        self._similar = SimilarPodIndex()
        self._ended: set[str] = set()
        """In ``_similar`` by now: after an outage all is read again, also of pods that have a tombstone."""

    def wants(self, topic: str, key: str, ts_ms: int) -> bool:
        """Tell whether a record is worth decoding: no sample that comes late or soon after the one before."""
        source = _SOURCES.get(topic)
        return source is None or not is_outdated(ts_ms - EVERY_MS, self._nodes.newest_ms(key, source))

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
                self._take_pod(record.uid, record)
            case PodPeaks():
                self._take_peaks(record)
            case Insight() if record.subject.pod_uid:
                self._newest.put(key, record)
            case Cycle():
                self._take_cycle(key, record)
            case None:
                self._take_pod(key, None)
                of_pod = pod_subject("", key)
                self._newest.hear("insights", of_pod.key, None)
                for source in _CYCLE_SOURCES:
                    self._newest.hear("cycles", source_key(of_pod, source), None)

    def _take_cycle(self, key: str, cycle: Cycle) -> None:
        subject, period_s = cycle.subject, _period_s(cycle)
        if subject.pod_uid and period_s is not None:
            self._newest.put(key, cycle)
        elif subject.kind == "gpu" and subject.node and subject.gpu:
            self._nodes.take_cycle(subject.node, subject.gpu, period_s)

    def _take_pod(self, uid: str, pod: Pod | None) -> None:
        """Keep a pod while it runs, also by its job."""
        if (before := self._pods.get(uid)) is not None:
            for job in _jobs_of(before):
                self._jobs[job].discard(uid)
                if not self._jobs[job]:
                    del self._jobs[job]
        if pod is None or pod.finished:
            self._newest.hear("pods", uid, None)
            return
        self._newest.put(uid, pod)
        for job in _jobs_of(pod):
            self._jobs.setdefault(job, set()).add(uid)

    def _take_peaks(self, peaks: PodPeaks) -> None:
        uid = peaks.pod.uid
        if peaks.final and uid not in self._ended:
            self._ended.add(uid)
            of_pod = pod_subject(peaks.pod.node, uid)
            insight = self._insights.get(of_pod.key)
            cycles = (self._cycles.get(source_key(of_pod, source)) for source in _CYCLE_SOURCES)
            period_s = next((_period_s(cycle) for cycle in cycles if cycle is not None), None)
            add_ended(self._similar, peaks, None if insight is None else insight.kind, period_s)

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


def _period_s(cycle: Cycle) -> float | None:
    """Return the period of the first metric that has a cycle now; None where none has."""
    return next((metric.period_s for metric in cycle.metrics.values() if metric.period_s), None)

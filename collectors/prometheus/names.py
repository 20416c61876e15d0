"""Reads the names of pods from the labels of their series, where there is no API server. Pure."""

from collections.abc import Iterable, Iterator

from collectors.base import Tick
from collectors.pods.table import PodTable
from collectors.prometheus.identity.labels import Workload, workload_of
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.kube_state import KubeState, own_job
from collectors.prometheus.records import ByNode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.base import RecordBase
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import NvmlSample

_GONE_S = 180.0
"""Longer than the time between two scrapes, which is a minute at most in practice."""
ScrapedPod = tuple[str, str, Workload]
"""A pod that was scraped: its uid, its node and its names."""


class PodState(RecordBase, frozen=True, kw_only=True):
    """Holds a pod that is known: when it was scraped last, or since when it is gone."""

    pod: Pod
    seen_s: float | None = None
    gone_s: float | None = None


class PodNames:
    """Makes records of the scraped pods. A pod without a known owner is its own job."""

    def __init__(self, retire_s: float) -> None:
        self._table = PodTable(retire_s)
        self._pods: dict[str, Pod] = {}
        self._seen_s: dict[str, float] = {}
        self._answers = 0

    def update(self, seen: Iterable[ScrapedPod], kube: KubeState, tick: Tick) -> Iterator[ProducerRecord]:
        """Yield the records that are new at ``tick``; pods that were not scraped for long are gone."""
        new: dict[str, Pod] = {}
        for uid, node, who in seen:
            self._seen_s[uid] = tick.monotonic_s
            if uid not in self._pods:
                new[uid] = Pod(
                    uid=uid, namespace=who.namespace or None, name=who.pod, node=node, phase="Running",
                    job=own_job(uid, who.pod),
                )  # fmt: skip
        self._pods |= new
        for uid in [uid for uid, seen_s in self._seen_s.items() if tick.monotonic_s - seen_s > _GONE_S]:
            del self._seen_s[uid], self._pods[uid]
            self._table.remove(uid)
        for uid in new if kube.answers == self._answers else list(self._pods):
            self._pods[uid] = kube.known_of(self._pods[uid])
            self._table.put(self._pods[uid])
        self._answers = kube.answers
        for uid, payload in self._table.drain(tick.monotonic_s, tick.ts_ms):
            yield ProducerRecord(topic="pods", key=uid, value=payload, ts_ms=tick.ts_ms)

    def snapshot(self) -> list[PodState]:
        """Return every pod that is known, for ``restore``."""
        return [
            PodState(pod=pod, seen_s=self._seen_s.get(pod.uid), gone_s=gone_s)
            for pod, gone_s in self._table.snapshot()
        ]

    def restore(self, state: Iterable[PodState]) -> None:
        """Go on with what was known: nothing of it is said again."""
        for entry in state:
            self._table.restore(entry.pod, entry.gone_s)
            if entry.seen_s is not None:
                self._pods[entry.pod.uid], self._seen_s[entry.pod.uid] = entry.pod, entry.seen_s


def scraped_pods(containers: ByNode, gpus: Iterable[NvmlSample], pod_index: PodIndex) -> Iterator[ScrapedPod]:
    """Yield the pods of a tick: those with containers, and those that hold GPUs."""
    for node, samples in containers.items():
        for sample in samples:
            pod, who = pod_index.of(sample.labels), workload_of(sample.labels)
            if pod is not None and who is not None:
                yield pod.uid, node, who
    for record in gpus:
        for holder in (holder for gpu in record.gpus for holder in gpu.allocated or ()):
            if holder.pod_uid is not None:
                yield holder.pod_uid, record.node, Workload(holder.namespace, holder.pod)

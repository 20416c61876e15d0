"""The names of pods from the labels of their series, where there is no API server. Pure."""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from collectors.base import Outgoing, Tick
from collectors.pods.table import PodTable
from collectors.prometheus.labels import PodIndex, Workload, workload_of
from collectors.prometheus.owners import OwnerIndex, own_job
from collectors.prometheus.records import ByNode
from contract.records.pods import Pod
from contract.records.samples import NvmlSample

_GONE_S = 180.0
"""Longer than the time between two scrapes, which is a minute at most in practice."""
_Seen = tuple[str, str, Workload]
"""A pod that was scraped: its uid, its node and its names."""


class PodNames:
    """Records of the scraped pods. A pod without a known owner is its own job."""

    def __init__(self, retire_s: float) -> None:
        self._table = PodTable(retire_s)
        self._pods: dict[str, Pod] = {}
        self._seen_s: dict[str, float] = {}

    def update(self, seen: Iterable[_Seen], owners: OwnerIndex, tick: Tick) -> Iterator[Outgoing]:
        """The records that are new at ``tick``; pods that were not scraped for long are gone."""
        for uid, node, who in seen:
            self._put(uid, node, who, owners)
            self._seen_s[uid] = tick.monotonic_s
        gone = [uid for uid, seen_s in self._seen_s.items() if tick.monotonic_s - seen_s > _GONE_S]
        for uid in gone:
            del self._seen_s[uid], self._pods[uid]
            self._table.remove(uid)
        for uid, payload in self._table.drain(tick.monotonic_s, tick.ts_ms):
            yield Outgoing(topic="pods", key=uid, payload=payload, ts_ms=tick.ts_ms)

    def _put(self, uid: str, node: str, who: Workload, owners: OwnerIndex) -> None:
        known, job = self._pods.get(uid), owners.job_of(who)
        if known is None:
            found = Pod(
                uid=uid, namespace=who.namespace or None, name=who.pod, node=node, phase="Running",
                job=job or own_job(uid, who.pod),
            )  # fmt: skip
        elif job is not None and job != known.job:  # an owner that is gone again changes nothing
            found = replace(known, job=job)
        else:
            return
        self._pods[uid] = found
        self._table.put(found)


def scraped_pods(containers: ByNode, gpus: Iterable[NvmlSample], pod_index: PodIndex) -> Iterator[_Seen]:
    """The pods of a tick: those with containers, and those that hold GPUs."""
    for node, samples in containers.items():
        for one in samples:
            pod, who = pod_index.of(one.labels), workload_of(one.labels)
            if pod is not None and who is not None:
                yield pod.uid, node, who
    for record in gpus:
        for holder in (holder for gpu in record.gpus for holder in gpu.allocated or ()):
            if holder.pod_uid is not None:
                yield holder.pod_uid, record.node, Workload(holder.namespace, holder.pod)

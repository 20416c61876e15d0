"""The names of pods from cAdvisor's labels, where there is no API server. Pure."""

from collections.abc import Iterator

from collectors.base import Outgoing, Tick
from collectors.pods.table import PodTable
from collectors.prometheus.labels import PodIndex, workload_of
from collectors.prometheus.records import ByNode
from contract.records.pods import Pod

_GONE_S = 180.0
"""Longer than the time between two scrapes, which is a minute at most in practice."""


class PodNames:
    """Records of the scraped pods, without a job: no metric has the uid of a pod's owner."""

    def __init__(self, retire_s: float) -> None:
        self._table = PodTable(retire_s)
        self._seen_s: dict[str, float] = {}

    def update(self, containers: ByNode, pod_index: PodIndex, tick: Tick) -> Iterator[Outgoing]:
        """The records that are new at ``tick``; pods that were not scraped for long are gone."""
        for node, samples in containers.items():
            for one in samples:
                pod, who = pod_index.of(one.labels), workload_of(one.labels)
                if pod is None or who is None:
                    continue
                if pod.uid not in self._seen_s:
                    name, namespace = who.pod, who.namespace or None
                    self._table.put(
                        Pod(uid=pod.uid, namespace=namespace, name=name, node=node, phase="Running")
                    )
                self._seen_s[pod.uid] = tick.monotonic_s
        gone = [uid for uid, seen_s in self._seen_s.items() if tick.monotonic_s - seen_s > _GONE_S]
        for uid in gone:
            del self._seen_s[uid]
            self._table.remove(uid)
        for uid, payload in self._table.drain(tick.monotonic_s, tick.ts_ms):
            yield Outgoing(topic="pods", key=uid, payload=payload, ts_ms=tick.ts_ms)

"""What the topics say of pods that ran, and of who used how much. Pure."""

from typing import Any

from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.records.hours import UsageHour
from dutycycle.contract.records.pods import Pod
from sinks.scheduling.core.ledger import Ledger, owners
from sinks.scheduling.known import KnownCluster


class KnownUse:
    """Takes records in the order of their topics. ``team_label``: of pods, as their records have it."""

    def __init__(self, cluster: KnownCluster, ledger: Ledger, team_label: str) -> None:
        self._cluster, self._ledger = cluster, ledger
        self._team_label = team_label

    def wants(self, topic: str, key: str, ts_ms: int) -> bool:
        """Tell whether a record is worth decoding."""
        return topic == "usage" or self._cluster.wants(topic, key, ts_ms)

    def hear(self, topic: str, key: str, record: Any) -> None:
        """Take what a subscription gives: of tombstones only that of a pod says something."""
        if record is not None or topic == "pods":
            self.take(key, record)

    def take(self, key: str, record: Any) -> None:
        """A record of one of ``wants``' topics; None is a tombstone of a pod."""
        match record:
            case UsageHour():
                self._ledger.take(record)
                return
            case Pod():
                self._own(record, runs=not record.finished)
            case PodPeaks():
                self._own(record.pod, runs=not record.final)
            case None:
                self._ledger.gone(key)
        self._cluster.take(key, record)

    def _own(self, pod: Pod, *, runs: bool) -> None:
        team = (pod.labels or {}).get(self._team_label)
        self._ledger.pod(pod.uid, owners(pod.namespace or "", team), runs=runs)

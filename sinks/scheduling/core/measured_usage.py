"""Counts GPU-seconds by namespace and team over a sliding window, as the ledger measured them."""

from dataclasses import dataclass, field

from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.records.hours import HOUR_MS, UsageHour
from dutycycle.contract.records.pods import Pod

Owners = tuple[str, ...]
_Row = tuple[str, str, str]
"""Node, GPU and pod uid."""


def owners(namespace: str, team: str | None) -> Owners:
    """Tell who is charged with a pod, named as in the ``shares`` of a policy."""
    return (f"namespace {namespace}", *([f"team {team}"] if team else []))


@dataclass(slots=True)
class _Hour:
    """Holds the newest figure of each row, and their sums by pod uid."""

    rows: dict[_Row, float] = field(default_factory=dict)
    pods: dict[str, float] = field(default_factory=dict)


class MeasuredUsage:
    """Takes the records of the topic ``usage`` in any order, and who owns each pod. ``team_label``: of pods,
    as their records have it."""

    def __init__(self, window_s: float, team_label: str) -> None:
        self._team_label = team_label
        self._window_ms = window_s * 1000
        self._hours: dict[int, _Hour] = {}
        self._owners: dict[str, Owners] = {}
        self._running: set[str] = set()

    def hear(self, topic: str, key: str, record: UsageHour | Pod | PodPeaks | None) -> None:
        """Take a record of the topics ``usage``, ``pods`` and ``pod-peaks``; None is a tombstone.

        Whose a pod is that has ended is known until its use has left the window.
        """
        match record:
            case UsageHour():
                # Take what a node's pods had of its GPUs in an hour so far: it replaces what was known of
                # it
                hour = self._hours.setdefault(record.hour_ms, _Hour())
                for use in record.gpus:
                    if use.pod_uid is not None:
                        row = (record.node, use.gpu, use.pod_uid)
                        more = use.gpu_s - hour.rows.get(row, 0.0)
                        hour.rows[row] = use.gpu_s
                        hour.pods[use.pod_uid] = hour.pods.get(use.pod_uid, 0.0) + more
            case Pod():
                self._own(record, runs=not record.finished)
            case PodPeaks():
                self._own(record.pod, runs=not record.final)
            case None if topic == "pods":
                self._running.discard(key)

    def _own(self, pod: Pod, *, runs: bool) -> None:
        team = (pod.labels or {}).get(self._team_label)
        self._owners[pod.uid] = owners(pod.namespace or "", team)
        (self._running.add if runs else self._running.discard)(pod.uid)

    def used(self, now_s: float) -> dict[str, float]:
        """Return GPU-seconds in the window, by owner. Of the hour in which it begins, its part counts."""
        begin_ms = now_s * 1000 - self._window_ms
        past = [hour_ms for hour_ms in self._hours if hour_ms + HOUR_MS <= begin_ms]
        for hour_ms in past:
            del self._hours[hour_ms]
        if past:
            kept = self._running.union(*(hour.pods for hour in self._hours.values()))
            self._owners = {uid: owner for uid, owner in self._owners.items() if uid in kept}
        sums: dict[str, float] = {}
        for hour_ms, hour in self._hours.items():
            part = min((hour_ms + HOUR_MS - begin_ms) / HOUR_MS, 1.0)
            for uid, gpu_s in hour.pods.items():
                for owner in self._owners.get(uid, ()):
                    sums[owner] = sums.get(owner, 0.0) + part * gpu_s
        return sums

"""Remembers what has been said about pods and what is new to say: changes, and tombstones when time is up.
Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.records.pods import JobRef, Pod


@dataclass(slots=True)
class _PodRow:
    pod: Pod
    published: bytes = b""
    gone_s: float | None = None


class PodTable:
    """Keeps the pods of one node. Times are monotonic seconds; from end to tombstone ``retire_s`` pass."""

    def __init__(self, retire_s: float) -> None:
        self._retire_s = retire_s
        self._rows: dict[str, _PodRow] = {}
        self._changed: dict[str, None] = {}
        self._unsaid_ends: dict[str, None] = {}
        self._named: dict[tuple[str | None, str], dict[str, None]] = {}

    def put(self, pod: Pod) -> None:
        """Note that the pod is there, as this."""
        row = self._rows.setdefault(pod.uid, _PodRow(pod))
        named = self._named.setdefault((pod.namespace, pod.name), {})
        named.pop(pod.uid, None)  # the newest is the last
        named[pod.uid] = None
        row.pod, row.gone_s = pod, None
        self._unsaid_ends.pop(pod.uid, None)
        self._changed[pod.uid] = None

    def assign(self, uid: str, job: JobRef | None) -> None:
        """Note that the pod, if it is still there, belongs to this job."""
        row = self._rows.get(uid)
        if row is not None and row.gone_s is None:
            row.pod = replace(row.pod, job=job)
            self._changed[uid] = None

    def remove(self, uid: str) -> None:
        """Note that the pod is there no more."""
        if uid in self._rows and self._rows[uid].gone_s is None:
            self._unsaid_ends[uid] = None

    def keep_only(self, uids: Iterable[str]) -> None:
        """Keep ``uids`` alone, as a new list does: what else was there ended unseen."""
        kept = frozenset(uids)
        for uid in self._rows:
            if uid not in kept:
                self.remove(uid)

    def uid_of(self, namespace: str, name: str) -> str | None:
        """Return the uid of the pod that has this name now; of a static pod the one that its cgroup
        carries."""
        named = self._named.get((namespace, name), {})
        return next((uid for uid in reversed(named) if self._rows[uid].gone_s is None), None)

    def pod_of(self, uid: str) -> Pod | None:
        """Return the pod with this uid, while it is known."""
        row = self._rows.get(uid)
        return None if row is None else row.pod

    def snapshot(self) -> list[tuple[Pod, float | None]]:
        """Return every pod as it was said last, and since when it is gone; in between two calls of
        ``drain``."""
        return [(row.pod, row.gone_s) for row in self._rows.values()]

    def restore(self, pod: Pod, gone_s: float | None) -> None:
        """Take a pod that is known, and was said as this."""
        self._rows[pod.uid] = _PodRow(pod, encode(pod), gone_s)
        self._named.setdefault((pod.namespace, pod.name), {})[pod.uid] = None

    def drain(self, now_s: float, now_ms: int) -> Iterator[tuple[str, bytes | None]]:
        """Yield what is to be published now, by key; None is a tombstone. A pod that ended has
        ``finished_ms``."""
        for uid in self._unsaid_ends:
            row = self._rows[uid]
            row.gone_s = now_s
            if not row.pod.finished_ms:
                row.pod = replace(row.pod, finished_ms=now_ms)
            self._changed[uid] = None
        for uid in self._changed:
            row = self._rows[uid]
            if (payload := encode(row.pod)) != row.published:
                row.published = payload
                yield uid, payload
        self._unsaid_ends, self._changed = {}, {}
        due = [
            uid
            for uid, row in self._rows.items()
            if row.gone_s is not None and now_s - row.gone_s >= self._retire_s
        ]
        for uid in due:
            pod = self._rows.pop(uid).pod
            named = self._named[pod.namespace, pod.name]
            del named[uid]
            if not named:
                del self._named[pod.namespace, pod.name]
            yield uid, None

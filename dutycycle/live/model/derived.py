"""Holds what the streams made of one subject: read when somebody looks at it, because most of it nobody
does."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.records.derived import (
    CycleMetric,
    JobPeaks,
    PodPeaks,
    Subject,
    TrendMetric,
    WindowAggregate,
)
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.topics import TOPICS

R = TypeVar("R")


class _Head(msgspec.Struct):
    """Holds the part of a record that says of which subject it is; of a window also which one it is."""

    subject: Subject
    source: str = ""
    size_ms: int = 0

    @property
    def subject_key(self) -> str:
        return self.subject.key


class _Uid(msgspec.Struct):
    uid: str


class _PodHead(msgspec.Struct):
    pod: _Uid

    @property
    def subject_key(self) -> str:
        return f"pod/{self.pod.uid}"


class _JobHead(msgspec.Struct):
    job: _Uid

    @property
    def subject_key(self) -> str:
        return f"job/{self.job.uid}"


HEADS: dict[str, type[Any]] = {
    **dict.fromkeys(("cycles", "trends", "insights", "window-aggregates"), _Head),
    "pod-peaks": _PodHead,
    "job-peaks": _JobHead,
}
"""By topic that streams write of one subject."""


def read_head(topic: str, key: str, payload: bytes) -> Any:
    """Return the head of a record that came under ``key``; None where it has none, or is another key's:
    it must not take the place of one that can be read."""
    try:
        head = msgspec.json.decode(payload, type=HEADS[topic])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return head if TOPICS[topic].is_under_its_key(key, head) else None


class Lazy(Generic[R]):
    """Holds a record as it came. ``unreadable`` is called once if it turns out to be none."""

    __slots__ = ("_payload", "_record", "_topic", "_unreadable")

    def __init__(self, topic: str, payload: bytes, unreadable: Callable[[], None]) -> None:
        self._topic = topic
        self._payload: bytes | None = payload
        self._record: R | None = None
        self._unreadable = unreadable

    def get(self) -> R | None:
        """Return the record; None if it cannot be read."""
        if self._payload is not None:
            payload, self._payload = self._payload, None
            # Another version's, or a stranger's: the rest is shown all the same.
            try:
                self._record = decode(TOPICS[self._topic].record, payload, self._topic)
            except DecodeError:
                self._unreadable()
        return self._record


@dataclass(slots=True)
class Derived:
    """Keeps the newest records of a subject: by topic and source, of windows by their size as well."""

    records: dict[tuple[str, str, int], Lazy[Any]] = field(default_factory=dict)

    def put(self, topic: str, head: Any, record: Lazy[Any]) -> None:
        """Keep a record in place of the one before, of its source and size."""
        is_of_source = isinstance(head, _Head) and topic != "insights"
        self.records[(topic, head.source, head.size_ms) if is_of_source else (topic, "", 0)] = record

    def forget(self, topic: str, source: str = "") -> None:
        """Drop a record that its key has no more."""
        self.records.pop((topic, source, 0), None)

    def copy(self) -> "Derived":
        """Return it as it is now, whatever comes later."""
        return Derived(dict(self.records))

    def cycle(self, metric: str) -> CycleMetric | None:
        """Return the cycle of a metric, which only one source measures; None where none is known."""
        cycles = (record.metrics.get(metric) for record in self._read("cycles"))
        return next(filter(None, cycles), None)

    def trend(self, metric: str) -> tuple[TrendMetric, int] | None:
        """Return the trend of a metric, and of which moment it is."""
        trends = (record for record in self._read("trends") if metric in record.metrics)
        return next(((record.metrics[metric], record.ts_ms) for record in trends), None)

    def windows(self) -> list[WindowAggregate]:
        """Return the newest window of each source and size, the shortest first."""
        return sorted(self._read("window-aggregates"), key=lambda window: window.size_ms)

    def read_insight(self) -> Insight | None:
        """Return what it is, and what holds it back."""
        return next(self._read("insights"), None)

    def read_peaks(self) -> PodPeaks | JobPeaks | None:
        """Return what a pod or job needed at most; None for other subjects."""
        return next(self._read("pod-peaks"), None) or next(self._read("job-peaks"), None)

    def _read(self, wanted: str) -> Iterator[Any]:
        """Yield the records of a topic that can be read."""
        for (topic, _, _), lazy in tuple(self.records.items()):  # others may put some meanwhile
            if topic == wanted and (record := lazy.get()) is not None:
                yield record

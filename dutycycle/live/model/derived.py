"""Holds what the streams made of one subject: read when somebody looks at it, because most of it nobody
does."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import msgspec

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.records.derived import (
    Cycle,
    CycleMetric,
    JobPeaks,
    PodPeaks,
    Trend,
    TrendMetric,
    WindowAggregate,
)
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.topics import TOPICS

R = TypeVar("R")


class _Window(msgspec.Struct):
    """Holds the part of a window that says which one it is."""

    source: str
    size_ms: int


class Lazy(Generic[R]):
    """Holds a record as it came under a key. ``unreadable`` is called once if it turns out to be none, or
    another key's."""

    __slots__ = ("_key", "_payload", "_record", "_topic", "_unreadable")

    def __init__(self, topic: str, key: str, payload: bytes, unreadable: Callable[[], None]) -> None:
        self._topic, self._key = topic, key
        self._payload: bytes | None = payload
        self._record: R | None = None
        self._unreadable = unreadable

    def get(self) -> R | None:
        """Return the record; None if it cannot be read."""
        if self._payload is not None:
            payload, self._payload = self._payload, None
            topic = TOPICS[self._topic]
            record: Any = None
            # Another version's, or a stranger's: the rest is shown all the same.
            with suppress(DecodeError):
                record = decode(topic.record, payload, self._topic)
            if record is not None and topic.is_under_its_key(self._key, record):
                self._record = record
            else:
                self._unreadable()
        return self._record


@dataclass(slots=True)
class Derived:
    """Keeps the newest records of a subject: by source, of windows by source and size."""

    cycles: dict[str, Lazy[Cycle]] = field(default_factory=dict)
    trends: dict[str, Lazy[Trend]] = field(default_factory=dict)
    windows: dict[tuple[str, int], Lazy[WindowAggregate]] = field(default_factory=dict)
    insight: Lazy[Insight] | None = None
    peaks: Lazy[PodPeaks] | Lazy[JobPeaks] | None = None

    def add_window(self, key: str, payload: bytes, unreadable: Callable[[], None]) -> None:
        """Keep what came under ``key`` in place of the one before, of its source and size."""
        try:
            which = msgspec.json.decode(payload, type=_Window)
        except msgspec.MsgspecError:
            unreadable()
            return
        self.windows[which.source, which.size_ms] = Lazy("window-aggregates", key, payload, unreadable)

    def copy(self) -> "Derived":
        """Return it as it is now, whatever comes later."""
        return Derived(dict(self.cycles), dict(self.trends), dict(self.windows), self.insight, self.peaks)

    def cycle(self, metric: str) -> CycleMetric | None:
        """Return the cycle of a metric, which only one source measures; None where none is known."""
        cycle = next(_of_metric(self.cycles, metric), None)
        return None if cycle is None else cycle[0]

    def trend(self, metric: str) -> tuple[TrendMetric, int] | None:
        """Return the trend of a metric, and of which moment it is."""
        return next(_of_metric(self.trends, metric), None)

    def read_insight(self) -> Insight | None:
        """Return what it is, and what holds it back."""
        return None if self.insight is None else self.insight.get()


def _of_metric(records: dict[str, Lazy[Any]], metric: str) -> Iterator[tuple[Any, int]]:
    for lazy in records.values():
        record = lazy.get()
        if record is not None and metric in record.metrics:
            yield record.metrics[metric], record.ts_ms

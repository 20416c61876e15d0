"""Keeps the newest record of each key, with its age: the one rule of all who answer from the topics. Pure.

On a compacted topic the last record of a key is the newest: who begins to read now finds no other. Parts of
nodes have counters, which a worker tells again from its checkpoint on, however long ago that is: of the same
state an older one changes nothing. On other topics the moment counts: a record of an earlier one comes late
and changes nothing, unless it is so early that the clock of its node was set back (``metering.is_outdated``).
A tombstone takes away what is known of its key. A record gets old from its moment on, or from when it came
where its clock is ahead.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from dutycycle.contract.metering import heard_ms, is_outdated
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.topics import TOPICS

R = TypeVar("R")
_COMPACTED = {topic.record for topic in TOPICS.values() if topic.cleanup == "compact"}


class NewestRecords:
    """Keeps records by kind and key. ``wall``: Unix seconds.

    Other threads may read: records never change, and who goes over a dictionary goes over a copy of it.
    """

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._records: dict[type, dict[str, Any]] = defaultdict(dict)
        self._heard_ms: dict[type, dict[str, int]] = defaultdict(dict)

    def hear(self, topic: str, key: str, record: Any) -> bool:
        """Take what lies on a topic, None for a tombstone; tell whether it changed what is known."""
        if record is not None:
            return self.put(key, record)
        self._heard_ms[TOPICS[topic].record].pop(key, None)
        return self._records[TOPICS[topic].record].pop(key, None) is not None

    def put(self, key: str, record: Any) -> bool:
        """Take a record whose moment is its ``ts_ms`` or ``end_ms``; tell whether it is the newest."""
        kind = type(record)
        records = self._records[kind]
        known, ts_ms = records.get(key), _moment_ms(record)
        if known is not None:
            is_late = type(record) not in _COMPACTED and is_outdated(ts_ms, _moment_ms(known))
            if isinstance(record, NodePart):
                is_late = record.since_ms == known.since_ms and ts_ms < known.ts_ms
            if is_late:
                return False
        self._heard_ms[kind][key] = heard_ms(ts_ms, self._wall())
        records[key] = record
        return True

    def of(self, kind: type[R]) -> dict[str, R]:
        """Return the newest records of a kind, by key."""
        return self._records[kind]

    def heard_ms(self, kind: type, key: str) -> int:
        """Tell from which moment on a record that is known gets old."""
        return self._heard_ms[kind][key]

    def forget(
        self, kinds: Iterable[type], before_ms: int, stays: Callable[[Any], bool] = lambda record: False
    ) -> None:
        """Drop what gets old since ``before_ms`` or longer, and does not stay for another reason."""
        for kind in kinds:
            records, heard = self._records[kind], self._heard_ms[kind]
            for key in [key for key, ms in heard.items() if ms <= before_ms and not stays(records[key])]:
                del records[key], heard[key]


def _moment_ms(record: Any) -> int:
    """Return 0 for identities, which have none."""
    ts_ms: int | None = getattr(record, "end_ms", None)
    return getattr(record, "ts_ms", 0) if ts_ms is None else ts_ms

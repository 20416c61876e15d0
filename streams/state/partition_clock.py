"""Measures the time of a partition: how much event time went by while its records came.

What is idle is judged by this clock and never by the time of day, so that it depends on the log alone:
the same in a replay, after a restart, and while a backlog is worked off.
"""

from typing import Any

import orjson

from streams.operators.event_clock import EventClock
from streams.state.record import HEADER_BYTES, BodyKind, Record, clock_key, header_of, to_value

_VERSION = 1


class PartitionClock(EventClock):
    """Measures the time of one partition. ``offset`` is that of the last record observed.

    ``confirm`` is high, because a node that comes back sends what it kept in one go: to follow it into the
    past would count the time since then again. While the clock stands, nothing leaves.
    """

    def __init__(self, stride_ms: int, *, confirm: int, now_ms: int = 0, offset: int = -1) -> None:
        super().__init__(now_ms)
        self._stride_ms = max(stride_ms, 1)
        self._confirm = confirm
        self.offset = offset

    def observe(self, offset: int, ts_ms: int) -> None:
        """Take the time of a record, used or not; one that was observed already moves nothing."""
        if offset > self.offset:
            self.offset = offset
            self.advance(ts_ms, self._stride_ms, confirm=self._confirm)

    def stored(self, partition: int, topic_id: str | None = None) -> Record:
        """Return the clock as a record of the changelog, with the identity of the topic whose records it saw;
        None where the broker knows none."""
        body = orjson.dumps(
            {"v": _VERSION, "high_ms": self.high_ms, "behind": self.behind, "topic_id": topic_id}
        )
        return clock_key(partition), to_value(BodyKind.PLAIN, self.offset, self.now_ms, body)

    @classmethod
    def restored(cls, stride_ms: int, value: bytes | None, *, confirm: int) -> "PartitionClock | None":
        """Return the clock that ``stored`` wrote; None if there is none, or none that can be read."""
        header = header_of(value)
        if value is None or header is None:
            return None
        try:
            plain: Any = orjson.loads(value[HEADER_BYTES:])
            clock = cls(stride_ms, confirm=confirm, now_ms=header.seen_ms, offset=header.offset)
            high_ms, clock.behind = plain["high_ms"], int(plain["behind"])
            clock.high_ms = None if high_ms is None else int(high_ms)
        except (ValueError, KeyError, TypeError):
            return None
        return clock if plain.get("v") == _VERSION else None


def topic_id_of(value: bytes | None) -> str | None:
    """Return the identity of the topic whose records a stored clock saw; None where it does not say."""
    if value is None or header_of(value) is None:
        return None
    try:
        topic_id: Any = orjson.loads(value[HEADER_BYTES:])["topic_id"]
    except (ValueError, KeyError, TypeError):
        return None
    return topic_id if isinstance(topic_id, str) else None

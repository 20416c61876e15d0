"""Measures the time of a partition: how much event time went by while its records came.

What is idle is judged by this clock and never by the time of day, so that it depends on the log alone:
the same in a replay, after a restart, and while a backlog is worked off. It depends on the timestamps alone,
in the order of the log, and counts from 0 at the partition's first record.

A wrong timestamp may cost only itself (docs/decisions/0010). So one record moves the clock by at most a
``stride``, however far ahead it is, and what is behind moves nothing. Time in which nothing comes counts as
one stride: a cluster that was switched off for a week has lost nothing on Monday.
"""

from typing import Any

import orjson

from streams.state.record import HEADER_BYTES, BodyKind, Record, clock_key, header_of, to_value

_VERSION = 1


class PartitionClock:
    """Measures the time of one partition. ``now_ms`` counts from 0 and never goes back. ``offset`` is that of
    the last record observed.

    After ``confirm`` records in a row that are all behind by over a stride it was the reference that was
    wrong. Many, because a node that comes back sends what it kept in one go: to follow it into the past would
    count the time since then again. Until then the clock stands, and nothing leaves.
    """

    def __init__(self, stride_ms: int, *, confirm: int, now_ms: int = 0, offset: int = -1) -> None:
        self._stride_ms = max(stride_ms, 1)
        self._confirm = confirm
        self._high_ms: int | None = None
        self._behind = 0
        self.now_ms = now_ms
        self.offset = offset

    def observe(self, offset: int, ts_ms: int) -> None:
        """Take the time of a record, used or not; one that was observed already moves nothing."""
        if offset <= self.offset:
            return
        self.offset = offset
        if self._high_ms is None:
            self._high_ms = ts_ms
        ahead = ts_ms - self._high_ms
        if ahead >= -self._stride_ms:
            self.now_ms += min(max(ahead, 0), self._stride_ms)
            self._high_ms = max(self._high_ms, ts_ms)
            self._behind = 0
            return
        self._behind += 1
        if self._behind >= self._confirm:
            self._high_ms, self._behind = ts_ms, 0

    def stored(self, partition: int, topic_id: str | None = None) -> Record:
        """Return the clock as a record of the changelog, with the identity of the topic whose records it saw;
        None where the broker knows none."""
        body = orjson.dumps(
            {"v": _VERSION, "high_ms": self._high_ms, "behind": self._behind, "topic_id": topic_id}
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
            high_ms, clock._behind = plain["high_ms"], int(plain["behind"])
            clock._high_ms = None if high_ms is None else int(high_ms)
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

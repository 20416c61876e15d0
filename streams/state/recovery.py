"""Decides which of the records of a changelog count: the newest by its offset, whichever was written last.

A worker that stood still, or was cut off from its group, does not know yet that it was replaced, and may
write an old state, clock, piece or tombstone after a newer one. At recovery the newer one is preferred. But
Kafka's compaction keeps what was written last: so what had to be preferred is noted, and written anew.

Large states: pieces come before their head, so those of two workers may lie mixed before, between and after
their heads. Pieces that are ahead of the head that counts are kept beside those that it needs, and those that
it needs are not removed before it; a head whose pieces are not all there does not count over a state that is
whole. Of two states of one offset in one slot the one counts that is whole first.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable

from streams.state.codec import Lookup
from streams.state.record import (
    Headers,
    Piece,
    Version,
    Write,
    clock_key,
    is_ours,
    name_of,
    named_pieces,
    offset_of,
    partition_of,
    piece_of,
    tombstone_offset,
    version_of,
)

Change = tuple[bytes, bytes | None]
"""A key, and the value that counts from now on; None: none."""


class ChangelogReducer:
    """Takes the records of a changelog in their order. ``stored`` is what counts so far."""

    def __init__(self, stored: Lookup) -> None:
        self._stored = stored
        self._last: dict[bytes, Version] = {}
        self._removed: dict[bytes, int] = {}
        self._ahead: dict[bytes, dict[Version, bytes]] = {}
        self._discarded: set[bytes] = set()

    def read(self, key: bytes, value: bytes | None, headers: Headers) -> list[Change]:
        """Return what changes by the next record. Anybody can write to a topic: a stray one changes
        nothing."""
        if not is_ours(key):
            return []
        self._last[key] = version_of(value)
        if value is None:
            upto = tombstone_offset(headers)
            if upto is None:  # of somebody's hand, or of a log that is no more
                self._removed.pop(key, None)
                self._ahead.pop(key, None)
                return [(key, None)]
            if upto < offset_of(self._stored(key)) or self._is_needed(key):
                return []
            self._removed[key] = max(upto, self._removed.get(key, upto))
            return [(key, None)]
        if (piece := piece_of(key)) is not None:
            return self._piece(key, value, piece)
        version, have = version_of(value), self._stored(key)
        offset, _ = version
        if offset < offset_of(have) or (key in self._removed and offset <= self._removed[key]):
            return []
        parts = {name: self._found(name, version) for name in named_pieces(key, value)}
        if None in parts.values() and have is not None:
            needed = (self._found(name, version_of(have)) for name in named_pieces(key, have))
            if all(part is not None for part in needed):
                return []  # what is there is whole
        changes = [(name, part) for name, part in parts.items() if part not in (None, self._stored(name))]
        for name in parts:
            ahead = self._ahead.pop(name, {})
            self._ahead[name] = {version: part for version, part in ahead.items() if version[0] > offset}
        return [*changes, (key, value)]

    def _found(self, piece: bytes, version: Version) -> bytes | None:
        stored = self._stored(piece)
        return stored if version_of(stored) == version else self._ahead.get(piece, {}).get(version)

    def _piece(self, key: bytes, value: bytes, piece: Piece) -> list[Change]:
        # Compared with its head, not with what lies there: that may be left by a worker that was ahead when
        # it was killed before it sent the head, and must not keep out the piece of the next one.
        head, version = self._stored(piece.head), version_of(value)
        if version[0] < offset_of(head):
            return []
        if version[0] > offset_of(head):
            self._ahead.setdefault(key, {})[version] = value
        return [] if self._is_needed(key) else [(key, value)]

    def _is_needed(self, key: bytes) -> bool:
        """Tell whether ``key`` is a piece that the head that counts needs. Its owner removes none before its
        head: a tombstone is of a worker that had not read this head, and took the piece for left over."""
        if (piece := piece_of(key)) is None or (head := self._stored(piece.head)) is None:
            return False
        return key in named_pieces(piece.head, head) and version_of(self._stored(key)) == version_of(head)

    def discard(self, partition: int) -> set[bytes]:
        """Let nothing that was read of a partition count any more: its offsets are those of another log.
        Answers its keys."""
        keys = {key for key in self._last if partition_of(key) == partition}
        self._discarded |= keys
        return keys

    def outdated(self, partitions: Collection[int]) -> list[Write]:
        """Return what counts and is not the last record of its key, pieces first and clocks last, which say
        that there is a state; other partitions are forgotten."""
        self._last = {key: last for key, last in self._last.items() if partition_of(key) in partitions}
        rewrites = []
        for key, last in self._last.items():
            value = self._stored(key)
            if key in self._discarded:
                rewrites.append(Write(key, None))
            elif version_of(value) != last:
                upto = max(last[0], self._removed.get(key, -1)) if value is None else None
                rewrites.append(Write(key, value, upto))
        return sorted(
            rewrites,
            key=lambda write: (piece_of(write.key) is None, write.key == clock_key(partition_of(write.key))),
        )

    def rewritten(self) -> None:
        """Note that all that was outdated is written anew: the last record of each key is the one that
        counts."""
        self._last.clear()
        self._removed.clear()
        self._ahead.clear()
        self._discarded.clear()


def read_to(states: Iterable[tuple[bytes, bytes]]) -> dict[int, int]:
    """Return the offset after the last record that the states of a stage have seen, by partition.

    Two have to say so, as a clock and a state do: a damaged record, or one of somebody's hand, shall not stop
    everybody. Where there is no clock, nothing of ours was ever stored.
    """
    offsets: dict[int, list[int]] = defaultdict(list)
    timed: set[int] = set()
    for key, value in states:
        if not is_ours(key):
            continue
        partition = partition_of(key)
        is_clock = key == clock_key(partition)
        if is_clock or name_of(key) is not None:
            offsets[partition].append(offset_of(value))
        if is_clock and offset_of(value) >= 0:
            timed.add(partition)
    return {partition: sorted(offsets[partition])[-2:][0] + 1 for partition in sorted(timed)}

"""Tells whether somebody else writes into a partition of a changelog, seen by the offsets of our own records.

A partition of a changelog has one writer, its owner. Offsets follow one another. So a hole between what was
read and our first record, or between two of our records, is another worker's record: that worker was replaced
and has not noticed. What it wrote may be older than the record before it, and compaction keeps what was
written last. So the owner that sees the hole ends, and its successor reads the changelog again and repairs it
(``recovery``). Where we write nothing, no hole can appear: there the broker is asked for the end offset from
time to time.
"""


class ForeignWriterError(Exception):
    """Says that somebody else wrote into a partition of a changelog."""


class ChangelogFence:
    """Knows where each partition of a changelog ends, as far as this worker knows."""

    def __init__(self) -> None:
        self._ends: dict[int, int] = {}

    def read(self, partition: int, offset: int) -> None:
        """Note that a record was read there, in order."""
        self._ends[partition] = offset + 1

    def ends(self, partition: int, end: int) -> bool:
        """Take it that the partition ends at ``end``, and nothing of ours is under way; False if others wrote
        there."""
        return end <= self._ends.get(partition, end)

    def wrote(self, partition: int, offset: int) -> bool:
        """Note that a record of ours lies at ``offset``; False if others lie before it that are not ours.

        A negative offset is none: the broker had taken the record before, and does not say where it is.
        """
        if offset < 0:
            self._ends.pop(partition, None)
            return True
        end = self._ends.get(partition, offset)
        self._ends[partition] = offset + 1
        return offset <= end

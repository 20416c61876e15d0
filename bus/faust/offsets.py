"""Offsets of a partition: what each says about the ones before it, and what the broker says about them.

Gaps that are the broker's own are left by compaction, by retention, and by the marks of transactions.
"""

import asyncio
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum, auto

from bus.kafka.clients import new_consumer, partition, translated
from bus.kafka.errors import BrokerError
from contract.settings.groups import Settings

_WAIT_MS = 10_000
_ENDS_S = 5.0


class OffsetKind(Enum):
    """What a record is, judged by its offset alone."""

    NEXT = auto()
    REPEAT = auto()
    """Read before in this assignment: Faust delivers a record twice around a seek. Leave it out."""
    AFTER_GAP = auto()
    """Records before it were not delivered. Where they are still on the broker, that is loss."""


@dataclass(slots=True)
class OffsetTracker:
    """The place in one partition, from its assignment to its revocation.

    ``expected`` is the offset that has to come next: at first the committed one, 0 where there is none.
    """

    expected: int = 0

    def classify(self, offset: int) -> OffsetKind:
        """What the record at ``offset`` is. Does not move the place: ``took`` does."""
        if offset == self.expected:
            return OffsetKind.NEXT
        return OffsetKind.REPEAT if offset < self.expected else OffsetKind.AFTER_GAP

    def took(self, offset: int) -> None:
        """The record at ``offset`` was taken."""
        self.expected = offset + 1


def describe_truncation(topic: str, partition: int, read: int, end: int) -> str:
    """In words: a log was read up to ``read``, and its next record will be at ``end``, which is lower.

    It was created again after a deletion, or restored from a copy. Its records count from lower offsets than
    what is known of it: they would all be taken for repeats, and lost without a word.
    """
    return (
        f"{topic}-{partition} ends at offset {end}, but was read to {read}: "
        "the topic was deleted and created again, or its broker has lost records"
    )


async def first_offset(settings: Settings, topic: str, number: int, offset: int) -> int | None:
    """The offset of the first record that the broker has at ``offset`` or later; None if it answers none.

    ``topic`` is a full name. Raises ``BrokerError``.
    """
    driver = new_consumer(settings, "holes", reset="earliest")
    place = partition(topic, number)
    try:
        with translated():
            await driver.start()
            driver.assign([place])
            driver.seek(place, offset)
            found = await driver.getmany(timeout_ms=_WAIT_MS, max_records=1)
    finally:
        await driver.stop()
    return next((int(record.offset) for batch in found.values() for record in batch), None)


async def ends(settings: Settings, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int] | None:
    """Where partitions end, by topic (in full) and number; None if the broker does not say so at once."""
    driver = new_consumer(settings, "ends", reset="latest")
    wanted = [partition(*place) for place in places]
    try:
        async with asyncio.timeout(_ENDS_S):
            with translated():
                await driver.start()
                found = await driver.end_offsets(wanted)
    except (TimeoutError, BrokerError):
        return None  # it is asked again
    finally:
        await driver.stop()
    return {(place.topic, place.partition): int(end) for place, end in found.items()}

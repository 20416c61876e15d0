"""Asks what the broker says of the offsets of a partition: where it begins, goes on and ends."""

import asyncio
from collections.abc import Collection

from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import new_consumer, partition, stop_consumer, translated
from dutycycle.kafka.errors import BrokerError

_WAIT_MS = 10_000
_ENDS_S = 5.0


def describe_truncation(topic: str, partition: int, read: int, end: int) -> str:
    """Say in words that a log was read up to ``read``, and its next record will be at ``end``, which is
    lower.

    It was created again after a deletion, or restored from a copy. Its records count from lower offsets than
    what is known of it: they would all be taken for repeats, and lost without a word.
    """
    return (
        f"{topic}-{partition} ends at offset {end}, but was read to {read}: "
        "the topic was deleted and created again, or its broker has lost records"
    )


async def first_offset(settings: Settings, topic: str, number: int, offset: int) -> int | None:
    """Return the offset of the first record that the broker has at ``offset`` or later; None if it has none.

    ``topic`` is a full name. Raises ``BrokerError``.
    """
    driver = new_consumer(settings, "holes", reset="earliest")
    place = partition(topic, number)
    try:
        with translated():
            await driver.start()
            driver.assign([place])
            driver.seek(place, offset)
            while not (batches := await driver.getmany(timeout_ms=_WAIT_MS, max_records=1)):
                # A broker that is late, as by a quota, has not answered: there is none at the end alone.
                end = (await driver.end_offsets([place]))[place]
                if await driver.position(place) >= end:
                    break
    finally:
        await stop_consumer(driver)
    return next((int(record.offset) for batch in batches.values() for record in batch), None)


async def ends(settings: Settings, places: Collection[tuple[str, int]]) -> dict[tuple[str, int], int] | None:
    """Return where partitions end, by topic (in full) and number; None if the broker does not say so at
    once."""
    driver = new_consumer(settings, "ends", reset="latest")
    wanted = [partition(*place) for place in places]
    try:
        async with asyncio.timeout(_ENDS_S):
            with translated():
                await driver.start()
                offsets = await driver.end_offsets(wanted)
    except (TimeoutError, BrokerError):
        return None  # it is asked again
    finally:
        await stop_consumer(driver)
    return {(place.topic, place.partition): int(end) for place, end in offsets.items()}

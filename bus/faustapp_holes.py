"""Asks the broker whether a hole in the offsets is its own: compaction, retention, a transaction's marks."""

from bus.kafka import new_consumer, partition, translated
from wire.settings import Settings

_WAIT_MS = 10_000


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

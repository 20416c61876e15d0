"""An agent: hands the records of a topic to a handler, one after the other, in order."""

from collections.abc import Awaitable, Callable
from typing import Any

from bus.faust.app import ExactApp, raw_topic
from contract.log import ConsumerRecord, key_text
from contract.topics import full_name

Handler = Callable[[ConsumerRecord], Awaitable[None]]


def add_agent(app: ExactApp, topic: str, handle: Handler, *, name: str) -> None:
    """Read ``topic`` (without prefix) into ``handle``, which never raises: Faust would skip the record."""

    async def read(stream: Any) -> None:
        records = stream.noack()
        async for _ in records:  # events() would be one more generator around this one
            await handle(consumer_record(topic, records.current_event.message))

    app.agent(raw_topic(app, full_name(app.topic_prefix, topic)), name=name, concurrency=1)(read)


def consumer_record(topic: str, message: Any) -> ConsumerRecord:
    """A Faust message. Faust divides the milliseconds by 1000; rounding gives them back exactly."""
    ts_ms = max(round((message.timestamp or 0) * 1000), 0)
    key = key_text(message.key)
    return ConsumerRecord(topic, message.partition, message.offset, key, message.value, ts_ms)

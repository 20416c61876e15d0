"""Hands the records of a topic to a handler, in order, those of one fetch and partition at once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import faust

from dutycycle.contract.log import ConsumerRecord, key_text
from dutycycle.contract.topics import full_name
from dutycycle.kafka.faust.app import ExactApp
from dutycycle.kafka.faust.consumer import FetchedBatch

Handler = Callable[[Sequence[ConsumerRecord]], Awaitable[None]]


class _BatchSchema(faust.Schema[Any, Any]):
    """Leaves a message of ``ExactConsumer`` as it is: its value is a batch of records, as aiokafka read
    them."""

    def loads_key(self, app: Any, message: Any, **_: Any) -> Any:
        """Return None: each record has a key of its own."""
        return None

    def loads_value(self, app: Any, message: Any, **_: Any) -> Any:
        """Return the batch."""
        return message.value


def add_agent(app: ExactApp, topic: str, handle: Handler, *, name: str) -> None:
    """Read ``topic`` (without prefix) into ``handle``, which never raises: Faust would skip the batch."""

    async def read(stream: Any) -> None:
        batch: FetchedBatch
        async for batch in stream.noack():
            records = [
                ConsumerRecord(
                    topic, message.partition, message.offset, key_text(message.key), message.value,
                    ts_ms=max(message.timestamp or 0, 0),
                )
                for message in batch.records
            ]  # fmt: skip
            await handle(records)
            app.exact_consumer.finish(batch)

    source = app.topic(full_name(app.topic_prefix, topic), schema=_BatchSchema())
    app.agent(source, name=name, concurrency=1)(read)

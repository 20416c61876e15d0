"""The agents: one per topic, each hands what it reads to the dispatcher."""

from typing import Any

from bus.faust.app import ExactApp, raw_topic
from contract.topics import full_name
from sinks.base import Origin
from sinks.dispatcher import Dispatcher


def add_agent(app: ExactApp, prefix: str, topic: str, dispatcher: Dispatcher) -> None:
    """Read ``topic`` (without prefix) into ``dispatcher``, one record after the other, in order."""

    async def read(stream: Any) -> None:
        async for event in stream.noack().events():
            await dispatcher.handle(as_origin(topic, event.message))

    app.agent(raw_topic(app, full_name(prefix, topic)), name=f"sink-{topic}", concurrency=1)(read)


def as_origin(topic: str, message: Any) -> Origin:
    """A Faust message as a record; rounding undoes what Faust did to the milliseconds."""
    ts_ms = max(round((message.timestamp or 0) * 1000), 0)
    return Origin(topic, message.partition, message.offset, message.key, message.value, ts_ms)

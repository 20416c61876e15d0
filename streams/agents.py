"""The agents: one per stage, each hands what it reads to the shell of its stage."""

from typing import Any

from bus.faust.app import ExactApp, raw_topic
from streams.operators.base import Input
from streams.runtime.checkpoint import Flow
from streams.runtime.stage_task import Shell


def add_agent(app: ExactApp, topic: str, shell: Shell, flow: Flow) -> None:
    """Read ``topic`` (full name) into ``shell``, one record after the other, in order."""
    source = shell.stage.source

    async def read(stream: Any) -> None:
        records = stream.noack()
        async for _ in records:  # events() would be one more generator around this one
            await flow.handle(shell, as_input(source, records.current_event.message))

    app.agent(raw_topic(app, topic), name=shell.stage.name, concurrency=1)(read)


def as_input(source: str, message: Any) -> Input:
    """A Faust message as an operator's input. A key that is no UTF-8 counts as none."""
    try:
        key = None if message.key is None else message.key.decode()
    except UnicodeDecodeError:
        key = None
    # Faust divides the milliseconds by 1000; rounding gives them back exactly.
    ts_ms = max(round((message.timestamp or 0) * 1000), 0)
    return Input(source, message.partition, message.offset, key, message.value, ts_ms)

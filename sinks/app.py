"""Makes the Faust app of the sinks: an agent for each topic, a task for each sink, and the dispatcher."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.faust.agent import add_agent
from dutycycle.kafka.faust.app import ExactApp, create_app
from dutycycle.kafka.faust.port import FaustPort, WorkerPort
from dutycycle.kafka.membership import name_protocol
from dutycycle.telemetry.events import Telemetry
from sinks.base import Sink
from sinks.deadletters import DeadLetters
from sinks.dispatcher import Dispatcher
from sinks.events import LOG_TRUNCATED
from sinks.metrics import serve_metrics

_ACKNOWLEDGE_S = 0.5
_HAND_OVER_S = 6.0
_COMMON = (
    "analyses", "records", "annotations", "annotation_prefix", "usage_hours", "usage_days",
    "price_gpu_models", "price_cpu_hour", "price_gpu_hour", "price_kwh",
)  # fmt: skip

MakeSinks = Callable[[DeadLetters, WorkerPort], Sequence[Sink]]


def app_id(settings: Settings) -> str:
    """Return the consumer group of the sinks."""
    return f"{settings.topic_prefix}sinks"


def group_protocol(settings: Settings) -> str:
    """Return what all workers of the sinks have in common: what they read, where they write, and what is
    computed there."""
    return name_protocol(settings, _COMMON)


class SinksApp:
    """Holds the app with its dispatcher, not started."""

    def __init__(self, settings: Settings, make: MakeSinks, telemetry: Telemetry) -> None:
        self.app: ExactApp = create_app(settings, app_id(settings), telemetry, group_protocol(settings))
        self._telemetry = telemetry
        self._prefix = settings.topic_prefix
        port = FaustPort(self.app, settings)
        letters = DeadLetters(settings.topic_prefix, telemetry, port.post, port.fail)
        self.dispatcher = Dispatcher(port, make(letters, port), letters, telemetry)
        self.app.next_offset = self.dispatcher.next_offset
        self.app.is_backpressured = self.dispatcher.is_backpressured
        self.app.on_log_truncated = self._begins_anew
        serve_metrics(telemetry, self.dispatcher)
        for topic in written_topics(self.dispatcher.topics, settings.analyses):
            add_agent(self.app, topic, self.dispatcher.process, name=f"sink-{topic}")
        self.app.on_partitions_revoked.connect(self._hand_over)
        self.app.on_partitions_assigned.connect(self._assigned)

    async def write(self) -> None:
        """Run the sinks, and acknowledge what they have written, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._acknowledge())
                for sink in self.dispatcher.sinks:
                    group.create_task(sink.run())
        except* Exception as errors:  # noqa: BLE001 - a sink that ended would let its records pile up for ever
            self.app.fail(f"a sink ended: {errors.exceptions[0]!r}")

    async def _acknowledge(self) -> None:
        while True:
            await asyncio.sleep(_ACKNOWLEDGE_S)
            self.dispatcher.acknowledge()

    async def _hand_over(self, *_: Any, **__: Any) -> None:
        """Hand over the partitions that are revoked: write what can be written soon, and keep nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await self.dispatcher.drain()
                await self.app.exact_consumer.commit_all()
        self.dispatcher.forget()

    async def _assigned(self, *_: Any, **__: Any) -> None:
        self.dispatcher.forget()

    def _begins_anew(self, place: TopicPartition, what: str) -> None:
        """Say that everything of that log is read anew: what is written already is written once more, or
        known as older."""
        self._telemetry.emit(
            LOG_TRUNCATED,
            f"{what}; it is read from its beginning",
            topic=place[0].removeprefix(self._prefix),
        )

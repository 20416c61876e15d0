"""The Faust app of the sinks: an agent for each topic, a task for each sink, one desk that acknowledges."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from bus.faustapp import ExactApp, create_app
from sinks.agents import add_agent
from sinks.deadletters import DeadLetters
from sinks.desk import Desk
from sinks.events import SHARED_NODES
from sinks.figures import tell
from sinks.origin import Sink
from sinks.port import FaustPort
from wire.events import Telemetry
from wire.settings import Settings
from wire.topics import full_name

ACKNOWLEDGE_S = 0.5
_HAND_OVER_S = 6.0
_SAMPLES = "nvml-samples"

MakeSinks = Callable[[DeadLetters], Sequence[Sink]]


def app_id(settings: Settings) -> str:
    """The consumer group of the sinks."""
    return f"{settings.topic_prefix}sinks"


class SinksApp:
    """The app with its desk, not started. ``partitions`` has those of each topic by its full name."""

    def __init__(
        self, settings: Settings, make: MakeSinks, telemetry: Telemetry, partitions: dict[str, int]
    ) -> None:
        self.app: ExactApp = create_app(settings, app_id(settings), telemetry)
        self._telemetry = telemetry
        self._samples = full_name(settings.topic_prefix, _SAMPLES)
        self._partitions = partitions
        port = FaustPort(self.app, settings)
        letters = DeadLetters(settings.topic_prefix, telemetry, port.bury, port.fail)
        self.desk = Desk(port, make(letters), letters, telemetry)
        self.app.taken = self.desk.taken
        tell(telemetry, self.desk)
        for topic in self.desk.topics:
            add_agent(self.app, settings.topic_prefix, topic, self.desk)
        self.app.on_partitions_revoked.connect(self._hand_over)
        self.app.on_partitions_assigned.connect(self._assigned)

    async def write(self) -> None:
        """Run the sinks, and acknowledge what they have written, until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._acknowledge())
                for sink in self.desk.sinks:
                    group.create_task(sink.run())
        except* Exception as errors:  # noqa: BLE001 - a sink that ended would let its records pile up for ever
            self.app.fail(f"a sink ended: {errors.exceptions[0]!r}")

    async def _acknowledge(self) -> None:
        while True:
            await asyncio.sleep(ACKNOWLEDGE_S)
            self.desk.acknowledge()

    async def _hand_over(self, *_: Any, **__: Any) -> None:
        """The partitions are revoked: write what can be written soon, and keep nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_HAND_OVER_S):
                await self.desk.drain()
                await self.app.exact_consumer.commit_all()
        self.desk.forget()

    async def _assigned(self, *_: Any, **__: Any) -> None:
        self.desk.forget()
        mine = sum(tp.topic == self._samples for tp in self.app.consumer.assignment())
        every = self._partitions.get(self._samples, 0)
        if _SAMPLES in self.desk.topics and 0 < mine < every:
            detail = "rhythms and trends on Node objects may be missing: annotate with one `dutycycle sink`"
            self._telemetry.raise_condition(SHARED_NODES, _SAMPLES, detail)
        else:
            self._telemetry.clear_condition(SHARED_NODES, _SAMPLES)

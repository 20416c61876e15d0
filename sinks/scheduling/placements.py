"""Publishes what the extender said of pods, so that the annotations sink can write it on them.

The extender itself may then do nothing on the API server. The scheduler never waits for it: what does not fit
into memory while the broker is away is dropped, and counted.
"""

import asyncio

from dutycycle.contract.codec import encode
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.errors import RecordRefusedError
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.reachability import Reachability, retry_until_reachable
from dutycycle.telemetry.events import Telemetry
from sinks.events import PLACEMENT_DROPPED

TOPIC = "placements"
_MOST_WAITING = 1000


class Placements:
    """``tell`` at any time; ``run`` sends until cancelled."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self._settings, self._telemetry = settings, telemetry
        self._topic = full_name(settings.topic_prefix, TOPIC)
        self._waiting: asyncio.Queue[Placement] = asyncio.Queue(_MOST_WAITING)
        self._unsent: Placement | None = None
        """Taken from the queue, and not acknowledged by the broker yet."""

    def tell(self, placement: Placement) -> None:
        """Send it soon."""
        try:
            self._waiting.put_nowait(placement)
        except asyncio.QueueFull:
            self._dropped(placement, "full")

    async def run(self) -> None:
        """A broker that is away is waited for. Raises ``BrokerRefusedError``."""
        reachability = Reachability(self._settings, self._telemetry)

        async def send() -> None:
            producer = Producer(self._settings, "dutycycle-extender")
            await producer.start()
            try:
                while True:
                    if self._unsent is None:
                        reachability.mark_up()
                        self._unsent = await self._waiting.get()
                    await self._send(producer, self._unsent)
                    self._unsent = None
            finally:
                await producer.abort()

        await retry_until_reachable(send, reachability)

    async def _send(self, producer: Producer, one: Placement) -> None:
        try:
            await producer.settle([await producer.send(self._topic, one.uid, encode(one), one.ts_ms)])
        except RecordRefusedError as error:
            self._dropped(one, "refused", f": {error}")

    def _dropped(self, one: Placement, reason: str, detail: str = "") -> None:
        self._telemetry.emit(PLACEMENT_DROPPED, f"{one.namespace}/{one.name}{detail}", reason=reason)

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
_FLUSH_S = 5.0
"""How long the last placements may take at the end; what they describe is a pod that waits for its node."""


class Placements:
    """Sends placements to a topic: ``tell`` at any time; from ``start`` to ``close`` a task sends."""

    def __init__(self, settings: Settings, telemetry: Telemetry) -> None:
        self._settings, self._telemetry = settings, telemetry
        self._topic = full_name(settings.topic_prefix, TOPIC)
        self._waiting: asyncio.Queue[Placement] = asyncio.Queue(_MOST_WAITING)
        self._unsent: Placement | None = None
        """Taken from the queue, and not acknowledged by the broker yet."""
        self._task: asyncio.Task[None] | None = None

    def tell(self, placement: Placement) -> None:
        """Send it soon."""
        try:
            self._waiting.put_nowait(placement)
        except asyncio.QueueFull:
            self._dropped(placement, "full")

    def start(self) -> asyncio.Task[None]:
        """Send until ``close``; a broker that is away is waited for.

        The task ends by itself with a ``BrokerRefusedError`` alone.
        """
        self._task = asyncio.create_task(self._run())
        return self._task

    async def close(self, most_s: float = _FLUSH_S) -> None:
        """End the task when all is sent, after ``most_s`` at the latest; the rest is dropped and counted."""
        task = self._task
        if task is not None:
            sent = asyncio.ensure_future(self._waiting.join())
            await asyncio.wait([task, sent], timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
            sent.cancel()
            task.cancel()
            await asyncio.wait([task])
        unsent = [] if self._unsent is None else [self._unsent]
        while not self._waiting.empty():
            unsent.append(self._waiting.get_nowait())
        for placement in unsent:
            self._dropped(placement, "stopped")

    async def _run(self) -> None:
        reachability = Reachability(self._settings, self._telemetry)

        async def send() -> None:
            producer = Producer(self._settings, "dutycycle-extender")
            await producer.start()
            try:
                while True:
                    if self._unsent is None:
                        reachability.mark_up()
                        self._unsent = await self._waiting.get()
                    try:
                        value, ts_ms = encode(self._unsent), self._unsent.ts_ms
                        sent = await producer.send(self._topic, self._unsent.uid, value, ts_ms)
                        await producer.settle([sent])
                    except RecordRefusedError as error:
                        self._dropped(self._unsent, "refused", f": {error}")
                    self._unsent = None
                    self._waiting.task_done()
            finally:
                await producer.abort()

        await retry_until_reachable(send, reachability)

    def _dropped(self, placement: Placement, reason: str, detail: str = "") -> None:
        self._telemetry.emit(
            PLACEMENT_DROPPED, f"{placement.namespace}/{placement.name}{detail}", reason=reason
        )

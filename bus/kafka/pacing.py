"""Keeps a Kafka client from asking for metadata as fast as it can while there is nobody to answer.

The driver asks again at once, in the producer and in the consumer, while a partition has no leader: while
its broker is stopped, hundreds of times a second. Java's client waits in between, and so does this.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

FIRST_S = 0.05
"""Between two requests, whatever they answer."""
MOST_S = 1.0
"""After failures in a row: the pause doubles up to here."""


class Pace:
    """When the next request may be sent. ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pause_s = FIRST_S
        self._next = clock()

    def wait_s(self) -> float:
        """How long to wait before a request."""
        return max(self._next - self._clock(), 0.0)

    def ended(self, *, good: bool) -> None:
        """A request was answered, or failed."""
        self._pause_s = FIRST_S if good else min(2 * self._pause_s, MOST_S)
        self._next = self._clock() + self._pause_s


def pace(client: Any) -> None:
    """Pace a client of the driver (``AIOKafkaClient``), before it is started."""
    update: Callable[..., Awaitable[bool]] = client._metadata_update
    own = Pace()

    async def paced(*args: Any) -> bool:
        await asyncio.sleep(own.wait_s())
        good = await update(*args)
        own.ended(good=good)
        return good

    client._metadata_update = paced

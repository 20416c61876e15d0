"""The sink that sends what is found about GPUs on to ``node-parts``, keyed by node."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from contract.codec import encode
from contract.log import ConsumerRecord
from contract.records.parts import NodePart
from sinks.node_news import TOPICS, NodeNews
from sinks.offsets import PendingOffsets

Send = Callable[[str, bytes, int], Awaitable[object]]
"""Send a part (key, payload, timestamp), and return when the broker has it."""
SHARE = 3
"""So often an interval of the annotations: what is found in between is one part for each GPU."""
_AT_ONCE = 500
_DRAIN_S = 5.0


class NodeNewsSink:
    """Holds what was found until the broker has it, keyed by node."""

    name = "nodes"
    topics: tuple[str, ...] = TOPICS

    def __init__(self, send: Send, interval_s: float, fail: Callable[[str], None]) -> None:
        self._send = send
        self._pause_s = interval_s / SHARE
        self._fail = fail
        self._news = NodeNews()
        self._flying = PendingOffsets()
        self._generation = 0
        self._sending = asyncio.Lock()

    def wants(self, origin: ConsumerRecord) -> bool:
        """What is about a GPU."""
        return origin.value is not None and (origin.key or "").startswith("gpu/")

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        """Note what the record says."""
        self._news.take(record, origin.topic_partition, origin.offset)

    async def room(self) -> None:
        """There always is: one small part for each GPU, however long the broker is away."""

    def pending_offsets(self) -> PendingOffsets:
        """The records whose parts the broker has not acknowledged."""
        every = PendingOffsets()
        every.merge(self._news.held)
        every.merge(self._flying)
        return every

    def forget(self) -> None:
        """Hold nothing any more."""
        self._generation += 1
        self._news.clear()
        self._flying = PendingOffsets()

    async def run(self) -> None:
        """Send what there is, three times an interval, until cancelled."""
        while True:
            await asyncio.sleep(self._pause_s)
            await self._send_all()

    async def drain(self) -> None:
        """Send what there is; if that takes over 5 s, whoever reads next sends it."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._send_all()
        except TimeoutError:
            return

    async def close(self) -> None:
        """Nothing: the producer is the worker's own."""

    async def _send_all(self) -> None:
        async with self._sending:
            generation = self._generation
            parts, self._flying = self._news.cut()
            try:
                for begin in range(0, len(parts), _AT_ONCE):
                    await asyncio.gather(*map(self._post, parts[begin : begin + _AT_ONCE]))
            except Exception as error:  # noqa: BLE001 - whatever it was, the part did not arrive
                self._fail(f"sending to node-parts: {error!r}")
                await asyncio.Event().wait()  # the worker ends, and the records stay unacknowledged
            if generation == self._generation:
                self._flying = PendingOffsets()

    async def _post(self, part: NodePart) -> None:
        await self._send(part.node, encode(part), part.ts_ms)

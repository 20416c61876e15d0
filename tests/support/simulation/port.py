"""A process' port on the broker in memory: what it sends is on its wires, and takes its time."""

import asyncio
from collections.abc import Callable

from dutycycle.contract.log import TopicPartition
from tests.support.fakes.broker import Broker
from tests.support.simulation.process import Process, SendFailedError, Wire, delay_s
from tests.support.streams.port import BrokerPort


class SimulatedPort(BrokerPort):
    """Implements ``StreamsPort`` for one process."""

    def __init__(self, broker: Broker, process: Process) -> None:
        super().__init__(broker)
        self._process = process
        self._wires: dict[TopicPartition, Wire] = {}
        self.places: list[TopicPartition] = []
        """Stage and partition of what it was assigned."""
        self.done: dict[TopicPartition, int] = {}
        """What may be committed, and is not yet."""
        self.mine: dict[TopicPartition, int] = {}
        """What it has committed in this assignment."""
        self.failure = asyncio.Event()
        self.reason = ""

    def now(self) -> float:
        return self._process.now()

    def _assigned(self, stage: str) -> set[int]:
        return {number for name, number in self.places if name == stage}

    async def _send(
        self, kind: str, topic: str, partition: int, land: Callable[[], object]
    ) -> "asyncio.Future[object]":
        # Now and then the line is full; now and then nothing leaves at all.
        dice = self._process.dice
        if dice.random() < 0.05:
            await self._process.pause(delay_s(dice))
        await self._process.awake()
        if self._process.sends_fail and dice.random() < 0.3:
            self._process.sends_fail -= 1
            raise SendFailedError("did not leave")
        if kind != "output":
            self._process.storing.set()
        place = TopicPartition(topic, partition)
        if place not in self._wires:
            self._wires[place] = Wire(self._process)
        return self._wires[place].send(land)

    async def is_sole_writer(self, stage: str) -> bool | None:
        await self._process.pause(delay_s(self._process.dice))
        return await super().is_sole_writer(stage)

    def committed(self, source: TopicPartition) -> int:
        """What this process has committed itself counts at once."""
        return max(self.begins.get(source) or 0, self.mine.get(source, 0))

    async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
        await self._process.pause(delay_s(self._process.dice))
        return await super().first_offset(source, offset)

    def acknowledge(self, source: TopicPartition, offset: int) -> None:
        self.done[source] = offset + 1

    def may_write(self) -> bool:
        return not self._process.stalled and self.member

    def fail(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.failure.set()

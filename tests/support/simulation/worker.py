"""A worker: the real coordinator and the real hand-over, in a process that the simulation owns."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any, Protocol
from unittest.mock import AsyncMock

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.telemetry.events import Telemetry
from streams.operators.base import Stage
from streams.runtime.checkpoint import CheckpointCoordinator
from streams.runtime.stage_task import StageTask
from tests.support.fakes.broker import Broker
from tests.support.simulation.port import SimulatedPort
from tests.support.simulation.process import Process, delay_s
from tests.support.simulation.trace import Trace
from tests.support.simulation.virtual import Nursery
from tests.support.streams.port import streams_app

OFFSETS_EVERY_S = 1.0
AT_ONCE = 1
"""A commit takes a checkpoint of each partition by itself; at a hand-over there is one of all."""
WAITING_BYTES = 200
"""Two or three states: those of a checkpoint are stored in several goes."""
LOOK_S = 5.0
Seen = Callable[["Worker", StageTask, ConsumerRecord], None]
"""Called after each record that a task was given."""

BATCHES = (1, 1, 2, 8)
"""How many records a fetch brings of a partition, at most."""


class Group(Protocol):
    """What a worker needs of its consumer group."""

    def fenced(self, worker: "Worker", generation: int) -> bool:
        """Whether the group takes nothing from it: that is not the present generation, or it is no member."""
        ...

    def joins(self, worker: "Worker") -> None:
        """It is a member from now on."""
        ...

    def leaves(self, worker: "Worker") -> None:
        """It says that it goes."""
        ...


class Worker:
    """From its start to its end. ``interval_s`` is the time between two commits."""

    def __init__(
        self, name: str, broker: Broker, stages: Iterable[Stage], group: Group, nursery: Nursery,
        dice: Random, *, interval_s: float, seen: Seen, trace: Trace,
    ) -> None:  # fmt: skip
        self.process = Process(name, nursery, dice)
        self.port = SimulatedPort(broker, self.process)
        self.telemetry = Telemetry("simulation", quiet_s=float("inf"), clock=nursery.loop.time)
        self.tasks = [StageTask(stage, self.port, self.telemetry, DEFAULT_PREFIX) for stage in stages]
        self.coordinator = CheckpointCoordinator(
            self.port, self.tasks, self.telemetry, waiting_bytes=WAITING_BYTES
        )
        self.generation = -1
        self.repeats = self.skips = 0
        self.ended = False
        self._broker, self._group, self._seen = broker, group, seen
        self._interval_s = interval_s
        self._trace = trace
        self._positions: dict[TopicPartition, int] = {}
        self._reading = False
        self._committing = asyncio.Lock()
        self._news = {task.stage.source: asyncio.Event() for task in self.tasks}
        self._recovering: asyncio.Task[None] | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.streams = streams_app(self._app(), self.coordinator, self.port)
        broker.listeners.append(self._hears)

    def _app(self) -> Any:
        """As much of a Faust app as the hand-over uses."""
        return SimpleNamespace(
            exact_consumer=SimpleNamespace(commit_all=self.commit_offsets, pause_changelogs=AsyncMock()),
            consumer=SimpleNamespace(assignment=set),
            flow_control=SimpleNamespace(suspend=lambda: None),
            replaced=lambda: None if self.port.may_write() else "was replaced with records to send",
            fail=self.port.fail,
        )

    @property
    def name(self) -> str:
        """For the trace."""
        return self.process.name

    @property
    def alive(self) -> bool:
        """Whether the process is there, standing still or not."""
        return not self.process.dead

    def start(self) -> None:
        """Begin to work: join, read what is assigned, commit every so often."""
        works = [self._read(task) for task in self.tasks]
        commit = partial(self.coordinator.commit_gradually, AT_ONCE, self._interval_s / 2)
        works += [self._every(self._interval_s / 2, commit)]
        works += [self._every(self._interval_s / 3, self.coordinator.flush)]
        works += [self._every(LOOK_S, self.coordinator.verify_ownership)]
        works += [self._every(OFFSETS_EVERY_S, self.commit_offsets), self._ends_when_failed()]
        self._tasks = [self.process.nursery.spawn(work) for work in works]
        self._group.joins(self)

    def _hears(self, source: str) -> None:
        if (news := self._news.get(source)) is not None:
            news.set()

    async def _read(self, task: StageTask) -> None:
        """What Faust's agent does: one fetch after the other, of all partitions, each of some records."""
        news = self._news[task.stage.source]
        while True:
            await self.process.awake()
            batch, generation = self._fetched(task.stage.source), self.generation
            if not batch:
                news.clear()
                await news.wait()
                continue
            if self.process.dice.random() < (0.5 if self.repeats else 0.1):
                await self.process.pause(delay_s(self.process.dice))
                if not self._reading or self.generation != generation:
                    continue  # the queues are emptied at a revocation
            for record in batch:
                self._trace.say(
                    self.name, f"takes {record.topic}-{record.partition} {record.offset} ({record.key})"
                )
            await self.coordinator.process(task, batch)
            for record in batch:
                self._seen(self, task, record)

    def _fetched(self, source: str) -> list[ConsumerRecord]:
        if not self._reading:
            return []
        mine = [place for place in self._positions if place[0] == source]
        self.process.dice.shuffle(mine)
        for place in mine:
            batch: list[ConsumerRecord] = []
            for _ in range(self.process.dice.choice(BATCHES)):
                found = self._broker.logs[place].next_from(self._positions[place])
                if found is None:
                    break
                batch.append(self._delivered(place, found))
            if batch:
                return batch
        return []

    def _delivered(self, place: TopicPartition, found: ConsumerRecord) -> ConsumerRecord:
        """``found``, or what Faust would deliver on a bad day."""
        self._positions[place] = found.offset + 1
        if self.repeats:
            self.repeats -= 1
            self._positions[place] = max(0, found.offset - self.process.dice.randint(0, 5))
        if self.skips:
            self.skips -= 1
            return self._broker.logs[place].next_from(found.offset + 1) or found
        return found

    async def _every(self, seconds: float, act: Callable[[], Coroutine[Any, Any, object]]) -> None:
        while True:
            await self.process.pause(seconds)
            await act()

    async def _ends_when_failed(self) -> None:
        await self.port.failure.wait()
        self._trace.say(self.name, f"ends: {self.port.reason}")
        self._group.leaves(self)
        self.end()

    async def commit_offsets(self) -> None:
        """Tell the group what is done, as far as it listens; one request at a time."""
        async with self._committing:
            done, generation = dict(self.port.done), self.generation
            await self.process.pause(delay_s(self.process.dice))
            if done and not self._group.fenced(self, generation):
                for place, offset in done.items():
                    if self._broker.committed.get(place) != offset:
                        self._trace.say(self.name, f"commits {place[0]}-{place[1]} to {offset}")
                    self._broker.commit(place, offset)
                    self.port.mine[place] = offset

    async def revoke(self) -> None:
        """Hand in what was assigned."""
        await self.process.awake()
        self._reading = False
        if self._recovering is not None:
            self._recovering.cancel()
        await self.streams.hand_over()

    def assign(self, places: list[TopicPartition], generation: int) -> None:
        """The group's decision: recover the states, then read."""
        self.port.places, self.generation = places, generation
        self.port.done.clear()
        self.port.member = True
        self._recovering = self.process.nursery.spawn(self._recover())

    async def _recover(self) -> None:
        places = self.port.places
        for place in places:
            await self.process.pause(delay_s(self.process.dice))
            self._broker.changelogs[place].recover(place.partition, self.port.table(place.topic))
        await self.process.awake()
        await self.streams.begin_again()
        sources = {task.stage.name: task.stage.source for task in self.tasks}
        mine = [TopicPartition(sources[stage], partition) for stage, partition in places]
        self.port.mine.clear()
        self.port.begins = {place: self._broker.committed.get(place) for place in mine}
        self._positions = {place: self.port.begins[place] or 0 for place in mine}
        self._reading = True
        for news in self._news.values():
            news.set()

    async def stop(self) -> None:
        """SIGTERM: hand in, leave, end."""
        await self.process.awake()
        self._reading = False
        await self.coordinator.commit()
        await self.commit_offsets()
        self._group.leaves(self)
        self.end()

    def end(self) -> None:
        """The process is gone."""
        if self.ended:
            return
        self.ended = True
        if not self.process.dead:
            self.process.die()
        self._broker.listeners.remove(self._hears)
        for task in (*self._tasks, self._recovering):
            if task is not None:
                task.cancel()

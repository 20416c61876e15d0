"""The consumer group: who is a member, and who owns what. Eager: all hand in, then all is dealt anew."""

import asyncio
from random import Random

from dutycycle.contract.log import TopicPartition
from tests.support.fakes.broker import Broker
from tests.support.simulation.process import SESSION_S, Process
from tests.support.simulation.trace import Trace
from tests.support.simulation.virtual import Nursery
from tests.support.simulation.worker import Worker

HAND_IN_S = 10.0
"""How long the others wait for one that does not hand in."""
_LOOK_S = 0.2


class Coordinator:
    """Deals partitions to members, and counts generations."""

    def __init__(self, broker: Broker, nursery: Nursery, dice: Random, trace: Trace) -> None:
        self._broker = broker
        self._nursery = nursery
        self._dice = dice
        self._trace = trace
        self._changed = asyncio.Event()
        self._generation = 0
        self.members: list[Worker] = []
        nursery.spawn(self._deal())

    def fenced(self, worker: Worker, generation: int) -> bool:
        """See ``Group``: also while it cannot be reached."""
        deaf = worker.process.now() < worker.process.deaf_until
        return deaf or worker not in self.members or generation != self._generation

    def joins(self, worker: Worker) -> None:
        """See ``Group``."""
        if worker.alive and worker not in self.members:
            self.members.append(worker)
            self._changed.set()

    def leaves(self, worker: Worker) -> None:
        """See ``Group``."""
        if worker in self.members:
            self.members.remove(worker)
            self._changed.set()

    def silent(self, worker: Worker) -> None:
        """Nothing is heard of it from now on; after the session's time it counts as gone.

        A later silence has a time of its own: what was heard in between begins the session anew.
        """
        loop, process = self._nursery.loop, worker.process
        until = max(process.still_until, process.deaf_until)
        loop.call_later(SESSION_S, self._nursery.guard(lambda: self._expire(worker, until)))

    def _expire(self, worker: Worker, until: float) -> None:
        if worker in self.members and (worker.process.dead or worker.process.now() < until):
            self._trace.say("group", f"gives up on {worker.name}")
            self._expel(worker)

    def _expel(self, worker: Worker) -> None:
        self.leaves(worker)
        self._nursery.spawn(self._returns(worker))

    async def _returns(self, worker: Worker) -> None:
        """It learns what it missed from the answer to a heartbeat, and joins again."""
        while not self._reachable(worker.process):
            if worker.process.dead:
                return
            await asyncio.sleep(_LOOK_S)
        await worker.process.pause(self._dice.uniform(0, SESSION_S / 5))
        worker.port.member = False
        await worker.revoke()
        self.joins(worker)

    @staticmethod
    def _reachable(process: Process) -> bool:
        now = process.now()
        return not process.dead and now >= process.still_until and now >= process.deaf_until

    async def _deal(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await asyncio.gather(*map(self._hands_in, list(self.members)))
            if self._changed.is_set():
                continue  # it goes on with whoever came or went meanwhile
            self._generation += 1
            hands: dict[Worker, list[TopicPartition]] = {worker: [] for worker in self.members}
            for place in self._places():
                if self.members:
                    hands[self._dice.choice(self.members)].append(place)
            for worker, places in hands.items():
                dealt = " ".join(f"{stage}-{number}" for stage, number in places)
                self._trace.say(
                    "group", f"generation {self._generation}: {worker.name} gets {dealt or 'nothing'}"
                )
                worker.assign(places, self._generation)

    def _places(self) -> list[TopicPartition]:
        names = [stage.name for stage in self._broker.sources.values()]
        return [TopicPartition(name, number) for name in names for number in range(self._broker.partitions)]

    async def _hands_in(self, worker: Worker) -> None:
        while worker in self.members and not self._reachable(worker.process):  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(_LOOK_S)
        if worker not in self.members:
            return
        handing_in = self._nursery.spawn(worker.revoke())
        await asyncio.wait([handing_in], timeout=HAND_IN_S)
        if not worker.alive:
            self.leaves(worker)
        elif not handing_in.done():
            handing_in.cancel()
            self._expel(worker)

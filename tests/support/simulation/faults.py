"""What befalls the workers: a schedule of faults, and a supervisor that replaces each that ends."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.support.fakes.broker import Broker
from tests.support.simulation.group import Coordinator
from tests.support.simulation.plan import WORKER_FAULTS, Plan
from tests.support.simulation.process import SESSION_S, STALL_S
from tests.support.simulation.trace import Trace
from tests.support.simulation.virtual import Nursery
from tests.support.simulation.worker import Worker

_MOST = {
    "kill": 4, "pause": 3, "deaf": 2, "ghost": 3, "stop": 2, "join": 2, "send": 3, "repeat": 4, "skip": 2,
    "compact": 4,
}  # fmt: skip
LAG_S, RETENTION_S = 30.0, 90.0
"""Compaction leaves alone what is younger, and tombstones that are, where workers come too late."""
_MIDST_S = 4.0
_ABRUPT = ("kill", "pause", "deaf", "ghost", "send")


class Field:
    """All workers of a run. ``begin`` makes one that has not started."""

    def __init__(
        self, plan: Plan, broker: Broker, group: Coordinator, nursery: Nursery, trace: Trace,
        begin: Callable[[str], Worker],
    ) -> None:  # fmt: skip
        self._plan, self._broker, self._group = plan, broker, group
        self._nursery, self._trace, self._begin = nursery, trace, begin
        self.workers: list[Worker] = []
        self.wanted = plan.workers

    async def supervise(self) -> None:
        """Keep as many as are wanted, for ever."""
        dice = self._plan.chance("supervisor")
        while True:
            alive = [worker for worker in self.workers if worker.alive]
            for _ in range(self.wanted - len(alive)):
                worker = self._begin(f"w{len(self.workers)}")
                self.workers.append(worker)
                self._trace.say(worker.name, "starts")
                worker.start()
            await asyncio.sleep(dice.uniform(0.3, 1.5))

    async def disturb(self, seconds: float) -> None:
        """Everything that goes wrong within so many seconds."""
        moments: list[tuple[float, int, str, Random]] = []
        for kind in WORKER_FAULTS:
            if kind in _MOST and self._plan.has(kind):
                dice = self._plan.chance(kind)
                many = dice.randint(1, _MOST[kind])
                moments += [(dice.uniform(0.2, seconds), n, kind, dice) for n in range(many)]
        began = self._nursery.loop.time()
        for moment, _, kind, dice in sorted(moments, key=lambda one: one[:3]):
            await asyncio.sleep(max(0.0, began + moment - self._nursery.loop.time()))
            alive = [worker for worker in self.workers if worker.alive]
            if kind == "compact":
                now_s = self._nursery.loop.time()
                lag_s, retention_s = (LAG_S, RETENTION_S) if self._plan.has_zombies() else (0.0, 0.0)
                for (stage, number), changelog in sorted(self._broker.changelogs.items()):
                    upto = dice.randint(0, max(0, changelog.closed(now_s - lag_s)))
                    purge_until_s = now_s - retention_s if dice.random() < 0.5 else -1.0
                    gone = changelog.compact(upto, purge_until_s=purge_until_s)
                    self._trace.say("broker", f"compaction of {stage}-{number}: {gone} gone")
            elif alive:
                worker = dice.choice(alive)
                self._nursery.spawn(self._befalls(worker, kind, dice))

    async def _befalls(self, worker: Worker, kind: str, dice: Random) -> None:
        if kind in _ABRUPT and dice.random() < 0.7:
            # Wait, not for ever, until it has some states on the wire: that is where it hurts.
            storing = worker.process.storing
            with suppress(TimeoutError):
                async with asyncio.timeout(_MIDST_S):
                    for _ in range(dice.randint(1, 5)):
                        storing.clear()
                        await storing.wait()
        if worker.alive:
            self._trace.say(worker.name, f"fault: {kind}")
            getattr(self, f"_{kind}")(worker, dice)

    def compact_all(self) -> None:
        """Much later: everything is compacted that can be, but no tombstone is purged."""
        for changelog in self._broker.changelogs.values():
            changelog.compact(changelog.closed(float("inf")), purge_until_s=-1.0)

    def _kill(self, worker: Worker, _dice: Random) -> None:
        worker.end()
        self._group.silent(worker)

    def _ghost(self, worker: Worker, dice: Random) -> None:
        worker.process.leave_behind(dice.uniform(1.2, 3.0) * SESSION_S)
        worker.end()
        self._group.silent(worker)

    def _pause(self, worker: Worker, dice: Random) -> None:
        seconds = dice.choice((dice.uniform(0.1, STALL_S), dice.uniform(SESSION_S, 2 * SESSION_S)))
        worker.process.stand_still(seconds)
        self._group.silent(worker)
        if seconds > STALL_S:
            worker.process.stalled = True
            self._later(seconds + dice.uniform(0, 1), worker.end)
            self._later(seconds + 1.1, lambda: self._group.silent(worker))

    def _deaf(self, worker: Worker, dice: Random) -> None:
        seconds = dice.uniform(0.5, 2.5) * SESSION_S
        worker.process.deaf_until = self._nursery.loop.time() + seconds
        self._group.silent(worker)

    def _stop(self, worker: Worker, _dice: Random) -> None:
        self._nursery.spawn(worker.stop())

    def _join(self, _worker: Worker, dice: Random) -> None:
        self.wanted = max(1, self.wanted + dice.choice((-1, 1)))
        if self.wanted < sum(worker.alive for worker in self.workers):
            self._nursery.spawn(dice.choice([one for one in self.workers if one.alive]).stop())

    def _send(self, worker: Worker, dice: Random) -> None:
        worker.process.sends_fail += dice.randint(1, 2)

    def _repeat(self, worker: Worker, dice: Random) -> None:
        worker.repeats += dice.randint(1, 3)

    def _skip(self, worker: Worker, dice: Random) -> None:
        worker.skips += 1

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        self._nursery.loop.call_later(seconds, self._nursery.guard(act))

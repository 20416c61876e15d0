"""A worker's process as the outside sees it: alive, still, cut off, dead; with what is on its wires."""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.support.simulation.virtual import Nursery

QUICK_S, SLOW_S = 0.002, 0.4
"""How long a record takes to the broker: mostly the one, now and then up to the other."""
SESSION_S = 6.0
STALL_S = 0.6 * SESSION_S


class SendFailedError(OSError):
    """The broker did not take a record, or its answer was lost."""


def delay_s(dice: Random) -> float:
    """How long something takes on the network."""
    return dice.uniform(0, SLOW_S) if dice.random() < 0.1 else dice.uniform(0, QUICK_S)


@dataclass(slots=True)
class Process:
    """What happens to a process while its code knows nothing of it."""

    name: str
    nursery: Nursery
    dice: Random
    dead: bool = False
    lands_until: float = float("inf")
    """Records on the wire arrive up to this moment: some of a dead process's still do."""
    still_until: float = 0.0
    """It stands still up to this moment: nothing of it runs."""
    deaf_until: float = 0.0
    """Up to this moment it reaches the brokers, but not the one that coordinates its group."""
    returns_at: float | None = None
    """What was on the wire of a dead process arrives from this moment on, when others have taken over."""
    stalled: bool = False
    """It stood still for so long that others may own its partitions: it has to end."""
    sends_fail: int = 0
    """So many of the next sends fail."""

    storing: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever it puts a record of a changelog in line."""

    def now(self) -> float:
        """Virtual seconds."""
        return self.nursery.loop.time()

    async def awake(self) -> None:
        """Return when the process runs; never, once it is dead."""
        while not self.dead and self.now() < self.still_until:  # noqa: ASYNC110 - it may be prolonged
            await asyncio.sleep(self.still_until - self.now())
        if self.dead:
            await asyncio.Event().wait()

    async def pause(self, seconds: float) -> None:
        """Wait as a process does that may be stopped meanwhile."""
        await asyncio.sleep(seconds)
        await self.awake()

    def die(self) -> None:
        """Kill: what is on the wire may still arrive."""
        self.dead = True
        self.lands_until = self.now() + self.dice.choice((0.0, self.dice.uniform(0, SLOW_S)))

    def leave_behind(self, seconds: float) -> None:
        """Kill: what is on the wire arrives so much later."""
        self.dead = True
        self.lands_until, self.returns_at = self.now(), self.now() + seconds

    def stand_still(self, seconds: float) -> None:
        """Stop the process: what it has in its own buffers is sent when it runs again."""
        self.lands_until = self.now() + self.dice.choice((0.0, self.dice.uniform(0, SLOW_S)))
        self.still_until = self.now() + seconds


@dataclass(slots=True)
class Wire:
    """What one process sends to one partition: it arrives in order, and is answered later."""

    process: Process
    _line: deque[tuple[Callable[[], object], "asyncio.Future[object]"]] = field(default_factory=deque)
    _broken: bool = False

    def send(self, land: Callable[[], object]) -> "asyncio.Future[object]":
        """Put a record in line; the future is its acknowledgement, with what ``land`` returned."""
        answer: asyncio.Future[object] = self.process.nursery.loop.create_future()
        self._line.append((land, answer))
        if len(self._line) == 1:
            self._next()
        return answer

    def _next(self) -> None:
        loop, guard = self.process.nursery.loop, self.process.nursery.guard
        loop.call_later(delay_s(self.process.dice), guard(self._arrive))

    def _arrive(self) -> None:
        mine = self.process
        if mine.now() > mine.lands_until:
            until = mine.returns_at if mine.dead else mine.still_until
            if until is None:
                self._line.clear()
                return
            if mine.now() < until:
                mine.nursery.loop.call_at(until + delay_s(mine.dice), mine.nursery.guard(self._arrive))
                return
        for _ in range(mine.dice.randint(1, len(self._line))):  # a batch
            self._land(*self._line.popleft())
        if self._line:
            self._next()

    def _land(self, land: Callable[[], object], answer: "asyncio.Future[object]") -> None:
        mine = self.process
        failed = self._broken
        if mine.sends_fail and not failed:
            mine.sends_fail -= 1
            failed = True
            self._broken = mine.dice.random() < 0.7  # the others arrive, but the answer was lost
        lies_at = land() if not failed or not self._broken else None
        mine.nursery.spawn(self._answer(answer, lies_at, failed=failed))

    async def _answer(self, answer: "asyncio.Future[object]", lies_at: object, *, failed: bool) -> None:
        await self.process.pause(delay_s(self.process.dice))
        if answer.done():
            return  # whoever waited for it was cancelled
        if failed:
            answer.set_exception(SendFailedError("not acknowledged"))
            answer.exception()  # whoever has stopped waiting does not have to ask
        else:
            answer.set_result(lies_at)

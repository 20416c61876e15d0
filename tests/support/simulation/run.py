"""One run of the simulation, from its plan to its verdict."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tests.support.fakes.broker import Broker
from tests.support.simulation import real, toy
from tests.support.simulation.faults import Field
from tests.support.simulation.feed import Sent
from tests.support.simulation.group import Coordinator
from tests.support.simulation.judge import Judge
from tests.support.simulation.plan import Plan
from tests.support.simulation.profile import Profile
from tests.support.simulation.trace import Trace
from tests.support.simulation.virtual import Nursery, StuckError, run
from tests.support.simulation.worker import Worker

_PATIENCE_S = 120.0
"""Virtual time after the last input and the last fault, within which everything has to be done."""
_CALM_S = 30.0
"""Virtual time without faults: the last zombie is gone, and what it wrote has been noticed and put right."""
_HOLE = 0.05
_STRIDES = 6
"""Of a clock, far fewer than the real ones: so that keys become idle in runs of a few hundred records."""
_LOG = logging.getLogger("dutycycle.simulation")
_PROFILES = {"toy": toy.profile, "real": real.profile}


@dataclass(slots=True)
class Outcome:
    """``failure`` None: everything held. ``checked`` counts what was looked at, and the lives of workers."""

    plan: Plan
    failure: str | None = None
    checked: Counter[str] = field(default_factory=Counter)
    lines: list[str] = field(default_factory=list)


def simulate(plan: Plan, *, keep_trace: bool = False) -> Outcome:
    """Run ``plan``: the same plan, the same run, step by step."""
    trace, outcome = Trace(keep=keep_trace), Outcome(plan)
    profile = _small(_PROFILES[plan.kind](plan), large=plan.has("large"))
    with _quiet():
        try:
            run(lambda nursery: _Run(plan, profile, nursery, trace, outcome).whole())
        except StuckError:
            outcome.failure = "everything waits for ever"
        except Exception as error:  # noqa: BLE001 - whatever it was, this seed has failed
            outcome.failure = f"{type(error).__name__}: {error}"
    outcome.lines = trace.lines
    return outcome


def _small(profile: Profile, *, large: bool) -> Profile:
    """Clocks run; with ``large``, states are stored in pieces far below the real bound."""
    return replace(profile, stages=[
        replace(one, strides=_STRIDES, piece_bytes=profile.piece_bytes if large else one.piece_bytes)
        for one in profile.stages
    ])  # fmt: skip


class _Run:
    def __init__(
        self, plan: Plan, profile: Profile, nursery: Nursery, trace: Trace, outcome: Outcome
    ) -> None:
        trace.now = nursery.loop.time
        self._plan, self._profile, self._nursery, self._trace = plan, profile, nursery, trace
        self._outcome = outcome
        self._broker = Broker(profile.stages, plan.partitions)
        self._judge = Judge(self._broker, profile)
        outcome.checked = self._judge.checked
        self._group = Coordinator(self._broker, nursery, plan.chance("group"), trace)
        self._field = Field(plan, self._broker, self._group, nursery, trace, self._worker)
        self._interval_s = plan.chance("interval").uniform(0.2, 3.0)

    def _worker(self, name: str) -> Worker:
        return Worker(
            name, self._broker, self._profile.stages, self._group, self._nursery,
            self._plan.chance(f"worker {name}"), interval_s=self._interval_s,
            seen=self._judge.seen, trace=self._trace,
        )  # fmt: skip

    async def whole(self) -> None:
        """Feed, disturb, wait for the end, judge."""
        sent = self._profile.feed(self._plan)
        self._nursery.spawn(self._field.supervise())
        seconds = max(sent[-1].at_s if sent else 0.0, 15.0)
        disturbing = self._nursery.spawn(self._field.disturb(seconds))
        await self._append(sent)
        await disturbing
        deadline = self._nursery.loop.time() + _PATIENCE_S
        while not self._broker.drained():
            assert self._nursery.loop.time() < deadline, f"not done after {_PATIENCE_S:g} s of quiet"
            await asyncio.sleep(0.5)
        zombies = self._plan.has_zombies()
        if zombies:
            await asyncio.sleep(_CALM_S)  # whoever noticed that others wrote has put it right by then
            self._field.compact_all()
        self._judge.checked["lives"] += len(self._field.workers)
        self._judge.final(self._field.workers, sent, zombies=zombies)

    async def _append(self, sent: list[Sent]) -> None:
        dice, holes = self._plan.chance("hole"), self._plan.has("hole")
        loop = self._nursery.loop
        for one in sent:
            if one.at_s > loop.time():
                await asyncio.sleep(one.at_s - loop.time())
            if holes and dice.random() < _HOLE:
                self._broker.leave_hole(one.topic, one.key, dice.randint(1, 3))
            self._trace.say("feed", f"{one.topic} {one.key}: {(one.value or b'')[:60]!r}")
            self._broker.append(one.topic, one.key, one.value, one.ts_ms)


@contextmanager
def _quiet() -> Iterator[None]:
    """Nothing is logged: a run's events are in its trace."""
    before, _LOG.disabled = _LOG.disabled, True
    try:
        yield
    finally:
        _LOG.disabled = before

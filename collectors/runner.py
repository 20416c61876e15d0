"""The collector loop: one tick for all collectors at a time, whatever becomes of each."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from typing import Protocol

from collectors.base import Collector, Outgoing, Tick
from collectors.clock import Clock, RealClock
from collectors.metrics import Figures
from collectors.schedule import Schedule
from collectors.worker import Answer, Outcome, Worker
from telemetry.events import COLLECTOR_FAILED, TICK_LATE, Telemetry

_LEAST_BOUND_S = 5.0
_CLOSE_S = 2.0


class Asked(Protocol):
    """What the runner needs of a ``Worker``."""

    name: str
    asked: Tick | None

    def ask(self, tick: Tick) -> None: ...

    async def close(self, most_s: float) -> Exception | None: ...


class Runner:
    """Asks every collector at each tick, and hands what they answer to ``publish``.

    A collector that is still busy is not asked; after ``bound_s`` (the default is two intervals, at least
    5 s) it counts as failed, and what it answers later is left out: its moment has passed.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        publish: Callable[[Sequence[Outgoing]], None],
        telemetry: Telemetry,
        *,
        node: str,
        interval_s: float,
        bound_s: float | None = None,
        clock: Clock | None = None,
        worker: Callable[[Collector, Answer], Asked] = Worker,
    ) -> None:
        self._publish = publish
        self._telemetry = telemetry
        self._node = node
        self._interval_s = interval_s
        self._bound_s = bound_s or max(2 * interval_s, _LEAST_BOUND_S)
        self._clock = clock or RealClock()
        self._workers = [worker(one, self._answered) for one in collectors]
        self.figures = Figures(telemetry, interval_s, self._clock.monotonic_s)
        for one in collectors:
            self.figures.expect(one.name)
        self._collector = uuid.uuid4().hex
        self._seq = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until ``stop`` is set, then let every collector finish and close, for seconds at most."""
        schedule = Schedule(self._interval_s, self._clock.monotonic_s())
        while True:
            await self._clock.sleep_until(schedule.due_s, stop)
            if stop.is_set():
                break
            if left_out := schedule.begin(self._clock.monotonic_s()):
                self._telemetry.emit(TICK_LATE, f"{left_out} left out", count=left_out)
            self._tick()
        errors = await asyncio.gather(*(worker.close(_CLOSE_S) for worker in self._workers))
        for worker, error in zip(self._workers, errors, strict=True):
            if error is not None:
                self._telemetry.emit(COLLECTOR_FAILED, _say(error), collector=worker.name, reason="closing")

    def _tick(self) -> None:
        tick = Tick(
            node=self._node, collector=self._collector, seq=self._seq, ts_ms=self._clock.wall_ms(),
            interval_ms=round(self._interval_s * 1000), monotonic_s=self._clock.monotonic_s(),
        )  # fmt: skip
        self._seq += 1
        self.figures.ticked()
        for worker in self._workers:
            if worker.asked is None:
                worker.ask(tick)
            elif not self._in_time(worker.asked):
                self._failed(worker, "no_answer", f"no answer for {self._bound_s:g} s; the others go on")
            else:
                detail = "busy with the tick before: this one is left out"
                self._telemetry.emit(COLLECTOR_FAILED, detail, collector=worker.name, reason="slow")

    def _answered(self, worker: Asked, tick: Tick, outcome: Outcome) -> None:
        if isinstance(outcome, Exception):
            self._failed(worker, "error", _say(outcome))
        elif self._in_time(tick):
            self.figures.measured(worker.name, tick)
            self._telemetry.clear_condition(COLLECTOR_FAILED, worker.name, "measures again")
            self._publish(outcome)

    def _failed(self, worker: Asked, reason: str, detail: str) -> None:
        self.figures.failed(worker.name)
        self._telemetry.raise_condition(
            COLLECTOR_FAILED, worker.name, detail, collector=worker.name, reason=reason
        )

    def _in_time(self, tick: Tick) -> bool:
        return self._clock.monotonic_s() - tick.monotonic_s <= self._bound_s


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]

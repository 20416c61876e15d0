"""Runs the collector loop: one tick for all collectors, each in a thread of its own."""

import asyncio
import queue
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from collectors.base import Collector, Tick
from collectors.metrics import CollectorMetrics
from dutycycle.contract.log import ProducerRecord
from dutycycle.telemetry.events import COLLECTOR_FAILED, TICK_LATE, Telemetry

_LEAST_BOUND_S = 5.0
_CLOSE_S = 2.0
TURN_S = 0.05
"""Collectors measure a tick one after the other, in their order: side by side, each waits for the interpreter
at each of hundreds of small reads, which costs a fifth more CPU time. One that takes longer than this is not
waited for."""
_Outcome = Sequence[ProducerRecord] | Exception
_Answer = Callable[[Any, Tick, _Outcome], None]


class MachineClock:
    """Reads this machine's clocks; tests bring their own."""

    def monotonic_s(self) -> float:
        """Return seconds that never step back."""
        return time.monotonic()

    def wall_ms(self) -> int:
        """Return Unix milliseconds; may step when the clock is set."""
        return time.time_ns() // 1_000_000

    async def sleep_until(self, due_s: float, stop: asyncio.Event) -> None:
        """Return when ``monotonic_s`` has reached ``due_s``, or at once when ``stop`` is set."""
        while (left_s := due_s - self.monotonic_s()) > 0 and not stop.is_set():
            try:
                async with asyncio.timeout(left_s):
                    await stop.wait()
            except TimeoutError:
                continue


class TickSchedule:
    """Plans ticks at ``start_s``, ``start_s + interval_s``, … of the monotonic clock, however long each
    takes.

    A tick that would begin when the one after it is due is left out, never made up for.
    """

    def __init__(self, interval_s: float, start_s: float) -> None:
        self._interval_s = interval_s
        self._start_s = start_s
        self._next = 0

    @property
    def due_s(self) -> float:
        """Return when the next tick is due. A product, not a sum: sums of a float interval would drift."""
        return self._start_s + self._next * self._interval_s

    def begin(self, now_s: float) -> int:
        """Begin a tick at ``now_s``, when it is due or later; answers how many before it are left out."""
        current = max(self._next, int((now_s - self._start_s) / self._interval_s))
        left_out = current - self._next
        self._next = current + 1
        return left_out


class _Turn(NamedTuple):
    """Says what a thread measures next, and after whom."""

    tick: Tick
    before: threading.Event | None
    measured: threading.Event


class CollectorThread:
    """Runs one collector in a thread: it holds up those behind it for ``TURN_S`` at most, and only in a tick
    that it measures.

    It measures one tick at a time, and calls ``answer`` itself. The thread is a daemon: one that
    hangs in a driver for ever does not keep the process from ending.
    """

    def __init__(self, collector: Collector, answer: _Answer) -> None:
        self.name = collector.name
        self.busy_with: Tick | None = None
        """Holds the tick that it measures now; None, set by who takes the answer, when it is idle."""
        self._collector = collector
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._ticks: queue.SimpleQueue[_Turn | None] = queue.SimpleQueue()
        self._closing_error: Exception | None = None
        self._ended = asyncio.Event()
        threading.Thread(target=self._run, name=f"collector {self.name}", daemon=True).start()

    def measure(self, tick: Tick, before: threading.Event | None = None) -> threading.Event:
        """Begin to measure once ``before`` is set, or after ``TURN_S``. Only while it is idle.

        Returns an event that is set when it has measured.
        """
        self.busy_with = tick
        turn = _Turn(tick, before, threading.Event())
        self._ticks.put(turn)
        return turn.measured

    async def close(self, most_s: float) -> Exception | None:
        """Let the collector finish its tick and close; what went wrong with that, or None."""
        self._ticks.put(None)
        try:
            async with asyncio.timeout(most_s):
                await self._ended.wait()
        except TimeoutError:
            return TimeoutError(f"did not end within {most_s:g} s, and is left behind")
        return self._closing_error

    def _run(self) -> None:
        while (turn := self._ticks.get()) is not None:
            if turn.before is not None:
                turn.before.wait(TURN_S)
            try:
                outcome: _Outcome = self._collector.collect(turn.tick)
            except Exception as error:  # noqa: BLE001 - the runner reports it, and the collector goes on
                outcome = error
            turn.measured.set()
            self._answer(self, turn.tick, outcome)
        try:
            self._collector.close()
        except Exception as error:  # noqa: BLE001 - the runner reports it
            self._closing_error = error
        _call_in(self._loop, self._ended.set)


class Runner:
    """Gives every collector each tick, and hands what they answer to ``publish``.

    A collector that is still busy is left out of a tick; after ``bound_s`` (the default is two intervals, at
    least 5 s) it counts as failed, and what it answers later is dropped: its moment has passed.
    """

    def __init__(
        self,
        collectors: Sequence[Collector],
        publish: Callable[[Sequence[ProducerRecord]], None],
        telemetry: Telemetry,
        *,
        node: str,
        interval_s: float,
        bound_s: float | None = None,
        clock: MachineClock | None = None,
        thread: Callable[[Collector, _Answer], CollectorThread] = CollectorThread,
    ) -> None:
        self._publish = publish
        self._telemetry = telemetry
        self._node = node
        self._interval_s = interval_s
        self._bound_s = bound_s or max(2 * interval_s, _LEAST_BOUND_S)
        self._clock = clock or MachineClock()
        self._threads = [thread(collector, self._answer) for collector in collectors]
        self.metrics = CollectorMetrics(telemetry, interval_s, self._clock.monotonic_s)
        for collector in collectors:
            self.metrics.expect(collector.name)
        self._collector = uuid.uuid4().hex
        self._seq = 0
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._answers: list[tuple[CollectorThread, Tick, _Outcome, float]] = []
        """With the monotonic seconds at which each came."""
        self._awaited: set[CollectorThread] = set()
        """Whose answers of the last tick are waited for, to be taken together: until ``_turn`` ends."""
        self._turn: asyncio.TimerHandle | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Tick until ``stop`` is set, then let every collector finish and close, for seconds at most."""
        schedule = TickSchedule(self._interval_s, self._clock.monotonic_s())
        while True:
            await self._clock.sleep_until(schedule.due_s, stop)
            if stop.is_set():
                break
            if left_out := schedule.begin(self._clock.monotonic_s()):
                self._telemetry.emit(TICK_LATE, f"{left_out} left out", count=left_out)
            self._tick()
        errors = await asyncio.gather(*(thread.close(_CLOSE_S) for thread in self._threads))
        self._end_turn()
        for thread, error in zip(self._threads, errors, strict=True):
            if error is not None:
                self._telemetry.emit(
                    COLLECTOR_FAILED, _in_one_line(error), collector=thread.name, reason="closing"
                )

    def _tick(self) -> None:
        tick = Tick(
            node=self._node, collector=self._collector, seq=self._seq, ts_ms=self._clock.wall_ms(),
            interval_ms=round(self._interval_s * 1000), monotonic_s=self._clock.monotonic_s(),
        )  # fmt: skip
        self._seq += 1
        self.metrics.tick_begun()
        before: threading.Event | None = None
        self._end_turn()
        with self._lock:
            self._awaited = {thread for thread in self._threads if thread.busy_with is None}
        self._turn = self._loop.call_later(TURN_S, self._end_turn)
        for thread in self._threads:
            if thread.busy_with is None:
                before = thread.measure(tick, before)
            elif not self._in_time(thread.busy_with, tick.monotonic_s):
                self._failed(thread, "no_answer", f"no answer for {self._bound_s:g} s; the others go on")
            else:
                detail = "busy with the tick before: this one is left out"
                self._telemetry.emit(COLLECTOR_FAILED, detail, collector=thread.name, reason="slow")

    def _answer(self, thread: CollectorThread, tick: Tick, outcome: _Outcome) -> None:
        # In the collector's thread. To wake the loop for each answer costs as much as to send a record.
        with self._lock:
            self._answers.append((thread, tick, outcome, self._clock.monotonic_s()))
            self._awaited.discard(thread)
            is_last = not self._awaited
        if is_last:
            _call_in(self._loop, self._take_answers)

    def _end_turn(self) -> None:
        # From now on each answer is taken when it comes.
        with self._lock:
            self._awaited.clear()
        self._take_answers()

    def _take_answers(self) -> None:
        with self._lock:
            answers, self._answers = self._answers, []
            if not self._awaited and self._turn is not None:
                self._turn.cancel()
        records: list[ProducerRecord] = []
        for thread, tick, outcome, at_s in answers:
            thread.busy_with = None
            if isinstance(outcome, Exception):
                self._failed(thread, "error", _in_one_line(outcome))
            elif self._in_time(tick, at_s):
                self.metrics.measured(thread.name, at_s - tick.monotonic_s)
                self._telemetry.clear_condition(COLLECTOR_FAILED, thread.name, "measures again")
                records += outcome
        if records:
            self._publish(records)

    def _failed(self, thread: CollectorThread, reason: str, detail: str) -> None:
        self.metrics.failed(thread.name)
        self._telemetry.raise_condition(
            COLLECTOR_FAILED, thread.name, detail, collector=thread.name, reason=reason
        )

    def _in_time(self, tick: Tick, at_s: float) -> bool:
        return at_s - tick.monotonic_s <= self._bound_s


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    # A thread that was left behind may come back after the loop has ended.
    if not loop.is_closed():
        loop.call_soon_threadsafe(call)


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]

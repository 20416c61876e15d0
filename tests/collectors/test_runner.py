"""The collector loop: no drift, late ticks left out and counted, one collector never harms another."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.base import Collector, Tick
from collectors.runner import TURN_S, CollectorThread, MachineClock, Runner, TickSchedule
from dutycycle.contract.log import ProducerRecord
from dutycycle.telemetry.events import COLLECTOR_FAILED, TICK_LATE, Telemetry
from tests.support.waiting import until


@pytest.mark.parametrize(
    ("begins", "left_out"),
    [
        ([0, 1, 2, 3], [0, 0, 0, 0]),
        ([0.9, 1.0, 2.999, 3], [0, 0, 0, 0]),  # late, but each before the next is due
        ([0, 2.0, 3], [0, 1, 0]),
        ([0, 1.5, 5.2, 6], [0, 0, 3, 0]),
        ([7.5, 8], [7, 0]),
    ],
)
def test_late_ticks_are_left_out(begins: list[float], left_out: list[int]) -> None:
    schedule = TickSchedule(1.0, 0.0)
    assert [schedule.begin(now) for now in begins] == left_out


@given(
    interval_s=st.sampled_from([0.05, 0.1, 0.3, 1.0, 7.0]),
    delays=st.lists(st.floats(0, 20), min_size=1, max_size=50),
)
def test_ticks_stay_on_the_grid(interval_s: float, delays: list[float]) -> None:
    schedule, start, run, left = TickSchedule(interval_s, 100.0), 100.0, 0, 0
    now = start
    for delay in delays:
        now = max(now, schedule.due_s) + delay
        assert schedule.due_s == pytest.approx(start + (run + left) * interval_s)
        left += schedule.begin(now)
        run += 1
        assert now < schedule.due_s + 1e-6 or delay < interval_s
    assert run + left == pytest.approx((schedule.due_s - start) / interval_s)


@pytest.mark.slow  # a million of them
def test_a_million_ticks_do_not_drift() -> None:
    schedule = TickSchedule(0.1, 0.0)
    for n in range(1_000_000):
        assert schedule.begin(max(n * 0.1, schedule.due_s)) == 0
    assert schedule.due_s == pytest.approx(100_000.0, abs=1e-6)


@dataclass
class VirtualClock(MachineClock):
    """Time passes when somebody waits for it, and by ``stalls``: seconds lost before the n-th tick."""

    ticks: int
    stalls: dict[int, float] = field(default_factory=dict)
    now_s: float = 50.0
    begun: int = 0

    def monotonic_s(self) -> float:
        return self.now_s

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self.now_s * 1000)

    async def sleep_until(self, due_s: float, stop: asyncio.Event) -> None:
        await asyncio.sleep(0)
        if self.begun == self.ticks:
            stop.set()
            return
        self.now_s = max(self.now_s, due_s) + self.stalls.get(self.begun, 0.0)
        self.begun += 1


class Scripted:
    """A collector: answers with a record a tick, but fails at ``fails`` and hangs at ``hangs``."""

    def __init__(self, name: str, *, fails: Sequence[int] = (), hangs: Sequence[int] = ()) -> None:
        self.name = name
        self.fails = fails
        self.hangs = hangs
        self.closed = 0

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        if tick.seq in self.fails:
            raise OSError(f"cannot read {tick.seq}")
        return [ProducerRecord(topic=self.name, key=tick.node, value=b"", ts_ms=tick.ts_ms)]

    def close(self) -> None:
        self.closed += 1


class InlineThread(CollectorThread):
    """A thread that is none: answers at once, or never, when its collector hangs at that tick."""

    def __init__(self, collector: Collector, answer: Callable[[Any, Tick, Any], None]) -> None:
        self.name = collector.name
        self.busy_with: Tick | None = None
        self._collector = collector
        self._answer = answer

    def measure(self, tick: Tick, before: Event | None = None) -> Event:
        self.busy_with = tick
        if isinstance(self._collector, Scripted) and tick.seq in self._collector.hangs:
            return Event()
        try:
            outcome: Any = self._collector.collect(tick)
        except OSError as error:
            outcome = error
        self._answer(self, tick, outcome)
        return Event()

    def come_back(self) -> None:
        """Answer what was asked long ago."""
        assert self.busy_with
        self._answer(self, self.busy_with, self._collector.collect(self.busy_with))

    async def close(self, most_s: float) -> Exception | None:
        self._collector.close()
        return None


async def run(
    clock: VirtualClock, *collectors: Scripted, interval_s: float = 1.0
) -> tuple[list[ProducerRecord], Telemetry, Runner]:
    published: list[ProducerRecord] = []
    telemetry = Telemetry("test")
    runner = Runner(
        collectors, published.extend, telemetry, node="a", interval_s=interval_s, clock=clock,
        thread=InlineThread,
    )  # fmt: skip
    await runner.run(asyncio.Event())
    return published, telemetry, runner


async def test_every_tick_reaches_every_collector() -> None:
    published, telemetry, _ = await run(VirtualClock(5), Scripted("x"), Scripted("y"))
    first = 1_700_000_050_000
    assert [(one.topic, one.ts_ms) for one in published] == [
        (name, first + 1000 * n) for n in range(5) for name in ("x", "y")
    ]
    assert not telemetry.counts


async def test_the_sources_of_a_tick_are_published_together_and_a_slow_one_is_not_waited_for() -> None:
    slow, stop = Blocking("slow"), asyncio.Event()
    published: list[list[str]] = []
    runner = Runner(
        [Scripted("x"), Scripted("y"), slow],
        lambda records: published.append([one.topic for one in records]),
        Telemetry("test"), node="a", interval_s=30,
    )  # fmt: skip
    task = asyncio.create_task(runner.run(stop))
    await until(lambda: bool(published))
    assert published == [["x", "y"]]
    slow.go_on.set()
    await until(lambda: len(published) == 2)
    assert published[1] == ["slow"]
    stop.set()
    await asyncio.wait_for(task, 45)


async def test_each_source_has_the_time_that_it_took_itself() -> None:
    """Also where its answer is taken with that of a slower one."""
    clock = VirtualClock(2)

    class Taking(Scripted):
        def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
            clock.now_s += {"quick": 0.01, "slow": 0.03}[self.name]
            return super().collect(tick)

    _, _, runner = await run(clock, Taking("quick"), Taking("slow"))
    took_s = {
        labels["collector"]: value for name, labels, value in runner._telemetry.metrics.samples()
        if name.endswith("last_measure_seconds")
    }  # fmt: skip
    assert took_s == pytest.approx({"quick": 0.01, "slow": 0.04})


async def test_a_stall_leaves_ticks_out_and_the_rest_stays_on_the_grid() -> None:
    ticks: list[Tick] = []

    class Watching(Scripted):
        def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
            ticks.append(tick)
            return []

    _, telemetry, _ = await run(VirtualClock(5, stalls={2: 3.4}), Watching("x"))
    assert [tick.monotonic_s for tick in ticks] == pytest.approx([50, 51, 55.4, 56, 57])
    assert [tick.seq for tick in ticks] == [0, 1, 2, 3, 4]  # what is left out takes no number
    assert telemetry.count(TICK_LATE) == 3
    assert len({tick.collector for tick in ticks}) == 1
    assert {tick.interval_ms for tick in ticks} == {1000}


async def test_each_start_has_an_id_of_its_own() -> None:
    _, _, one = await run(VirtualClock(0), Scripted("x"))
    _, _, other = await run(VirtualClock(0), Scripted("x"))
    assert one._collector != other._collector


async def test_a_failure_is_said_once_with_its_recovery_and_the_other_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    published, telemetry, _ = await run(
        VirtualClock(8), Scripted("bad", fails=[2, 3, 4, 6]), Scripted("good")
    )
    assert [one.topic for one in published].count("good") == 8
    assert [one.topic for one in published].count("bad") == 4
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "collector_failed bad: OSError: cannot read 2",
        "collector_failed bad: measures again",
        "collector_failed bad: OSError: cannot read 6",
        "collector_failed bad: measures again",
    ]
    assert telemetry.count(COLLECTOR_FAILED) == 2


async def test_a_hanging_collector_is_said_once_and_the_other_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    published, telemetry, _ = await run(VirtualClock(20), Scripted("bad", hangs=[3]), Scripted("good"))
    assert [one.topic for one in published].count("good") == 20
    assert [one.topic for one in published].count("bad") == 3
    assert telemetry.conditions["collector_failed", "bad"].startswith("no answer for 5 s")
    assert telemetry.counts["collector_failed", ("bad", "slow")] == 5
    assert sum("no answer" in record.getMessage() for record in caplog.records) == 1


async def test_what_comes_back_too_late_is_left_out_and_what_follows_is_taken() -> None:
    clock, published = VirtualClock(12), list[ProducerRecord]()
    threads: list[InlineThread] = []

    def thread(collector: Collector, answer: Callable[[Any, Tick, Any], None]) -> InlineThread:
        threads.append(InlineThread(collector, answer))
        return threads[-1]

    telemetry = Telemetry("test")
    runner = Runner(
        [Scripted("bad", hangs=[0])], published.extend, telemetry, node="a", interval_s=1, clock=clock,
        thread=thread,
    )  # fmt: skip
    await runner.run(asyncio.Event())
    assert ("collector_failed", "bad") in telemetry.conditions
    threads[0].come_back()
    assert published == []
    clock.ticks += 2
    await runner.run(asyncio.Event())
    assert [one.ts_ms for one in published] == [1_700_000_061_000, 1_700_000_062_000]
    assert not telemetry.conditions


async def test_collectors_are_closed_at_the_end() -> None:
    one, other = Scripted("x", fails=range(100)), Scripted("y")
    await run(VirtualClock(3), one, other)
    assert (one.closed, other.closed) == (1, 1)


class Blocking(Scripted):
    """A collector that waits for a test at every tick and at its end."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.go_on = threading.Event()
        self.threads: set[int] = set()

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        self.threads.add(threading.get_ident())
        self.go_on.wait(60)
        return super().collect(tick)

    def close(self) -> None:
        self.go_on.wait(60)
        super().close()


async def test_real_threads_a_hanging_collector_holds_up_nothing() -> None:
    published: list[ProducerRecord] = []
    bad, good, stop = Blocking("bad"), Scripted("good"), asyncio.Event()
    telemetry = Telemetry("test")
    runner = Runner([bad, good], published.extend, telemetry, node="a", interval_s=0.05, bound_s=0.2)
    task = asyncio.create_task(runner.run(stop))
    await until(lambda: ("collector_failed", "bad") in telemetry.conditions)
    stop.set()
    await asyncio.wait_for(task, 45)  # less than the hanging collector holds on
    assert {one.topic for one in published} == {"good"}
    assert len(bad.threads) == 1
    assert good.closed == 1
    assert telemetry.counts["collector_failed", ("bad", "closing")] == 1
    bad.go_on.set()


async def test_a_thread_waits_for_the_one_before_it_and_not_for_ever() -> None:
    """So what is to be measured first is, whichever thread wakes first."""
    measured: list[str] = []

    class Noting(Scripted):
        def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
            measured.append(self.name)
            return super().collect(tick)

    def answer(thread: CollectorThread, *_: object) -> None:
        thread.busy_with = None

    threads = [CollectorThread(Noting(name), answer) for name in "xyz"]
    tick = Tick(node="a", collector="c", seq=0, ts_ms=0, interval_ms=1000, monotonic_s=0.0)
    first = Event()
    last = threads[2].measure(tick, threads[1].measure(tick, threads[0].measure(tick, first)))
    first.set()
    assert await asyncio.to_thread(last.wait, 60)
    assert measured == ["x", "y", "z"]
    await until(lambda: threads[2].busy_with is None)
    begun_s = time.monotonic()
    assert await asyncio.to_thread(threads[2].measure(tick, Event()).wait, 60)  # that one hangs
    assert time.monotonic() - begun_s >= TURN_S
    for thread in threads:
        assert await thread.close(30) is None


async def test_who_hangs_holds_up_the_others_in_one_tick_alone() -> None:
    bad, stop = Blocking("bad"), asyncio.Event()
    took_s: list[float] = []

    class Timed(Scripted):
        def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
            took_s.append(time.monotonic() - tick.monotonic_s)
            return []

    runner = Runner([bad, Timed("good")], lambda _: None, Telemetry("test"), node="a", interval_s=0.2)
    task = asyncio.create_task(runner.run(stop))
    await until(lambda: len(took_s) >= 8)
    stop.set()
    bad.go_on.set()
    await asyncio.wait_for(task, 45)
    # A machine may be so busy that a tick begins late.
    assert took_s[0] >= TURN_S
    assert min(took_s[1:8]) < TURN_S, took_s


async def test_real_threads_measure_one_after_the_other() -> None:
    """One that works with the interpreter for a while is not interrupted by another."""
    measuring: list[str] = []
    beside: list[tuple[str, ...]] = []

    class Slow(Scripted):
        def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
            measuring.append(self.name)
            time.sleep(TURN_S / 5)
            beside.append(tuple(measuring))
            measuring.remove(self.name)
            return super().collect(tick)

    stop = asyncio.Event()
    published: list[ProducerRecord] = []
    names = ["x", "y", "z"]
    runner = Runner(
        [Slow(name) for name in names], published.extend, Telemetry("test"), node="a", interval_s=0.2
    )
    task = asyncio.create_task(runner.run(stop))
    await until(lambda: len(published) >= 4 * len(names))
    stop.set()
    await asyncio.wait_for(task, 45)
    # A machine may be so busy that a turn takes longer than it is waited for.
    alone = [at for at in beside if len(at) == 1]
    assert len(alone) > len(beside) / 2, beside


async def test_a_thread_reports_what_its_collector_raised_while_closing() -> None:
    class Bad(Scripted):
        def close(self) -> None:
            raise OSError("no")

    thread = CollectorThread(Bad("x"), lambda *_: None)
    assert isinstance(await thread.close(30), OSError)

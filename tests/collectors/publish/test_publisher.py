"""The publisher's logic: order, the spool, refusals, closing. A fake broker decides what goes wrong."""

import asyncio
import gc
import random
import threading
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors.publish.link import RefusedRecord
from collectors.publish.outbox import Outbox
from collectors.publish.publisher import Publisher, PublishTimeouts
from collectors.publish.spool import Appended, Spool
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError, RecordRefusedError
from dutycycle.kafka.reachability import Reachability
from dutycycle.telemetry.events import (
    BROKER_UNREACHABLE,
    RECORD_REFUSED,
    RECORD_TOO_LARGE,
    SPOOL_DROPPED,
    SPOOL_FAILED,
    SPOOLED,
    Telemetry,
)
from tests.support.examples import examples
from tests.support.fakes.broker import Broker
from tests.support.waiting import until


class Mood(StrEnum):
    """How the broker takes a batch."""

    GOOD = "good"
    AWAY = "away"
    """It breaks the connection and stores nothing."""
    ACK_LOST = "ack lost"
    """It stores everything, then breaks the connection."""
    SILENT = "silent"
    """It answers nothing until its mood changes, then goes on from there."""


@dataclass
class FakeBroker:
    """``moods`` are taken one a batch; then ``mood`` stays."""

    mood: Mood = Mood.GOOD
    moods: list[Mood] = field(default_factory=list)
    refuses: set[int] = field(default_factory=set)
    """Records (by ``ts_ms``) that it will never take: a batch with one of them is refused as a whole."""
    closed: bool = False
    """Connections are refused."""
    forbids: bool = False
    """Credentials are refused."""
    broker: Broker = field(default_factory=Broker)
    links: int = 0
    aborted: int = 0

    async def connect(self) -> "FakeLink":
        if self.forbids:
            raise BrokerRefusedError("authentication", "password is wrong")
        if self.closed:
            raise BrokerUnreachableError("refused", "nothing listens there")
        self.links += 1
        return FakeLink(self)

    @property
    def log(self) -> list[ProducerRecord]:
        """What arrived, in order."""
        return self.broker.outputs

    def numbers(self) -> list[int]:
        """The ``ts_ms`` of what arrived, in order."""
        return [one.ts_ms for one in self.log]

    async def takes(self, records: Sequence[ProducerRecord]) -> list[RefusedRecord]:
        mood = self.moods.pop(0) if self.moods else self.mood
        while mood is Mood.SILENT:
            await asyncio.sleep(0.001)
            mood = self.mood
        if mood is Mood.AWAY:
            raise BrokerUnreachableError("connection", "the connection broke")
        if self.refuses & {one.ts_ms for one in records}:
            # Of two partitions, the one without a bad record is stored.
            together = {one.key for one in records if one.ts_ms in self.refuses}
            self._land(one for one in records if one.key not in together)
            error = RecordRefusedError("invalid", "the record is invalid for its topic")
            return [RefusedRecord(one, error) for one in records if one.key in together]
        self._land(records)
        if mood is Mood.ACK_LOST:
            raise BrokerUnreachableError("connection", "the connection broke")
        return []

    def _land(self, records: Iterable[ProducerRecord]) -> None:
        for one in records:
            self.broker.land(one)


@dataclass
class FakeLink:
    """One connection to a ``FakeBroker``."""

    broker: FakeBroker
    usable: bool = True

    async def deliver(self, records: Sequence[ProducerRecord]) -> list[RefusedRecord]:
        assert self.usable, "a link that failed or was let go of is used"
        self.usable = False
        refused = await self.broker.takes(records)
        self.usable = not refused
        return refused

    async def abort(self) -> None:
        self.usable = False
        self.broker.aborted += 1


def record(number: int, size: int = 10, key: str = "a") -> ProducerRecord:
    """A record that its ``ts_ms`` names."""
    return ProducerRecord(topic="pods", key=key, value=b"x" * size, ts_ms=number)


def noise(number: int, size: int) -> ProducerRecord:
    """A record that cannot be compressed."""
    payload = random.Random(number).randbytes(size)  # noqa: S311 - not a secret
    return ProducerRecord(topic="pods", key="a", value=payload, ts_ms=number)


def records(numbers: Iterable[int], size: int = 10) -> list[ProducerRecord]:
    """Several of them."""
    return [record(number, size) for number in numbers]


MIB = 1024**2
TIMEOUTS = PublishTimeouts(spool_s=0.05, renew_s=1.0)
SETTINGS = load_settings({"DUTYCYCLE_BROKER": "kafka://k:9092", "DUTYCYCLE_NODE": "a"})


class Running:
    """A publisher at work, and what is around it."""

    def __init__(
        self,
        folder: Path,
        broker: FakeBroker,
        spool_bytes: int,
        memory_bytes: int,
        make_spool: type[Spool] = Spool,
        timeouts: PublishTimeouts = TIMEOUTS,
    ) -> None:
        self.telemetry = Telemetry("test")
        self.spool = make_spool(folder, spool_bytes)
        self.outbox = Outbox(self.spool, self.telemetry, memory_bytes)
        self.publisher = Publisher(
            self.outbox, self.telemetry, Reachability(SETTINGS, self.telemetry), broker.connect,
            timeouts=timeouts, backoff=Backoff(0.002, 0.002),
        )  # fmt: skip
        self.task = self.publisher.start()


@asynccontextmanager
async def running(
    folder: Path,
    broker: FakeBroker,
    *,
    spool_bytes: int = 64 * MIB,
    memory_bytes: int = 16 * MIB,
    close_s: float = 10.0,
    timeouts: PublishTimeouts = TIMEOUTS,
) -> AsyncIterator[Running]:
    one = Running(folder, broker, spool_bytes, memory_bytes, timeouts=timeouts)
    try:
        yield one
    finally:
        await one.publisher.close(close_s)


async def test_in_order_and_never_on_disk_while_all_is_well(tmp_path: Path) -> None:
    broker = FakeBroker()
    # A busy machine is no outage.
    async with running(tmp_path, broker, timeouts=PublishTimeouts(spool_s=60)) as one:
        for n in range(50):
            one.publisher.publish(records([2 * n, 2 * n + 1]))
            await asyncio.sleep(0)
    assert broker.numbers() == list(range(100))
    assert one.telemetry.count(SPOOLED) == 0


@pytest.mark.parametrize("mood", [Mood.AWAY, Mood.SILENT])
async def test_an_outage_goes_to_disk_and_comes_back_in_order(tmp_path: Path, mood: Mood) -> None:
    broker = FakeBroker()
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(10)))
        await until(lambda: len(broker.log) == 10)
        broker.mood = mood
        for n in range(10, 30):
            one.publisher.publish(records([n]))
            await asyncio.sleep(0.005)
        await until(lambda: len(one.spool) == 20)
        assert one.telemetry.count(BROKER_UNREACHABLE) == 1
        broker.mood = Mood.GOOD
        one.publisher.publish(records([30]))
        await until(lambda: len(broker.log) >= 31)
        assert not one.telemetry.conditions
    assert broker.numbers() == list(range(31))
    assert len(one.outbox) == 0


def slow_disk(written: threading.Event) -> type[Spool]:
    """Spools that write nothing before the event is set."""

    class SlowDisk(Spool):
        def append(self, records: Sequence[ProducerRecord], *, keep_through: int = 0) -> Appended:
            assert written.wait(60)
            return super().append(records, keep_through=keep_through)

    return SlowDisk


async def test_what_is_being_written_to_disk_waits_still(tmp_path: Path) -> None:
    written = threading.Event()
    outbox = Outbox(slow_disk(written)(tmp_path, MIB), Telemetry("test"), MIB)
    outbox.put(records(range(3)))
    await outbox.next_batch(1, MIB)
    keeping = asyncio.create_task(outbox.move_to_disk())
    await until(outbox._turn.locked)
    await asyncio.sleep(0.01)  # the disk has it now
    assert len(outbox) == 3
    written.set()
    await keeping
    assert len(outbox) == outbox.spooled == 3
    await outbox.close()


async def test_a_batch_given_up_while_it_is_written_to_disk_comes_once_and_in_order(tmp_path: Path) -> None:
    written = threading.Event()
    broker = FakeBroker(mood=Mood.SILENT)
    one = Running(tmp_path, broker, MIB, MIB, make_spool=slow_disk(written))
    one.publisher.publish(records(range(3)))
    await until(lambda: broker.aborted > 0)  # no answer, and the disk has the batch still
    await asyncio.sleep(0.01)
    written.set()
    broker.mood = Mood.GOOD
    one.publisher.publish(records(range(3, 6)))
    await until(lambda: len(one.outbox) == 0)  # the broker has them a moment before we know
    await one.publisher.close(10)
    assert broker.numbers() == list(range(6))


async def test_no_broker_at_the_start(tmp_path: Path) -> None:
    broker = FakeBroker(closed=True)
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(5)))
        await until(lambda: len(one.spool) == 5)
        broker.closed = False
        await until(lambda: len(broker.log) == 5)
    assert broker.numbers() == list(range(5))


async def test_wrong_credentials_at_the_start_are_the_users_to_mend(tmp_path: Path) -> None:
    async with running(tmp_path, FakeBroker(forbids=True)) as one:
        one.publisher.publish(records([1]))
        with pytest.raises(BrokerRefusedError, match="password is wrong"):
            await asyncio.wait_for(asyncio.shield(one.task), 120)


async def test_wrong_credentials_later_are_an_outage(tmp_path: Path) -> None:
    broker = FakeBroker()
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records([1]))
        await until(lambda: len(broker.log) == 1)
        broker.forbids, broker.moods = True, [Mood.AWAY]
        one.publisher.publish(records([2]))
        await until(lambda: ("broker_unreachable", "authentication") in one.telemetry.conditions)
        broker.forbids = False
        await until(lambda: len(broker.log) == 2)
    assert broker.numbers() == [1, 2]


@pytest.mark.parametrize("mood", [Mood.AWAY, Mood.SILENT])
async def test_closing_is_quick_while_the_broker_is_away_and_the_next_start_sends_first_what_was_left(
    tmp_path: Path, mood: Mood
) -> None:
    broker = FakeBroker(mood=mood)
    began = time.monotonic()
    async with running(tmp_path, broker, close_s=0.2) as one:
        one.publisher.publish(records(range(20)))
    assert time.monotonic() - began < 30
    assert broker.log == []
    broker.mood = Mood.GOOD
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(20, 25)))
    assert broker.numbers() == list(range(25))


async def test_closing_sends_what_waits(tmp_path: Path) -> None:
    broker = FakeBroker()
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(2000)))
    assert broker.numbers() == list(range(2000))


async def test_a_record_that_its_topic_cannot_take_is_dropped_alone(tmp_path: Path) -> None:
    broker = FakeBroker()
    async with running(tmp_path, broker) as one:
        one.publisher.publish([record(1), record(2, size=1_000_001), record(3, size=1_000_000)])
    assert broker.numbers() == [1, 3]
    assert one.telemetry.counts["record_too_large", ("pods",)] == 1


async def test_a_refusal_repeats_nothing_of_other_partitions(tmp_path: Path) -> None:
    broker = FakeBroker(refuses={2})
    async with running(tmp_path, broker) as one:
        one.publisher.publish([record(n, key="ab"[n % 2]) for n in range(6)])
    assert broker.numbers() == [1, 3, 5, 0, 4]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("bad", [{0}, {3}, {9}, {3, 4}, set(range(10))])
async def test_a_record_that_the_broker_refuses_is_dropped_alone(
    tmp_path: Path, bad: set[int], on_disk: bool
) -> None:
    broker = FakeBroker(refuses=bad, closed=on_disk)
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(10)))
        if on_disk:
            await until(lambda: len(one.spool) == 10)
            broker.closed = False
            await until(lambda: len(one.outbox) == 0)
        one.publisher.publish(records(range(10, 15)))
    assert broker.numbers() == [n for n in range(15) if n not in bad]
    assert one.telemetry.count(RECORD_REFUSED) == len(bad)
    assert broker.aborted == broker.links


async def test_a_lost_acknowledgement_repeats_and_never_reorders(tmp_path: Path) -> None:
    broker = FakeBroker(moods=[Mood.ACK_LOST])
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records(range(3)))
    assert broker.numbers() == [0, 1, 2, 0, 1, 2]


async def test_a_silent_broker_is_given_up_for_a_new_link(tmp_path: Path) -> None:
    broker = FakeBroker(mood=Mood.SILENT)
    async with running(tmp_path, broker) as one:
        one.publisher.publish(records([1]))
        await until(lambda: broker.links >= 2)
        broker.mood = Mood.GOOD
        await until(lambda: len(one.outbox) == 0)
    assert broker.numbers() == [1]


async def test_the_bound_forces_the_oldest_out_and_counts_them(tmp_path: Path) -> None:
    broker = FakeBroker(closed=True)
    async with running(tmp_path, broker, spool_bytes=MIB) as one:
        for n in range(400):
            one.publisher.publish([noise(n, size=10_000)])
        await until(lambda: len(one.spool) + one.telemetry.count(SPOOL_DROPPED) == 400)
        kept = len(one.spool)
        assert 60 < kept < 105
        broker.closed = False
        await until(lambda: len(broker.log) == kept)
    # What was being sent when the bound was reached is spared, and may so be older than the others.
    assert broker.numbers()[1:] == list(range(400 - kept + 1, 400))
    assert broker.numbers()[0] <= 400 - kept


async def test_a_full_disk_leaves_the_memory_and_then_its_oldest_go(tmp_path: Path) -> None:
    broker = FakeBroker(closed=True)
    async with running(tmp_path, broker, memory_bytes=100_000) as one:
        one.publisher.publish(records(range(5)))
        await until(lambda: len(one.spool) == 5)
        one.spool._file.database.execute("PRAGMA query_only = ON")
        for n in range(5, 25):
            one.publisher.publish([record(n, size=10_000)])
        await until(lambda: one.telemetry.count(SPOOL_FAILED) == 1)
        await asyncio.sleep(0.05)  # attempts to connect, and to read and write the spool, go on
        assert one.telemetry.count(SPOOL_FAILED) == 1
        dropped = one.telemetry.count(SPOOL_DROPPED)
        assert 10 <= dropped <= 12
        one.spool._file.database.execute("PRAGMA query_only = OFF")
        one.publisher.publish(records([25]))
        await until(lambda: not [name for name, _ in one.telemetry.conditions if name == "spool_failed"])
        broker.closed = False
        await until(lambda: len(one.outbox) == 0)
    assert broker.numbers() == [*range(5), *range(5 + dropped, 26)]


async def test_a_spool_that_breaks_under_way_is_counted_put_aside_and_used_anew(tmp_path: Path) -> None:
    """What is being sent at that moment is not lost with the file."""
    broker = FakeBroker(closed=True)
    async with running(tmp_path, broker) as one:
        one.publisher.publish([noise(n, 6000) for n in range(1200)])
        await until(lambda: len(one.spool) == 1200)
        with (tmp_path / "spool.db").open("r+b") as file:
            file.seek(8192)
            file.write(random.Random(1).randbytes(5 * MIB))  # noqa: S311 - not a secret
        broker.closed = False  # nobody reads the file before
        await until(lambda: (tmp_path / "spool.damaged").exists())
        one.publisher.publish([noise(n, 6000) for n in range(1200, 1210)])
        await until(lambda: len(one.outbox) == 0)
        lost = one.telemetry.count(SPOOL_DROPPED)
    assert broker.numbers() == [*range(1200 - lost), *range(1200, 1210)], "some may have been in memory"
    assert one.telemetry.count(SPOOL_FAILED) == 0
    assert lost > 600


async def test_too_large_is_an_event_of_its_topic(tmp_path: Path) -> None:
    async with running(tmp_path, FakeBroker()) as one:
        one.publisher.publish([record(1, size=2_000_000)])
    assert one.telemetry.count(RECORD_TOO_LARGE) == 1


STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 30)),
    st.tuples(st.just("mood"), st.sampled_from(list(Mood))),
    st.tuples(st.just("moods"), st.lists(st.sampled_from([Mood.GOOD, Mood.AWAY, Mood.ACK_LOST]), max_size=4)),
    st.tuples(st.just("closed"), st.booleans()),
    st.tuples(st.just("pass"), st.sampled_from([0.0, 0.003, 0.06])),
    st.tuples(st.just("restart"), st.just(0)),
)


@given(steps=st.lists(STEP, max_size=12))
@hypothesis_settings(max_examples=examples(60))
async def test_whatever_happens_nothing_is_lost_and_order_holds(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, object]]
) -> None:
    folder, broker, count = tmp_path_factory.mktemp("spool"), FakeBroker(), 0
    one = Running(folder, broker, 64 * MIB, 16 * MIB)
    for what, value in steps:
        match what, value:
            case "publish", int(number):
                one.publisher.publish(records(range(count, count + number)))
                count += number
            case "pass", float(seconds):
                await asyncio.sleep(seconds)
            case "restart", _:
                await one.publisher.close(0.01)
                one = Running(folder, broker, 64 * MIB, 16 * MIB)
            case name, _:
                setattr(broker, name, list(value) if isinstance(value, list) else value)
    broker.closed, broker.mood, broker.moods = False, Mood.GOOD, []
    await until(lambda: len(one.outbox) == 0 and len(set(broker.numbers())) == count)
    await one.publisher.close(10)
    first_seen = list(dict.fromkeys(broker.numbers()))
    assert first_seen == list(range(count))


class LeavingBroker(FakeBroker):
    """Never lets anybody in, and breaks the connection when it is given up."""

    async def connect(self) -> "FakeLink":
        try:
            return await asyncio.Event().wait()  # type: ignore[return-value]  # it never ends
        finally:
            raise BrokerUnreachableError("refused", "away")


async def test_what_fails_as_it_is_given_up_is_not_printed_by_asyncio(tmp_path: Path) -> None:
    printed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: printed.append(context["message"]))
    async with running(tmp_path, LeavingBroker(), close_s=0.1) as at_work:
        at_work.publisher.publish([record(1)])
    del at_work  # it holds the task
    gc.collect()
    assert printed == []

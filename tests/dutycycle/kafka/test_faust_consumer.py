"""Faust's consumer around a rebalance: what is fetched before it seeks must not hide what comes after."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from aiokafka.consumer.subscription_state import Assignment, SubscriptionState
from aiokafka.errors import KafkaConnectionError, NoError, RebalanceInProgressError, UnknownMemberIdError
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from faust.types import TP

from dutycycle.contract.settings.load import load
from dutycycle.kafka.faust.agent import add_agent
from dutycycle.kafka.faust.app import create_app
from dutycycle.kafka.faust.consumer import (
    BatchScheduler,
    ConsumerThread,
    ExactConsumer,
    ask_positions_together,
)
from dutycycle.kafka.faust.runner import run_app
from dutycycle.telemetry.events import Telemetry

PLACE = TP("samples", 0)
COMMITTED, REACHED = 980, 1035
"""What was committed at the rebalance, and what had been handed out by then."""


class Log:
    """One partition, read in batches of a hundred from a position that a seek moves."""

    def __init__(self) -> None:
        self.position = COMMITTED

    async def fetch(self, active_partitions: set[TP], timeout: float) -> Mapping[TP, list[int]]:  # noqa: ASYNC109
        """The next batch; nothing is fetched of a partition that is not active."""
        await asyncio.sleep(0)
        if PLACE not in active_partitions:
            return {}
        begin, self.position = self.position, self.position + 100
        return {PLACE: list(range(begin, self.position))}

    async def seek(self) -> Mapping[TP, int]:
        """Back to what is committed."""
        await asyncio.sleep(0)
        self.position = COMMITTED
        return {PLACE: COMMITTED}


def consumer_of(log: Log, handed_out: list[int]) -> tuple[ExactConsumer, Any]:
    """A consumer that reads ``log``, and the flow control that lets it hand out."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer

    async def hand_out(message: Any) -> None:
        await app.flow_control.acquire()
        handed_out.extend(message.value)
        await asyncio.sleep(0)

    async def none_beyond(_places: object) -> Mapping[TP, int]:
        return {}

    consumer.callback = hand_out
    consumer.assignment = lambda: {PLACE}
    consumer.highwater = lambda _tp: 5000
    consumer.ends = none_beyond
    consumer.seek_to_committed = log.seek
    consumer._getmany = log.fetch
    consumer._to_message = lambda tp, offsets: SimpleNamespace(
        topic=tp.topic, offset=offsets[-1], key=None, value=offsets
    )
    return consumer, app.flow_control


async def test_a_batch_fetched_before_the_seek_hides_nothing_behind_it() -> None:
    handed_out: list[int] = []
    log = Log()
    consumer, flow = consumer_of(log, handed_out)
    consumer._read_offset[PLACE] = REACHED
    consumer.pause_partitions({PLACE})
    fetcher: Any = SimpleNamespace(_stopped=asyncio.Event())
    flow.suspend()
    draining = asyncio.create_task(consumer._drain_messages(fetcher))
    try:
        consumer.resume_partitions({PLACE})
        async with asyncio.timeout(120):
            while log.position == COMMITTED:  # noqa: ASYNC110 - a batch is in hand then
                await asyncio.sleep(0)
            await consumer.perform_seek()
            flow.resume()
            consumer.resume_flow()
            while len(handed_out) < 300:  # noqa: ASYNC110
                await asyncio.sleep(0)
    finally:
        draining.cancel()
    assert handed_out[:300] == list(range(COMMITTED, COMMITTED + 300))


async def test_batches_of_before_a_rebalance_keep_no_partition_from_being_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Faust's loop holds the last batch that it handed out, and the stream the last one that it has done. A
    rebalance in between drops the former: both are of one partition, and nothing else may come after them."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    fetch = AsyncMock(return_value={})
    monkeypatch.setattr("faust.transport.drivers.aiokafka.Consumer._getmany", fetch)
    consumer._on_partitions_assigned = AsyncMock()
    record = SimpleNamespace(topic=PLACE.topic, partition=0, offset=7, timestamp_type=0)
    held = [consumer._to_message(PLACE, [record]) for _ in range(2)]
    assert await consumer._getmany({PLACE}, 1.0) == {}
    assert not fetch.called, "its agent has enough of it"
    await consumer.on_partitions_assigned({PLACE})
    await consumer._getmany({PLACE}, 1.0)
    fetch.assert_awaited_once_with({PLACE}, 1.0)
    assert len(held) == 2


async def test_what_follows_from_a_fetch_is_released_once_when_all_of_it_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    tps = [TP("samples", 0), TP("samples", 1), TP("pods", 0)]
    fetched = {
        tp: [SimpleNamespace(topic=tp.topic, partition=tp.partition, offset=7, timestamp_type=0)]
        for tp in tps
    }
    fetch = AsyncMock(return_value=fetched)
    monkeypatch.setattr("faust.transport.drivers.aiokafka.Consumer._getmany", fetch)
    monkeypatch.setattr(consumer, "_get_active_partitions", lambda: set(tps))
    consumer.highwater = lambda _place: 8
    consumer.resume_flow()
    released: list[int] = []
    monkeypatch.setattr(app.exact_producer, "release", lambda: released.append(len(done)))
    done: list[TP] = []
    later = []
    async for tp, message in consumer.getmany(1.0):
        if tp.topic == "pods":
            later.append(message.value)  # its agent is still at it
        else:
            consumer.finish(message.value)
            done.append(tp)
    assert released == [], "the agents of some had done theirs before others were handed out"
    consumer.finish(later[0])
    assert released == [2]


@pytest.mark.parametrize(
    ("read", "fetched", "position", "end", "behind"),
    [
        pytest.param(None, None, 500, 500, False, id="all expired before anything was committed"),
        pytest.param(400, None, 500, 500, False, id="what follows the commit expired"),
        pytest.param(7, 7, 9, 9, False, id="a transaction's mark is the last"),
        pytest.param(7, 7, 8, 9, True, id="a record was not fetched"),
        pytest.param(7, None, None, 9, True, id="it is not known from where to read"),
        pytest.param(7, 8, 9, 9, True, id="a record was fetched, and not handed out"),
        pytest.param(None, None, None, None, False, id="the broker has not answered yet"),
    ],
)
async def test_it_is_behind_what_can_be_read_alone(
    read: int | None, fetched: int | None, position: int | None, end: int | None, behind: bool
) -> None:
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    assignment = Assignment([TopicPartition(*PLACE), TopicPartition("changelog", 0)])
    consumer._is_changelog_tp = lambda place: place.topic == "changelog"
    state: Any = assignment.state_value(TopicPartition(*PLACE))
    state._position, state.highwater = position, end
    subscription = SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
    consumer._thread._consumer = SimpleNamespace(_subscription=subscription)
    consumer._read_offset[PLACE] = read
    if fetched is not None:
        consumer._fetched[PLACE] = fetched
    assert consumer.behind() == (f"read to {position or 0}" if behind else None)
    assert consumer.positions() == [(TopicPartition(*PLACE), end, position)]


def test_a_fetch_is_one_message_a_partition_but_a_changelog_is_read_one_by_one() -> None:
    changelog = TP("state", 0)
    scheduler = BatchScheduler(lambda place: place == changelog)
    fetched = {PLACE: [1, 2, 3], changelog: [7, 8], TP("t", 9): []}
    assert list(scheduler.iterate(fetched)) == [(PLACE, [1, 2, 3]), (changelog, 7), (changelog, 8)]


@pytest.mark.parametrize("session_timeout", ["2s", "60s", "300s"])
async def test_every_session_timeout_that_the_settings_allow_makes_an_app(session_timeout: str) -> None:
    env = {"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1", "DUTYCYCLE_SESSION_TIMEOUT": session_timeout}
    app = create_app(load(env), "test", Telemetry("test"))
    client: Any = app.exact_consumer._new_consumer_thread()._create_worker_consumer(app.transport)
    assert client is not None
    await client.stop()


async def test_who_still_connects_is_in_no_group() -> None:
    """Commits ask from the first second on, and a broker that is slow to answer takes longer."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    assert not app.may_write(), "there is no client"
    client = consumer._thread._consumer = consumer._new_consumer_thread()._create_worker_consumer(
        app.transport
    )
    assert not app.may_write(), "it has not begun to connect"
    await client.stop()


HEARTBEAT = HeartbeatRequest("g", 7, "m")
PROLONGS = {
    "a heartbeat": (HEARTBEAT, NoError, True),
    "a heartbeat while others join": (HEARTBEAT, RebalanceInProgressError, True),
    "an assignment": (SyncGroupRequest("g", 7, "m", None, []), NoError, True),
    "a heartbeat of one who was counted out": (HEARTBEAT, UnknownMemberIdError, False),
    "a question": (OffsetFetchRequest("g", []), NoError, False),
}


@pytest.mark.parametrize(("request_", "error", "prolongs"), PROLONGS.values(), ids=PROLONGS.keys())
async def test_a_lease_counts_from_the_sending_of_what_the_group_answered(
    monkeypatch: pytest.MonkeyPatch, request_: Any, error: Any, prolongs: bool
) -> None:
    env = {"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1", "DUTYCYCLE_SESSION_TIMEOUT": "10s"}
    consumer: Any = create_app(load(env), "test", Telemetry("test")).exact_consumer
    now_s, answered = 100.0, NoError
    monkeypatch.setattr("dutycycle.kafka.faust.consumer.time", SimpleNamespace(monotonic=lambda: now_s))

    async def answer(_: Any) -> Any:
        nonlocal now_s
        now_s += 3  # so long it was under way
        return SimpleNamespace(error_code=answered.errno)

    coordinator = SimpleNamespace(generation=7, _send_req=answer, _closing=asyncio.Future())
    consumer._thread = consumer._new_consumer_thread()
    consumer._thread._consumer = SimpleNamespace(_coordinator=coordinator)
    consumer._thread.watch(coordinator)
    assert not consumer.may_be_replaced(), "nobody replaces who was never counted in"
    assert not consumer.is_counted_out()
    await coordinator._send_req(HEARTBEAT)  # sent at 100 s
    now_s, answered = 105.0, error
    await coordinator._send_req(request_)
    for moment_s, lapsed in ((107.9, False), (108.1, not prolongs), (112.9, not prolongs), (113.1, True)):
        now_s = moment_s
        assert consumer.may_be_replaced() is lapsed
    assert not consumer.is_counted_out()
    coordinator.generation = -1
    assert consumer.is_counted_out()


async def test_a_fetch_of_quiet_partitions_does_not_hold_up_the_busy_ones_for_long() -> None:
    """aiokafka fetches what it has nothing of, and asks a broker for nothing else until it has answered."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    client: Any = app.exact_consumer._new_consumer_thread()._create_worker_consumer(app.transport)
    assert client._fetch_max_wait_ms <= 250
    await client.stop()


async def test_no_more_is_taken_of_a_partition_than_its_agent_can_do_soon() -> None:
    """Faust would keep in memory all that is in the log while its agents wait, for a commit as an example."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    other, asked = TP("pods", 0), list[tuple[set[TP], bool]]()

    async def fetch(partitions: set[TP], timeout: float) -> dict[TP, list[object]]:  # noqa: ASYNC109
        asked.append((partitions, timeout < 1))
        return {}

    consumer._thread = SimpleNamespace(getmany=fetch)
    batch = [SimpleNamespace(topic=PLACE.topic, partition=PLACE.partition, offset=7, timestamp_type=0)]
    with_agent = []
    for _ in range(2):
        await consumer._getmany({PLACE, other}, 5.0)
        with_agent.append(consumer._to_message(PLACE, batch))
    await consumer._getmany({PLACE, other}, 5.0)
    assert await consumer._getmany({PLACE}, 5.0) == {}, "and the broker is not asked for all there is"
    with_agent.pop()
    await consumer._getmany({PLACE, other}, 5.0)
    all_of_them = ({PLACE, other}, False)
    assert asked == [all_of_them, all_of_them, ({other}, True), all_of_them]


@pytest.mark.parametrize("assigned_anew", [False, True])
async def test_of_changelogs_nothing_is_fetched_once_they_were_read(assigned_anew: bool) -> None:
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer
    source, changelog = TopicPartition("samples", 0), TopicPartition("changelog", 0)
    subscription = SubscriptionState()
    subscription.subscribe({"samples", "changelog"})
    subscription.assign_from_subscribed([source, changelog])
    client = SimpleNamespace(_subscription=subscription, seek=subscription.seek, position=AsyncMock())
    thread: Any = ConsumerThread(consumer)
    thread.call_thread = lambda do, *given: do(*given)
    thread._ensure_consumer = lambda: client
    consumer._thread = thread
    await consumer.seek_wait({TP(*changelog): 7})
    if assigned_anew:  # what was read is of before: this one is still to be
        subscription.assign_from_subscribed([source, changelog])
    await consumer.pause_changelogs()
    assert subscription.paused_partitions() == (set() if assigned_anew else {changelog})


async def test_who_ends_leaves_a_rebalance_and_does_not_wait_for_its_last_member() -> None:
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    sent: list[Any] = []

    async def never(_: Any) -> None:
        await asyncio.Event().wait()

    async def send(_node: int, request: Any) -> None:
        sent.append(request)

    forgotten: list[str] = []
    for member, left in ((JoinGroupRequest.UNKNOWN_MEMBER_ID, 0), ("m-1", 1)):
        coordinator = SimpleNamespace(
            _send_req=never, _closing=asyncio.Future(), _client=SimpleNamespace(send=send),
            member_id=member, group_id="g", coordinator_id=1,
            reset_generation=partial(forgotten.append, member),
        )  # fmt: skip
        app.exact_consumer._new_consumer_thread().watch(coordinator)
        asking = asyncio.ensure_future(
            coordinator._send_req(JoinGroupRequest("g", 1, 1, member, None, "", []))
        )
        assert (await asyncio.wait([asking], timeout=0.05))[1], "while it works it waits for the others"
        coordinator._closing.set_result(None)
        with pytest.raises(KafkaConnectionError):
            await asyncio.wait_for(asking, 120)
        assert (len(sent), forgotten[-1]) == (left, member)
    assert (sent[0]._group, sent[0]._member_id) == ("g", "m-1")


async def test_a_thread_that_was_started_a_moment_ago_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mode's own ``stop`` does nothing before the thread runs, and the thread would go on alone."""
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    consumer: Any = app.exact_consumer._new_consumer_thread()
    runs, begin = threading.Event(), consumer._start_thread

    def begin_later() -> None:
        runs.wait(120)
        begin()

    async def connect(_: Any) -> None:
        return

    monkeypatch.setattr(consumer, "_start_thread", begin_later)
    monkeypatch.setattr(ConsumerThread, "on_start", connect)
    starting = asyncio.ensure_future(consumer.start())
    while consumer._thread is None:  # noqa: ASYNC110 - it has no event for that
        await asyncio.sleep(0)
    stopping = asyncio.ensure_future(consumer.stop())
    await asyncio.sleep(0)
    runs.set()
    await asyncio.wait_for(stopping, 120)
    assert not consumer._thread.is_alive()
    starting.cancel()


async def test_a_start_that_the_end_cuts_short_is_no_failure() -> None:
    app = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    stop, begun, cut = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def start() -> None:
        begun.set()
        await cut.wait()
        raise RuntimeError("cut short")

    async def end() -> None:
        cut.set()
        while not app.failed.is_set():  # noqa: ASYNC110 - the start fails before all has ended
            await asyncio.sleep(0)

    app.start, app.stop = start, end  # type: ignore[method-assign]
    running = asyncio.ensure_future(run_app(app, stop))
    await begun.wait()
    stop.set()
    await asyncio.wait_for(running, 120)
    assert not app.telemetry.status.hangs


async def test_a_worker_joins_its_group_as_soon_as_all_its_agents_have_named_their_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not a second later, as Faust by itself; nor before: a topic named then would be read 45 s later."""
    app: Any = create_app(load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"}), "test", Telemetry("test"))
    for topic in ("nvml-samples", "pods"):
        add_agent(app, topic, AsyncMock(), name=topic)
    registered = AsyncMock()
    monkeypatch.setattr(app.tables, "_update_channels", registered)
    monkeypatch.setattr(app.tables.recovery, "start", AsyncMock())
    monkeypatch.setattr(app.tables, "sleep", AsyncMock(side_effect=AssertionError("a fixed wait")))
    starting = asyncio.create_task(app.tables.on_start())
    for agent in app.agents.values():
        await asyncio.sleep(0.05)
        registered.assert_not_awaited()
        app.topics.add(agent.channel)
    await asyncio.wait_for(starting, 120)
    registered.assert_awaited_once()
    app.tables.recovery.start.assert_awaited_once()


def test_a_worker_imports_no_client_for_http_and_whoever_needs_one_has_it() -> None:
    script = (
        "import sys, dutycycle.kafka.faust.app; assert 'aiohttp' not in sys.modules; "
        "import aiohttp; print(aiohttp.ClientSession.__module__)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout == "aiohttp.client\n"


PLACES = [TopicPartition("samples", number) for number in range(4)]


async def test_what_is_committed_is_asked_once_for_all_partitions() -> None:
    """Not once for each, as the client does by itself: a group of a thousand partitions waits for all."""
    committed = {PLACES[0]: OffsetAndMetadata(7, ""), PLACES[1]: OffsetAndMetadata(0, "")}
    sought: list[tuple[TopicPartition, int]] = []
    client: Any = SimpleNamespace(
        _subscription=SimpleNamespace(assigned_partitions=lambda: set(PLACES)),
        _coordinator=SimpleNamespace(fetch_committed_offsets=AsyncMock(return_value=committed)),
        _fetcher=SimpleNamespace(seek_to=lambda place, offset: sought.append((place, offset))),
    )
    thread: Any = ConsumerThread.__new__(ConsumerThread)
    thread._ensure_consumer = lambda: client
    offsets = await thread._seek_to_committed()
    assert offsets == {PLACES[0]: 7, PLACES[1]: 0, PLACES[2]: None, PLACES[3]: None}
    assert sought == [(PLACES[0], 7)]
    client._coordinator.fetch_committed_offsets.assert_awaited_once_with(set(PLACES))


async def test_positions_are_asked_once_for_all_partitions_and_a_seek_meanwhile_stays() -> None:
    assignment, requests, updated = Assignment(PLACES), [], []

    async def answer() -> None:
        """As the client's coordinator: it asks for all that somebody waits for."""
        await assignment.commit_refresh_needed.wait()
        requests.append(set(assignment.requesting_committed()))
        assignment.state_value(PLACES[3]).seek(99)
        for place in requests[-1]:
            offset = 5 if place == PLACES[0] else -1
            assignment.state_value(place).update_committed(OffsetAndMetadata(offset, ""))

    async def update(*given: object) -> bool:
        updated.append(given)
        return True

    fetcher: Any = SimpleNamespace(_update_fetch_positions=update, _default_reset_strategy=-2)
    ask_positions_together(fetcher)
    assignment.state_value(PLACES[2]).seek(40)
    answering = asyncio.create_task(answer())
    assert await fetcher._update_fetch_positions(assignment, 1, PLACES)
    await answering
    assert requests == [{PLACES[0], PLACES[1], PLACES[3]}]
    states = [assignment.state_value(place) for place in PLACES]
    assert [state.position for state in (states[0], *states[2:])] == [5, 40, 99]
    assert states[1].awaiting_reset
    assert states[1].reset_strategy == -2
    assert updated == [(assignment, 1, PLACES)]

"""Keys that are idle leave memory and changelog, in an order that survives a death at any step."""

import asyncio
import itertools
import random
from collections.abc import Iterable
from dataclasses import replace

import orjson
import pytest

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from streams.local import LocalPipeline
from streams.runtime.events import STATE_EVICTED
from streams.runtime.keyed_operator import KeyedOperator
from streams.runtime.record_packer import RecordPacker
from streams.state.record import clock_key, header_of, name_of, piece_of, state_key
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Died, Moment, Worker, place
from tests.support.streams.spans import AT_ONCE, CLOSED, EVICT_MS, SPANS, STRIDE_MS, at, log_of, ticking
from tests.support.streams.toy import STAGE
from tests.support.targets import slow_after

FULL = EVICT_MS + 2 * STRIDE_MS
"""Of ticking, and what was there before has left."""


def keys_of(broker: Broker) -> set[str]:
    return {name for key in broker.changelog if (name := name_of(key)) is not None}


def spans(outputs: list[ProducerRecord], topic: str = CLOSED) -> set[tuple[str, int, int]]:
    return {(out.key, *orjson.loads(out.value or b"")) for out in outputs if out.topic == topic}


async def worked(log: list[ConsumerRecord], *, every: int = 1, broker: Broker | None = None) -> Worker:
    """A worker that has taken and committed ``log``."""
    worker = Worker(broker or Broker(), stage=SPANS)
    for one in log:
        await worker.take(one)
        if one.offset % every == 0:
            await worker.commit()
    await worker.commit()
    assert worker.port.failures == []
    return worker


async def test_what_is_idle_leaves() -> None:
    """Its last output is sent, and nothing of it is left in memory or changelog."""
    worker = await worked(log_of(("gone", 0), *ticking("here", 0, FULL)))
    assert keys_of(worker.port.broker) == {"here"}
    assert {place[1] for place in worker.task._operators} == {"here"}
    assert worker.port.load("spans", state_key(0, "gone")) is None
    assert spans(worker.port.broker.outputs) == {("gone", 0, 1)}
    assert worker.telemetry.count(STATE_EVICTED) == 1


async def test_what_is_not_idle_for_long_enough_stays() -> None:
    worker = await worked(log_of(("quiet", 0), *ticking("here", 0, EVICT_MS + 1)))
    assert keys_of(worker.port.broker) == {"quiet", "here"}


async def test_a_stage_without_a_limit_keeps_everything_and_no_clock() -> None:
    worker = Worker(Broker(), stage=STAGE)
    await worker.commit(*log_of(("gone", 0), *ticking("here", 0, 2 * FULL)))
    assert set(worker.port.broker.changelog) == {state_key(0, "gone"), state_key(0, "here")}


async def test_the_order_of_leaving() -> None:
    """Outputs, states, clock, tombstone: each has arrived before the next is sent."""
    log = log_of(("gone", 0), *ticking("here", 0, FULL))
    worker = await worked(log)
    steps = worker.port.steps
    closing = steps.index(f"post {CLOSED}")
    first = [
        steps.index(step, closing)
        for step in ("arrived-output", "save-head", "arrived-head", "save-clock", "arrived-clock", "drop",
                     "arrived-tombstone", "mirror")
    ]  # fmt: skip
    assert first == sorted(first)
    assert steps.index("drop") > steps.index(f"acknowledge {log[0].offset}"), "first it was committed"


async def test_states_are_looked_at_once_a_stride(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, looks = Worker(Broker(), stage=SPANS), list[str]()
    states = worker.port.states

    def counted(stage: str) -> Iterable[tuple[bytes, bytes]]:
        looks.append(stage)
        return states(stage)

    monkeypatch.setattr(worker.port, "states", counted)
    for one in log_of(*(("here", tenth * STRIDE_MS // 10) for tenth in range(30))):
        await worker.commit(one)
    assert looks == ["spans"] * 3


async def test_what_is_not_committed_stays_until_it_is() -> None:
    """The records that made the state could be read again, and would find nothing."""
    worker = Worker(Broker(), stage=SPANS)
    committed = worker.port.committed
    worker.port.committed = lambda source: 0  # type: ignore[method-assign] # Kafka answers later
    for one in log_of(("gone", 0), *ticking("here", 0, FULL)):
        await worker.commit(one)
    assert keys_of(worker.port.broker) == {"gone", "here"}
    worker.port.committed = committed  # type: ignore[method-assign]
    await worker.commit()
    assert keys_of(worker.port.broker) == {"here"}


async def test_a_state_that_is_written_after_its_tombstone_leaves_again() -> None:
    """By a worker that was replaced and does not know it yet. What comes out twice is the same."""
    log = log_of(("gone", 0), *ticking("here", 0, FULL + 2 * STRIDE_MS))
    old = (await worked(log[:1])).port.broker.changelog[state_key(0, "gone")]
    broker = (await worked(log[:-1])).port.broker
    broker.replace("spans", state_key(0, "gone"), old)
    await worked(log[-1:], broker=broker)
    assert keys_of(broker) == {"here"}
    assert [out.value for out in broker.outputs if out.topic == CLOSED] == [b"[0,1]", b"[0,1]"]


BOUND = [
    pytest.param(EVICT_MS - STRIDE_MS, False, id="before the bound"),
    pytest.param(EVICT_MS, False, id="at the bound"),
    pytest.param(EVICT_MS + STRIDE_MS, True, id="after the bound"),
    pytest.param(2 * EVICT_MS, True, id="long after"),
]


@pytest.mark.parametrize("every", [1, 7, 1000])
@pytest.mark.parametrize(("silence_ms", "anew"), BOUND)
async def test_a_key_that_comes_back(silence_ms: int, anew: bool, every: int) -> None:
    """Whether it begins anew depends on its silence alone, and not on whether it had left by then."""
    times = [("back", 0), *ticking("here", 0, silence_ms), ("back", silence_ms), ("back", silence_ms + 1)]
    log = log_of(*times)
    worker = await worked(log, every=every)
    first, last = log[-2].offset, ("back", 0, 3)
    expected = {("back", 0, 1), ("back", first, 1), ("back", first, 2)} if anew else {
        ("back", 0, 1), ("back", 0, 2), last}  # fmt: skip
    assert {one for one in spans(worker.port.broker.outputs, AT_ONCE) if one[0] == "back"} == expected
    assert spans(worker.port.broker.outputs) == ({("back", 0, 1)} if anew else set())


async def test_a_refused_record_ends_no_silence() -> None:
    """Neither does it begin a key anew: it is as if it had never come."""
    log = log_of(("back", 0), *ticking("here", 0, FULL))
    bad = ConsumerRecord(log[0].topic, 0, len(log), "back", b"rubbish", FULL)
    boom = at(len(log) + 1, FULL, "back", boom=1)
    worker = Worker(Broker(), stage=SPANS)
    await worker.commit(*log, bad, boom)
    assert spans(worker.port.broker.outputs) == set(), "still there, as it was"
    await worker.commit(at(len(log) + 2, FULL + STRIDE_MS, "here"))
    assert keys_of(worker.port.broker) == {"here"}
    assert spans(worker.port.broker.outputs) == {("back", 0, 1)}


async def test_an_operator_that_fails_after_it_began_anew_gets_back_the_new_state() -> None:
    times = [("back", 0), *ticking("here", 0, FULL), ("back", FULL)]
    log = log_of(*times)
    worker = Worker(Broker(), stage=SPANS)
    await worker.commit(*log, at(len(log), FULL, "back", boom=1), at(len(log) + 1, FULL, "back"))
    assert ("back", log[-1].offset, 2) in spans(worker.port.broker.outputs, AT_ONCE)


async def test_a_record_that_comes_while_its_key_leaves() -> None:
    """Between the checkpoint and the tombstone: it begins anew, and the tombstone does not take that away."""
    worker = Worker(Broker(), stage=SPANS)
    log = log_of(("back", 0), *ticking("here", 0, FULL), ("back", FULL), ("back", FULL))
    for one in log[:-3]:
        await worker.commit(one)
    await worker.take(log[-3])
    commit = asyncio.create_task(worker.coordinator.commit())
    while f"post {CLOSED}" not in worker.port.steps:  # noqa: ASYNC110 - a step of the port is no event
        await asyncio.sleep(0)
    await worker.take(log[-2])
    await commit
    assert "mirror" in worker.port.steps
    assert keys_of(worker.port.broker) == {"here"}
    await worker.commit()
    again = await worked(log[-1:], broker=worker.port.broker)
    assert ("back", log[-2].offset, 2) in spans(again.port.broker.outputs, AT_ONCE)


async def test_a_record_between_the_states_of_the_checkpoint_that_its_key_would_leave_with() -> None:
    """It ends the old span itself, and what it began stays."""
    log = log_of(("back", 0), *ticking("here", 0, FULL), ("back", FULL))
    worker = Worker(Broker(), stage=SPANS)
    for one in log[:-2]:
        worker.port.committed = lambda source: 0  # type: ignore[method-assign] # else it had left already
        await worker.commit(one)
    del worker.port.committed
    await worker.take(log[-2])
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 0.0))
    await asyncio.sleep(0)  # the state of here is made
    await worker.take(log[-1])
    await gradual
    assert spans(worker.port.broker.outputs) == {("back", 0, 1)}
    await worker.commit()
    assert keys_of(worker.port.broker) == {"back", "here"}
    assert spans(worker.port.broker.outputs) == {("back", 0, 1)}
    assert ("back", log[-1].offset, 1) in spans(worker.port.broker.outputs, AT_ONCE)


IMPATIENT = replace(SPANS, confirm=15)
"""Its clock follows a log of a few hundred records out of a wrong time."""


def coming_and_going(seed: int, length: int = 300) -> list[ConsumerRecord]:
    """Two keys that are mostly there, others now and then, pauses, late records, wrong clocks."""
    chance = random.Random(seed)  # noqa: S311 - a simulation
    now_ms, log = 0, []
    for offset in range(length):
        now_ms += chance.choice([0, 1, 5, STRIDE_MS, STRIDE_MS, STRIDE_MS, 3 * STRIDE_MS])
        wrong = chance.choice([0] * 60 + [EVICT_MS, 10**9, -(10**9), -STRIDE_MS])
        key = chance.choice("aaaaaaaaaaaaaabbbbbbbbcdefghij")
        fields = {"pad": chance.choice([10, 250_000])} if chance.random() < 0.02 else {}
        log.append(at(offset, max(now_ms + wrong, 0), key, **fields))
        if chance.random() < 0.02:
            log[-1] = ConsumerRecord(
                log[-1].topic, 0, offset, key, chance.choice([b"no", b'{"boom":1}']), now_ms
            )
    return log


async def one_life(broker: Broker, log: list[ConsumerRecord], every: int, dies: Moment | None) -> bool:
    """Work from the committed offset; whether the end of the log was reached and committed."""
    worker = Worker(broker, dies=dies, stage=IMPATIENT)
    try:
        for one in log[broker.committed.get(place(), 0) :]:
            await worker.take(one)
            if one.offset % every == 0:
                await worker.commit()
        await worker.commit()
        await worker.commit()
    except Died:
        return False
    assert worker.port.failures == []
    return True


def in_the_end(broker: Broker) -> tuple[set[tuple[str, int, int]], set[tuple[str, int, int]]]:
    """What was sent at once, and all spans: those that have ended, and those that are still open."""
    open_ = [
        one
        for key in keys_of(broker)
        for one in KeyedOperator(SPANS, 0, key, broker.changelog.get, lambda _: None, RecordPacker()).close()
        if isinstance(one, ProducerRecord)
    ]
    return spans(broker.outputs, AT_ONCE), spans(broker.outputs) | spans(open_)


def in_process(log: list[ConsumerRecord]) -> tuple[set[tuple[str, int, int]], set[tuple[str, int, int]]]:
    pipeline = LocalPipeline([IMPATIENT], "t.")
    outs = [out for one in log for out in pipeline.feed(one)] + pipeline.close()
    return spans(outs, AT_ONCE), spans(outs)


STEPS = ("post", "arrived-output", "arrived-piece", "save-head", "arrived-head", "save-clock",
         "arrived-clock", "drop", "arrived-tombstone", "mirror", "acknowledge")  # fmt: skip


@pytest.mark.parametrize("step", slow_after(1, STEPS))
async def test_death_at_any_step_changes_nothing(step: str) -> None:
    """Every life dies at that step, each time one later: the spans are those of a replay in process."""
    log = coming_and_going(1)
    broker = Broker()
    for life in itertools.count():
        if await one_life(broker, log, 17, lambda kind, before, n=life: kind == step and before == n):  # type: ignore[misc] # a default binds
            break
        assert life < 2000
    assert life > 3, "there were such steps"
    assert in_the_end(broker) == in_process(log)


@pytest.mark.parametrize("seed", slow_after(1, range(15)))
async def test_any_log_and_any_deaths(seed: int) -> None:
    log, chance, broker = coming_and_going(seed), random.Random(-seed), Broker()  # noqa: S311 - a simulation
    mortal = 20
    while not await one_life(
        broker, log, chance.choice([1, 5, 40]),
        (lambda kind, before: chance.random() < 0.004) if mortal > 0 else None,
    ):  # fmt: skip
        mortal -= 1
    assert in_the_end(broker) == in_process(log)
    orphans = {piece.head for key in broker.changelog if (piece := piece_of(key)) is not None}
    assert orphans <= set(broker.changelog)


@pytest.mark.slow
async def test_state_stays_bounded() -> None:
    """Twenty thousand keys come and go, thirty at a time, over a hundred and fifty times the limit."""
    broker, alive, most, offset = Broker(), 30, 0, 0
    worker = Worker(broker, stage=SPANS)
    for generation in range(20_000 // alive):
        for tick in range(2):
            now_ms = (2 * generation + tick) * 3 * STRIDE_MS
            for number in range(alive):
                await worker.take(at(offset, now_ms, f"{generation}-{number}"))
                offset += 1
        await worker.commit()
        most = max(most, len(broker.changelog), len(worker.task._operators))
    at_most = alive * (EVICT_MS // (2 * STRIDE_MS) + 4)  # a tick counts as one stride, though it is three
    assert most <= at_most < 500
    assert worker.telemetry.count(STATE_EVICTED) > 20_000 - at_most


def test_a_replay_stays_bounded() -> None:
    pipeline = LocalPipeline([SPANS], "t.")
    for generation in range(2_000):
        for number in range(3):
            pipeline.feed(at(0, generation * STRIDE_MS, f"{generation}-{number}"))
    (keys,) = pipeline._stages.values()
    assert len(keys.sorted_keys()) <= 3 * (EVICT_MS // STRIDE_MS + 3)
    assert pipeline.happened[STATE_EVICTED.name] > 5_500


async def test_pieces_that_a_smaller_state_leaves_behind_are_removed() -> None:
    times = ticking("a", 0, 30 * STRIDE_MS)
    log = log_of(*times)
    log[0], log[2], log[4] = (at(n, n * STRIDE_MS, "a", pad=250_000) for n in (0, 2, 4))
    log[8] = at(8, 8 * STRIDE_MS, "a", pad=1)
    worker = await worked(log[:8])
    pieces = {key for key in worker.port.broker.changelog if piece_of(key) is not None}
    assert len(pieces) > 2, "two slots"
    worker = await worked(log[8:], broker=worker.port.broker)
    assert set(worker.port.broker.changelog) == {state_key(0, "a"), clock_key(0)}
    assert worker.telemetry.count(STATE_EVICTED) == 0


async def test_pieces_leave_with_their_key() -> None:
    log = [at(0, 0, "gone", pad=250_000), at(1, 0, "gone"), *log_of(*ticking("here", 0, FULL))]
    log = [ConsumerRecord(one.topic, 0, n, one.key, one.value, one.ts_ms) for n, one in enumerate(log)]
    worker = await worked(log)
    assert set(worker.port.broker.changelog) == {state_key(0, "here"), clock_key(0)}


async def test_partitions_have_clocks_of_their_own() -> None:
    quick = [ConsumerRecord(one.topic, 1, *one_of(one)) for one in log_of(*ticking("here", 0, 3 * FULL))]
    worker = Worker(Broker(), stage=SPANS)
    for one in [at(0, 0, "slow"), *quick, at(1, STRIDE_MS, "slow")]:
        await worker.commit(one)
    assert ("slow", 0, 2) in spans(worker.port.broker.outputs, AT_ONCE)


def one_of(one: ConsumerRecord) -> tuple[int, str | None, bytes | None, int]:
    return one.offset, one.key, one.value, one.ts_ms


async def test_a_damaged_clock_makes_nothing_leave_too_early() -> None:
    worker = await worked(log_of(("quiet", 0), *ticking("here", 0, EVICT_MS)))
    broker = worker.port.broker
    broker.replace("spans", clock_key(0), b"hello")
    header = header_of(broker.changelog[state_key(0, "here")])
    assert header is not None
    again = Worker(broker, stage=SPANS)
    await again.commit(at(broker.committed[place()], EVICT_MS, "here"))
    assert keys_of(broker) == {"quiet", "here"}
    after = header_of(broker.changelog[state_key(0, "here")])
    assert after is not None
    assert header.seen_ms <= after.seen_ms <= header.seen_ms + STRIDE_MS

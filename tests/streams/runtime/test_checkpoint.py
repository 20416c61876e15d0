"""The order of sending, waiting and acknowledging, and what a death at any step does to the result."""

import asyncio
import itertools
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from dutycycle.contract.log import ProducerRecord, TopicPartition
from dutycycle.telemetry.events import SOURCE_GAP
from dutycycle.telemetry.metrics import COMMITS, SNAPSHOTS
from streams.operators.base import Emission, Stage
from streams.runtime.checkpoint import FLUSH_AT_ONCE
from streams.runtime.record_packer import RecordPacker
from streams.runtime.stage_task import Checkpoint
from streams.state.record import DIGEST_BYTES, HEADER_BYTES, Write
from tests.support.fakes.broker import Broker
from tests.support.metrics import metric_value
from tests.support.streams.port import Died, Moment, Worker, place, record, streams_app
from tests.support.streams.toy import RESULT, SOURCE, STAGE, TRAIL, Counter
from tests.support.targets import slow_after

KEYS = ("a", "b", "c")
LOG = [record(offset, offset * 7 % 101, KEYS[offset * offset % 3]) for offset in range(200)]
LOG[37] = record(37, b"rubbish", "b")
LOG[50] = record(50, b'{"n":1,"boom":1}', "a")
LOG[51] = record(51, b'{"n":5,"pad":200000}', "c")

PACKED_BYTES = len(RecordPacker().pack(record(0, 1), 0))
"""What a record takes that is kept; most of ``LOG`` take a byte more."""


def newest(outputs: list[ProducerRecord], topic: str) -> dict[str, list[int]]:
    """The last output of each key."""
    return {out.key: orjson.loads(out.value or b"") for out in outputs if out.topic == topic}


def trail(outputs: list[ProducerRecord]) -> list[tuple[str, bytes]]:
    """Different outputs of the trail, in the order of their first coming."""
    return list(dict.fromkeys((out.key, out.value or b"") for out in outputs if out.topic == TRAIL))


def at(step: str, number: int) -> Moment:
    """The moment of the step that so many of its kind came before."""
    return lambda kind, before: kind == step and before == number


async def undisturbed() -> Broker:
    broker = Broker()
    worker = Worker(broker)
    await worker.commit(*LOG)
    assert worker.port.failures == []
    return broker


async def one_life(broker: Broker, commit_every: int, dies: Moment | None) -> bool:
    """Work from the committed offset; whether the end of the log was reached and committed."""
    worker = Worker(broker, dies=dies)
    try:
        for one in LOG[broker.committed.get(place(), 0) :]:
            await worker.take(one)
            if worker.port.failures:
                return False
            if one.offset % commit_every == 0:
                await worker.commit()
        await worker.commit()
    except Died:
        return False
    return not worker.port.failures


async def test_a_commit_does_one_thing_after_the_other() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1), record(1, 2))
    assert worker.port.steps == [
        f"post {RESULT}", "arrived-output", "save-head", "arrived-head", "mirror", "acknowledge 1",
    ]  # fmt: skip


async def test_pieces_arrive_before_their_head_is_sent() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, b'{"n":1,"pad":1000000}'))
    kinds = [step.split(" ")[0] for step in worker.port.steps]
    assert kinds.count("save-piece") > 1
    assert kinds.index("save-head") > max(i for i, kind in enumerate(kinds) if kind == "arrived-piece")
    most = HEADER_BYTES + DIGEST_BYTES + STAGE.piece_bytes
    assert all(len(value) <= most for value in worker.port.broker.changelog.values())


async def test_nothing_new_costs_nothing() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1))
    before = len(worker.port.steps)
    await worker.commit()
    assert len(worker.port.steps) == before


async def turns() -> None:
    """As many turns for the other tasks as they can use."""
    for _ in range(1000):
        await asyncio.sleep(0)


async def test_while_no_state_arrives_no_more_is_taken_than_memory_should_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, arrives = Worker(Broker(), early_bytes=3 * PACKED_BYTES), asyncio.Event()
    write = worker.port.write

    async def write_late(stage: str, record: Write) -> asyncio.Future[object]:
        await arrives.wait()
        return await write(stage, record)

    monkeypatch.setattr(worker.port, "write", write_late)
    taking = asyncio.create_task(worker.take(*LOG[:30]))
    await turns()
    assert worker.coordinator.commit_due.is_set()
    assert worker.coordinator._uncommitted_bytes // PACKED_BYTES == 6
    committing = asyncio.create_task(
        worker.coordinator.commit()
    )  # its checkpoint makes room once, and no more
    await turns()
    assert (taking.done(), committing.done()) == (False, False)
    assert worker.coordinator._uncommitted_bytes // PACKED_BYTES == 6
    arrives.set()
    while not taking.done():
        await worker.commit()
        await asyncio.sleep(0)
    await committing
    await worker.commit()
    assert worker.port.broker.committed == {place(): 30}
    assert worker.port.failures == []


async def test_what_is_forgotten_makes_room() -> None:
    worker = Worker(Broker(), early_bytes=PACKED_BYTES)
    await worker.take(*LOG[:2])
    waiting = asyncio.create_task(worker.take(LOG[2]))
    await turns()
    assert not waiting.done()
    worker.coordinator.forget()
    await waiting
    assert worker.coordinator.next_offset(SOURCE, 0) is None, "what waited is read again by the new owner"
    await asyncio.wait_for(worker.take(LOG[0]), 120)
    assert worker.coordinator.next_offset(SOURCE, 0) == 1


STEPS = ("post", "arrived-output", "save-piece", "arrived-piece", "save-head", "arrived-head", "mirror",
         "acknowledge")  # fmt: skip


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("commit_every", slow_after(1, [17, 1, 1000]))
async def test_death_at_any_step_changes_nothing(step: str, commit_every: int) -> None:
    """Every life dies at that step, each time one later, until one reaches the end."""
    broker, expected = Broker(), await undisturbed()
    for life in itertools.count():
        if await one_life(broker, commit_every, at(step, life)):
            break
        assert life < 1000
    assert newest(broker.outputs, RESULT) == newest(expected.outputs, RESULT)
    assert trail(broker.outputs) == trail(expected.outputs)
    assert broker.committed == expected.committed == {place(): len(LOG)}


async def test_what_did_not_arrive_is_not_acknowledged_and_ends_the_worker() -> None:
    for step in ("arrived-output", "save-head", "arrived-head"):
        worker = Worker(Broker(), dies=at(step, 0), errs=True)
        await worker.commit(record(0, 1))
        assert worker.port.failures
        assert worker.port.broker.committed == {}
        with pytest.raises(TimeoutError):  # a failed worker takes no more
            await asyncio.wait_for(worker.take(record(1, 1)), 0.05)


async def test_outputs_keep_their_order_while_a_commit_is_under_way() -> None:
    worker = Worker(Broker())
    posts: list[bytes] = []
    pauses = itertools.cycle([0.01, 0.001, 0.005, 0.0])
    post = worker.port.post

    async def slow(out: ProducerRecord) -> object:
        await asyncio.sleep(next(pauses))  # waits for room, now long, now short
        posts.append(out.value or b"")
        return await post(out)

    worker.port.post = slow  # type: ignore[method-assign,assignment] # a line that is full
    await worker.take(*(record(n, 1) for n in range(9)))
    await asyncio.gather(worker.coordinator.commit(), worker.take(*(record(n, 1) for n in range(9, 200))))
    await worker.commit()
    counts = [orjson.loads(value)[0] for value in posts]
    assert counts == sorted(counts)
    assert counts[-1] == 200


async def test_what_came_during_a_commit_belongs_to_the_next() -> None:
    worker = Worker(Broker())
    await worker.take(record(0, 1))
    commit = asyncio.create_task(worker.coordinator.commit())
    await asyncio.sleep(0)
    await worker.take(record(1, 1))
    await commit
    assert worker.port.broker.committed == {place(): 1}
    await worker.commit()
    assert worker.port.broker.committed == {place(): 2}
    again = Worker(worker.port.broker)
    await again.take(record(1, 1), record(2, 1))  # 1 is read again: its state has it
    await again.commit()
    assert newest(again.port.broker.outputs, RESULT) == {"a": [3, 3]}


async def test_a_worker_that_is_no_member_writes_nothing() -> None:
    worker = Worker(Broker())
    await worker.take(record(0, 1))
    worker.port.member = False
    await worker.commit()
    assert worker.port.steps == []


async def test_membership_lost_during_a_commit_leaves_the_cut_to_the_next_owner() -> None:
    """The state is not written, and nothing after it is acknowledged before all was forgotten."""

    def lose(kind: str, before: int) -> bool:
        if kind == "arrived-output" and before == 0:
            worker.port.member = False
        return False

    worker = Worker(Broker(), dies=lose)
    await worker.commit(record(0, 1))
    worker.port.member = True
    await worker.commit(record(1, 1))
    assert (worker.port.broker.committed, worker.port.broker.changelog) == ({}, {})
    worker.coordinator.forget()
    await worker.commit(record(0, 1), record(1, 1))
    assert newest(worker.port.broker.outputs, RESULT) == {"a": [2, 2]}
    assert worker.port.broker.committed == {place(): 2}


async def test_a_record_delivered_twice_counts_once() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1), record(1, 2), record(1, 2), record(0, 1), record(2, 4))
    assert newest(worker.port.broker.outputs, RESULT) == {"a": [3, 7]}
    assert worker.port.broker.committed == {place(): 3}


@pytest.mark.parametrize(
    ("committed", "offsets", "missing", "fails", "gaps"),
    [
        pytest.param(None, [0, 1, 3], {2}, False, 0, id="hole on the broker, nothing committed: no alarm"),
        pytest.param(None, [5, 6], set(range(5)), False, 0, id="a log whose beginning has expired"),
        pytest.param(4, [4, 5, 7], {6}, False, 1, id="records that are gone: alarm, and on"),
        pytest.param(4, [6, 7], {4, 5}, False, 2, id="gone while nobody read: alarm, and on"),
        pytest.param(4, [6, 7], set(), True, 0, id="there, but not delivered: end"),
        pytest.param(None, [0, 2], set(), True, 0, id="one there, but not delivered: end"),
        pytest.param(4, [4, 8], {5, 6}, True, 0, id="partly there: end"),
    ],
)  # fmt: skip
async def test_a_hole_is_loss_only_if_the_broker_has_the_records(
    committed: int | None, offsets: list[int], missing: set[int], fails: bool, gaps: int
) -> None:
    broker = Broker()
    for offset in range(offsets[-1] + 1):
        if offset in missing:
            broker.leave_hole(SOURCE, "a", 1)
        else:
            broker.append(SOURCE, "a", b"", 0)
    if committed is not None:
        broker.committed[place()] = committed
    worker = Worker(broker)
    work = asyncio.gather(*[worker.take(record(offset, 1)) for offset in offsets], return_exceptions=True)
    await asyncio.wait([work], timeout=0.1)
    await worker.commit()
    assert bool(worker.port.failures) is fails
    assert worker.telemetry.count(SOURCE_GAP) == gaps
    assert (broker.committed.get(place()) == offsets[-1] + 1) is not fails
    work.cancel()


async def test_a_hand_over_while_a_hole_is_looked_into_drops_the_record() -> None:
    worker = Worker(Broker())
    gate = asyncio.Event()

    async def first_offset(source: TopicPartition, offset: int) -> int:
        await gate.wait()
        return offset + 100

    worker.port.first_offset = first_offset  # type: ignore[method-assign] # an answer that waits for its moment
    taking = asyncio.create_task(worker.take(record(100, 1)))
    await asyncio.sleep(0)
    worker.coordinator.forget()
    gate.set()
    await taking
    await worker.commit()
    assert worker.port.broker.committed == {}
    assert worker.port.failures == []


@pytest.mark.parametrize("arrived", [True, False])
async def test_a_worker_that_was_replaced_ends_if_records_wait_in_the_producer(arrived: bool) -> None:
    worker, committed = Worker(Broker()), asyncio.Event()

    async def commit_all() -> None:
        committed.set()

    app: Any = SimpleNamespace(
        replaced=lambda: None if worker.port.member else "was replaced",
        exact_consumer=SimpleNamespace(commit_all=commit_all),
    )
    await worker.take(record(0, 1))
    flushing = asyncio.create_task(worker.coordinator.flush())
    await asyncio.sleep(0)
    assert worker.coordinator.has_unsent
    assert worker.coordinator.is_backpressured(), "there is room, but what was put in line has not arrived"
    if arrived:
        await flushing
    worker.port.member = False
    await streams_app(app, worker.coordinator, worker.port).hand_over()
    await flushing
    assert worker.port.failures == ([] if arrived else ["was replaced"])
    assert committed.is_set() is arrived
    assert not any("save" in step for step in worker.port.steps)


async def test_a_worker_whose_commits_end_with_an_error_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, failures = Worker(Broker()), list[str]()

    def may_write() -> bool:
        raise AttributeError("there is no group yet")

    monkeypatch.setattr(worker.port, "may_write", may_write)
    app: Any = SimpleNamespace(fail=failures.append)
    await asyncio.wait_for(streams_app(app, worker.coordinator, worker.port).commit_steadily(0.01), 120)
    assert failures == ["commits ended: AttributeError('there is no group yet')"]


async def test_a_worker_that_waits_for_the_broker_is_held_up_and_not_stuck(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, arrives = Worker(Broker(), early_bytes=PACKED_BYTES), asyncio.Event()
    post = worker.port.post

    async def posted_late(out: ProducerRecord) -> asyncio.Future[object]:
        await arrives.wait()
        return await post(out)

    assert not worker.coordinator.is_backpressured()
    monkeypatch.setattr(worker.port, "post", posted_late)
    taking = asyncio.create_task(worker.take(*LOG[:30]))
    committing = asyncio.create_task(worker.coordinator.commit())
    await turns()
    assert worker.coordinator.is_backpressured(), "nothing is taken of the line, and memory is full"
    arrives.set()
    while not taking.done():
        await worker.commit()
        await asyncio.sleep(0)
    await committing
    await worker.commit()
    assert not worker.coordinator.is_backpressured()


async def test_free_memory_is_given_back_also_while_a_commit_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker, trimmed, thrice = Worker(Broker()), list[int](), asyncio.Event()

    def trim(keep: int) -> None:
        trimmed.append(keep)
        if len(trimmed) == 3:
            thrice.set()

    async def endless(*_: float) -> float:
        await asyncio.Event().wait()
        return 0.0

    monkeypatch.setattr("streams.app._C", SimpleNamespace(malloc_trim=trim))
    monkeypatch.setattr("streams.app.TRIM_S", 0.001)
    monkeypatch.setattr(worker.coordinator, "commit_gradually", endless)
    app: Any = SimpleNamespace()
    committing = asyncio.create_task(streams_app(app, worker.coordinator, worker.port).commit_steadily(600.0))
    await asyncio.wait_for(thrice.wait(), 120)
    committing.cancel()
    await asyncio.wait([committing])


async def test_coalesced_outputs_are_sent_without_a_checkpoint() -> None:
    worker = Worker(Broker())
    await worker.take(record(0, 1), record(1, 2))
    await worker.coordinator.flush()
    assert newest(worker.port.broker.outputs, RESULT) == {"a": [2, 3]}
    assert (worker.port.broker.committed, "save-head" in worker.port.steps) == ({}, False)
    await worker.coordinator.flush()
    assert worker.port.steps.count(f"post {RESULT}") == 1, "nothing changed since"


async def test_records_have_a_turn_while_many_keys_are_flushed() -> None:
    worker = Worker(Broker())
    await worker.take(*(record(n, 1, f"key-{n}") for n in range(200)))
    before = len(worker.port.steps)
    flushing = asyncio.create_task(worker.coordinator.flush())
    await asyncio.sleep(0)
    assert before < len(worker.port.steps) <= before + FLUSH_AT_ONCE
    await flushing
    assert len(newest(worker.port.broker.outputs, RESULT)) == 200


async def test_a_stage_in_which_many_keys_change_sends_their_coalesced_outputs_less_often() -> None:
    worker = Worker(Broker())
    for number, sent in ((0, 500), (1, 500)):
        await worker.take(*(record(500 * number + n, 1, f"key-{n}") for n in range(500)))
        await worker.coordinator.flush()
        assert worker.port.steps.count(f"post {RESULT}") == sent
    await worker.commit()
    assert worker.port.steps.count(f"post {RESULT}") == 1000, "a checkpoint has them all"


async def test_a_commit_can_take_one_partition_after_the_other() -> None:
    worker = Worker(Broker())
    for partition in range(3):
        await worker.take(*(record(n, 1, f"{partition}{n}", partition) for n in range(2)))
    await worker.coordinator.commit_gradually(3, 0.0)
    kinds = [step.split(" ")[0] for step in worker.port.steps]
    one = ["save-head"] * 2 + ["arrived-head"] * 2 + ["mirror"] * 2 + ["acknowledge"]
    assert [kind for kind in kinds if kind in one] == one * 3
    assert worker.port.broker.committed == {place(partition): 2 for partition in range(3)}


async def test_a_commit_is_spread_and_hurries_once_the_next_is_due() -> None:
    worker = Worker(Broker(), early_bytes=4 * PACKED_BYTES)
    for partition in range(3):
        await worker.take(record(0, 1, partition=partition))
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 600.0))
    await turns()
    assert worker.port.broker.committed == {place(0): 1}
    await worker.take(*(record(n, 1, f"{n}") for n in range(1, 4)))
    await worker.coordinator.flush()  # in the pause
    await turns()
    assert worker.port.broker.committed == {place(0): 1}
    await worker.take(record(4, 1, "4"))  # the fourth since it began
    await asyncio.wait_for(gradual, 120)
    assert worker.port.broker.committed == {place(partition): 1 for partition in range(3)}
    await worker.commit()
    assert worker.port.broker.committed[place(0)] == 5


async def test_a_commit_of_which_a_part_could_not_be_written_is_not_counted() -> None:
    worker = Worker(Broker())
    for partition in range(2):
        await worker.take(record(0, 1, partition=partition))
    worker.port.member = False
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 600.0))
    await turns()
    worker.port.member = True
    worker.coordinator.commit_due.set()  # no more pauses
    await gradual
    assert worker.port.broker.committed == {place(1): 1}
    assert metric_value(worker.telemetry, COMMITS) == 0
    await worker.commit()
    assert metric_value(worker.telemetry, COMMITS) == 1


async def test_a_worker_that_has_to_hand_over_does_not_wait_for_all_checkpoints_of_a_commit() -> None:
    worker = Worker(Broker())
    for partition in range(5):
        await worker.take(record(0, 1, partition=partition))
    steady = asyncio.create_task(worker.coordinator.commit_gradually(1, 600.0))
    await asyncio.sleep(0)
    await worker.commit()
    steady.cancel()
    kinds = [step.split(" ")[0] for step in worker.port.steps]
    assert "".join(
        "s" if kind == "save-head" else "a" for kind in kinds if kind in ("save-head", "acknowledge")
    ) == ("sa" + "ssss" + "aaaa")


@pytest.mark.parametrize("hurries", [False, True])
async def test_records_have_a_turn_after_each_state_unless_the_next_commit_is_due(
    monkeypatch: pytest.MonkeyPatch, hurries: bool
) -> None:
    worker, made = Worker(Broker()), list[str]()
    await worker.take(*(record(n, 1, f"{n}") for n in range(5)))
    add_state = worker.task.add_state

    def noted(checkpoint: Checkpoint, key: tuple[int, str]) -> list[ProducerRecord]:
        made.append(key[1])
        return add_state(checkpoint, key)

    monkeypatch.setattr(worker.task, "add_state", noted)
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 0.0))
    await asyncio.sleep(0)
    if hurries:
        worker.coordinator.commit_due.set()
    seen = [len(made)]
    while len(made) < 5:
        await asyncio.sleep(0)
        seen.append(len(made))
    assert seen == ([1, 5] if hurries else [1, 2, 3, 4, 5])
    await gradual
    assert worker.port.broker.committed == {place(): 5}


@pytest.mark.parametrize("is_gradual", [True, False])
async def test_states_arrive_before_many_more_are_made_unless_others_wait(is_gradual: bool) -> None:
    worker = Worker(Broker(), waiting_bytes=1)
    await worker.take(*(record(n, 1, f"{n}") for n in range(3)))
    if is_gradual:
        await worker.coordinator.commit_gradually(10, 0.0)
    else:
        await worker.coordinator.commit()
    kinds = [step.split(" ")[0] for step in worker.port.steps]
    steps = ("save-head", "arrived-head", "mirror")
    in_order = [*steps * 3] if is_gradual else [step for step in steps for _ in range(3)]
    assert [kind for kind in kinds if kind in (*steps, "acknowledge")] == [*in_order, "acknowledge"]
    assert metric_value(worker.telemetry, SNAPSHOTS, stage="toy") == 3


@pytest.mark.parametrize("step", ["save-piece", "save-head", "arrived-head", "mirror", "acknowledge"])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("waiting_bytes", [1, 1_000_000])
async def test_records_between_the_states_of_a_checkpoint_count_once(
    step: str, number: int, waiting_bytes: int
) -> None:
    """Some keys have them in their states, and others do not, wherever the worker dies."""
    expected, broker = await undisturbed(), Broker()
    worker = Worker(broker, dies=at(step, number), waiting_bytes=waiting_bytes)
    await worker.take(*LOG[:120])
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 0.0))
    await asyncio.sleep(0)  # the first state is made
    with suppress(Died):
        await worker.take(*LOG[120:])
    with suppress(Died):
        await gradual
    assert broker.committed in ({}, {place(): 120})
    assert await one_life(broker, 50, None)
    assert newest(broker.outputs, RESULT) == newest(expected.outputs, RESULT)
    assert trail(broker.outputs) == trail(expected.outputs)


async def test_what_a_state_has_unwritten_is_sent_before_what_follows_from_later_records() -> None:
    """Else an older hour of the ledger would replace a newer one."""

    class Ledger(Counter):
        def unwritten(self) -> list[Emission]:
            return [self._out(TRAIL, 0)]

    worker = Worker(Broker(), stage=replace(STAGE, build=Ledger))
    await worker.take(*(record(n, 1, "a") for n in range(9)), record(9, 1, "b"))
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 0.0))
    await asyncio.sleep(0)  # the state of a is made, and that of b is not
    await worker.take(record(10, 1, "a"))
    await gradual
    assert [value for key, value in trail(worker.port.broker.outputs) if key == "a"] == [b"[9,9]", b"[10,10]"]


async def test_a_checkpoint_ends_where_its_partitions_are_handed_over() -> None:
    worker = Worker(Broker())
    await worker.take(*(record(n, 1, f"{n}") for n in range(3)))
    gradual = asyncio.create_task(worker.coordinator.commit_gradually(1, 0.0))
    await asyncio.sleep(0)
    worker.coordinator.begin()
    await worker.take(record(0, 1, "0"))
    await gradual
    assert (worker.port.broker.committed, worker.port.broker.changelog) == ({}, {})
    await worker.commit()
    assert worker.port.broker.committed == {place(): 1}


async def test_what_comes_during_a_commit_is_in_a_later_checkpoint_or_in_the_next_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    worker = Worker(Broker())
    for partition in range(2):
        await worker.take(record(0, 1, partition=partition))
    acknowledge = worker.port.acknowledge

    def take_more(source: TopicPartition, offset: int) -> None:
        acknowledge(source, offset)
        if offset == 0 and source == place(0):
            for partition in range(2):
                worker.task.process(record(1, 1, partition=partition))

    monkeypatch.setattr(worker.port, "acknowledge", take_more)
    await worker.coordinator.commit_gradually(1, 0.0)
    assert worker.port.broker.committed == {place(0): 1, place(1): 2}
    await worker.coordinator.commit_gradually(1, 0.0)
    assert worker.port.broker.committed == {place(0): 2, place(1): 2}


async def test_a_flush_that_does_not_arrive_ends_the_worker() -> None:
    worker = Worker(Broker(), dies=at("arrived-output", 0), errs=True)
    await worker.take(record(0, 1))
    await worker.coordinator.flush()
    assert len(worker.port.failures) == 1
    await worker.commit()
    assert worker.port.broker.committed == {}


CLOCKED = replace(STAGE, evict_ms=1_000_000)


async def recovered_before_the_last_commit(stage: Stage) -> tuple[Worker, Broker]:
    """A worker that recovered the states, but reads from where another one has committed since."""
    broker = Broker()
    first = Worker(broker, stage=stage)
    await first.commit(*(record(n, 1) for n in range(5)))
    late, owner = Worker(broker, stage=stage), Worker(broker, stage=stage)
    await owner.commit(*(record(n, 1) for n in range(5, 15)))
    late.port.begins = dict(broker.committed)
    return late, broker


async def test_a_worker_whose_states_are_older_than_the_commit_ends_before_it_takes_a_record() -> None:
    late, broker = await recovered_before_the_last_commit(CLOCKED)
    before = list(broker.outputs)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late.take(*(record(n, 1) for n in range(15, 120))), 0.05)
    assert late.port.failures == ["states of toy, 0 are older than what is committed"]
    assert broker.outputs == before
    again = Worker(broker, stage=CLOCKED)
    await again.take(*(record(n, 1) for n in range(15, 30)))
    await again.coordinator.flush()
    assert trail(broker.outputs)[-2:] == [("a", b"[20,20]"), ("a", b"[30,30]")]


async def test_a_broker_that_does_not_say_who_wrote_counts_as_if_others_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    late, _ = await recovered_before_the_last_commit(CLOCKED)

    async def no_answer(stage: str) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(late.port, "is_sole_writer", no_answer)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(late.take(record(15, 1)), 0.05)
    assert len(late.port.failures) == 1


async def test_a_commit_that_somebody_moved_ahead_by_hand_stops_nobody() -> None:
    broker = Broker()
    first = Worker(broker, stage=CLOCKED)
    await first.commit(record(0, 1))
    broker.committed[place()] = 10
    skipping = Worker(broker, stage=CLOCKED)
    await skipping.commit(record(10, 1))
    assert skipping.port.failures == []
    assert newest(broker.outputs, RESULT) == {"a": [2, 2]}


@pytest.mark.parametrize("stage", [STAGE, replace(STAGE, stateless=True)], ids=["no clock", "no state"])
async def test_of_a_stage_without_clock_nothing_is_asked(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, _ = await recovered_before_the_last_commit(stage)
    load = late.port.load

    def known(name: str, key: bytes) -> bytes | None:
        if stage.stateless:
            raise KeyError(name)  # as of a stage without a table
        return load(name, key)

    monkeypatch.setattr(late.port, "load", known)
    await late.take(record(15, 1))
    assert late.port.failures == []

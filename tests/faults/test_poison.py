"""Poison where nobody expects it: in the topics that hold the workers' own state, and at the very limits.

A worker is killed, its changelogs are spoiled, and it goes on: what was written under keys that are nobody's,
or is older than the state, changes nothing at all. A state that is really damaged costs its own key alone.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
from aiokafka import AIOKafkaProducer

from dutycycle.contract.log import ConsumerRecord, key_bytes
from dutycycle.contract.topics import TOPICS
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.consumer import Consumer
from streams.app import changelog_topics
from streams.state.codec import to_bytes
from streams.state.record import BodyKind, clock_key, offset_of, piece_key, state_key, to_value
from streams.topology import stages
from tests.support.data.traces import write_trace
from tests.support.faults.dirt import second_of
from tests.support.faults.field import Field
from tests.support.faults.oracle import Results, counted, difference, replayed, results
from tests.support.faults.tap import Tap
from tests.support.faults.world import World, record, records
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import DEADLINE_S, until

PER_S = 60.0
VICTIM = "gpu-003"
"""The node whose state is really damaged, in the end."""
NOBODY = state_key(0, "nobody")
SPOILT_AT, DAMAGED_AT = 80, 105
"""Seconds of the trace."""
LIMIT = TOPICS["nvml-samples"].max_bytes
BROKERS_LIMIT = 1_048_588 - 200
"""Of a whole batch; no producer gets more past the broker."""


class Spoilt(NamedTuple):
    """A record for a changelog."""

    key: bytes
    value: bytes | None


def strays() -> Iterator[Spoilt]:
    """What is under keys that nobody has: any bytes at all."""
    for key in (
        b"",
        b"\0",
        b"\0\0",
        b"\0\0\0",
        b"\0\0\0\xff",
        b"\0\0\1",
        b"\0\0\1\0\0\0\xff",
        b"\0\0\2x",
        b"\xff" * 40,
    ):
        yield Spoilt(key, b"garbage")
        yield Spoilt(key, None)
    # They claim offset 0, which every log here has: of one beyond the log's end a worker cannot know that it
    # is none of its own, and refuses to go on.
    values = (b"", b"\2", b"\0" * 30, b"\2" + bytes(40), b"x" * 900_000, to_value(BodyKind.PLAIN, 0, 0, b"{"),
              to_value(BodyKind.ZSTD, 0, 0, b"no frame"), to_value(BodyKind.HEAD, 0, 0, b"\0"),
              to_value(BodyKind.HEAD, 0, 0, bytes(8) + b"\0\0\7"), to_value(77, 0, 0, b"{}"),
              to_value(BodyKind.PLAIN, 0, 0, to_bytes([1])),
              to_value(BodyKind.PLAIN, 0, 0, to_bytes({"v": 99})))  # fmt: skip
    for number, value in enumerate(values):
        yield Spoilt(state_key(0, f"nobody-{number}"), value)
        yield Spoilt(piece_key(NOBODY, 0, number), value)


def stale(found: list[ConsumerRecord]) -> Iterator[Spoilt]:
    """Under keys that somebody has: what any state beats, because it says no offset, or an older one."""
    for text in {one.key for one in found if one.key}:
        of_key = [one.value for one in found if one.key == text and one.value]
        key = key_bytes(text) or b""
        yield Spoilt(key, b"garbage")
        if len(of_key) > 1 and offset_of(of_key[0]) < offset_of(of_key[-1]):
            yield Spoilt(key, of_key[0])


async def spoil(field: Field, topic: str, partition: int, some: list[Spoilt]) -> None:
    """Put records into a changelog."""
    bootstrap = (field.settings.broker or "").removeprefix("kafka://")
    async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
        for one in some:
            await producer.send_and_wait(topic, one.value, key=one.key, partition=partition)


async def everything(field: Field, topic: str) -> list[ConsumerRecord]:
    """What lies on a topic, by its full name."""
    reader = Consumer(field.settings, "test", [topic], "beginning")
    found: list[ConsumerRecord] = []
    await reader.start()
    try:
        async with asyncio.timeout(DEADLINE_S):
            ends = await reader.ends()
            while not await reader.reached(ends):
                found += await reader.take(0.5)
    except TimeoutError:
        raise AssertionError(
            f"{topic} was not read to its end: {len(found)} records\n{field.logs()}"
        ) from None
    finally:
        await reader.stop()
    return found


def padded(one: TraceRecord, size: int) -> TraceRecord:
    """The sample with an unknown field that makes it so many bytes long."""
    plain = orjson.loads(one.payload or b"") | {"x": ""}
    plain["x"] = "x" * (size - len(orjson.dumps(plain)))
    second = ((one.ts_ms or 0) - 1_700_000_000_000) / 1000
    return record("nvml-samples", one.key or "", orjson.dumps(plain), second)


def _with_long(one: TraceRecord, size: int | None) -> list[TraceRecord]:
    return [one] if size is None else [padded(one, size), one]


def of_others(found: Results) -> Results:
    """Without what is about the victim, its pods and its jobs."""
    mine = VICTIM[-1]
    return {
        name: of for name, of in found.items()
        if f"/{VICTIM}" not in name[1]
        and not any(part.endswith(f"00{mine}") for part in name[1].split("/"))
        and name[0] != "job-peaks"
    }  # fmt: skip


async def damage_victim(field: Field) -> None:
    """What a disk or a hand may do: the newest state of a node cannot be read."""
    (topic,) = (
        one for one in changelog_topics(field.settings, stages(field.settings)) if one.endswith("-nvml")
    )
    mine = [one for one in await everything(field, topic) if (one.key or "").endswith(VICTIM)]
    newest = max(mine, key=lambda one: offset_of(one.value))
    bad = to_value(BodyKind.PLAIN, offset_of(newest.value), 0, b"damaged")
    clock = to_value(BodyKind.PLAIN, 2**40, 0, b'{"v":1,"high_ms":"soon","behind":null}')
    some = [Spoilt(key_bytes(newest.key) or b"", bad), Spoilt(clock_key(newest.partition), clock)]
    await spoil(field, topic, newest.partition, some)


async def arrived(field: Field, wanted: Results) -> None:
    """Wait until what came out is what is ``wanted``, the victim's apart if that is left out there."""
    every = wanted if any(f"/{VICTIM}" in name[1] for name in wanted) else None

    def got() -> Results:
        found = results(field.tap.found)
        return found if every else of_others(found)

    await until(lambda: got() == wanted, lambda: f"{difference(wanted, got())}\n{field.logs()}")


async def publish(field: Field, some: list[TraceRecord]) -> None:
    """Publish all of it, and see the worker take it up."""
    before = field.tap.count
    feed = await field.feed(some, PER_S)
    await feed.finish()
    await until(lambda: field.tap.count > before, field.logs)


async def test_poison_in_the_state(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    world = list(records(World(nodes=4, seconds=130, turn_s=50)))
    places = [
        at for at, one in enumerate(world) if one.key == "gpu-000" and one.topic.endswith("nvml-samples")
    ]
    fitting, longer, longest = places[20], places[30], places[40]
    good = [padded(one, LIMIT) if at == fitting else one for at, one in enumerate(world)]
    sizes = {longer: LIMIT + 1, longest: BROKERS_LIMIT}
    sent = [each for at, one in enumerate(good) for each in _with_long(one, sizes.get(at))]
    first = next(at for at, one in enumerate(sent) if second_of(one) == SPOILT_AT)
    last = next(at for at, one in enumerate(sent) if second_of(one) == DAMAGED_AT)
    until_damage = replayed(
        write_trace(tmp_path / "some.jsonl", [one for one in good if second_of(one) < DAMAGED_AT]), tmp_path
    )
    whole = of_others(replayed(write_trace(tmp_path / "all.jsonl", good), tmp_path))
    async with (
        Field(kafka, topic_prefix, tmp_path, seed=7) as field,
        Tap(field.settings, ["dead-letters"]) as letters,
    ):
        one = await field.worker()
        for part in (sent[: first // 2], sent[first // 2 : first]):
            await publish(field, part)
        spoilt, end = 0, time.monotonic() + DEADLINE_S
        absent = ("cuda-samples", "gpu-events")  # the world has none
        fed = [stage for stage in stages(field.settings) if stage.source not in absent]
        for topic in changelog_topics(field.settings, fed):
            while not (found := await everything(field, topic)):  # until the first commit of the stage
                assert time.monotonic() < end, f"{topic} stays empty\n{field.logs()}"
                await field.some_time(0.1, 0.5)
            for partition in {one.partition for one in found}:
                some = [*strays(), *stale([one for one in found if one.partition == partition])]
                await spoil(field, topic, partition, some)
                spoilt += len(some)
        one.kill()
        await publish(field, sent[first:last])
        await arrived(field, until_damage)
        await until(lambda: letters.count >= 2, field.logs)
        reasons = [orjson.loads(each)["reason"] for of in letters.found.values() for each in of]
        assert set(reasons) == {"size"}, reasons
        assert "state_reset" not in one.log, one.log
        await damage_victim(field)
        one.kill()
        await publish(field, sent[last:])
        await arrived(field, whole)
        assert "state_reset" in one.log
        # A worker that notices a stranger in its changelog ends, and its next life writes anew what counts.
        noticed = one.log.count("somebody else writes into the state")
        assert set(one.failures) <= {1}, one.log
        assert len(one.failures) <= noticed <= 3, one.log  # a kill may come while one is ending by itself
    tell(
        f"{spoilt} records into the changelogs, 2 of {LIMIT + 1} and {BROKERS_LIMIT} bytes into the samples: "
        f"{counted(until_damage)}: all equal; then a damaged state: {counted(whole)} of others equal"
    )

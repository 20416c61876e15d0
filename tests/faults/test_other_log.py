"""A topic deleted and created again, or a group ahead of it: nothing of the new log is taken for read.

A stream worker ends and says what to do; a sink, which keeps no state of it, reads all of it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord
from sinks.app import app_id as sinks_group
from streams.app import app_id, changelog_topics
from streams.topology import stages
from tests.support.data.traces import write_trace
from tests.support.faults.field import Field
from tests.support.faults.oracle import Results, counted, replayed, results
from tests.support.faults.sink_field import SinkField
from tests.support.faults.sink_lives import lives
from tests.support.faults.workers import PARTITIONS
from tests.support.faults.world import World, records
from tests.support.processes.commands import dutycycle, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until, wait_until

PER_S = 200.0
Tell = Callable[[str], None]


def of_nvml(nodes: int, seconds: int, node: bytes = b"gpu-") -> list[TraceRecord]:
    """Samples of GPUs alone, of nodes that are called so."""
    found = [
        one for one in records(World(nodes=nodes, seconds=seconds)) if one.topic.endswith("nvml-samples")
    ]
    return [
        replace(
            one,
            key=(one.key or "").replace("gpu-", node.decode()),
            payload=(one.payload or b"").replace(b"gpu-", node),
        )
        for one in found
    ]


def about(found: Results, node: str) -> Results:
    """What is about nodes that are called so."""
    return {name: of for name, of in found.items() if f"/{node}" in name[1]}


async def create_again(kafka: RunningBroker, topic: str, **config: str) -> None:
    """Delete a topic, wait until it is gone, and create it."""

    def work() -> None:
        admin = kafka.admin()
        admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in admin.list_topics(timeout=60).topics, lambda: f"{topic} to go")
        kafka.create_topics({topic: int(PARTITIONS)}, **config)

    await asyncio.to_thread(work)


def state_of(field: Field, source: str) -> str:
    """The full name of the topic that holds the state of a source."""
    changelogs = changelog_topics(field.settings, stages(field.settings))
    return next(name for name, of in changelogs.items() if of == source)


async def read_to_the_end(field: Field, trace: list[TraceRecord]) -> None:
    """Let a worker take a trace, commit it, and end."""
    log = field.folder / "before.log"
    expected = replayed(write_trace(field.folder / "before.jsonl", trace), field.folder)
    feed = await field.feed(trace, PER_S)
    await feed.finish()
    with running("stream", env=field.env, log=log):
        await until(lambda: set(results(field.tap.found)) >= set(expected), log.read_text)


def refusal(field: Field) -> str:
    """What a worker says that is started now, and ends with 1."""
    return dutycycle("stream", env=field.env, status=1).stderr


async def test_a_source_that_was_created_again_is_refused_until_its_state_is_deleted(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell
) -> None:
    old, new = of_nvml(6, 200), of_nvml(2, 60, b"new-")
    before = about(replayed(write_trace(tmp_path / "old.jsonl", old), tmp_path), "gpu-")
    expected = about(replayed(write_trace(tmp_path / "new.jsonl", new), tmp_path), "new-")
    async with Field(kafka, topic_prefix, tmp_path, seed=1) as field:
        source = full_name(topic_prefix, "nvml-samples")
        state = state_of(field, "nvml-samples")
        one = await field.worker()
        feed = await field.feed(old, PER_S)
        await feed.finish()
        await until(lambda: about(results(field.tap.found), "gpu-") == before, field.logs)
        await one.end()
        await create_again(kafka, source)
        feed = await field.feed(new, PER_S)
        await feed.finish()
        for _ in range(2):
            said = await asyncio.to_thread(refusal, field)
            for word in (source, "deleted and created again", state, app_id(field.settings)):
                assert word in said, said
        assert about(results(field.tap.found), "new-") == {}
        await create_again(kafka, state, cleanup_policy="compact")
        with running("stream", env=field.env, log=tmp_path / "after.log"):
            await until(lambda: about(results(field.tap.found), "new-") == expected, field.logs)
    tell(f"1 topic created again, 2 starts refused; then {counted(expected)}: all equal")


async def test_a_source_that_was_filled_again_while_no_worker_ran_is_known_by_its_id(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell
) -> None:
    """It has more records than the one before, so that every offset fits."""
    old, new = of_nvml(4, 60), of_nvml(4, 120, b"new-")
    expected = about(replayed(write_trace(tmp_path / "new.jsonl", new), tmp_path), "new-")
    async with Field(kafka, topic_prefix, tmp_path, seed=1) as field:
        source, state = full_name(topic_prefix, "nvml-samples"), state_of(field, "nvml-samples")
        await read_to_the_end(field, old)
        await create_again(kafka, source)
        feed = await field.feed(new, PER_S)
        await feed.finish()
        message = await asyncio.to_thread(refusal, field)
        for word in (source, "deleted and created again", "its id is", state, "LOST_STATE=begin-anew"):
            assert word in message, message
        assert about(results(field.tap.found), "new-") == {}
        field.env["DUTYCYCLE_LOST_STATE"] = "begin-anew"
        log = tmp_path / "anew.log"
        with running("stream", env=field.env, log=log):
            await until(lambda: about(results(field.tap.found), "new-") == expected, log.read_text)
        assert "state_reset" in log.read_text()
        assert "source_gap" not in log.read_text()
        del field.env["DUTYCYCLE_LOST_STATE"]  # what was made again is of the topic that there is now
        log = tmp_path / "after.log"
        feed = await field.feed(of_nvml(1, 60, b"more-"), PER_S)
        await feed.finish()
        with running("stream", env=field.env, log=log):
            await until(lambda: about(results(field.tap.found), "more-") != {}, log.read_text)
        assert "state_reset" not in log.read_text()
    tell(f"1 topic filled again, 1 start refused; then {counted(expected)}: all equal")


@pytest.mark.parametrize("new", [pytest.param((2, 60), id="shorter"), pytest.param((6, 120), id="longer")])
async def test_a_worker_ends_when_its_source_is_created_again(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell, new: tuple[int, int]
) -> None:
    old = of_nvml(6, 60)
    before = about(replayed(write_trace(tmp_path / "old.jsonl", old), tmp_path), "gpu-")
    async with Field(kafka, topic_prefix, tmp_path, seed=2) as field:
        log = tmp_path / "stream.log"
        async with field.unsupervised(log) as worker:
            feed = await field.feed(old, PER_S)
            await feed.finish()
            await until(lambda: about(results(field.tap.found), "gpu-") == before, log.read_text)
            await create_again(kafka, full_name(topic_prefix, "nvml-samples"))
            feed = await field.feed(of_nvml(*new, b"new-"), 10 * PER_S)
            await feed.finish()
            assert await asyncio.wait_for(worker.wait(), 120) == 1, log.read_text()
        assert "deleted and created again" in log.read_text()
        is_shorter = len(of_nvml(*new)) < len(old)
        assert not is_shorter or about(results(field.tap.found), "new-") == {}
    tell(f"1 topic created again under a worker, with records of {new} nodes and seconds: it ended")


async def test_a_sink_reads_all_of_a_log_that_its_group_is_ahead_of(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell
) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    async with SinkField(kafka, topic_prefix, url, tmp_path) as field:
        topic = full_name(topic_prefix, "pod-peaks")
        ahead = [TopicPartition(topic, number, 10_000) for number in range(int(PARTITIONS))]
        group = ConsumerGroupTopicPartitions(sinks_group(field.settings), ahead)
        admin = kafka.admin()  # named, because it must outlive its futures
        for answer in admin.alter_consumer_group_offsets([group]).values():
            await asyncio.to_thread(answer.result, 30)
        records = lives(20, 4, seed=1)
        feed = await field.feed(records, PER_S)
        one = await field.worker()
        await feed.finish()
        report = await field.judge(records)
        assert "log_truncated" in one.log
    tell(f"a group ahead of its topic by 10,000: {report}")


async def test_a_sink_goes_on_when_its_topic_is_created_again(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell
) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    async with SinkField(kafka, topic_prefix, url, tmp_path) as field:
        await field.worker()
        feed = await field.feed(lives(20, 40, seed=1), 10 * PER_S)
        await feed.finish()
        await field.until_look(lambda written: written == 20 * 40, "all in the database")
        for topic in ("pod-peaks", "job-peaks"):
            await create_again(kafka, full_name(topic_prefix, topic))
        new = [record for record in lives(30, 10, seed=1) if not record.key <= "pod-0019"]
        feed = await field.feed(new, PER_S)
        await feed.finish()
        await field.until_look(lambda written: written == 20 * 40 + 10 * 10, "the new ones in the database")
    tell("2 topics created again under a sink: all of the new log is in SQL")

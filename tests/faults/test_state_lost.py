"""The state of committed records is gone: it is made again from the source, or the worker does not start.

Somebody deletes a changelog, or its topic has a policy that deletes: to go on from the committed offset with
an empty state would give wrong figures without a word.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from dutycycle.contract.topics import full_name
from dutycycle.kafka.faust.offsets import ends
from tests.faults.test_other_log import PER_S, create_again, of_nvml, read_to_the_end, refusal, state_of
from tests.support.data.traces import write_trace
from tests.support.faults.field import Field
from tests.support.faults.oracle import counted, difference, replayed, results
from tests.support.faults.workers import PARTITIONS
from tests.support.processes.commands import running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

Tell = Callable[[str], None]
SECONDS = 120


async def test_it_is_made_again_where_no_record_of_the_source_is_gone(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Tell
) -> None:
    trace = of_nvml(4, SECONDS)
    expected = replayed(write_trace(tmp_path / "all.jsonl", trace), tmp_path)
    async with Field(kafka, topic_prefix, tmp_path, seed=3) as field:
        half = len(trace) // 2
        await read_to_the_end(field, trace[:half])
        await create_again(kafka, state_of(field, "nvml-samples"), cleanup_policy="compact")
        feed = await field.feed(trace[half:], PER_S)
        await feed.finish()
        log = tmp_path / "after.log"
        with running("stream", env=field.env, log=log):
            await until(
                lambda: results(field.tap.found) == expected,
                lambda: f"{difference(expected, results(field.tap.found))}\n{log.read_text()}",
            )
        assert "state_reset" in log.read_text()
        assert "state lost: " in log.read_text()
    tell(f"1 changelog created again; then {counted(expected)}: all equal")


async def test_a_worker_ends_where_the_source_has_lost_records_too_unless_it_may_begin_anew(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    trace = of_nvml(4, SECONDS)
    async with Field(kafka, topic_prefix, tmp_path, seed=4) as field:
        await read_to_the_end(field, trace)
        source, state = full_name(topic_prefix, "nvml-samples"), state_of(field, "nvml-samples")
        await create_again(kafka, state, cleanup_policy="compact")
        last = await ends(field.settings, [(source, number) for number in range(int(PARTITIONS))])
        assert last is not None
        gone = [TopicPartition(*place, 5) for place, end in last.items() if end > 5]
        admin = kafka.admin()  # named, because it must outlive its futures
        for answer in admin.delete_records(gone).values():
            await asyncio.to_thread(answer.result, 30)
        for _ in range(2):
            message = await asyncio.to_thread(refusal, field)
            for word in ("state lost", source, state, "DUTYCYCLE_LOST_STATE=begin-anew"):
                assert word in message, message
        field.env["DUTYCYCLE_LOST_STATE"] = "begin-anew"
        log = tmp_path / "anew.log"
        with running("stream", env=field.env, log=log):
            await until(lambda: "state_reset" in log.read_text(), log.read_text)


@pytest.mark.parametrize(
    ("topic", "setting", "value"),
    [
        ("nvml-samples", "cleanup.policy", "compact"),
        ("state-nvml", "cleanup.policy", "delete"),
        ("state-nvml", "cleanup.policy", "compact,delete"),
        ("state-nvml", "max.message.bytes", "5000"),
        ("window-aggregates", "max.message.bytes", "600"),
        ("trends", "min.insync.replicas", "2"),
    ],
)
async def test_a_worker_does_not_start_on_a_topic_that_loses_or_falsifies(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, topic: str, setting: str, value: str
) -> None:
    name = f"{topic_prefix}{topic}"
    kafka.create_topics({name: int(PARTITIONS)}, **{setting.replace(".", "_"): value})
    async with Field(kafka, topic_prefix, tmp_path, seed=5) as field:
        message = await asyncio.to_thread(refusal, field)
    assert f"{name} has {setting}={value}" in message
    assert "dutycycle topics --apply" in message
    assert "Traceback" not in message

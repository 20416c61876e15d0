"""A Kafka that somebody else administers: topics are deleted, small, of other numbers; groups are taken."""

import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import Array, Boolean, Float64, Int16, Int32, Schema, String
from confluent_kafka import Consumer as OtherConsumer
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource  # type: ignore[attr-defined]

from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.clients import admin_client, probe
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.faust.offsets import ends
from streams.app import app_id
from tests.faults.test_other_log import PER_S, of_nvml, read_to_the_end
from tests.support.data.traces import write_trace
from tests.support.faults.dirt import shifted
from tests.support.faults.field import Field
from tests.support.faults.oracle import replayed, results
from tests.support.faults.workers import PARTITIONS
from tests.support.kafka import settings_of
from tests.support.processes.commands import derived, environ, run_to_end, running
from tests.support.processes.figures import read_page, readiness
from tests.support.servers.kafka.broker import OwnBroker, RunningBroker
from tests.support.servers.ports import free_port
from tests.support.waiting import until, wait_until

NODES, SECONDS = 4, 60
QUOTAS = {"producer_byte_rate": 20_000.0, "consumer_byte_rate": 20_000.0, "request_percentage": 50.0}
"""Of a worker: it needs some seconds for what it does in one."""


@pytest.fixture
def trace(tmp_path: Path) -> list[TraceRecord]:
    return of_nvml(NODES, SECONDS)


async def test_a_worker_whose_topic_is_deleted_names_it(
    kafka: RunningBroker, tmp_path: Path, trace: list[TraceRecord]
) -> None:
    """It ends, or is not ready, within a minute. Of a topic that it writes the next record misses it."""

    async def delete(name: str) -> None:
        (folder := tmp_path / name).mkdir()
        prefix, log = kafka.new_prefix(), folder / "stream.log"
        async with Field(kafka, prefix, folder, seed=6) as field:
            feed = await field.feed(trace, PER_S)
            await feed.finish()
            async with field.unsupervised(log):
                await field.tap.more(log.read_text)
                topic = f"{prefix}{name}"
                admin = kafka.admin()  # named, because it must outlive its futures
                await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 60)
                if name == "window-aggregates":  # the broker may forget it later than it answers: feed on
                    await field.feed(of_nvml(NODES, 10 * SECONDS, b"new-"), PER_S)
                # What has something to commit ends at once; what has nothing reads nothing any more.
                gone, refused = f"topic {topic} is gone", f"topic {topic}: the topic does not exist"
                await until(
                    lambda: gone in readiness(log) or refused in log.read_text(),
                    lambda: f"{topic}: {readiness(log)}; {log.read_text()}\n{read_page(log, 'metrics')}",
                )

    await asyncio.gather(*map(delete, ("state-nvml", "nvml-samples", "window-aggregates")))


async def test_records_that_expired_unread_are_counted_though_no_other_follows(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, trace: list[TraceRecord]
) -> None:
    async with Field(kafka, topic_prefix, tmp_path, seed=7) as field:
        half = len(trace) // 2
        await read_to_the_end(field, trace[:half])
        feed = await field.feed(trace[half:], PER_S)
        await feed.finish()
        source = full_name(topic_prefix, "nvml-samples")
        last = await ends(field.settings, [(source, number) for number in range(int(PARTITIONS))])
        assert last is not None
        admin = kafka.admin()  # named, because it must outlive its futures
        for answer in admin.delete_records(
            [TopicPartition(*place, end) for place, end in last.items()]
        ).values():
            await asyncio.to_thread(answer.result, 60)
        log = tmp_path / "stream.log"
        gone = f'dutycycle_source_gap_total{{topic="nvml-samples"}} {len(trace) - half}.0\n'
        with running("stream", env=field.env, log=log):
            await until(lambda: gone in read_page(log), lambda: read_page(log))
            feed = await field.feed(of_nvml(1, SECONDS, b"new-"), PER_S)
            await feed.finish()
            await until(lambda: any("/new-" in name[1] for name in results(field.tap.found)), log.read_text)
            assert gone in read_page(log), f"they are counted once: {log.read_text()}"


def test_a_batch_is_no_larger_than_a_topic_takes(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, trace: list[TraceRecord]
) -> None:
    small = {f"{topic_prefix}nvml-samples": int(PARTITIONS)}
    kafka.create_topics(small, max_message_bytes="20000")
    env = environ(broker=kafka.url, topic_prefix=topic_prefix)
    path = write_trace(tmp_path / "trace.jsonl", trace)
    done = run_to_end("replay", str(path), "--broker", kafka.url, env=env)
    assert (done.returncode, f"published: {len(trace)} nvml-samples" in done.stderr) == (0, True), done.stderr


async def test_what_a_topic_does_not_take_any_more_is_named_with_key_and_size(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, trace: list[TraceRecord]
) -> None:
    """Somebody lowers the limit of a topic under a running worker. It ends, and does not begin again."""

    async def limit(topic: str) -> None:
        (folder := tmp_path / topic).mkdir()
        prefix, log = f"{topic_prefix}{topic}-", folder / "stream.log"
        name = f"{prefix}{topic}"
        async with Field(kafka, prefix, folder, seed=8) as field:
            feed = await field.feed(trace, PER_S)
            await feed.finish()
            async with field.unsupervised(log) as worker:
                await field.tap.more(log.read_text)
                less = ConfigEntry("max.message.bytes", "300", incremental_operation=AlterConfigOpType.SET)
                resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[less])
                admin = kafka.admin()  # named, because it must outlive its futures
                await asyncio.to_thread(admin.incremental_alter_configs([resource])[resource].result, 60)
                # The broker may know the limit later than it answers: feed on.
                await field.feed(of_nvml(NODES, 20 * SECONDS, b"new-"), PER_S)
                await until(
                    lambda: worker.returncode is not None,
                    lambda: f"{name}: {log.read_text()}\n{read_page(log, 'metrics')}",
                )
            (line,) = [line for line in log.read_text().splitlines() if line.startswith("dutycycle: ")]
            wanted = rf"topic {name}, key '[^']+' of \d+ bytes.*: the record is larger than"
            assert re.search(wanted, line), line
            assert "max.message.bytes" in line
            again = await asyncio.to_thread(run_to_end, "stream", env=field.env)
            assert again.returncode == 1
            assert name in again.stderr
            assert "max.message.bytes" in again.stderr

    await asyncio.gather(*map(limit, ("state-nvml", "window-aggregates")))


def test_a_collector_keeps_no_state_and_starts_though_partitions_differ(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    kafka.create_topics({f"{topic_prefix}nvml-samples": 8, f"{topic_prefix}cgroup-samples": 4})
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, partitions=PARTITIONS)
    log, settings = tmp_path / "collect.log", settings_of(env)
    with running("collect", env=env, log=log):
        wait_until(lambda: bool(asyncio.run(derived(settings, ["cgroup-samples"]))), log.read_text)
    assert "must be equal" in run_to_end("stream", env=env).stderr


def test_a_prefix_that_collides_is_refused_at_once(kafka: RunningBroker, topic_prefix: str) -> None:
    first = topic_prefix.replace("-", "_")
    other = topic_prefix.replace("-", "_").replace("_", ".", 1)
    assert run_to_end("topics", env=environ(broker=kafka.url, topic_prefix=first)).returncode == 0
    done = run_to_end("stream", env=environ(broker=kafka.url, topic_prefix=other))
    assert done.returncode == 1
    assert "give another DUTYCYCLE_TOPIC_PREFIX" in done.stderr


def test_a_group_of_another_program_is_named(kafka: RunningBroker, topic_prefix: str) -> None:
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, session_timeout=kafka.session_timeout)
    assert run_to_end("topics", env=env).returncode == 0
    other = OtherConsumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": f"{topic_prefix}streams",
            "partition.assignment.strategy": "cooperative-sticky",
        }
    )
    try:
        other.subscribe([full_name(topic_prefix, "trends")])
        while not other.assignment():
            other.poll(0.2)
        done = run_to_end("stream", env=env)
    finally:
        other.close()
    assert done.returncode == 1
    assert f"consumer group {topic_prefix}streams: another program uses this consumer group" in done.stderr


@pytest.mark.parametrize("setting", ["message.timestamp.before.max.ms", "message.timestamp.after.max.ms"])
def test_a_time_that_a_topic_refuses_is_named_with_the_topic(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, trace: list[TraceRecord], setting: str
) -> None:
    """Clocks of nodes and of the broker are further apart than somebody's topic allows."""
    topic = f"{topic_prefix}nvml-samples"
    kafka.create_topics({topic: int(PARTITIONS)}, **{setting.replace(".", "_"): "3600000"})
    if "after" in setting:
        trace = at_hour(trace, 2)
    path = write_trace(tmp_path / "trace.jsonl", trace)
    done = run_to_end(
        "replay", str(path), "--broker", kafka.url, env=environ(broker=kafka.url, topic_prefix=topic_prefix)
    )
    assert done.returncode == 1
    assert f"topic {topic}: its time is further from the broker's clock" in done.stderr
    assert setting in done.stderr


async def test_a_quota_and_an_admins_compression_change_no_figure(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """The broker's clock is an hour ahead of the nodes', too."""
    trace = at_hour(of_nvml(NODES, SECONDS), -1)
    expected = replayed(write_trace(tmp_path / "trace.jsonl", trace), tmp_path)
    for name, compression in (("nvml-samples", "gzip"), ("pod-parts", "snappy"), ("insight-parts", "lz4")):
        kafka.create_topics({f"{topic_prefix}{name}": int(PARTITIONS)}, compression_type=compression)
    async with Field(kafka, topic_prefix, tmp_path, seed=8) as field:
        client = app_id(field.settings)
        # Kafka's own tool for limits is not among the jars.
        async with admin_client(field.settings, "quotas") as admin:
            answer = await admin._send_request(_QuotasRequest(client, QUOTAS))
        assert [entry[0] for entry in answer.entries] == [0]
        feed = await field.feed(trace, PER_S)
        await feed.finish()
        log = tmp_path / "stream.log"
        with running("stream", env=field.env, log=log):
            await until(lambda: results(field.tap.found) == expected, log.read_text)
            await until(lambda: "throttled request=" in log.read_text(), log.read_text)
            assert readiness(log).startswith("ready")
        assert f"{client}: answered " in log.read_text()


def at_hour(trace: list[TraceRecord], hours: int) -> list[TraceRecord]:
    """The trace, moved by whole hours: it begins in the hour that is so many from the present one."""
    first_s = (trace[0].ts_ms or 0) // 1000
    whole = (time.time_ns() // 10**9 - first_s) // 3600 + hours
    return [shifted(record, 3600 * whole) for record in trace]


def test_workers_of_one_group_have_the_same_settings(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """Else figures would depend on who has a partition, and records be in two databases, half in each."""
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, session_timeout=kafka.session_timeout)
    records = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "other")]
    log, sink_log = tmp_path / "stream.log", tmp_path / "sink.log"
    sink_env = env | {"DUTYCYCLE_ANNOTATIONS": "off", "DUTYCYCLE_RECORDS": records[0]}
    with running("stream", env=env, log=log), running("sink", env=sink_env, log=sink_log):
        wait_until(lambda: readiness(log).startswith("ready"), log.read_text)
        wait_until(lambda: readiness(sink_log).startswith("ready"), sink_log.read_text)
        worker = run_to_end("stream", env=env | {"DUTYCYCLE_WINDOWS": "30s"})
        sink = run_to_end("sink", env=sink_env | {"DUTYCYCLE_RECORDS": records[1]})
        assert readiness(log).startswith("ready")
    assert (worker.returncode, sink.returncode) == (1, 1)
    assert (
        f"consumer group {topic_prefix}streams: its workers have DUTYCYCLE_WINDOWS the default (here [30.0])"
        in worker.stderr
    )
    assert f"consumer group {topic_prefix}sinks: its workers have DUTYCYCLE_RECORDS #" in sink.stderr
    assert records[0] not in sink.stderr


def test_all_topics_are_those_that_are_there(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, trace: list[TraceRecord]
) -> None:
    env = environ(broker=kafka.url, topic_prefix=topic_prefix)
    path = write_trace(tmp_path / "trace.jsonl", trace)
    assert run_to_end("replay", str(path), "--broker", kafka.url, env=env).returncode == 0
    out = tmp_path / "out.jsonl"
    done = run_to_end(
        "record", "--topic", "all", "--from", "2020-01-01T00:00:00Z", "--out", str(out), env=env
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(trace)} " in done.stderr


def test_a_prefix_that_is_too_long_says_how_long_it_may_be(kafka: RunningBroker) -> None:
    for length in (201, 241):
        done = run_to_end("topics", env=environ(broker=kafka.url, topic_prefix="a" * length))
        assert (done.returncode, "expected at most 200 characters" in done.stderr) == (2, True), done.stderr


@pytest.fixture
def misleading_broker() -> Iterator[tuple[OwnBroker, int]]:
    """A broker that sends its clients to a port where nobody listens, and that port."""
    nobody = free_port()
    broker = OwnBroker(advertised=nobody)
    broker.start()
    yield broker, nobody
    broker.discard()


def test_an_advertised_address_where_nobody_is_is_named(
    misleading_broker: tuple[OwnBroker, int], tmp_path: Path
) -> None:
    broker, nobody = misleading_broker
    env = environ(broker=broker.url)
    where = rf":{nobody} \(its advertised\.listeners\)"
    with pytest.raises(BrokerUnreachableError, match=where):
        asyncio.run(probe(settings_of(env)))
    for command in (["topics"], ["top", "--once"], ["record", "--out", str(tmp_path / "out.jsonl")]):
        done = run_to_end(*command, "--timeout", "1s", env=env)
        assert (done.returncode, bool(re.search(where, done.stderr))) == (1, True), done.stderr


class _QuotasResponse(Response):  # type: ignore[misc]  # the driver has no types
    API_KEY, API_VERSION = 49, 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "entries",
            Array(
                ("error_code", Int16),
                ("error_message", String("utf-8")),
                ("entity", Array(("type", String("utf-8")), ("name", String("utf-8")))),
            ),
        ),
    )


class _QuotasStruct(RequestStruct):  # type: ignore[misc]
    API_KEY, API_VERSION, RESPONSE_TYPE = 49, 0, _QuotasResponse
    SCHEMA = Schema(
        (
            "entries",
            Array(
                ("entity", Array(("type", String("utf-8")), ("name", String("utf-8")))),
                ("ops", Array(("key", String("utf-8")), ("value", Float64), ("remove", Boolean))),
            ),
        ),
        ("validate_only", Boolean),
    )


class _QuotasRequest(Request[_QuotasStruct]):  # type: ignore[misc]
    """AlterClientQuotas, which aiokafka and librdkafka do not have."""

    API_KEY = 49

    def __init__(self, client: str, quotas: dict[str, float]) -> None:
        self._entry = ([("client-id", client)], [(name, value, False) for name, value in quotas.items()])

    def build(self, request_struct_class: type[_QuotasStruct]) -> _QuotasStruct:
        return request_struct_class([self._entry], False)

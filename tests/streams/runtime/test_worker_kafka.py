"""Two workers on the real Kafka: killed, stopped, frozen; partitions wander, and the sums stay exact."""

import asyncio
import signal
from pathlib import Path

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.faust.runner import GRACE_S
from dutycycle.kafka.producer import Producer
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.streams.field import DEADLINE_S, Field, Worker, worker_settings
from tests.support.streams.toy import RESULT, SOURCE


@pytest.mark.soak  # of the real stages, and judged by a replay: tests/faults
async def test_two_workers_and_every_way_to_end(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    async with Field(kafka.url, topic_prefix, tmp_path) as field:
        first = field.start_worker()
        await field.topics()
        feeding = asyncio.create_task(field.feed(6000, per_s=100))
        await field.progress()
        second = field.start_worker()
        await field.shared_by(2)
        await field.progress()
        first.kill()
        await field.shared_by(1)
        await field.progress()
        third = field.start_worker()
        await field.shared_by(2)
        status, took = await asyncio.to_thread(second.terminate)
        assert status == 0, field.logs()
        assert took < GRACE_S + 5.0
        fourth = field.start_worker()
        await field.shared_by(2)
        third.signal(signal.SIGSTOP)
        await field.shared_by(1)  # the session is over: the other one owns everything now
        third.signal(signal.SIGCONT)
        assert await field.ended(third) == 1, field.logs()  # it knows that it stood still
        await feeding
        await field.judge()
        assert (await asyncio.to_thread(fourth.terminate))[0] == 0, field.logs()


async def test_tls_and_scram(secure_kafka: RunningBroker, tmp_path: Path) -> None:
    prefix = secure_kafka.new_prefix()
    environ = worker_settings(secure_kafka.url, prefix) | secure_kafka.settings()
    settings = load(environ)
    worker = Worker(environ, tmp_path / "worker.log")
    try:
        result = await asyncio.wait_for(one_result(settings, prefix), DEADLINE_S)
        assert result == b"[1,7]", worker.path.read_text()
        assert (await asyncio.to_thread(worker.terminate))[0] == 0
    finally:
        worker.kill()
        worker.log.close()


async def one_result(settings: Settings, prefix: str) -> bytes | None:
    """What comes out for one number, once the worker has created the topics."""
    reader = Consumer(settings, "test", [prefix + RESULT], "beginning")
    while True:
        try:
            await reader.start()
            break
        except BrokerError:
            await asyncio.sleep(0.2)
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(prefix + SOURCE, "a", b'{"n":7}', 1000)])
    while not (found := await reader.take()):
        pass
    await producer.stop()
    await reader.stop()
    return found[0].payload

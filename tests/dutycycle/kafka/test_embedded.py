"""The broker that comes with us speaks Kafka to any client, and goes when its owner goes."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import probe
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.producer import Producer
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.servers.missing import program

TOPIC = "dutycycle.pods"


def kcat(broker: EmbeddedBroker, *arguments: str, given: str | None = None) -> str:
    command = [program("kcat"), "-b", broker.bootstrap, *arguments]
    return subprocess.run(
        command, input=given, capture_output=True, text=True, timeout=240, check=True
    ).stdout


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    end = time.monotonic() + 120
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    return not alive(pid)


def test_topics_have_exactly_their_partitions(broker: EmbeddedBroker) -> None:
    broker.create_topic("dutycycle.trends", 7)
    listing = kcat(broker, "-L")
    assert 'topic "dutycycle.pods" with 3 partitions' in listing
    assert 'topic "dutycycle.trends" with 7 partitions' in listing


async def test_kcat_reads_the_very_bytes_that_were_sent(broker: EmbeddedBroker, settings: Settings) -> None:
    payload = b'{"v":1,"name":"\xc3\xbc"}'
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(TOPIC, "key", payload, 1_700_000_000_123)])
    await producer.stop()
    read = await asyncio.to_thread(kcat, broker, "-C", "-t", TOPIC, "-e", "-q", "-f", "%k|%T|%s")
    assert read == "key|1700000000123|" + payload.decode()


async def test_reads_what_kcat_writes(broker: EmbeddedBroker, settings: Settings) -> None:
    await asyncio.to_thread(kcat, broker, "-P", "-t", TOPIC, "-p", "2", "-K", ":", given="a:1\nb:2\n")
    consumer = Consumer(settings, "test", [TOPIC], "beginning")
    await consumer.start()
    ends, got = await consumer.ends(), []
    while not await consumer.reached(ends):
        got += await consumer.take()
    await consumer.stop()
    assert [(one.partition, one.key, one.value) for one in got] == [(2, "a", b"1"), (2, "b", b"2")]


async def test_an_outage_keeps_what_is_stored(broker: InterruptibleBroker, settings: Settings) -> None:
    await asyncio.to_thread(kcat, broker, "-P", "-t", TOPIC, "-p", "0", given="before\n")
    broker.set_down()
    with pytest.raises(BrokerUnreachableError):
        await probe(settings)
    broker.set_up()
    assert await asyncio.to_thread(kcat, broker, "-C", "-t", TOPIC, "-e", "-q") == "before\n"


def test_a_bad_command_is_answered_and_the_broker_lives(broker: EmbeddedBroker) -> None:
    with pytest.raises(DutycycleError, match=r"dutycycle\.pods with 5 partitions.*exists"):
        broker.create_topic(TOPIC, 5)
    broker.create_topic("dutycycle.cycles", 1)


def test_stop_ends_the_process_and_may_be_repeated() -> None:
    broker = InterruptibleBroker().start()
    pid = broker.pid
    assert pid
    broker.stop()
    assert gone(pid)
    broker.stop()
    with pytest.raises(DutycycleError, match="does not run"):
        broker.set_down()


def test_a_broker_that_died_is_said(broker: InterruptibleBroker) -> None:
    assert broker.pid
    os.kill(broker.pid, signal.SIGKILL)
    with pytest.raises(DutycycleError, match="has died"):
        broker.set_up()


def test_it_dies_with_its_parent() -> None:
    owner = subprocess.Popen(
        [
            sys.executable, "-c",
            "from dutycycle.kafka.embedded import EmbeddedBroker; import time\n"
            "broker = EmbeddedBroker().start(); print(broker.pid, flush=True); time.sleep(600)",
        ],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert owner.stdout
    pid = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert gone(pid)

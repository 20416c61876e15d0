"""Following the topics of a broker, and what is printed of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.producer import Producer
from dutycycle.live.follow import ClusterFollower, keep_time
from dutycycle.live.model.state import LiveState
from tests.support.live import POD, cgroup, nvml
from tests.support.processes.commands import run_to_end
from tests.support.processes.warm import command
from tests.support.waiting import until

Told = Callable[[str, str, dict[str, Any]], Awaitable[None]]


@asynccontextmanager
async def broker(topics: Iterable[str] = TOPICS) -> AsyncIterator[tuple[str, Told]]:
    """Its URL, and what writes a record."""
    with EmbeddedBroker({full_name("dutycycle.", name): 1 for name in topics}) as embedded:
        producer = Producer(load({}, {"broker": embedded.url}), "test")
        await producer.start()

        async def told(topic: str, key: str, plain: dict[str, Any]) -> None:
            payload = orjson.dumps({"v": 1} | plain)
            await producer.settle(
                [await producer.send(f"dutycycle.{topic}", key, payload, plain.get("ts_ms", 1))]
            )

        try:
            yield embedded.url, told
        finally:
            await producer.stop()


def tick(plain: dict[str, Any], seq: int) -> dict[str, Any]:
    return plain | {"collector": "c", "seq": seq, "interval_ms": 1000, "ts_ms": seq}


async def test_a_pod_that_was_told_of_before_it_began_has_its_name() -> None:
    async with broker(written_topics(TOPICS, ("usage",))) as (
        url,
        told,
    ):  # streams of another choice than ours
        await told("pods", "p", POD)
        follower, stop = ClusterFollower(load({}, {"broker": url}), LiveState()), asyncio.Event()
        running = asyncio.create_task(follower.run(stop))
        async with asyncio.timeout(240):
            for seq in range(1000):
                await told("cgroup-samples", "a", tick(cgroup(), seq))
                if [row.title for row in follower.state.pods()] == ["ml/train-0"]:
                    break
                await asyncio.sleep(0.1)
            await until(lambda: follower.is_caught_up)
        stop.set()
        await running
    assert follower.state.unreadable == 0


async def test_one_picture_of_any_broker_as_json() -> None:
    async with broker() as (url, told):
        await told("pods", "p", POD)
        process = await asyncio.create_subprocess_exec(
            *command(), "top", "--broker", url, "--once", "--format", "json",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        reading, seq = asyncio.create_task(process.communicate()), 0
        async with asyncio.timeout(240):
            while not reading.done():
                await told("nvml-samples", "a", tick(nvml(97), seq))
                seq += 1
                await asyncio.sleep(0.2)
        out, error = await reading
    assert (process.returncode, error) == (0, b"")
    found = orjson.loads(out)
    (gpu,), (pod,) = found["gpus"], found["pods"]
    assert (gpu["gpu_util_pct"], gpu["pods"]) == (97, ["ml/train-0"])
    assert (pod["pod"], pod["gpu_util_pct"]) == ("ml/train-0", 41)
    assert "power_w" not in gpu, "what was not measured is absent"


def top(*arguments: str) -> tuple[int, str]:
    done = run_to_end("top", *arguments)
    return done.returncode, done.stderr.strip()


async def test_a_broker_on_which_nothing_comes_is_said() -> None:
    async with broker() as (url, _):
        status, said = await asyncio.to_thread(top, "--broker", url, "--once", "--timeout", "2s")
    assert (status, said) == (
        1,
        f"dutycycle: no sample came in from {url} in 2 s: does a collector run, "
        "and is DUTYCYCLE_TOPIC_PREFIX right?",
    )


async def test_the_clock_goes_on_while_no_record_comes() -> None:
    state = LiveState()
    clock = asyncio.create_task(keep_time(state))
    try:
        await until(lambda: state.now_ms > 0)
        begun_ms = state.now_ms
        await until(lambda: state.now_ms > begun_ms)
    finally:
        clock.cancel()


def test_no_broker_is_said() -> None:
    expected = "dutycycle: no broker to watch: give --broker kafka://host:9092 or DUTYCYCLE_BROKER"
    assert top("--once") == (2, expected)

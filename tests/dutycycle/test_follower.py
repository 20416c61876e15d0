"""Goal: each record is taken once and given to all who want it, and every outage is waited for anew."""

import asyncio
from typing import Any

import orjson
import pytest

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.codec import decode
from dutycycle.contract.log import ConsumerRecord, TopicPartition, key_text
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.producer import Producer
from dutycycle.telemetry.events import Telemetry
from dutycycle.view import follower
from dutycycle.view.follower import Subscription, TopicFollower
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.waiting import until

SETTINGS = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
OUTAGES = 3
TOPICS = ("pods", "cycles", "insights", "nvml-samples")


class Flaky:
    """A consumer that is lost as soon as it has answered; at every second start nothing answers at all."""

    starts = 0

    def __init__(self, *_: Any, **_options: Any) -> None:
        type(self).starts += 1

    async def start(self) -> None:
        if self.starts % 2 == 0:
            raise BrokerUnreachableError("refused", "nothing listens there")

    async def ends(self) -> dict[Any, int]:
        return {}

    async def reached(self, _: Any) -> bool:
        return True

    async def take(self, *_: Any) -> list[Any]:
        raise BrokerUnreachableError("lost", "the connection was lost")

    async def stop(self) -> None:
        """There is no connection."""


def pod_message(offset: int, name: str, topic: str = "dutycycle.pods") -> ConsumerRecord:
    return ConsumerRecord(topic, 0, offset, name, pod_payload(name), 1000 * offset)


def pod_payload(name: str) -> bytes:
    return orjson.dumps({"v": 1, "uid": name, "name": name, "node": "a", "phase": "Running"})


async def test_of_topics_that_nobody_writes_nothing_is_asked() -> None:
    settings = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_ANALYSES": "usage"})  # there is no broker
    wanted = Subscription({"cycles": None, "insights": 60.0}, lambda topic, key, record: None)
    following = TopicFollower(settings, Telemetry("metrics"), "test", [wanted])
    await following.run()
    await following.wait_until_read(wanted.topics)
    assert following.readiness_error(wanted.topics) is None


async def test_after_an_answer_the_next_outage_is_waited_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[int] = []
    enough = asyncio.Event()

    def next_s(backoff: Backoff) -> float:
        failures.append(backoff.failures)
        backoff.failures += 1
        if len(failures) == 2 * OUTAGES:
            enough.set()
        return 0

    monkeypatch.setattr(Backoff, "next_s", next_s)
    monkeypatch.setattr("dutycycle.view.reader.Consumer", Flaky)
    wanted = Subscription({"pods": None}, lambda topic, key, record: None)
    following = asyncio.create_task(TopicFollower(SETTINGS, Telemetry("metrics"), "test", [wanted]).run())
    await asyncio.wait_for(enough.wait(), 120)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert failures[: 2 * OUTAGES] == [0, 1] * OUTAGES


def test_a_record_is_decoded_once_for_those_who_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[str] = []

    def counting(record: Any, payload: bytes, topic: str, original: Any = decode) -> Any:
        decoded.append(topic)
        return original(record, payload, topic)

    monkeypatch.setattr(follower, "decode", counting)
    taken: list[tuple[str, str, str]] = []

    def wanting(name: str, *keys: str) -> Subscription:
        return Subscription(
            {"pods": None},
            lambda topic, key, record: taken.append((name, key, getattr(record, "name", "tombstone"))),
            lambda topic, key, ts_ms: key in keys,
        )

    following = TopicFollower(
        SETTINGS, Telemetry("metrics"), "test", [wanting("one", "x", "y"), wanting("other", "y")]
    )
    for offset, name in enumerate("xyz"):
        following.take("pods", pod_message(offset, name))
    following.take("pods", ConsumerRecord("dutycycle.pods", 0, 3, "y", None, 0))
    assert taken == [
        ("one", "x", "x"), ("one", "y", "y"), ("other", "y", "y"), ("one", "y", "tombstone"),
        ("other", "y", "tombstone"),
    ]  # fmt: skip
    assert decoded == ["pods", "pods"]


def test_what_cannot_be_read_is_counted_and_passed() -> None:
    telemetry, taken = Telemetry("metrics"), []
    wanted = Subscription({"pods": None}, lambda topic, key, record: taken.append(record))
    following = TopicFollower(SETTINGS, telemetry, "test", [wanted])
    bad: list[bytes] = [b"{", b'{"v":2}', orjson.dumps({"v": 1, "uid": 3})]
    for offset, payload in enumerate(bad):
        following.take("pods", ConsumerRecord("dutycycle.pods", 0, offset, "k", payload, 0))
    assert telemetry.counts["record_unreadable", ("pods",)] == 3
    assert not taken


SUBJECT: dict[str, Any] = {"kind": "gpu", "node": "a", "gpu": "GPU-1"}
NODE_SAMPLE: dict[str, Any] = {
    "v": 1, "node": "a", "collector": "c", "seq": 0, "ts_ms": 1, "interval_ms": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("topic", "key", "record"),
    [
        ("nvml-samples", "a", NODE_SAMPLE | {"gpus": []}),
        ("pods", "u", {"v": 1, "uid": "u", "name": "p", "node": "a", "phase": "Running"}),
        ("insights", "gpu/a/GPU-1", {"v": 1, "subject": SUBJECT, "ts_ms": 1, "kind": "idle",
            "confidence": 1, "bottleneck": "none", "bottleneck_confidence": 1, "since_ms": 1}),
        ("trends", "gpu/a/GPU-1/nvml",
         {"v": 1, "subject": SUBJECT, "source": "nvml", "ts_ms": 1, "metrics": {}}),
    ],
)  # fmt: skip
def test_a_record_under_anothers_key_is_no_second_node_or_pod(
    topic: str, key: str, record: dict[str, Any]
) -> None:
    """As another producer may write them: without a key, in other letters, with its own separator."""
    telemetry = Telemetry("metrics")
    taken: list[str] = []
    wanted = Subscription({topic: None}, lambda topic, key, record: taken.append(key))
    following = TopicFollower(SETTINGS, telemetry, "test", [wanted])
    payload = orjson.dumps(record)
    others = [
        None, b"", key.upper().encode(), key.replace("/", "|").encode() + b"|", b"\xff", f"{key}/".encode(),
    ]  # fmt: skip
    for offset, written in enumerate([key.encode(), *others]):
        following.take(topic, ConsumerRecord(f"dutycycle.{topic}", 0, offset, key_text(written), payload, 0))
    assert taken == [key]
    assert telemetry.counts["record_unreadable", (topic,)] == len(others)


def test_a_record_of_the_future_hides_no_standstill() -> None:
    telemetry, now_s = Telemetry("metrics"), 1_700_000_000.0
    wanted = Subscription({"pods": None}, lambda topic, key, record: None)
    following = TopicFollower(SETTINGS, telemetry, "test", [wanted], lambda: now_s)
    payload = pod_payload("k")
    following.take("pods", ConsumerRecord("dutycycle.pods", 0, 0, "k", payload, 4_102_444_800_000))
    now_s += 60
    delays = [
        value for name, _, value in telemetry.metrics.samples() if name == "dutycycle_watermark_delay_seconds"
    ]
    assert delays == [60]


class Following:
    """A follower of a broker that goes and comes, and what it has taken in order."""

    def __init__(self, broker: EmbeddedBroker, starts: dict[str, float | None]) -> None:
        self.settings = load({"DUTYCYCLE_NODE": "n", "DUTYCYCLE_BROKER": broker.url})
        self.taken: list[tuple[str, str]] = []
        self.telemetry = Telemetry("metrics")
        self.follower = TopicFollower(
            self.settings, self.telemetry, "test",
            [Subscription(starts, lambda topic, key, record: self.taken.append((topic, key)))],
        )  # fmt: skip

    async def send(self, topic: str, *keys: str, ts_ms: int = 1) -> None:
        producer = Producer(self.settings, "test")
        await producer.start()
        sent = [await producer.send(f"dutycycle.{topic}", key, pod_payload(key), ts_ms) for key in keys]
        await producer.settle(sent)
        await producer.stop()


async def test_after_an_outage_it_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second outage is long enough to be said, though nothing is asked but for what may come."""
    monkeypatch.setattr("dutycycle.kafka.consumer._SILENT_S", 2.0)

    def is_away() -> bool:
        return "broker_unreachable" in {event for event, _ in following.telemetry.conditions}

    with InterruptibleBroker({"dutycycle.pods": 1}) as broker:
        following = Following(broker, {"pods": None})
        await following.send("pods", "a", "b")
        running = asyncio.create_task(following.follower.run())
        await following.follower.wait_until_read(["pods"])
        await until(lambda: len(following.taken) == 2)
        for name, lasts in (("c", False), ("d", True)):
            broker.set_down()
            await (until(is_away) if lasts else asyncio.sleep(1.0))
            broker.set_up()
            await following.send("pods", name)
            await until(lambda expected=name: ("pods", expected) in following.taken)  # type: ignore[misc]
        await until(lambda: not is_away())
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert [key for _, key in following.taken] == ["a", "b", "c", "d"]


async def test_what_a_pod_did_is_known_before_it_is_known_that_it_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []

    def noting(
        following: TopicFollower, topic: str, message: ConsumerRecord, take: Any = TopicFollower.take
    ) -> None:
        order.append(topic)
        take(following, topic, message)

    monkeypatch.setattr(TopicFollower, "take", noting)
    with EmbeddedBroker({"dutycycle.pods": 1, "dutycycle.pod-peaks": 1, "dutycycle.cycles": 1}) as broker:
        following = Following(broker, {"pods": None, "cycles": None})
        await following.send("pods", "a", "b")
        await following.send("cycles", *map(str, range(200)))  # none can be read: they are not taken
        said = following.follower.readiness_error(["pods", "cycles"])
        assert said == "reading pods, cycles"
        running = asyncio.create_task(following.follower.run())
        await following.follower.wait_until_read(["pods", "cycles"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert order == ["cycles"] * 200 + ["pods"] * 2


async def test_topics_begin_as_far_back_as_somebody_wants() -> None:
    now_s = 1_700_000_000.0
    with EmbeddedBroker({"dutycycle.pods": 1}) as broker:
        settings = load({"DUTYCYCLE_NODE": "n", "DUTYCYCLE_BROKER": broker.url})
        taken: list[str] = []
        subscriptions = [
            Subscription({"pods": back_s}, lambda topic, key, record: taken.append(key)) for back_s in (5, 60)
        ]
        following = Following(broker, {})
        for age_s, key in ((90, "old"), (30, "young")):
            await following.send("pods", key, ts_ms=round((now_s - age_s) * 1000))
        reading = TopicFollower(settings, Telemetry("metrics"), "test", subscriptions, wall=lambda: now_s)
        running = asyncio.create_task(reading.run())
        await until(lambda: len(taken) == 2)
        await reading.wait_until_read(["pods"])
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert taken == ["young", "young"]


async def test_a_log_that_ends_before_is_another_one_and_is_taken_whole() -> None:
    with EmbeddedBroker({"dutycycle.pods": 1}) as broker:
        following = Following(broker, {"pods": None})
        await following.send("pods", "a", "b")
        following.follower._first.next[TopicPartition("dutycycle.pods", 0)] = 7
        running = asyncio.create_task(following.follower.run())
        await until(lambda: len(following.taken) == 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

"""Goal: nothing is shown too early, and a state that was stored says where the next process has to begin."""

from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import TopicPartition
from dutycycle.contract.records.usage import NodeUsage
from dutycycle.contract.settings.load import load
from dutycycle.kafka.consumer import Message
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.telemetry.events import Telemetry
from sinks.prometheus.reader import MetricsReader
from sinks.prometheus.service import serve
from sinks.prometheus.view import MetricsView
from tests.support.data.samples import gpu, nvml

NOW_S = 1_700_000_000.0
SETTINGS = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
SAMPLES = "dutycycle.nvml-samples"


def reader(view: MetricsView | None = None) -> MetricsReader:
    return MetricsReader(SETTINGS, Telemetry("metrics"), view or MetricsView(60_000), wall=lambda: NOW_S)


def sample(node: str, seq: int, offset: int, partition: int = 0) -> Message:
    ts_ms = round(NOW_S * 1000) + 1000 * (seq - 100)
    processes = [{"pid": 1, "pod_uid": f"pod-{node}", "gpu_util_pct": 50}]
    plain = nvml(seq, [gpu(gpu_util_pct=50, processes=processes)], ts_ms=ts_ms, node=node, collector=node)
    return Message(SAMPLES, partition, offset, ts_ms, node.encode(), orjson.dumps(plain))


class Stored:
    """A producer that keeps what it is given; ``away``: nothing is acknowledged."""

    def __init__(self) -> None:
        self.records: dict[str, NodeUsage] = {}
        self.away = False

    async def send(self, topic: str, key: str, payload: bytes | None, ts_ms: int | None) -> str:
        assert topic == "dutycycle.node-usage"
        if payload is not None:
            self.records[key] = decode(NodeUsage, payload, "node-usage")
        return key

    async def settle(self, sent: list[str]) -> None:
        if self.away:
            raise BrokerUnreachableError("timeout", "away")
        sent.clear()


def test_nothing_is_served_before_the_end_of_the_topics() -> None:
    telemetry = Telemetry("metrics")
    one = MetricsReader(SETTINGS, telemetry, MetricsView(60_000))
    serve(SETTINGS, telemetry, one, wall=lambda: NOW_S)
    one.take(sample("a", 100, 0))
    assert b"dutycycle_gpu" not in telemetry.metrics.page()
    assert telemetry.status.readiness_error() is not None
    one.caught_up = True
    assert b"dutycycle_gpu_utilization_ratio" in telemetry.metrics.page()
    telemetry.status.waiting = None
    assert telemetry.status.readiness_error() is None


async def test_where_the_next_process_begins() -> None:
    """Where the checkpoint before this one was complete: of this one a part may be lost."""
    one, stored = reader(), Stored()
    one.caught_up = True
    for offset, node in enumerate("abab", start=5):
        one.take(sample(node, 50 + offset, offset))
    await one.save(stored)  # type: ignore[arg-type]
    assert {key: (found.offset, found.complete_to) for key, found in stored.records.items()} == {
        "a": (7, 5),
        "b": (8, 5),
    }
    one.take(sample("a", 60, 9))
    await one.save(stored)  # type: ignore[arg-type]
    assert stored.records["a"].complete_to == 9
    assert stored.records["b"].complete_to == 5, "it has not changed, and is not written again"
    view = MetricsView(60_000)
    for found in stored.records.values():
        view.take(found)
    assert view.complete_to == {0: 9}


async def test_a_checkpoint_that_was_not_acknowledged_is_none() -> None:
    one, stored = reader(), Stored()
    one.caught_up = True
    for offset in range(5, 9):
        one.take(sample("ab"[offset % 2], 50 + offset, offset))
    stored.away = True
    with pytest.raises(BrokerUnreachableError):
        await one.save(stored)  # type: ignore[arg-type]
    stored.away = False
    one.take(sample("a", 60, 9))
    await one.save(stored)  # type: ignore[arg-type]
    assert {found.complete_to for found in stored.records.values()} == {5}, "and both are written again"


async def test_nothing_is_stored_before_the_end_of_the_topics() -> None:
    one, stored = reader(), Stored()
    one.take(sample("a", 60, 9))
    await one.save(stored)  # type: ignore[arg-type]
    assert not stored.records


def test_another_log_with_smaller_offsets_counts_on() -> None:
    one = reader()
    for seq in range(10):
        one.take(sample("a", seq, 100 + seq))
    before = one.view.nodes["a"].gpus["GPU-0"].busy_s
    one.take(sample("a", 11, 109))
    assert one.view.nodes["a"].gpus["GPU-0"].busy_s == before, "an old offset is one that was counted"
    place = TopicPartition(SAMPLES, 0)
    assert one.begin()[1] == {place: 110}
    one.connected({place: 3})
    one.take(sample("a", 11, 0))
    assert one.view.nodes["a"].gpus["GPU-0"].busy_s > before


def test_what_cannot_be_read_is_counted_and_passed() -> None:
    telemetry = Telemetry("metrics")
    one = MetricsReader(SETTINGS, telemetry, MetricsView(60_000))
    bad: list[Any] = [b"{", b'{"v":2}', orjson.dumps({"v": 1, "uid": 3})]
    for offset, payload in enumerate(bad):
        one.take(Message("dutycycle.pods", 0, offset, 0, b"k", payload))
    assert telemetry.counts["record_unreadable", ("pods",)] == 3
    assert not one.view.pods

"""Goal: nothing is shown too early, each record is taken once, and what cannot be read is passed."""

from typing import Any

import orjson

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.load import load
from dutycycle.kafka.consumer import Message
from dutycycle.telemetry.events import Telemetry
from sinks.prometheus.reader import MetricsReader
from sinks.prometheus.service import serve
from sinks.prometheus.view import MetricsView
from tests.support.data.samples import gpu, nvml

NOW_S = 1_700_000_000.0
SETTINGS = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
PARTS = "dutycycle.node-parts"


def part(offset: int, joules: float, since_ms: int = 1) -> Message:
    """A part of node ``a``, of another state where ``since_ms`` differs."""
    plain = {
        "v": 1, "node": "a", "ts_ms": 1000 * offset, "since_ms": since_ms, "gpus": {},
        "totals": {"GPU-0": {"energy_j": joules}},
    }  # fmt: skip
    return Message(PARTS, 0, offset, 1000 * offset, b"a", orjson.dumps(plain))


def test_nothing_is_served_before_the_end_of_the_topics() -> None:
    telemetry = Telemetry("metrics")
    reader = MetricsReader(SETTINGS, telemetry, MetricsView(60_000))
    serve(SETTINGS, telemetry, reader, wall=lambda: NOW_S)
    sample = nvml(1, [gpu(gpu_util_pct=50)], ts_ms=round(NOW_S * 1000), node="a")
    reader.take(Message("dutycycle.nvml-samples", 0, 0, round(NOW_S * 1000), b"a", orjson.dumps(sample)))
    assert b"dutycycle_gpu" not in telemetry.metrics.page()
    assert telemetry.status.readiness_error() is not None
    reader.caught_up = True
    assert b"dutycycle_gpu_utilization_ratio" in telemetry.metrics.page()
    telemetry.status.waiting = None
    assert telemetry.status.readiness_error() is None


def test_what_is_read_again_after_an_outage_is_not_taken_again() -> None:
    """A log begins with a state that was lost: its counters are over, and higher."""
    reader = MetricsReader(SETTINGS, Telemetry("metrics"), MetricsView(60_000))
    place, log = TopicPartition(PARTS, 0), [part(0, 900), part(1, 950), part(2, 5, since_ms=2)]

    def joules() -> float:
        return reader.view.parts["a"].totals["GPU-0"]["energy_j"]

    reader.take_all(log)
    assert joules() == 5
    reader.connected({place: 3})
    for message in log:
        reader.take(message)
        assert joules() == 5
    reader.take(part(3, 6, since_ms=2))
    assert joules() == 6
    reader.connected({place: 2})  # somebody made the topic anew
    reader.take(part(0, 1, since_ms=3))
    assert joules() == 1
    # Again, and the client noticed no outage.
    reader.take_all([part(1, 2, since_ms=3), part(0, 7, since_ms=4)])
    assert joules() == 7


def test_what_cannot_be_read_is_counted_and_passed() -> None:
    telemetry = Telemetry("metrics")
    reader = MetricsReader(SETTINGS, telemetry, MetricsView(60_000))
    bad: list[Any] = [b"{", b'{"v":2}', orjson.dumps({"v": 1, "uid": 3})]
    for offset, payload in enumerate(bad):
        reader.take(Message("dutycycle.pods", 0, offset, 0, b"k", payload))
    assert telemetry.counts["record_unreadable", ("pods",)] == 3
    assert not reader.view.pods

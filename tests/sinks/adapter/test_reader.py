"""The reader on a real Kafka: what was there, what comes, what nobody can read, and a broker that goes."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest_asyncio

from dutycycle.contract.records.derived import WindowAggregate, WindowMetric, pod_subject
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.kafka.topics import ensure_topics
from dutycycle.telemetry.events import ADAPTER, Telemetry
from sinks.adapter.figures import Figures
from sinks.adapter.metric_names import MetricName
from sinks.adapter.reader import AdapterReader
from sinks.events import DERIVED, RECORD_UNREADABLE
from tests.support.kafka import send
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

DEADLINE_S = 90.0


class Reading:
    """A reader at work, and what it has read."""

    def __init__(self, settings: Settings) -> None:
        self.figures = Figures(0)
        self.telemetry = Telemetry(ADAPTER)
        self.reader = AdapterReader(settings, self.figures, self.telemetry)
        self.settings = settings

    async def window(self, mean: float) -> None:
        """Of the pod ``a``, in the second that ends now."""
        end_ms = _now_ms()
        one = WindowAggregate(
            subject=pod_subject("n", "a"), source="nvml", size_ms=1000, start_ms=end_ms - 1000, end_ms=end_ms,
            metrics={"gpu_util_pct": WindowMetric(count=1, mean=mean)},
        )  # fmt: skip
        await send(self.settings, [("window-aggregates", "pod/a", one)])

    def value(self) -> float | None:
        found = self.figures.values(["a"], MetricName("gpu_util_pct"), _now_ms())
        return found["a"].value if found else None


def _now_ms() -> int:
    return round(time.time() * 1000)


@pytest_asyncio.fixture
async def reading(kafka: RunningBroker, topic_prefix: str) -> AsyncIterator[Reading]:
    settings = load(
        {"DUTYCYCLE_NODE": "n", "DUTYCYCLE_BROKER": kafka.url, "DUTYCYCLE_TOPIC_PREFIX": topic_prefix}
    )
    await ensure_topics(settings, DERIVED)
    yield Reading(settings)


async def test_what_was_there_is_read_before_it_is_ready_and_a_broker_that_restarts_is_outlasted(
    reading: Reading, kafka: RunningBroker
) -> None:
    await reading.window(10)
    await send(reading.settings, [("cycles", "pod/a/nvml", b"poison")])
    error = reading.reader.readiness_error()
    assert error is not None
    assert "window-aggregates" in error
    assert "pods" in error
    running = asyncio.create_task(reading.reader.run())
    await until(lambda: reading.reader.readiness_error() is None, what=reading.reader.readiness_error)
    assert reading.value() == 10
    assert reading.telemetry.counts[RECORD_UNREADABLE.name, ("cycles",)] == 1
    await asyncio.to_thread(kafka.stop)
    await asyncio.to_thread(kafka.ensure_running)
    await reading.window(20)
    await until(lambda: reading.value() == 20, what=reading.value)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

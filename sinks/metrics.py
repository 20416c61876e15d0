"""Counts what a worker of the sinks waits for and writes."""

import time

from dutycycle.kafka.faust import logs
from dutycycle.telemetry import events
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import (
    LAST_WRITE,
    PENDING,
    RECORDS_TAKEN,
    RECORDS_USED,
    SINK_UP,
    WATERMARK_DELAY,
    WRITES,
)
from sinks import events as sink_events
from sinks.dispatcher import Dispatcher
from sinks.events import PERMISSION_MISSING, SINK_AWAY


def serve_metrics(telemetry: Telemetry, dispatcher: Dispatcher) -> None:
    """Declare what may be counted, and serve what can be read of ``dispatcher``."""
    names = [sink.name for sink in dispatcher.sinks]
    telemetry.expect(events, sink_events, logs, topic=dispatcher.topics, sink=names)
    metrics = telemetry.metrics
    for name in names:
        metrics.counter(WRITES, sink=name)
    metrics.read(PENDING, lambda: {(sink.name,): float(sink.pending) for sink in dispatcher.sinks})
    metrics.read(
        SINK_UP,
        lambda: {(name,): float((SINK_AWAY.name, name) not in telemetry.conditions) for name in names},
    )
    metrics.read(
        WATERMARK_DELAY,
        lambda: {(topic,): time.time() - ms / 1000 for topic, ms in list(dispatcher.newest_ms.items())},
    )
    metrics.read(RECORDS_TAKEN, lambda: {(topic,): float(n) for topic, n in dispatcher.records_taken.items()})
    metrics.read(RECORDS_USED, lambda: {(topic,): float(n) for topic, n in dispatcher.records_used.items()})

    def away() -> str | None:
        conditions = list(telemetry.conditions.items())
        return next((detail for (event, _), detail in conditions if event == SINK_AWAY.name), None)

    def lacking() -> str:  # without the API server's words, which name an object
        lacks = [name for event, name in list(telemetry.conditions) if event == PERMISSION_MISSING.name]
        return f"no permission to {', '.join(lacks)}" if lacks else ""

    telemetry.status.ready["sinks"], telemetry.status.remark = away, lacking


def count_writes(telemetry: Telemetry, sink: str, count: int = 1) -> None:
    """Count that so many rows or objects were written just now."""
    telemetry.metrics.counter(WRITES, sink=sink).inc(count)
    telemetry.metrics.gauge(LAST_WRITE, sink=sink).set(time.time())

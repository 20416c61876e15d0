"""The figures of a worker of the sinks, as it serves them."""

import time
from collections.abc import Callable, Iterable
from typing import Protocol, runtime_checkable

from bus.faust.logs import LIBRARIES, LIBRARY_SAID
from contract.records.deadletter import Reason
from sinks import events
from sinks.dispatcher import Dispatcher
from sinks.events import SINK_AWAY
from telemetry.events import (
    BROKER_UNREACHABLE,
    DEAD_LETTER,
    SOURCE_GAP,
    WRITE_REJECTED,
    WRITE_RETRIED,
    Event,
    Telemetry,
)
from telemetry.meter import Labels, product
from telemetry.metrics import (
    LAST_WRITE,
    PENDING,
    RECORDS_TAKEN,
    RECORDS_USED,
    SINK_UP,
    WATERMARK_DELAY,
    WRITES,
)


@runtime_checkable
class Waiting(Protocol):
    """A sink that can say how much waits to be written. For any thread."""

    name: str

    @property
    def pending(self) -> int: ...


def tell(telemetry: Telemetry, dispatcher: Dispatcher, wall: Callable[[], float] = time.time) -> None:
    """Declare what may be counted, and serve what can be read of ``dispatcher``."""
    names = [sink.name for sink in dispatcher.sinks]
    _expect(telemetry, dispatcher.topics, names)
    meter = telemetry.meter
    waiting = [sink for sink in dispatcher.sinks if isinstance(sink, Waiting)]
    meter.read(PENDING, lambda: {(sink.name,): float(sink.pending) for sink in waiting})
    meter.read(SINK_UP, lambda: _up(telemetry, names))
    meter.read(WATERMARK_DELAY, lambda: _delays_s(dispatcher, wall()))
    telemetry.status.ready["sinks"] = lambda: _away(telemetry)


def _expect(telemetry: Telemetry, topics: Iterable[str], names: Iterable[str]) -> None:
    topics = list(topics)
    telemetry.expect(DEAD_LETTER, product(topics, Reason))
    telemetry.expect(SOURCE_GAP, product(topics))
    telemetry.expect(LIBRARY_SAID, product(LIBRARIES))
    telemetry.expect(SINK_AWAY, product(names))
    for event in (BROKER_UNREACHABLE, WRITE_REJECTED, WRITE_RETRIED):
        telemetry.expect(event)
    for event in vars(events).values():
        if isinstance(event, Event) and event is not SINK_AWAY:
            telemetry.expect(event)
    for metric in (RECORDS_TAKEN, RECORDS_USED):
        telemetry.meter.expect(metric, *product(topics))
    telemetry.meter.expect(WRITES, *product(names))


def wrote(telemetry: Telemetry, sink: str, count: int = 1) -> None:
    """So many rows or objects were written just now."""
    telemetry.meter.add(WRITES, count, sink=sink)
    telemetry.meter.set(LAST_WRITE, time.time(), sink=sink)


def _up(telemetry: Telemetry, names: Iterable[str]) -> dict[Labels, float]:
    return {(name,): float((SINK_AWAY.name, name) not in telemetry.conditions) for name in names}


def _away(telemetry: Telemetry) -> str | None:
    away = [detail for (event, _), detail in list(telemetry.conditions.items()) if event == SINK_AWAY.name]
    return away[0] if away else None


def _delays_s(dispatcher: Dispatcher, now_s: float) -> dict[Labels, float]:
    return {(topic,): now_s - ms / 1000 for topic, ms in list(dispatcher.newest_ms.items())}

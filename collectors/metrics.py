"""The figures of the collector, as its process serves them."""

import time
from collections.abc import Callable

from collectors.base import Tick
from telemetry.events import COLLECTOR_FAILED, Telemetry
from telemetry.metrics import (
    LAST_MEASURE_SECONDS,
    MEASURE_SECONDS,
    MEASURES,
    SOURCE_RESTARTS,
    SOURCE_UP,
    TICKS,
)

_LEAST_BOUND_S = 60.0


class Figures:
    """What the runner tells of its ticks and of each source."""

    def __init__(self, telemetry: Telemetry, interval_s: float, clock: Callable[[], float] = time.monotonic):
        self._telemetry = telemetry
        self._metrics = telemetry.metrics
        self._ticks = telemetry.metrics.counter(TICKS)
        self._bound_s = max(_LEAST_BOUND_S, 5 * interval_s)
        self._clock = clock
        self._ticked_s = clock()

    def expect(self, source: str) -> None:
        """There is such a source; it has not measured yet."""
        self._metrics.gauge(SOURCE_UP, collector=source)
        for metric in (SOURCE_RESTARTS, MEASURES, MEASURE_SECONDS):
            self._metrics.counter(metric, collector=source)

    def ticked(self) -> None:
        """A tick begins."""
        self._ticked_s = self._clock()
        self._ticks.inc()

    def measured(self, source: str, tick: Tick) -> None:
        """It answered the tick in time. ``Telemetry`` still has the condition if it had failed."""
        took_s = max(self._clock() - tick.monotonic_s, 0.0)
        self._metrics.gauge(SOURCE_UP, collector=source).set(1)
        self._metrics.gauge(LAST_MEASURE_SECONDS, collector=source).set(took_s)
        self._metrics.counter(MEASURES, collector=source).inc()
        self._metrics.counter(MEASURE_SECONDS, collector=source).inc(took_s)
        if (COLLECTOR_FAILED.name, source) in self._telemetry.conditions:
            self._metrics.counter(SOURCE_RESTARTS, collector=source).inc()

    def failed(self, source: str) -> None:
        """It did not."""
        self._metrics.gauge(SOURCE_UP, collector=source).set(0)

    def silent(self) -> str | None:
        """A probe: whether no tick has begun for too long."""
        silent_s = self._clock() - self._ticked_s
        return f"none has begun for {silent_s:.0f} s" if silent_s > self._bound_s else None

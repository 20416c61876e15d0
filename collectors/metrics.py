"""What the collector's process says of its ticks and of each source, as metrics."""

import time
from collections.abc import Callable

from collectors.base import Tick
from telemetry.events import COLLECTOR_FAILED, Telemetry
from telemetry.metrics import (
    MEASURE_SECONDS,
    MEASURE_SECONDS_SUM,
    MEASURES,
    SOURCE_RESTARTS,
    SOURCE_UP,
    TICKS,
)

_LEAST_BOUND_S = 60.0


class CollectorMetrics:
    """Metrics of the tick loop. A source is a collector by its name."""

    def __init__(self, telemetry: Telemetry, interval_s: float, clock: Callable[[], float] = time.monotonic):
        self._telemetry = telemetry
        self._meter = telemetry.meter
        self._bound_s = max(_LEAST_BOUND_S, 5 * interval_s)
        self._clock = clock
        self._ticked_s = clock()

    def expect(self, source: str) -> None:
        """There is such a source; it has not measured yet."""
        self._meter.set(SOURCE_UP, 0, collector=source)
        self._meter.expect(SOURCE_RESTARTS, (source,))
        self._meter.expect(MEASURES, (source,))
        self._meter.expect(MEASURE_SECONDS_SUM, (source,))
        self._telemetry.expect(
            COLLECTOR_FAILED, [(source, reason) for reason in ("error", "no_answer", "slow", "closing")]
        )

    def tick_begun(self) -> None:
        """A tick begins."""
        self._ticked_s = self._clock()
        self._meter.add(TICKS)

    def measured(self, source: str, tick: Tick) -> None:
        """A source answered the tick in time. If it had failed, ``Telemetry`` still has the condition."""
        took_s = max(self._clock() - tick.monotonic_s, 0.0)
        self._meter.set(SOURCE_UP, 1, collector=source)
        self._meter.set(MEASURE_SECONDS, took_s, collector=source)
        self._meter.add(MEASURES, collector=source)
        self._meter.add(MEASURE_SECONDS_SUM, took_s, collector=source)
        if (COLLECTOR_FAILED.name, source) in self._telemetry.conditions:
            self._meter.add(SOURCE_RESTARTS, collector=source)

    def failed(self, source: str) -> None:
        """A source failed, or did not answer in time."""
        self._meter.set(SOURCE_UP, 0, collector=source)

    def readiness_error(self) -> str | None:
        """What is wrong: no tick has begun for five intervals, and for a minute. None when all is well."""
        silent_s = self._clock() - self._ticked_s
        return f"none has begun for {silent_s:.0f} s" if silent_s > self._bound_s else None

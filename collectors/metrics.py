"""Counts in metrics of the collector's process: its ticks, and each source."""

import time
from collections.abc import Callable

from dutycycle.telemetry.events import COLLECTOR_FAILED, Telemetry
from dutycycle.telemetry.metrics import (
    LAST_MEASURE_SECONDS,
    MEASURE_SECONDS,
    MEASURES,
    SOURCE_RESTARTS,
    SOURCE_UP,
    TICKS,
    Labels,
    Metric,
)

_LEAST_BOUND_S = 60.0


class CollectorMetrics:
    """Keeps the metrics of the tick loop, for a scrape to read. A source is a collector by its name."""

    def __init__(self, telemetry: Telemetry, interval_s: float, clock: Callable[[], float] = time.monotonic):
        self._telemetry = telemetry
        self._ticks = 0
        telemetry.metrics.read(TICKS, lambda: float(self._ticks))
        self._values: dict[Metric, dict[Labels, float]] = {}
        """By source."""
        for metric in (SOURCE_UP, SOURCE_RESTARTS, MEASURES, MEASURE_SECONDS, LAST_MEASURE_SECONDS):
            values = self._values[metric] = {}
            telemetry.metrics.read(metric, values.copy)
        self._bound_s = max(_LEAST_BOUND_S, 5 * interval_s)
        self._clock = clock
        self._ticked_s = clock()

    def expect(self, source: str) -> None:
        """Note that there is such a source, which has not measured yet."""
        for metric in (SOURCE_UP, SOURCE_RESTARTS, MEASURES, MEASURE_SECONDS):
            self._values[metric][source,] = 0.0

    def tick_begun(self) -> None:
        """Count a tick that begins."""
        self._ticked_s = self._clock()
        self._ticks += 1

    def measured(self, source: str, took_s: float) -> None:
        """Count a source that answered a tick in time, and ``took_s`` for it. If it had failed, ``Telemetry``
        still has the condition."""
        labels = (source,)
        self._values[SOURCE_UP][labels] = 1.0
        self._values[LAST_MEASURE_SECONDS][labels] = took_s
        self._values[MEASURES][labels] += 1
        self._values[MEASURE_SECONDS][labels] += took_s
        if (COLLECTOR_FAILED.name, source) in self._telemetry.conditions:
            self._values[SOURCE_RESTARTS][labels] += 1

    def failed(self, source: str) -> None:
        """Note that a source failed, or did not answer in time."""
        self._values[SOURCE_UP][source,] = 0.0

    def readiness_error(self) -> str | None:
        """Tell what is wrong: no tick has begun for five intervals, and for a minute. None when all is
        well."""
        silent_s = self._clock() - self._ticked_s
        return f"none has begun for {silent_s:.0f} s" if silent_s > self._bound_s else None

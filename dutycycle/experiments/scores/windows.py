"""Compares windows against the samples: the same count, mean, least and largest, and none missing."""

from collections import defaultdict, deque
from collections.abc import Sequence
from math import fsum, isclose
from typing import Any

import msgspec

from dutycycle.contract.catalogue import CAPACITIES
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import WindowAggregate
from dutycycle.traces.ticks import subject_key
from streams.operators.columns.tick import Layout, TickRow

_TOLERANCE = 1e-9


class _Ticks:
    """Keeps the newest ticks of one node and source."""

    def __init__(self) -> None:
        self.ticks: deque[TickRow] = deque()
        self.watermark_ms = -1
        self._layout: Layout | None = None
        self._places: dict[tuple[str, str], int] = {}

    def values(
        self, subject: str, metric: str, start_ms: int, end_ms: int, node: str
    ) -> tuple[list[float], list[float]]:
        """Return what was measured in a window: the value of each tick, and the most within it."""
        values: list[float] = []
        highs: list[float] = []
        for tick in self.ticks:
            if not start_ms <= tick.ts_ms < end_ms:
                continue
            if tick.layout is not self._layout:
                self._layout = tick.layout
                self._places = {
                    (subject_key(node, column), column.metric): at
                    for at, column in enumerate(tick.layout.series)
                }
            at = self._places.get((subject, metric))
            value = float("nan") if at is None else float(tick.values[at])
            if at is not None and value == value:
                values.append(value)
                high = value if tick.value_highs is None else float(tick.value_highs[at])
                highs.append(max(value, high) if high == high else value)
        return values, highs


class WindowScorer:
    """Compares each window with the ticks that it is of, which are kept until it has closed."""

    def __init__(self, sizes_s: Sequence[float], lateness_s: float) -> None:
        self._sizes_ms = tuple(int(size * 1000) for size in sizes_s)
        self._lateness_ms = int(lateness_s * 1000)
        self._nodes: dict[tuple[str, str], _Ticks] = defaultdict(_Ticks)
        self._expected: set[tuple[str, str, int, int]] = set()
        self._compared = self._unequal = self._unexpected = 0

    def output(self, record: ProducerRecord) -> None:
        """Take a record that the replay made of the samples so far."""
        if record.topic != "window-aggregates" or record.value is None:
            return
        window = msgspec.json.decode(record.value, type=WindowAggregate)
        node, subject = window.subject.node or "", window.subject.key
        ticks = self._nodes[node, window.source]
        place = window.source, subject, window.size_ms, window.start_ms
        self._unexpected += place not in self._expected
        self._expected.discard(place)
        for metric, statistics in window.metrics.items():
            values, highs = ticks.values(subject, metric, window.start_ms, window.end_ms, node)
            self._compared += 1
            mean, least, most = statistics.mean, statistics.min, statistics.max
            is_equal = statistics.count == len(values)
            if is_equal and mean is not None and least is not None and most is not None:  # no counter's
                pairs = (mean, fsum(values) / len(values)), (least, min(values)), (most, max(highs))
                is_equal = all(isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) for a, b in pairs)
            self._unequal += not is_equal

    def tick(self, node: str, source: str, tick: TickRow) -> None:
        """Take the tick of a sample, after what the replay made of it."""
        known = self._nodes[node, source]
        before_ms, known.watermark_ms = known.watermark_ms, max(known.watermark_ms, tick.ts_ms)
        known.ticks.append(tick)
        longest_ms = self._sizes_ms[-1] + self._lateness_ms
        while known.ticks and known.ticks[0].ts_ms < known.watermark_ms - 2 * longest_ms:
            known.ticks.popleft()
        present = {
            subject_key(node, column)
            for column, value in zip(tick.layout.series, tick.values.tolist(), strict=True)
            if value == value and column.metric not in CAPACITIES
        }
        for size_ms in self._sizes_ms:
            start_ms = tick.ts_ms - tick.ts_ms % size_ms
            if start_ms + size_ms + self._lateness_ms > before_ms:
                self._expected.update((source, subject, size_ms, start_ms) for subject in present)

    def result(self) -> dict[str, Any]:
        """Return how many figures were compared; unequal ones, and windows that are missing or should not
        be."""
        wrong = self._unequal + len(self._expected) + self._unexpected
        return {
            "equal": wrong == 0,
            "compared": self._compared,
            "unequal": self._unequal,
            "missing": len(self._expected),
            "unexpected": self._unexpected,
        }

"""Finds the most that a node needed on a day (UTC), so far: its GPUs, the sum over them, and its host.

Only ticks in their order count. The maximum of a GPU is that of the driver's samples where there are any, as
in windows; that of a sum is of the ticks' values, because what was highest at different moments does not add
up.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.catalogue import CAPACITIES, GPU_METRICS, HOST_METRICS, NODE_GPU_ROWS, P95_METRICS
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.metering import SET_BACK_MS
from dutycycle.contract.records.derived import NodePeaks
from dutycycle.contract.records.parts import Tally
from streams.compiled import entry
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, Ints, pack, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import ColumnIndex
from streams.operators.columns.tick import Layout
from streams.operators.peaks.histogram import Histograms
from streams.operators.peaks.merge import merge_tally, to_peaks
from streams.operators.peaks.tally import add_ticks, rows_of, widened
from streams.operators.rounding import tidy

DAY_MS = 86_400_000
_MOST_LEFT = 4
"""So many days that a jump of the clock has left are kept."""
_OF_GPU = tuple(row.sum_of or row.field for row in NODE_GPU_ROWS)
_CELLS = len(GPU_METRICS)
_CELLS_OF_GPU = tuple(GPU_METRICS.index(metric) for metric in _OF_GPU)
_SUMS = tuple(row.field for row in NODE_GPU_ROWS if row.sum_of)
_PLACES_OF_SUMS = tuple(_SUMS.index(row.field) if row.sum_of else -1 for row in NODE_GPU_ROWS)
"""Of each of ``_OF_GPU`` the place of its sum over the GPUs."""
_OVER_GPUS = tuple(row.field for row in NODE_GPU_ROWS if not row.sum_of)
"""What has no sum: of the node it is the most of any GPU, and the mean over all."""
_WIDTH = len(_OF_GPU)
_HOST = tuple(metric for metric in HOST_METRICS if metric not in CAPACITIES)
_HOST_COLUMNS: Ints = np.array([HOST_METRICS.index(metric) for metric in _HOST], np.int64)
Scoped = tuple[str, str]
"""A GPU as ``<node>/<index>`` (empty: the node) and a metric."""


class NodePeakBank:
    """Keeps the peaks of one node by the samples of ``source``; of others than nvml and cgroup, nothing."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._last_ms = -1
        self._left: dict[int, Mapping[str, Any]] = {}
        """Days that were left by a jump of the clock, which may come back, as plain data."""
        self._begin()

    def _begin(self) -> None:
        """Begin a day."""
        self._index: ColumnIndex[Scoped] = ColumnIndex()
        self._state: Floats = np.zeros((4, 0))
        self._counted: ColumnIndex[Scoped] = ColumnIndex()
        self._histograms = Histograms()
        self._layout: Layout | None = None
        self._columns = self._rows = np.zeros(0, np.int64)
        self._first_ms = self._samples = self._written = 0

    def advance(self, ts_ms: int) -> list[Emission]:
        """Take the time ``ts_ms`` of a tick that comes, and return what is left of the day that it ends."""
        if self._last_ms < 0 or self._last_ms // DAY_MS == ts_ms // DAY_MS:
            return []
        emissions = self.flush()
        if abs(ts_ms - self._last_ms) > SET_BACK_MS:  # perhaps by a wrong clock
            self._left[self._last_ms // DAY_MS] = self._day()
            if len(self._left) > _MOST_LEFT:
                del self._left[next(iter(self._left))]
        self._begin()
        left = self._left.pop(ts_ms // DAY_MS, None)
        if left is not None:
            self._go_on(left)
        return emissions

    def take_left(self, before: "NodePeakBank", ts_ms: int) -> None:
        """Do as ``UsageBank.take_left``."""
        before.advance(ts_ms)
        self._left = before._left

    def extend(self, block: TickBlock) -> None:
        """Take ticks of one day that are newer than the last."""
        if self._source not in ("nvml", "cgroup"):
            return
        if block.layout is not self._layout:
            # Lay out columns and rows anew, for other GPUs than before, or another day
            self._layout = block.layout
            series = tuple(("", metric) for metric in _HOST)
            if self._source == "nvml":  # as the columns of ``_of_gpus``
                each = [(scope, metric) for scope in block.layout.gpus for metric in _OF_GPU]
                series = (*each, *(("", metric) for metric in _SUMS))
            self._columns = self._index.columns(series)
            self._rows = rows_of(self._counted, [_counted_as(*tally_series) for tally_series in series])
            self._state = widened(self._state, len(self._index))
        if self._source == "nvml":
            gpus = len(block.layout.gpus)
            values, highs = _of_gpus(block.values, gpus), _of_gpus(block.value_highs, gpus)
            sums = len(_SUMS)
            highs[:, -sums:] = values[:, -sums:]
        else:
            values = highs = np.ascontiguousarray(block.values[:, _HOST_COLUMNS])
        places, pages = self._histograms.with_room(len(self._counted), self._rows, values)
        add_ticks(self._state, self._columns, self._rows, places, pages, values, highs, block.times)
        if not self._samples:
            self._first_ms = int(block.times[0])
        self._last_ms = int(block.times[-1])
        self._samples += len(block.times)

    def flush(self) -> list[Emission]:
        """Write the day so far, if there was a tick since it was written."""
        emissions = self.unwritten()
        self._written = self._samples
        return emissions

    def unwritten(self) -> list[Emission]:
        """Return the day so far, if there was a tick since it was written, which it is not by this."""
        if self._samples == self._written:
            return []
        tallies: dict[str, dict[str, Tally]] = {}
        histograms = dict(zip(self._counted.ids, self._histograms.written(), strict=True))
        for (scope, metric), (high, at_ms, total, count) in zip(
            self._index.ids, self._state.T.tolist(), strict=True
        ):
            if high > -np.inf:
                tallies.setdefault(scope, {})[metric] = Tally(
                    max=tidy(high), at_ms=int(at_ms), sum=tidy(total), count=int(count),
                    histogram=histograms.get((scope, metric)),
                )  # fmt: skip
        for metric in _OVER_GPUS:
            if of_gpus := [of[metric] for of in tallies.values() if metric in of]:
                over_gpus = replace(merge_tally(of_gpus), histogram=histograms.get(("", metric)))
                tallies.setdefault("", {})[metric] = over_gpus
        scopes = {scope: to_peaks(dict(sorted(tallies[scope].items()))) for scope in sorted(tallies)}
        record = NodePeaks(
            node=self._node, source=self._source, day_ms=self._last_ms - self._last_ms % DAY_MS,
            first_ms=self._first_ms, last_ms=self._last_ms, samples=self._samples,
            metrics=scopes.pop("", {}), gpus=scopes,
        )  # fmt: skip
        return [ProducerRecord("node-peaks", self._node, encode(record), self._last_ms)]

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return self._day() | {"left": [[day, plain] for day, plain in self._left.items()]}

    def restore(self, plain: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self._go_on(plain)
        self._left = dict(plain["left"])

    def _day(self) -> dict[str, Any]:
        return {
            "last_ms": self._last_ms, "first_ms": self._first_ms, "samples": self._samples,
            "written": self._written, "series": [list(day_series) for day_series in self._index.ids],
            "state": pack(self._state), "counted": [list(day_series) for day_series in self._counted.ids],
            "histograms": self._histograms.snapshot(),
        }  # fmt: skip

    def _go_on(self, plain: Mapping[str, Any]) -> None:
        self._begin()
        self._last_ms, self._first_ms = plain["last_ms"], plain["first_ms"]
        self._samples, self._written = plain["samples"], plain["written"]
        self._index = ColumnIndex([(scope, metric) for scope, metric in plain["series"]])
        self._state = unpack(plain["state"], "f8", (4, len(self._index)))
        self._counted = ColumnIndex([(scope, metric) for scope, metric in plain["counted"]])
        self._histograms.restore(plain["histograms"])


def _counted_as(scope: str, metric: str) -> Scoped | None:
    """Return where values are counted: what has no sum, of all GPUs together."""
    return ("", metric) if metric in P95_METRICS and (not scope or metric in _OVER_GPUS) else None


@entry("float64[:, ::1](float64[:, ::1], int64)")
def _of_gpus(values: Floats, gpus: int) -> Floats:
    """Return the values in shape (ticks, ``_OF_GPU`` of each GPU and ``_SUMS``), over the GPUs of which
    anything is known."""
    rows = np.full((len(values), _WIDTH * gpus + len(_SUMS)), np.nan)
    for tick in range(len(values)):
        for gpu in range(gpus):
            for at in range(_WIDTH):
                value = values[tick, gpu * _CELLS + _CELLS_OF_GPU[at]]
                rows[tick, _WIDTH * gpu + at] = value
                if _PLACES_OF_SUMS[at] >= 0 and not np.isnan(value):
                    place = _WIDTH * gpus + _PLACES_OF_SUMS[at]
                    known = rows[tick, place]
                    rows[tick, place] = value if np.isnan(known) else known + value
    return rows

"""Puts together what is told of a node's GPUs beyond the last sample: cycle, trend, recent maxima, ledger.

Derived records are keyed by subject, so those of one node reach different workers of the sinks. Here they are
still together. A part says all that is known at its time, so the newest supersedes those before it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np

from dutycycle.contract.catalogue import NODE_ANNOTATIONS
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.parts import GpuAnalysis, NodePart
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, Ints, keep_once
from streams.operators.columns.series import Series
from streams.operators.node.analysis import Evaluation
from streams.operators.node.figures import ClosedWindow
from streams.operators.rounding import tidied
from streams.operators.usage.bank import UsageBank

METRIC = "gpu_util_pct"
"""The trend is that of the GPU's utilization; the cycle, too, if that has one."""
LOOK_BACK_MS = 3_600_000
"""The maxima, of ``NODE_ANNOTATIONS``, are those of the windows of the last hour, in event time."""


class RecentMaximum:
    """Keeps the largest value of the last hour; what a later and larger one hides is dropped."""

    __slots__ = ("_falling",)

    def __init__(self, falling: Sequence[Sequence[float]] = ()) -> None:
        self._falling = [(int(end_ms), value) for end_ms, value in falling]

    def add(self, end_ms: int, value: float) -> None:
        """Take the maximum of a window that ended at ``end_ms``, and no earlier than the one before it."""
        while self._falling and self._falling[-1][1] <= value:
            self._falling.pop()
        self._falling.append((end_ms, value))
        while self._falling[0][0] <= end_ms - LOOK_BACK_MS:
            del self._falling[0]

    @property
    def value(self) -> float:
        """Return the largest; only after the first window."""
        return self._falling[0][1]

    def snapshot(self) -> list[list[float]]:
        """Return plain data, to build it with."""
        return [list(run) for run in self._falling]


@dataclass(slots=True)
class _Gpu:
    cyclic: bool | None = None
    period_s: float | None = None
    slope_per_s: float | None = None
    maxima: dict[str, RecentMaximum] = field(default_factory=dict)

    def analysis(self) -> GpuAnalysis:
        maxima = {metric: self.maxima[metric].value for metric in sorted(self.maxima)}
        return GpuAnalysis(
            cyclic=self.cyclic, period_s=self.period_s, slope_per_s=self.slope_per_s, maxima=maxima
        )


class NodeGpus:
    """Keeps what is known of the GPUs of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._gpus: dict[str, _Gpu] = {}
        self._closed: list[tuple[int, Floats]] = []
        """Holds ends of windows and maxima of ``_places`` that are not looked at yet."""
        self._since_ms, self._ts_ms, self._part_ms = -1, 0, 0
        """When the first of its windows began and the last ended, and the latter in the last part."""
        self._places: list[tuple[str, str]] = []
        self._columns: Ints = np.zeros(0, np.int64)
        """The columns of ``NODE_ANNOTATIONS``, and of each the GPU and metric."""
        self.are_there = False
        """Is set where a column may get a window that is told."""
        self._pending: NodePart | None = None
        """Holds the part to send next. It is made when the node is evaluated, and not when it is
        sent: so there is one part of a moment, whenever the checkpoint comes. Most are replaced before they
        are sent. When windows close, those of other nodes wait."""

    def resize(self, series: Sequence[Series], every: Sequence[Series]) -> None:
        """Take ``series`` as the columns of windows; ``every``: those that may get one, measured or not."""
        self._known()
        self.are_there = any(map(_is_told, every))
        columns = [at for at, column in enumerate(series) if _is_told(column)]
        self._places = [(series[at].member, series[at].metric) for at in columns]
        self._columns = keep_once(np.array(columns, np.int64))

    def close_windows(self, closed: Sequence[ClosedWindow]) -> None:
        """Take the maxima of windows that have closed. They are looked at when something is asked."""
        if self._since_ms < 0:
            self._since_ms = min(window.start_ms for window in closed)
        self._ts_ms = max(self._ts_ms, *(window.end_ms for window in closed))
        self._closed += [(window.end_ms, window.of("max")[self._columns]) for window in closed]

    def _known(self) -> dict[str, _Gpu]:
        """Return what is known of each GPU, with the maxima of all windows that have closed."""
        closed, self._closed = self._closed, []
        for end_ms, maxima in closed:
            for (uuid, metric), maximum in zip(self._places, tidied(maxima), strict=True):
                if not isnan(maximum):
                    recent = self._gpus.setdefault(uuid, _Gpu()).maxima
                    recent.setdefault(metric, RecentMaximum()).add(end_ms, maximum)
        return self._gpus

    @property
    def is_due(self) -> bool:
        """Tell whether windows have closed since the last part."""
        return self._ts_ms > self._part_ms

    def make_part(self, ledger: UsageBank) -> None:
        """Make the part of now, unless nothing has closed since one was sent; ``ledger`` has all ticks."""
        if not self.is_due and self._pending is None:
            return
        self._part_ms, gpus = self._ts_ms, self._known()
        self._pending = NodePart(
            node=self._node, ts_ms=self._part_ms, since_ms=self._since_ms,
            gpus={uuid: gpus[uuid].analysis() for uuid in sorted(gpus)},
            totals=ledger.of_gpus(), pods=ledger.of_pods_on_gpus(),
        )  # fmt: skip

    def evaluated(self, analysis: Evaluation) -> None:
        """Take the cycles and trends that changed. They are in the next part."""
        gpus = self._known()
        for column, result in analysis.cycles_of_subjects():
            if column.kind == "gpu":
                gpu = gpus.setdefault(column.member, _Gpu())
                gpu.cyclic, gpu.period_s = result.cyclic, result.period_s if result.cyclic else None
        if analysis.forecast is not None:
            for column, slope in zip(
                analysis.trend_series, analysis.forecast.slope_per_s.tolist(), strict=True
            ):
                if column.kind == "gpu" and column.metric == METRIC:
                    gpus.setdefault(column.member, _Gpu()).slope_per_s = slope

    def retain(self, members: set[str]) -> None:
        """Forget the GPUs that are not among ``members``."""
        self._gpus = {uuid: gpu for uuid, gpu in self._known().items() if uuid in members}

    def flush(self) -> list[Emission]:
        """Return the part of the node, if one was made since the last call."""
        part, self._pending = self._pending, None
        return [] if part is None else [ProducerRecord("node-parts", self._node, encode(part), self._part_ms)]

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        gpus = {
            uuid: [
                gpu.cyclic, gpu.period_s, gpu.slope_per_s,
                {metric: maximum.snapshot() for metric, maximum in gpu.maxima.items()},
            ]
            for uuid, gpu in self._known().items()
        }  # fmt: skip
        pending = None if self._pending is None else encode(self._pending)
        return {"gpus": gpus, "times": [self._since_ms, self._ts_ms, self._part_ms], "pending": pending}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        for uuid, (cyclic, period_s, slope_per_s, maxima) in plain["gpus"].items():
            recent = {metric: RecentMaximum(falling) for metric, falling in maxima.items()}
            self._gpus[uuid] = _Gpu(cyclic, period_s, slope_per_s, recent)
        self._since_ms, self._ts_ms, self._part_ms = plain["times"]
        pending = plain["pending"]
        self._pending = None if pending is None else decode(NodePart, pending, "node-parts")


def _is_told(column: Series) -> bool:
    return column.kind == "gpu" and column.metric in NODE_ANNOTATIONS

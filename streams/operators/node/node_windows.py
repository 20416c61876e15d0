"""Keeps the windows of one node: which of its columns have any, and what becomes of those that close."""

from collections.abc import Collection, Container, Sequence
from typing import Any

import numpy as np

from streams.operators.base import Emission
from streams.operators.columns.arrays import Ints
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import ColumnIndex, Series, powers_of_counters, remapped
from streams.operators.node.gpus import NodeGpus
from streams.operators.node.window import WindowBank
from streams.operators.node.window_records import WindowRecords


class NodeWindows:
    """Takes the ticks of a node in its own columns, those of ``index``. One has windows from its first value
    on, if its metric is among ``metrics``: what a node never measures takes no room.

    ``columns``: those that have windows, ascending; their series are the columns of ``bank``.
    ``_waiting``: those that get windows with their first value. ``gpus`` gets the windows that have closed.
    ``_outs``: the records of windows that have ended, by start and size.
    """

    def __init__(
        self, bank: WindowBank, metrics: Collection[str], records: WindowRecords, gpus: NodeGpus
    ) -> None:
        self.bank = bank
        self._metrics = metrics
        self._records = records
        self._gpus = gpus
        self.columns: Ints = np.zeros(0, np.int64)
        self._waiting: Ints = np.zeros(0, np.int64)
        self._series: list[Series] = []
        self._outs: dict[tuple[int, int], list[Emission]] = {}

    def extend(self, block: TickBlock, index: ColumnIndex[Series], watermark_ms: int | None = None) -> bool:
        """Take ticks, each newer than all before it, whose series have columns in ``index``; or the one tick
        of ``block``, no newer than ``watermark_ms``. False if that came too late for a window."""
        # In the columns that have windows, shape (ticks, len(columns))
        rows = index.spread(block.layout.series, block.values)
        first = ~np.isnan(rows.take(self._waiting, axis=1)).all(axis=0)
        if first.any():
            self.select(index.ids, {*self.columns, *self._waiting[first]})
        rows, highs = rows.take(self.columns, axis=1), None
        if block.value_highs is not block.values:
            highs = index.spread(block.layout.series, block.value_highs).take(self.columns, axis=1)
            # Of a tick without a value a source may still tell the most: nothing is to depend on when it is
            # read.
            highs[np.isnan(rows)] = np.nan
        if watermark_ms is not None:
            return self.bank.add(
                int(block.times[0]), rows[0], watermark_ms, None if highs is None else highs[0]
            )
        self.bank.extend(block.times, rows, highs)
        return True

    def end(self, ts_ms: float) -> None:
        """Write the records of the windows that end by ``ts_ms``, all of whose ticks but late ones have come;
        with infinity of all."""
        for window in self.bank.end(ts_ms):
            self._outs[window.start_ms, window.size_ms] = self._records.of(window)

    def advance(self, watermark_ms: float) -> list[Emission]:
        """Close the windows that have ended, where the watermark has passed their lateness; their records."""
        closed = self.bank.advance(watermark_ms)
        if closed and self._gpus.are_there:
            self._gpus.close_windows(closed)
        return [out for window in closed for out in self._outs.pop((window.start_ms, window.size_ms))]

    def select(self, series: Sequence[Series], columns: Container[int]) -> None:
        """Take ``series`` as the node's columns; ``columns`` are those of them that have windows."""
        wanted = [column for column, of_column in enumerate(series) if of_column.metric in self._metrics]
        self.columns = np.array([column for column in wanted if column in columns], np.int64)
        self._waiting = np.array([column for column in wanted if column not in columns], np.int64)
        before, self._series = self._series, [series[column] for column in self.columns]
        self.bank.resize(remapped(before, self._series), powers_of_counters(self._series))
        self._records.resize(self._series)
        self._gpus.resize(self._series, [series[column] for column in wanted])

    def resize(self, series: Sequence[Series], keep: Ints) -> None:
        """Take ``series`` as the columns: column j was column ``keep[j]``, -1 is a new one."""
        self.select(series, set(np.isin(keep, self.columns).nonzero()[0].tolist()))

    def restore(self, plain: dict[str, Any], series: Sequence[Series], columns: Container[int]) -> None:
        """Take over a snapshot of ``bank``, with what ``select`` takes."""
        self.select(series, columns)
        self.bank.restore(plain, powers_of_counters(self._series))

"""Keeps tumbling windows in event time over those series of a node that have any.

The rows of the last ticks are kept until every window that holds them has closed. A window *ends* when none
but a late tick can come into it; its figures are taken then, over rows in the order of time, and again if one
does. So they depend on which ticks the windows hold, and not on when those came. It *closes* when its
lateness has passed. Windows of all nodes close in the same moment: by then there is nothing left to compute.
"""

from collections.abc import Callable, Collection, Container, Sequence
from math import inf
from typing import Any

import numpy as np

from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, Ints, keep_once, pack, remap, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import GAUGE, ColumnIndex, Series, powers_of_counters, remapped
from streams.operators.node.figures import FIGURES, ClosedWindow, window_figures
from streams.operators.node.gpus import NodeGpus
from streams.operators.node.window_records import WindowRecords

_ROOM = 8
"""Rows by which the room for them grows."""


class WindowBank:
    """Keeps all windows of a node. ``sizes_ms`` are the lengths; windows are aligned to the Unix epoch.
    Without any there are no windows, and nothing is kept.

    ``_powers``: the columns of the power of cumulative counters, as ``powers_of_counters`` has them.
    ``_last``, shape (sizes, 2, counters): the counters' newest values in the windows that have closed, by
    length of the windows, and those before them where they fell. ``_ended``: of the open windows those with
    figures, by end and then by size.
    """

    def __init__(self, sizes_ms: Sequence[int], lateness_ms: int) -> None:
        self._sizes = tuple(sizes_ms)
        self._lateness = lateness_ms
        self._times = np.zeros(_ROOM, np.int64)
        self._rows = self._highs = np.full((_ROOM, 0), np.nan)
        """One array until something was higher within a tick than the tick's value."""
        self._used = 0
        self._powers: Ints = np.zeros(0, np.int64)
        self._last = np.full((len(self._sizes), 2, 0), np.nan)
        self._open: set[tuple[int, int]] = set()
        self._ended: list[ClosedWindow] = []

    def resize(self, keep: Ints, powers: Ints) -> None:
        """Let column ``i`` be what was column ``keep[i]``, or a new one where that is -1; ``powers``: those
        of the columns as they are then, from ``powers_of_counters``."""
        self._ended = []
        self._move(lambda rows: remap(rows, keep, np.nan))
        last = np.full((*self._last.shape[:2], self._powers.size), np.nan)
        last[:, :, self._powers != GAUGE] = self._last
        self._last = remap(last, keep, np.nan)[:, :, powers != GAUGE]
        self._powers = powers

    def extend(
        self, times: Ints, rows: Floats, highs: Floats | None = None, watermark_ms: int | None = None
    ) -> bool:
        """Take ticks, shape (ticks,), at least one, each newer than all before it; or one that is no newer
        than ``watermark_ms``, into the windows that are still open. False if that came too late for one.

        ``rows``: a value for each column, shape (ticks, n); ``highs``: the most that it was within the tick,
        if that is another.
        """
        sizes, ts_ms = self._sizes, int(times[0])
        if watermark_ms is not None:
            sizes = tuple(
                size for size in sizes if ts_ms - ts_ms % size + size + self._lateness > watermark_ms
            )
        if not sizes:
            return not self._sizes
        if watermark_ms is not None:
            self._ended = [window for window in self._ended if window.end_ms <= ts_ms]
        for size in sizes:
            self._open.update((start, size) for start in {*(times - times % size).tolist()})
        self._forget()
        used = self._used + len(times)
        if used > len(self._times):
            more = -(-used // _ROOM) * _ROOM - len(self._times)
            self._times = np.append(self._times, np.zeros(more, np.int64))
            self._move(lambda kept: np.concatenate((kept, np.empty((more, kept.shape[1])))))
        if highs is not None and self._highs is self._rows:
            self._highs = self._rows.copy()
        self._times[self._used : used] = times
        self._rows[self._used : used] = rows
        if self._highs is not self._rows:
            self._highs[self._used : used] = rows if highs is None else highs
        self._used = used
        return len(sizes) == len(self._sizes)

    def due_after(self, ts_ms: int) -> float:
        """Tell when a window that has not ended has to, to be closed in time, if ticks from ``ts_ms`` on are
        taken."""
        going_on = (start + size for start, size in self._going_on())
        return min((*going_on, *(ts_ms - ts_ms % size + size for size in self._sizes)), default=inf) + (
            self._lateness
        )

    def _going_on(self) -> set[tuple[int, int]]:
        """Return the open windows without figures."""
        return self._open.difference((window.start_ms, window.size_ms) for window in self._ended)

    def _move(self, moved: Callable[[Floats], Floats]) -> None:
        """Rearrange the rows, and the highs if they are others."""
        before, self._rows = self._rows, moved(self._rows)
        self._highs = self._rows if self._highs is before else moved(self._highs)

    def end(self, ts_ms: float) -> list[ClosedWindow]:
        """Take the figures of the windows that end by ``ts_ms``, all of whose ticks but late ones have come;
        with infinity of all. They are returned, by end and then by size."""
        ended = []
        for end_ms, size, start in sorted((start + size, size, start) for start, size in self._going_on()):
            if end_ms > ts_ms:
                break
            before = (window.last for window in reversed(self._ended) if window.size_ms == size)
            last = next(before, self._last[self._sizes.index(size)]).copy()
            figures = np.empty((self._rows.shape[1], len(FIGURES)))
            window_figures(
                self._times[: self._used], self._rows, self._highs, start, end_ms, self._powers, last, figures
            )
            ended.append(ClosedWindow(size, start, figures, last))
            self._ended.append(ended[-1])
        return ended

    def advance(self, watermark_ms: float) -> list[ClosedWindow]:
        """Close the windows that have ended and whose lateness the watermark has passed, by end and then by
        size."""
        closed = []
        while self._ended and self._ended[0].end_ms + self._lateness <= watermark_ms:
            window = self._ended.pop(0)
            self._last[self._sizes.index(window.size_ms)] = window.last
            self._open.remove((window.start_ms, window.size_ms))
            closed.append(window)
        return closed

    def _forget(self) -> None:
        """Drop the rows from before all open windows."""
        oldest = min((start for start, _ in self._open), default=inf)
        times = self._times[: self._used]
        needed = times >= oldest
        kept = int(needed.sum())
        if kept == self._used:
            return
        self._times[:kept] = times[needed]
        for rows in (self._rows,) if self._highs is self._rows else (self._rows, self._highs):
            rows[:kept] = rows[: self._used][needed]
        self._used = kept

    def snapshot(self) -> dict[str, Any]:
        """Return plain data. Of the highs those that differ from the values, with their places."""
        self._forget()
        rows, highs = self._rows[: self._used], self._highs[: self._used]
        higher: Ints = np.flatnonzero(highs > rows)
        return {
            "open": sorted(map(list, self._open)),
            "times": self._times[: self._used].tolist(),
            "rows": pack(rows),
            "higher": pack(higher),
            "highs": pack(highs.ravel()[higher]),
            "last": pack(self._last),
        }

    def restore(self, plain: dict[str, Any], powers: Ints) -> None:
        """Take over a snapshot; ``powers``: of its columns."""
        times, width = plain["times"], len(powers)
        self._used = len(times)
        room = max(_ROOM, self._used)
        self._times = np.zeros(room, np.int64)
        self._times[: self._used] = times
        self._rows = np.full((room, width), np.nan)
        self._rows[: self._used] = unpack(plain["rows"], "f8", (self._used, width))
        higher = unpack(plain["higher"], "i8", (-1,))
        self._highs = self._rows.copy() if higher.size else self._rows
        self._highs.ravel()[higher] = unpack(plain["highs"], "f8", (-1,))
        self._powers = powers
        self._last = unpack(plain["last"], "f8", (len(self._sizes), 2, int((powers != GAUGE).sum())))
        self._open = {(start, size) for start, size in plain["open"]}


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
        return self.bank.extend(block.times, rows, highs, watermark_ms)

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
        self.columns = keep_once(np.array([column for column in wanted if column in columns], np.int64))
        self._waiting = keep_once(np.array([column for column in wanted if column not in columns], np.int64))
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

"""Lets ticks wait, to be taken in one piece: what a bank does for ten costs little more than for one."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import Series
from streams.operators.columns.tick import TickRow

MOST_WAITING = 32
"""So many ticks wait at most."""
GPU_FACTS = 3
"""Of a GPU in the facts of a tick; its power limit is the first."""


class TickBlock:
    """Holds k ticks of one layout and interval, each newer than the one before it: a row for each.

    ``values`` (k, n): of ``layout.series``. ``tallies`` (k, m): of ``layout.tallies``. ``highs`` (k, m): the
    largest value since the last tick, from the driver's bursts where there are any. ``facts``: what has
    no window; of each GPU its power limit in watts and for which share of the time power and heat hold its
    clocks down, of a host the share of its CPUs that is busy, all in percent. ``value_highs`` (k, n): as
    ``highs``, of the values, and ``readings`` (k, n): what a GPU read at the moment of the tick, where the
    value is the mean of bursts; both are ``values`` itself where no tick has bursts.
    """

    def __init__(self, ticks: Sequence[TickRow]) -> None:
        self._ticks = ticks
        self.times: Ints = np.array([tick.ts_ms for tick in ticks], np.int64)
        self.interval_ms = ticks[0].interval_ms
        self.layout = ticks[0].layout
        self._rows = np.concatenate([tick.row for tick in ticks]).reshape(len(ticks), -1)
        self.values = self.layout.spread(self._part(0, self.layout.width))

    def _part(self, begin: int, size: int) -> Floats:
        return np.ascontiguousarray(self._rows[:, begin : begin + size])

    @cached_property
    def tallies(self) -> Floats:
        """See the class."""
        return self._part(self.layout.begins.tallies, len(self.layout.tallies))

    @cached_property
    def highs(self) -> Floats:
        """See the class."""
        return self._part(self.layout.begins.highs, len(self.layout.tallies))

    @cached_property
    def facts(self) -> Floats:
        """See the class."""
        begins = self.layout.begins
        return self._part(begins.facts, begins.value_highs - begins.facts)

    @cached_property
    def value_highs(self) -> Floats:
        """See the class."""
        return self._burst_part(0)

    @cached_property
    def readings(self) -> Floats:
        """See the class."""
        return self._burst_part(1)

    def _burst_part(self, number: int) -> Floats:
        """Return one of the parts that are there where ticks have bursts, else the values."""
        begin, width = self.layout.begins.value_highs, self.layout.width
        if begin == self._rows.shape[1]:
            return self.values
        return self.layout.spread(self._part(begin + number * width, width))

    def bursts(self) -> list[tuple[int, tuple[tuple[Series, Any], ...]]]:
        """Return the bursts of the ticks that have any, with their times."""
        return [(tick.ts_ms, tick.bursts) for tick in self._ticks if tick.bursts]


class TickQueue:
    """Keeps ticks that wait until something is asked, at ``due_ms`` at the latest: of one layout and
    interval, each newer than the one before it."""

    def __init__(self) -> None:
        self._ticks: list[TickRow] = []
        self.due_ms: float = 0

    def accepts(self, tick: TickRow) -> bool:
        """Tell whether the tick, newer than all before it, can wait with others that are there."""
        if not 0 < len(self._ticks) < MOST_WAITING or tick.ts_ms >= self.due_ms:
            return False
        last = self._ticks[-1]
        return (
            tick.layout is last.layout
            and tick.interval_ms == last.interval_ms
            and tick.row.size == last.row.size
        )

    def add(self, tick: TickRow) -> None:
        """Add a tick that waits."""
        self._ticks.append(tick)

    def drain(self) -> TickBlock | None:
        """Return the ticks, which do not wait any more; None if there is none."""
        ticks, self._ticks = self._ticks, []
        return TickBlock(ticks) if ticks else None

"""Ticks that wait, and are taken in one piece: what a bank does for ten costs little more than for one."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import Series
from streams.operators.columns.tick import Tick

MOST_WAITING = 32
"""So many ticks wait at most."""


class TickBlock:
    """k ticks of one layout and one interval, each newer than the one before it. The fields are those of
    ``Tick``, with a row for each tick."""

    def __init__(self, ticks: Sequence[Tick]) -> None:
        self._ticks = ticks
        self.times: Ints = np.array([tick.ts_ms for tick in ticks], np.int64)
        self.interval_ms = ticks[0].interval_ms
        self.layout = ticks[0].layout
        self.values = _rows([tick.values for tick in ticks])

    @cached_property
    def tallies(self) -> Floats:
        """Shape (k, m)."""
        return _rows([tick.tallies for tick in self._ticks])

    @cached_property
    def highs(self) -> Floats:
        """Shape (k, m)."""
        return _rows([tick.highs for tick in self._ticks])

    @cached_property
    def value_highs(self) -> Floats:
        """Shape (k, n); ``values`` itself where no tick has bursts."""
        if all(tick.value_highs is None for tick in self._ticks):
            return self.values
        return _rows([tick.values if tick.value_highs is None else tick.value_highs for tick in self._ticks])

    @cached_property
    def facts(self) -> Floats:
        """Shape (k, facts)."""
        return _rows([tick.facts for tick in self._ticks])

    def bursts(self) -> list[tuple[int, tuple[tuple[Series, Any], ...]]]:
        """Those of the ticks that have any, with their times."""
        return [(tick.ts_ms, tick.bursts) for tick in self._ticks if tick.bursts]


class TickQueue:
    """Ticks that wait until something is asked, at ``due_ms`` at the latest: of one layout and interval, each
    newer than the one before it. ``is_on``: whether anything is ever asked; else it keeps none."""

    def __init__(self, *, is_on: bool = True) -> None:
        self._is_on = is_on
        self._ticks: list[Tick] = []
        self.due_ms: float = 0 if is_on else float("inf")

    def takes(self, tick: Tick) -> bool:
        """Whether the tick, newer than all before it, can wait with others that are there."""
        if not self._is_on:
            return True
        if not self._ticks or tick.ts_ms >= self.due_ms or self.room == 0:
            return False
        return tick.follows(self._ticks[-1])

    @property
    def room(self) -> int:
        """How many more can wait."""
        return MOST_WAITING - len(self._ticks)

    def add(self, tick: Tick) -> None:
        """It waits."""
        if self._is_on:
            self._ticks.append(tick)

    def taken(self) -> TickBlock | None:
        """The ticks, which do not wait any more; None if there is none."""
        ticks, self._ticks = self._ticks, []
        return TickBlock(ticks) if ticks else None


def _rows(each: list[Floats]) -> Floats:
    return np.concatenate(each).reshape(len(each), -1)

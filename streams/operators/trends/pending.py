"""Keeps the forecasts of one horizon that wait for their moment."""

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Floats
from streams.operators.columns.state import SeriesState, array

SLOTS = 6
"""Most forecasts of a horizon that wait at once."""
EVERY_MS, SOONER_MS = 10_000, 2_000
"""About how often forecasts are made, and by how much one may come sooner after the last."""
HASHED = 2_654_435_761
"""The multiplier of multiplicative hashing (D. E. Knuth 1973)."""
NEVER_MS = 1 << 62


class PendingForecasts(SeriesState):
    """Keeps forecasts ``horizon_s`` ahead of n series, each of ``rows`` figures beside the value of then.

    From ``next_ms`` on one is to be taken out again.
    """

    _then: Floats = array("slots", "n", fill=np.nan)
    _kept: npt.NDArray[np.float32] = array("slots", "rows", "n", fill=np.nan, dtype=np.float32)

    def __init__(self, horizon_s: float, rows: int, n: int) -> None:
        self._ahead_ms = int(horizon_s * 1000)
        self.slots = min(SLOTS, -(-self._ahead_ms // EVERY_MS))
        self._every_ms = max(self._ahead_ms // self.slots, EVERY_MS)
        self._scattered_ms = EVERY_MS if self._every_ms >= 2 * EVERY_MS else 0
        self._due: list[int] = [-1] * self.slots
        self._turn = 0
        self.next_ms, self._issue_ms = NEVER_MS, 0
        self.rows = rows
        super().__init__(n)

    def has_room(self, ts_ms: int) -> bool:
        """Tell whether one that is made at ``ts_ms`` would be kept."""
        return ts_ms >= self._issue_ms and self._due[self._turn] < 0

    def put(self, ts_ms: int, then: Floats, figures: Floats) -> None:
        """Keep what was forecast at ``ts_ms``, shape (rows, n), less the values of ``then``, shape (n,).

        If not all can be, the next is after a time that looks random: what is met at the same phase of its
        cycle again and again seems to be easy.
        """
        self._then[self._turn], self._kept[self._turn] = then, figures
        self._due[self._turn] = ts_ms + self._ahead_ms
        self._turn = (self._turn + 1) % self.slots
        later_ms = ts_ms // 1000 * HASHED % 2**32 * 2 * self._scattered_ms >> 32
        self._issue_ms = ts_ms + self._every_ms - SOONER_MS - self._scattered_ms + later_ms
        self._plan()

    def take(self) -> tuple[int, Floats, npt.NDArray[np.float32]]:
        """Return the moment (ms) of the oldest that waits, and the values of then and figures beside which it
        was kept; it waits no longer."""
        due_ms, slot = min((due_ms, slot) for slot, due_ms in enumerate(self._due) if due_ms >= 0)
        self._due[slot] = -1
        self._plan()
        return due_ms, self._then[slot], self._kept[slot]

    def _plan(self) -> None:
        """Work out when the next one is to be taken out."""
        self.next_ms = min([due_ms for due_ms in self._due if due_ms >= 0], default=NEVER_MS)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        waiting = {"due": list(self._due), "turn": self._turn, "issue_ms": self._issue_ms}
        return {**waiting, **super().snapshot()}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._due, self._turn, self._issue_ms = list(plain["due"]), plain["turn"], plain["issue_ms"]
        super().restore(plain)
        self._plan()

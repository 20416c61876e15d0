"""Gives means of metrics by the ledger: amounts by the time in which they were known."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, slots=True)
class LedgerMean:
    """Says how a mean follows from sums of the ledger. ``known``: the columns whose sum is the seconds in
    which ``amount`` was known; ``factor``: to the metric's unit."""

    amount: str
    known: tuple[str, ...]
    factor: float = 100.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is made of, each once."""
        return tuple(dict.fromkeys((self.amount, *self.known)))

    def of(self, row: Mapping[str, Any]) -> float:
        """Return the mean of a row; NaN where one of its columns is not known, or there was no time."""
        if any(row[column] is None for column in self.columns):
            return np.nan
        seconds = sum(row[column] for column in self.known)
        return self.factor * (row[self.amount] / seconds) if seconds else np.nan


LEDGER_MEANS = {
    "gpu_util_pct": LedgerMean("gpu_busy_s", ("gpu_busy_s", "gpu_idle_s")),
    "power_w": LedgerMean("energy_j", ("gpu_s",), factor=1.0),
    "sm_active_pct": LedgerMean("gpu_sm_s", ("gpu_sm_known_s",)),
    "tensor_active_pct": LedgerMean("gpu_tensor_s", ("gpu_tensor_known_s",)),
}
"""By metric. The columns are those of ``sinks.records.usage``."""

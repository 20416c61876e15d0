"""How the samples of a window are kept: as they are, or in half the bytes.

A state goes through Kafka every few seconds, and windows are nearly all of it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Floats

STEPS_PER_OCTAVE = 900
SMALLEST = 1e-3
"""What is less counts as 0."""
ABSENT = 65_535
"""The code of what was not measured."""

Samples = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Exact:
    """Samples as float32, NaN for absent."""

    dtype: str = "f4"
    absent: float = np.nan
    flat: float = 1e-6
    """A spread below this share of the mean is the storage's rounding."""

    def encoded(self, values: Floats) -> Samples:
        """What is kept of ``values``."""
        return values

    def decoded(self, kept: Samples) -> Floats:
        """The values that were kept, at most rounded."""
        return np.ascontiguousarray(kept, np.float64)


@dataclass(frozen=True, slots=True)
class Logarithms:
    """Samples from 0 to 6e18 as 16-bit logarithms: two neighbouring codes are 0.08 % apart.

    For means over longer intervals, whose variations of less than that nobody asks for.
    """

    dtype: str = "u2"
    absent: float = ABSENT
    flat: float = 1e-3

    def encoded(self, values: Floats) -> Samples:
        """The codes of ``values``; negative ones count as 0."""
        codes = np.rint(STEPS_PER_OCTAVE * np.log2(np.maximum(values, 0.0) / SMALLEST + 1))
        return np.where(np.isnan(codes), ABSENT, np.minimum(codes, ABSENT - 1)).astype(np.uint16)

    def decoded(self, kept: Samples) -> Floats:
        """The values of the codes."""
        return np.asarray(_VALUES[kept])


def _values() -> Floats:
    values = SMALLEST * (np.exp2(np.arange(ABSENT + 1) / STEPS_PER_OCTAVE) - 1)
    values[ABSENT] = np.nan
    return np.asarray(values)


_VALUES = _values()
Store = Exact | Logarithms
EXACT, LOGARITHMS = Exact(), Logarithms()

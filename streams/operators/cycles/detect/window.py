"""Finds the cycles of the active part of each of many windows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.detect.active import BLOCK, active, beginning
from streams.operators.cycles.detect.confidence import EVIDENCE
from streams.operators.cycles.detect.detector import (
    LIKELY,
    OTHERS,
    FoundCycle,
    as_sampled,
    judge_each,
    spectra,
)
from streams.operators.cycles.detect.early import LEAST as LEAST_BEGUN
from streams.operators.cycles.detect.early import LONGEST as LONGEST_BEGUN
from streams.operators.cycles.detect.early import repeats
from streams.operators.cycles.detect.spectrum import FLAT, standardise

NONE = np.zeros(0)
LEAST = 24
"""Fewest samples in which a cycle can be found."""
STEPS = 32
"""Lengths are rounded down to one of 16 to 32 steps in each octave."""
LONGEST = 600
"""Most samples that are searched, without a limit."""
ENDED = 1.5
"""Periods of idleness after which a cycle is over."""


class Windows(NamedTuple):
    """Says which samples count: of each row of ``samples`` (rows, size) those from ``bounds[row, 0]`` to
    ``bounds[row, 1]`` count, oldest first, none of them NaN."""

    samples: Floats
    bounds: Ints

    def of(self, row: int) -> Floats:
        """Return the samples of a row that count."""
        begin, end = self.bounds[row].tolist()
        return self.samples[row, begin:end]

    @property
    def sizes(self) -> Ints:
        """Return how many samples of each row count."""
        return np.asarray(self.bounds[:, 1] - self.bounds[:, 0])

    def newest(self, rows: Ints, lengths: Ints) -> "Windows":
        """Return the newest samples of these rows, at most as many as the ``lengths`` say."""
        bounds = self.bounds[rows]
        bounds[:, 0] = np.maximum(bounds[:, 0], bounds[:, 1] - lengths)
        return Windows(self.samples[rows], bounds)

    def joined(self, other: "Windows") -> "Windows":
        """Return these rows, and then those of the ``other``, which are as long."""
        if not len(other.bounds):
            return self
        samples = np.concatenate((self.samples, other.samples))
        return Windows(samples, np.concatenate((self.bounds, other.bounds)))


@dataclass(frozen=True, slots=True)
class Detection:
    """Holds the cycles (the main one first) of ``samples``, which end ``idle`` samples before the window
    does.

    ``whole`` if these are all of the active part, ``begun`` if that is too short for the spectrum; ``short``
    if they are all of a short part.
    """

    cycles: tuple[FoundCycle, ...]
    samples: Floats
    idle: int
    whole: bool
    begun: bool = False
    short: bool = False

    def slower(self, least: int) -> "Detection | None":
        """Return the cycles with a period of at least ``least`` samples; None if there is none."""
        cycles = tuple(cycle for cycle in self.cycles if cycle.period >= least)
        if len(cycles) == len(self.cycles):
            return self
        return replace(self, cycles=cycles) if cycles else None

    @property
    def goes_on(self) -> bool:
        """Tell whether the main cycle is there now, and not only was."""
        return self.idle <= ENDED * self.cycles[0].period


def find_cycles(
    windows: Sequence[Floats], flat: float = FLAT, *, early: bool = False
) -> list[Detection | None]:
    """Return the cycles of each window (oldest sample first, no NaN, any length); None for no cycle.

    What spreads by less than the share ``flat`` of its mean has none. With ``early``, cycles that have only
    begun are found, too.

    >>> steps = 90.0 * (np.arange(200) % 20 < 12) + np.random.default_rng(0).normal(size=200)
    >>> (found,) = find_cycles([steps])
    >>> round(found.cycles[0].period, 1)
    20.0
    """
    bounds = np.array([[0, window.size] for window in windows], np.int64).reshape(-1, 2)
    samples = np.empty((len(windows), max((window.size for window in windows), default=0)))
    for row, window in zip(samples, windows, strict=True):
        row[: window.size] = window
    every = Windows(samples, bounds)
    limits = np.full(len(windows), LONGEST)
    detections = look(every, active_parts(*every), limits, flat, early=len(windows) if early else 0)
    return [detections.get(row) for row in range(len(windows))]


@entry("int64[:, ::1](float64[:, ::1], int64[:, ::1])")
def active_parts(samples: Floats, bounds: Ints) -> Ints:
    """Return where the active part of each of these ``Windows`` begins and ends, in samples of the window;
    shape (rows, 2)."""
    parts = np.empty((len(samples), 2), np.int64)
    for row in range(len(samples)):
        parts[row, 0], parts[row, 1] = active(samples[row, bounds[row, 0] : bounds[row, 1]])
    return parts


def look(
    windows: Windows, parts: Ints, limits: Ints, flat: float = FLAT, *, early: int = 0, periods: Floats = NONE
) -> dict[int, Detection]:
    """Return the cycles of those windows that have any, by row.

    They are those of the newest ``limits`` samples of the active ``parts``; with a limit of 0 there is none.
    ``early``: of so many of the first rows what has only begun is looked for, too.
    ``periods`` (samples) are those that other series of the same machine have: a window without a cycle is
    held against them, and less evidence is enough.
    """
    rows = len(limits)
    series, lengths = np.empty(windows.samples.shape), np.empty(rows, np.int64)
    _standardised(windows.samples, windows.bounds, parts, limits, flat, series, lengths)
    cycles, known = np.empty((rows, 1 + OTHERS, 2)), np.empty((rows, EVIDENCE))
    counts = np.zeros(rows, np.int64)
    # Windows of one length share the call of the FFT, which does the same to each of them.
    for length in sorted({*lengths.tolist()} - {0}):
        those = (lengths == length).nonzero()[0]
        alike = np.ascontiguousarray(series[those, :length])
        counts[those] = judge_each(alike, spectra(alike), those, periods, cycles, known)
    starts = np.full(rows, -1)
    if early:
        _begun(windows.samples, windows.bounds, parts, limits[:early], flat, counts, cycles, starts)
    detections: dict[int, Detection] = {}
    for row in counts.nonzero()[0].tolist():
        of_row = tuple(FoundCycle(*pair) for pair in cycles[row, : counts[row]].tolist())
        window, start, (begin, end) = windows.of(row), int(starts[row]), parts[row].tolist()
        if start >= 0:
            detections[row] = Detection(of_row, window[start:], 0, True, begun=True)
            continue
        length = _length(begin, end, int(limits[row]))
        whole = length >= _length(begin, end, end - begin + 1)
        detections[row] = Detection(of_row, window[end - length : end], window.size - end, whole)
    return detections


@entry("int64(int64, int64, int64)")
def _length(begin: int, end: int, limit: int) -> int:
    """Return how many samples of such a part are looked at: ``limit``, or of a shorter part one of a few
    multiples of 4, which is a little less, as equal lengths share a call."""
    if end - begin >= limit:
        return limit
    octave = 1
    while octave <= end - begin:
        octave *= 2
    step = max(4, octave // STEPS)
    return (end - begin) // step * step


@entry(
    "void(float64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64, float64[:, ::1], int64[::1])"
)
def _standardised(
    samples: Floats, bounds: Ints, parts: Ints, limits: Ints, flat: float, series: Floats, lengths: Ints
) -> None:
    """Write the series of each row, and their ``lengths``: 0 where nothing has to be looked at."""
    for row in range(len(samples)):
        length, end = _length(parts[row, 0], parts[row, 1], limits[row]), bounds[row, 0] + parts[row, 1]
        lengths[row] = 0
        if length >= LEAST and standardise(samples[row, end - length : end], flat, series[row, :length]):
            lengths[row] = length


@entry(
    "void(float64[:, ::1], int64[:, ::1], int64[:, ::1], int64[::1], float64, int64[::1],"
    " float64[:, :, ::1], int64[::1])"
)
def _begun(
    samples: Floats, bounds: Ints, parts: Ints, limits: Ints, flat: float, counts: Ints, cycles: Floats,
    starts: Ints,
) -> None:  # fmt: skip
    """Look for what has only begun in each window without a cycle, and write where that ``starts``."""
    evidence = np.empty(EVIDENCE)
    for row in range(len(limits)):
        window, begin = samples[row, bounds[row, 0] : bounds[row, 1]], parts[row, 0]
        if (
            counts[row]
            or limits[row] == 0
            or not window.size == parts[row, 1] <= begin + LONGEST_BEGUN + BLOCK
        ):
            continue
        start = beginning(window, begin)
        if LEAST_BEGUN <= window.size - start <= LONGEST_BEGUN:
            period, chance = repeats(window[start:], flat, LIKELY, evidence)
            if chance >= LIKELY:
                cycles[row, 0, 0], cycles[row, 0, 1] = as_sampled(window[start:], period), chance
                counts[row], starts[row] = 1, start

"""Many windows at once: the cycles of each one's active part, and how known cycles go on.

Windows of one length share their work: an FFT over 24 rows costs little more than over one.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.active import BLOCK, active, beginning
from streams.operators.cycles.detect.detector import LIKELY, FoundCycle, detect
from streams.operators.cycles.detect.early import LEAST as LEAST_BEGUN
from streams.operators.cycles.detect.early import LONGEST as LONGEST_BEGUN
from streams.operators.cycles.detect.early import repeats
from streams.operators.cycles.detect.follow import BEFORE, FEW, NEWEST, follow
from streams.operators.cycles.detect.spectrum import ALMOST, FEWEST, FLAT

LEAST = 24
"""Fewest samples in which a cycle can be found."""
STEPS = 32
"""Lengths are rounded down to one of 16 to 32 steps in each octave."""
LONGEST = 600
"""Most samples that are searched, without a limit."""
FOLLOWED = (96, 240, 600)
"""Lengths at which cycles are followed."""
ENDED = 1.5
"""Periods of idleness after which a cycle is over."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The cycles (the main one first) of ``samples``, which end ``idle`` samples before the window does.

    ``whole`` if these are all of the active part, ``begun`` if that is too short for the spectrum.
    """

    cycles: tuple[FoundCycle, ...]
    samples: Floats
    idle: int
    whole: bool
    begun: bool = False

    def slower(self, least: int) -> "Detection | None":
        """The cycles with a period of at least ``least`` samples; None if there is none."""
        cycles = tuple(one for one in self.cycles if one.period >= least)
        return replace(self, cycles=cycles) if cycles else None

    @property
    def goes_on(self) -> bool:
        """Whether the main cycle is there now, and not only was."""
        return self.idle <= ENDED * self.cycles[0].period


def find_cycles(
    windows: Sequence[Floats],
    limits: Sequence[int] | None = None,
    flat: float = FLAT,
    *,
    early: bool = False,
) -> list[Detection | None]:
    """The cycles of each window (oldest sample first, no NaN, any length); None for no cycle.

    With ``limits``, of the newest so many samples of its active part. What spreads by less than the
    share ``flat`` of its mean has none. With ``early``, cycles that have only begun are found, too.

    >>> steps = 90.0 * (np.arange(200) % 20 < 12) + np.random.default_rng(0).normal(size=200)
    >>> (found,) = find_cycles([steps])
    >>> round(found.cycles[0].period, 1)
    20.0
    """
    found: list[Detection | None] = [None] * len(windows)
    groups: dict[int, list[int]] = defaultdict(list)
    begins, ends = _active_parts(windows)
    for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        limit = limits[place] if limits else LONGEST
        groups[limit if end - begin >= limit else _rounded(end - begin)].append(place)
    for length, places in groups.items():
        if length < LEAST:
            continue
        samples = np.array([windows[place][ends[place] - length : ends[place]] for place in places])
        for place, row, cycles in zip(places, samples, detect(samples, flat), strict=True):
            if cycles:
                whole = length >= _rounded(ends[place] - begins[place])
                found[place] = Detection(cycles, row, windows[place].size - ends[place], whole)
    if early:
        _find_begun(windows, begins, ends, flat, found)
    return found


def _find_begun(
    windows: Sequence[Floats],
    begins: list[int],
    ends: list[int],
    flat: float,
    found: list[Detection | None],
) -> None:
    """Add to ``found`` what has only begun in the windows in which nothing was found."""
    groups: dict[int, list[tuple[int, Floats]]] = defaultdict(list)
    for place, (window, begin, end) in enumerate(zip(windows, begins, ends, strict=True)):
        if found[place] is None and end == window.size and end - begin <= LONGEST_BEGUN + BLOCK:
            part = beginning(window, begin)
            if LEAST_BEGUN <= part.size <= LONGEST_BEGUN:
                groups[part.size].append((place, part))
    for group in groups.values():
        begun = repeats(np.array([part for _, part in group]), flat)
        figures = zip(begun.rows.tolist(), begun.period.tolist(), begun.confidence.tolist(), strict=True)
        for row, period, chance in figures:
            if chance >= LIKELY:
                place, part = group[row]
                found[place] = Detection((FoundCycle(period, chance),), part, 0, True, begun=True)


def _active_parts(windows: Sequence[Floats]) -> tuple[list[int], list[int]]:
    """Where the active part of each window begins and ends."""
    begins, ends = [0] * len(windows), [0] * len(windows)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        groups[window.size].append(place)
    for places in groups.values():
        parts = active(np.array([windows[place] for place in places]))
        for place, begin, end in zip(places, parts[0].tolist(), parts[1].tolist(), strict=True):
            begins[place], ends[place] = begin, end
    return begins, ends


def _rounded(length: int) -> int:
    """A length a little shorter, a multiple of 4, of which there are few: equal lengths share their work."""
    step = max(4, (1 << length.bit_length()) // STEPS)
    return length // step * step


@dataclass(frozen=True, slots=True)
class FollowedCycle:
    """Of one series, what ``follow.Followed`` says of several."""

    gain: float
    noise: float
    run: int
    strayed: int


def follow_each(
    windows: Sequence[Floats], periods: Sequence[float], *, runs: bool
) -> list[FollowedCycle | None]:
    """How each window follows its period (samples); None where it is too short.

    Without ``runs`` only as much is read as the gain needs, and ``run`` is of that.
    """
    found: list[FollowedCycle | None] = [None] * len(windows)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, (window, period) in enumerate(zip(windows, periods, strict=True)):
        if period >= 2 and window.size >= max((FEWEST - ALMOST) * period, 2 * FEW):
            needed = window.size if runs else int(max(NEWEST * period, FEW) + (BEFORE + 1) * period)
            groups[next((size for size in FOLLOWED if needed <= size), LONGEST)].append(place)
    for size, places in groups.items():
        samples = np.array([_padded(windows[place], size) for place in places])
        lengths = np.array([min(windows[place].size, size) for place in places])
        followed = follow(samples, np.array([periods[place] for place in places]), lengths)
        figures = zip(*(column.tolist() for column in followed), strict=True)
        for place, one in zip(places, figures, strict=True):
            found[place] = FollowedCycle(*one)
    return found


def _padded(window: Floats, size: int) -> Floats:
    """The newest ``size`` samples, the oldest one repeated before them if there are fewer."""
    missing = size - window.size
    if missing <= 0:
        return window[-size:]
    padded = np.empty(size)
    padded[:missing], padded[missing:] = window[0], window
    return padded

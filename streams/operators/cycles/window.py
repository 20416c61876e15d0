"""Looking at many windows at once: each one's active part, those of one length together."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.active import BLOCK, active
from streams.operators.cycles.detect.detector import LIKELY, FoundCycle, find_cycles
from streams.operators.cycles.detect.early import LEAST as LEAST_BEGUN
from streams.operators.cycles.detect.early import LONGEST as BEGUN
from streams.operators.cycles.detect.early import beginning, repeats
from streams.operators.cycles.detect.follow import BEFORE, FEW, NEWEST, follow
from streams.operators.cycles.detect.spectrum import ALMOST, FEWEST, FLAT

LEAST = 24
"""Fewest samples that are looked at."""
STEPS = 32
"""Lengths are told apart to one in 16 to 32."""
LONGEST = 600
"""Most samples that are looked at, without a limit."""
FOLLOWED = (96, 240, 600)
"""Lengths at which cycles are followed."""
ENDED = 1.5
"""Periods of idleness after which a cycle is over."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The cycles (the main one first) of ``samples``, which end ``idle`` samples before now.

    ``whole`` if these are all of the active part, ``begun`` if that is too short for the spectrum.
    """

    cycles: tuple[FoundCycle, ...]
    samples: Floats
    idle: int
    whole: bool
    begun: bool = False

    def slower(self, least: int) -> "Seen | None":
        """What of it has a period of ``least`` samples; None if nothing has."""
        cycles = tuple(one for one in self.cycles if one.period >= least)
        return replace(self, cycles=cycles) if cycles else None

    @property
    def goes_on(self) -> bool:
        """Whether the main cycle is there now, and not only was."""
        return self.idle <= ENDED * self.cycles[0].period


def look(
    windows: Sequence[Floats],
    limits: Sequence[int] | None = None,
    flat: float = FLAT,
    *,
    early: bool = False,
) -> list[Seen | None]:
    """What each window (oldest sample first, no NaN, any length) holds; None for no cycle.

    With ``limits``, of the newest so many samples of its active part. What spreads by less than the
    share ``flat`` of its mean has none. ``early`` finds cycles that have only begun, too.
    """
    seen: list[Seen | None] = [None] * len(windows)
    groups: dict[int, list[int]] = defaultdict(list)
    begins, ends = _parts(windows)
    for place, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        limit = limits[place] if limits else LONGEST
        groups[limit if end - begin >= limit else _rounded(end - begin)].append(place)
    for length, places in groups.items():
        if length < LEAST:
            continue
        samples = np.array([windows[place][ends[place] - length : ends[place]] for place in places])
        for place, row, found in zip(places, samples, find_cycles(samples, flat), strict=True):
            if found:
                whole = length >= _rounded(ends[place] - begins[place])
                seen[place] = Seen(found, row, windows[place].size - ends[place], whole)
    if early:
        _look_early(windows, begins, ends, flat, seen)
    return seen


def _look_early(
    windows: Sequence[Floats], begins: list[int], ends: list[int], flat: float, seen: list[Seen | None]
) -> None:
    """Add to ``seen`` what has only begun in the windows in which nothing was found."""
    groups: dict[int, list[tuple[int, Floats]]] = defaultdict(list)
    for place, (window, begin, end) in enumerate(zip(windows, begins, ends, strict=True)):
        if seen[place] is None and end == window.size and end - begin <= BEGUN + BLOCK:
            part = beginning(window, begin)
            if LEAST_BEGUN <= part.size <= BEGUN:
                groups[part.size].append((place, part))
    for group in groups.values():
        found = repeats(np.array([part for _, part in group]), flat)
        figures = zip(found.rows.tolist(), found.period.tolist(), found.confidence.tolist(), strict=True)
        for row, period, chance in figures:
            if chance >= LIKELY:
                place, part = group[row]
                seen[place] = Seen((FoundCycle(period, chance),), part, 0, True, begun=True)


def _parts(windows: Sequence[Floats]) -> tuple[list[int], list[int]]:
    """Where the active part of each window begins and ends."""
    begins, ends = [0] * len(windows), [0] * len(windows)
    for places in _by_size(windows).values():
        parts = active(np.array([windows[place] for place in places]))
        for place, begin, end in zip(places, parts[0].tolist(), parts[1].tolist(), strict=True):
            begins[place], ends[place] = begin, end
    return begins, ends


def _by_size(windows: Sequence[Floats]) -> dict[int, list[int]]:
    """The places of the windows of each size."""
    groups: dict[int, list[int]] = defaultdict(list)
    for place, window in enumerate(windows):
        groups[window.size].append(place)
    return groups


def _rounded(length: int) -> int:
    """A length a little shorter, a multiple of 4, of which there are few: equal lengths share their work."""
    step = max(4, (1 << length.bit_length()) // STEPS)
    return length // step * step


@dataclass(frozen=True, slots=True)
class Lately:
    """Of one series, what ``Followed`` says."""

    gain: float
    noise: float
    run: int
    strange: int


def follow_each(windows: Sequence[Floats], periods: Sequence[float], *, runs: bool) -> list[Lately | None]:
    """How each window follows its period (samples); None where it is too short to tell.

    Without ``runs`` only as much is looked at as the gain needs, and ``run`` is of that.
    """
    lately: list[Lately | None] = [None] * len(windows)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, (window, period) in enumerate(zip(windows, periods, strict=True)):
        if period >= 2 and window.size >= max((FEWEST - ALMOST) * period, 2 * FEW):
            groups[_enough(window.size if runs else _needed(period))].append(place)
    for size, places in groups.items():
        samples = np.array([_padded(windows[place], size) for place in places])
        lengths = np.array([min(windows[place].size, size) for place in places])
        followed = follow(samples, np.array([periods[place] for place in places]), lengths)
        columns = (followed.gain, followed.noise, followed.run, followed.strange)
        figures = zip(*(column.tolist() for column in columns), strict=True)
        for place, one in zip(places, figures, strict=True):
            lately[place] = Lately(*one)
    return lately


def _needed(period: float) -> int:
    """Samples that the gain of a period depends on."""
    return int(max(NEWEST * period, FEW) + (BEFORE + 1) * period)


def _enough(size: int) -> int:
    """A length that holds so many samples, of which there are few: equal lengths share their work."""
    return next((one for one in FOLLOWED if size <= one), LONGEST)


def _padded(window: Floats, size: int) -> Floats:
    """The newest ``size`` samples, the oldest one repeated before them if there are fewer."""
    missing = size - window.size
    if missing <= 0:
        return window[-size:]
    padded = np.empty(size)
    padded[:missing], padded[missing:] = window[0], window
    return padded

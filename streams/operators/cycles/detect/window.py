"""The cycles of the active part of each of many windows, and how known cycles go on."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.active import BLOCK, active, beginning
from streams.operators.cycles.detect.confidence import EVIDENCE
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
LEAST_FOLLOWED = 96
"""Samples in which a quick cycle is followed, if there are so many: they tell how steady it is."""
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
    # Windows of one length share the call of the FFT, which does the same to each of them.
    groups: dict[int, list[int]] = defaultdict(list)
    parts = [active(window) for window in windows]
    for place, (begin, end) in enumerate(parts):
        limit = limits[place] if limits else LONGEST
        groups[limit if end - begin >= limit else _rounded(end - begin)].append(place)
    for length, places in groups.items():
        if length < LEAST:
            continue
        rows = [windows[place][parts[place][1] - length : parts[place][1]] for place in places]
        for place, row, cycles in zip(places, rows, detect(np.array(rows), flat), strict=True):
            if cycles:
                begin, end = parts[place]
                whole = length >= _rounded(end - begin)
                found[place] = Detection(cycles, row, windows[place].size - end, whole)
    if early:
        for place, (window, part) in enumerate(zip(windows, parts, strict=True)):
            if found[place] is None:
                found[place] = _begun(window, *part, flat)
    return found


def _begun(window: Floats, begin: int, end: int, flat: float) -> Detection | None:
    """What has only begun in a window with such an active part."""
    if not window.size == end <= begin + LONGEST_BEGUN + BLOCK:
        return None
    part = window[beginning(window, begin) :]
    if not LEAST_BEGUN <= part.size <= LONGEST_BEGUN:
        return None
    period, chance = repeats(part, flat, np.empty(EVIDENCE))
    if chance < LIKELY:
        return None
    return Detection((FoundCycle(period, chance),), part, 0, True, begun=True)


def _rounded(length: int) -> int:
    """A length a little shorter, a multiple of 4, of which there are few: equal lengths share a call."""
    step = max(4, (1 << length.bit_length()) // STEPS)
    return length // step * step


class FollowedCycle(NamedTuple):
    """What ``follow`` says of a series."""

    gain: float
    noise: float
    run: int
    strayed: int


def follow_cycle(window: Floats, period: float, *, run: bool) -> FollowedCycle | None:
    """How a window follows its period (samples); None where it is too short.

    Without ``run`` only as much is read as the gain needs, and ``run`` is of that.
    """
    if period < 2 or window.size < max((FEWEST - ALMOST) * period, 2 * FEW):
        return None
    needed = int(max(NEWEST * period, FEW) + (BEFORE + 1) * period)
    return FollowedCycle(*follow(window if run else window[-max(needed, LEAST_FOLLOWED) :], period))

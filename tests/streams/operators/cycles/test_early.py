"""Cycles that have only begun: two and a half periods are enough if they repeat, and only then."""

import numpy as np
import pytest

from bench.generators import Case
from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.active import beginning
from streams.operators.cycles.detect.confidence import EVIDENCE
from streams.operators.cycles.detect.detector import LIKELY
from streams.operators.cycles.detect.early import LONGEST, repeats
from streams.operators.cycles.detect.spectrum import FLAT
from streams.operators.cycles.detect.window import find_cycles
from tests.support.streams.cycles import idle

SEEDS = range(20)


@pytest.mark.parametrize("kind", ["sine", "square", "sawtooth"])
@pytest.mark.parametrize("true", [9.0, 17.3, 33.0, 60.0])
def test_two_and_a_half_periods_are_found_by_how_they_repeat(kind: str, true: float) -> None:
    windows = [Case(kind, seed, true, 10.0, length=int(2.6 * true)).series() for seed in SEEDS]
    periods, chances = np.array([_repeats(window) for window in windows]).T
    sure = chances >= 0.9
    assert sure.mean() >= 0.75
    assert (np.abs(periods[sure] / true - 1) <= 0.05).mean() >= 0.9


@pytest.mark.parametrize("kind", ["white", "random_walk", "ar1", "step", "constant", "pulse", "ramp"])
@pytest.mark.parametrize("length", [40, 90, LONGEST])
def test_what_does_not_repeat_is_not_found(kind: str, length: int) -> None:
    for seed in SEEDS:
        assert _repeats(Case(kind, seed, length=length).series())[1] < 0.95


def test_a_flat_series_does_not_repeat() -> None:
    assert _repeats(np.full(60, 7.0)) == (0.0, 0.0)


def test_who_asks_for_what_is_likely_is_told_nothing_else() -> None:
    sines = [Case("sine", seed, 20.0, 10.0, length=52).series() for seed in SEEDS]
    windows = [*sines, *(Case("random_walk", seed, length=52).series() for seed in SEEDS)]
    every = [_repeats(window) for window in windows]
    assert len({chance >= LIKELY for _, chance in every}) == 2
    likely = [found if found[1] >= LIKELY else (0.0, 0.0) for found in every]
    assert [_repeats(window, LIKELY) for window in windows] == likely


def _repeats(window: Floats, least_chance: float = 0.0) -> tuple[float, float]:
    return repeats(window, FLAT, least_chance, np.empty(EVIDENCE))


@pytest.mark.parametrize(("begin", "first"), [(0, 0), (40, 43), (48, 48)])
def test_a_beginning_is_found_to_the_sample(begin: int, first: int) -> None:
    window = np.concatenate((idle(first or 48), 50 + 20 * np.sin(np.arange(60))))
    assert beginning(window, begin) == first


@pytest.mark.parametrize(("early", "found"), [(False, False), (True, True)])
def test_only_who_asks_finds_early(early: bool, found: bool) -> None:
    window = np.concatenate((idle(304), Case("square", 3, 40.0, 10.0, length=104).series()))
    (seen,) = find_cycles([window], early=early)
    assert (seen is not None) == found
    if seen is not None:
        assert seen.cycles[0].period == pytest.approx(40.0, rel=0.05)
        assert (seen.idle, seen.whole) == (0, True)


def test_idleness_after_it_is_no_beginning() -> None:
    window = np.concatenate((idle(304), Case("square", 3, 40.0, 10.0, length=104).series(), idle(64)))
    assert find_cycles([window], early=True) == [None]

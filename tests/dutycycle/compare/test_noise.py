"""The yardstick: how often it is passed by chance, and that it sees what is more than noise."""

import numpy as np
import pytest

from dutycycle.measures.change import change
from dutycycle.measures.noise import blocks_of, error_of_max, error_of_mean
from dutycycle.measures.steps import Measure
from dutycycle.traces.frames import Floats
from tests.support.targets import slow_after

TICKS = 1200
RUNS = 200


def steps(chance: np.random.Generator, level: float = 90.0) -> Floats:
    """Work in steps of 12 s that wander, with a start, checkpoints and an end without work."""
    time = np.arange(TICKS)
    wander = np.zeros(TICKS)
    for at in range(1, TICKS):
        wander[at] = 0.9 * wander[at - 1] + chance.normal(0, 1)
    values = np.where(time % 12 < 9, level, 5) + wander
    values[(time < 60) | (time % 300 > 285) | (time > TICKS - 40)] = 0
    return values


def measure(values: Floats, period: float | None = None) -> Measure:
    return Measure(float(values.mean()), error_of_mean(blocks_of(values, period)))


def test_the_error_is_that_of_many_runs() -> None:
    chance = np.random.default_rng(1)
    found = [measure(chance.normal(50, 10, TICKS)) for _ in range(RUNS)]
    spread = np.std([one.value for one in found])
    assert np.median([one.error or 0 for one in found]) == pytest.approx(spread, rel=0.15)


@pytest.mark.parametrize("period", slow_after(1, [None, 12.0]))
def test_runs_that_are_equal_up_to_noise_differ_by_chance_in_hardly_any_figure(period: float | None) -> None:
    chance = np.random.default_rng(2)
    differ = sum(
        bool(change(measure(steps(chance), period), measure(steps(chance), period)).is_one)
        for _ in range(RUNS)
    )
    assert differ <= RUNS / 100


@pytest.mark.slow
def test_ten_percent_more_is_seen_in_the_same_runs() -> None:
    chance = np.random.default_rng(3)
    seen = sum(
        bool(change(measure(steps(chance), 12.0), measure(steps(chance, 99), 12.0)).is_one)
        for _ in range(RUNS)
    )
    assert seen >= 0.9 * RUNS


def test_phases_and_a_trend_are_no_noise() -> None:
    values = np.concatenate([np.zeros(300), np.linspace(80, 90, 900)])
    assert (error_of_mean(blocks_of(values, None)) or 0) < 0.2
    assert error_of_max(blocks_of(np.full(100, 7.0), None)) == 0


def test_blocks_are_of_whole_cycles() -> None:
    assert blocks_of(np.arange(1000.0), 12.0).shape == (16, 60)
    assert blocks_of(np.arange(1000.0), None).shape == (20, 50)
    assert blocks_of(np.arange(7.0), None).shape == (7, 1)
    assert blocks_of(np.array([1.0, np.nan] * 3), None).shape == (3, 1)


def test_of_too_few_blocks_nothing_is_said() -> None:
    few = blocks_of(np.arange(40.0), 12.0)
    assert len(few) == 3
    assert (error_of_mean(few), error_of_max(few)) == (None, None)


@pytest.mark.parametrize(
    ("before", "after", "is_one"),
    [
        (Measure(100, 1), Measure(105, 1), False),
        (Measure(100, 1), Measure(107, 1), True),
        (Measure(100, 0), Measure(100.9, 0), False),  # too little to matter
        (Measure(100, 0), Measure(101.1, 0), True),
        (Measure(100, None), Measure(200, 1), None),
        (Measure(100, None), Measure(100.5, 1), False),
        (Measure(0, 0), Measure(0, 0), False),
        (Measure(0, 0), Measure(1, 0), True),
    ],
)
def test_what_is_a_difference(before: Measure, after: Measure, *, is_one: bool | None) -> None:
    assert change(before, after).is_one is is_one

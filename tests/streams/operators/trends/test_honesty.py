"""What is said of a series from its first minute on: intervals that hold, one answer, no invented slope.

Curves are those of ``bench/insight/tables_age.py``, an hour each, at fixed seeds.
"""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from bench.insight.tables_age import CURVES, Covered, covered, curve
from streams.operators.columns.arrays import Bools, Floats
from streams.operators.trends.bank import TrendBank, TrendForecast
from streams.operators.trends.horizon import (
    ABOVE,
    BELOW,
    COMPARISONS,
    GAIN,
    MOVED,
    ROWS,
    SIDES,
    STILL_ABOVE,
    STILL_BELOW,
    _worth,
)

START_MS = 1_700_000_000_000
SEEDS = range(12)
GB = 1e9
SECOND = np.arange(1800.0)
PERIODS_S = np.concatenate((np.arange(5.0, 121.0, 5.0), [7.3, 10.2, 21.4, 33.3, 61.7, 118.0]))


CASES = [(kind, noisy) for kind in CURVES for noisy in (False, True)]


@pytest.fixture(scope="module")
def scores() -> Covered:
    """Of all cases, a column for each case and seed."""
    return covered(np.array([curve(kind, seed, noisy=noisy) for kind, noisy in CASES for seed in SEEDS]).T)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_intervals_hold_the_truth_at_every_horizon_and_age(scores: Covered, case: tuple[str, bool]) -> None:
    first = CASES.index(case) * len(SEEDS)
    of = slice(first, first + len(SEEDS))
    made, inside = scores.forecasts[..., of].sum(axis=2), scores.inside[..., of].sum(axis=2)
    told = made > 0
    assert told.tolist() == [[True, True, False], [True, True, True]]
    share = inside[told] / made[told]
    assert share.min() >= 0.8
    assert not case[1] or share.max() <= 0.98, "92 % are aimed at"


def test_no_record_contradicts_itself(scores: Covered) -> None:
    assert scores.contradicted.sum() == 0


def asked(rows: Floats, seconds: list[int], capacity: float = np.nan) -> list[TrendForecast]:
    """What is said at these seconds of series that are asked about every ten, shape (seconds, n)."""
    bank, n, found = TrendBank(rows.shape[1]), rows.shape[1], []
    for second, row in enumerate(rows):
        bank.update(START_MS + 1000 * second, row)
        if second % 10 == 9 or second in seconds:
            said = bank.forecast(lower=np.zeros(n), capacity=np.full(n, capacity))
            found += [said] if second in seconds else []
    return found


def test_a_ramp_goes_on() -> None:
    """50 MB/s from 60 GB on a GPU of 141 GB: what a user saw contradict itself."""
    ramp = 60 * GB + 0.05 * GB * SECOND[:, np.newaxis]
    young, old = asked(ramp, [219, 729], 141 * GB)
    assert young.known[:, 0].tolist() == [True, True, False]
    assert young.value[1, 0] == pytest.approx(ramp[249, 0], rel=1e-3)
    assert old.known.all()
    assert old.value[2, 0] == pytest.approx(ramp[1029, 0], rel=1e-3)
    assert old.p05[2, 0] <= ramp[1029, 0] + 1e5
    assert old.p95[2, 0] >= ramp[1029, 0] - 1e5
    assert old.exhausts_in_s[0] == pytest.approx((141 - 60) / 0.05 - 729, rel=0.02)
    assert old.slope_per_s[0] == pytest.approx(0.05 * GB, rel=0.02)


def noise(size: float, columns: int) -> Floats:
    return np.asarray(size * np.random.default_rng(3).normal(size=(SECOND.size, columns)))


def each_period(shape: Callable[[Floats], Floats]) -> Floats:
    return shape(SECOND[:, np.newaxis] / PERIODS_S + 0.3)


STATIONARY = {
    "squares": each_period(lambda phase: np.where(phase % 1 < 0.5, 95.0, 10.0)),
    "short bursts": each_period(lambda phase: np.where(phase % 1 < 0.15, 95.0, 10.0))
    + noise(2, PERIODS_S.size),
    "sawteeth": each_period(lambda phase: 10 + 85 * (phase % 1)),
    "sines": each_period(lambda phase: 50 + 40 * np.sin(2 * np.pi * phase)) + noise(2, PERIODS_S.size),
    "flat": 60 + noise(2, 30),
    "still": np.full((SECOND.size, 1), 60.0),
    "a step": np.where(SECOND > 700, 90.0, 10.0)[:, np.newaxis] + noise(1, 5),
}


@pytest.mark.parametrize("rows", STATIONARY.values(), ids=STATIONARY)
def test_what_has_no_trend_has_no_slope(rows: Floats) -> None:
    slopes = np.array([said.slope_per_s for said in asked(rows, list(range(9, 1800, 30)))])
    assert np.count_nonzero(slopes) == 0


RAMPS = {
    "clean": (20 + SECOND / 30, 300, 0.01),
    "with noise": (20 + SECOND / 30 + noise(2, 1)[:, 0], 600, 0.2),
    "downwards": (90 - SECOND / 30 + noise(2, 1)[:, 0], 600, 0.2),
    "under a cycle": (20 + SECOND / 30 + np.where(SECOND / 20 % 1 < 0.5, 30.0, 0.0), 900, 0.1),
}


@pytest.mark.parametrize(("ramp", "from_s", "within"), RAMPS.values(), ids=RAMPS)
def test_a_trend_has_its_slope(ramp: Floats, from_s: int, within: float) -> None:
    slopes = [said.slope_per_s[0] for said in asked(ramp[:, np.newaxis], list(range(from_s + 9, 1800, 60)))]
    assert np.array(slopes) == pytest.approx(np.sign(ramp[-1] - ramp[0]) / 30, rel=within)


def is_told(below: tuple[int, float], above: tuple[int, float]) -> list[bool]:
    """Whether a blend below the newest value is told, and one above it, at the shortest horizon, after so
    many that were better by such a share of persistence's error."""
    state = np.zeros((1, ROWS, 1))
    for side, (comparisons, share) in enumerate((below, above)):
        state[0, COMPARISONS + side], state[0, MOVED + side] = comparisons, 10.0
        state[0, GAIN + side] = 10.0 * share
    told = _worth(np.ones(1), state)
    assert told.shape == (1, SIDES, 1)
    return [bool(side) for side in told[0, :, 0]]


def test_a_blend_is_told_only_after_it_was_better_often_enough() -> None:
    assert is_told((5, 0.9), (0, 0.0)) == [False, False]
    assert is_told((6, 0.9), (0, 0.0)) == [True, True]
    assert is_told((3, 0.9), (3, 0.9)) == [True, True], "of both sides together"


def test_a_blend_that_was_hardly_better_is_not_told() -> None:
    """Of what was measured, a part counts: 25 errors beside 10 of which nothing is known."""
    assert is_told((25, 0.1), (0, 0.0)) == [False, False]
    assert is_told((25, 0.12), (0, 0.0)) == [True, True]


def test_a_blend_is_not_told_on_the_side_where_it_was_worse() -> None:
    """A GPU comes back to rest after a burst, and nobody knows when the next one begins."""
    assert is_told((25, 0.9), (25, -0.1)) == [True, False]
    assert is_told((25, -0.1), (25, 0.9)) == [False, True]
    assert is_told((25, 0.9), (25, -0.9)) == [True, False], "though both together are no better"


def forecasts(rows: Floats) -> Iterator[tuple[int, TrendForecast]]:
    """Yield each tenth second with what is told then of series, shape (seconds, n)."""
    bank = TrendBank(rows.shape[1])
    for second, row in enumerate(rows):
        bank.update(START_MS + 1000 * second, row)
        if second % 10 == 9:
            yield second, bank.forecast()


def are_inside(rows: Floats) -> Bools:
    """Return of each forecast 10 s ahead of series, shape (seconds, n), whether the truth is inside."""
    return np.array([
        (forecast.p05[0] <= rows[second + 10]) & (rows[second + 10] <= forecast.p95[0])
        for second, forecast in forecasts(rows[:-10])
    ])  # fmt: skip


def test_bursts_are_forecast_to_end_and_not_to_begin() -> None:
    """Rest of a minute or more, at times; bursts of about ten seconds: 30 s after most moments there is
    rest."""
    rng, (seconds, series) = np.random.default_rng(3), (5400, 20)
    values, busy = np.zeros((seconds, series)), np.zeros(series, np.bool_)
    for second in range(seconds):
        busy ^= rng.random(series) < np.where(busy, 1 / 10, 1 / 60)
        values[second] = np.where(busy, 90 + rng.normal(size=series), 0.0)
    error, still, up = 0.0, 0.0, 0
    for second, forecast in forecasts(values[:-30]):
        made = (forecast.method[1] > 0) & (second > 1200)
        error += np.abs(forecast.value[1] - values[second + 30])[made].sum()
        still += np.abs(values[second] - values[second + 30])[made].sum()
        up += (made & (forecast.value[1] > values[second])).sum()
    assert error < 0.5 * still
    assert up < 0.02 * seconds / 10 * series


@pytest.mark.parametrize(("first", "persistent"), [
    pytest.param(60, True, id="step"), pytest.param(61, False, id="outlier"),
])  # fmt: skip
@pytest.mark.parametrize("change", [50.0, -50.0])
def test_after_a_step_the_newest_value_is_told_at_once_and_after_an_outlier_the_usual_one(
    first: int, persistent: bool, change: float
) -> None:
    """Ticks come later than before as the step comes, so that no error of the blend is known yet."""
    rows, bank = 60 + noise(2.0, 20)[:62], TrendBank(20)
    rows[first:] += change
    for tick, row in enumerate(rows):
        bank.update(START_MS + 11_000 * min(tick, 59) + 20_000 * max(tick - 59, 0), row)
        forecast = bank.forecast()
        assert tick != 59 or (forecast.method[0] > 0).mean() >= 0.95
    blended = forecast.method[0] > 0
    expected = np.where(blended, 60.0, rows[-1])
    assert not blended.any() if persistent else blended.mean() >= 0.95
    assert (np.abs(forecast.value[0] - expected) < 20).all()
    assert not persistent or ((forecast.p95 - forecast.p05)[0] < 40).all()


def test_the_intervals_of_blend_and_persistence_are_each_of_their_own_errors() -> None:
    """The newest value of a steep ramp is always too low, and the blend as often too low as too high."""
    rows, bank = 0.5 * SECOND[:, np.newaxis] + noise(0.3, 8), TrendBank(8)
    for second, row in enumerate(rows):
        bank.update(START_MS + 1000 * second, row)
        if second % 10 == 9:
            bank.forecast()
    points = bank._horizons._state[0]
    assert (points[STILL_BELOW] == 0).all()
    assert (points[STILL_ABOVE] > 0.3).all()
    assert (points[[BELOW, ABOVE]] > 0.8).all()


def test_farther_ahead_intervals_reach_no_less() -> None:
    """Random switches, about one a minute: in the first minutes few errors are known 300 s ahead, and none
    may be of a switch."""
    rng, (seconds, series) = np.random.default_rng(11), (1200, 40)
    levels = 90.0 * ((rng.random((seconds, series)) < 1 / 60).cumsum(axis=0) % 2)
    rows, inside, persistent = levels + rng.normal(size=levels.shape), [], 0
    for second, forecast in forecasts(rows[:-300]):
        stays = (forecast.method == 0).all(axis=0) & forecast.known.all(axis=0)
        persistent += stays.sum()
        for reach in (forecast.value - forecast.p05, forecast.p95 - forecast.value):
            assert (np.diff(reach[:, stays], axis=0) > -1e-6).all()
        known, truth = forecast.known[2], rows[second + 300]
        inside += ((forecast.p05[2] <= truth) & (truth <= forecast.p95[2]))[known].tolist()
    assert persistent > 500
    assert np.mean(inside) > 0.9


def test_an_interval_that_had_shrunk_to_nothing_grows_again() -> None:
    """Errors are so rare for an hour that both points come to 0, and are a third of all then."""
    rng, (seconds, series) = np.random.default_rng(2), (9000, 20)
    often = np.where(np.arange(seconds) < 5400, 0.01, 0.15)[:, np.newaxis]
    values = np.where(rng.random((seconds, series)) < often, 90.0, 5.0)
    assert np.mean(are_inside(values)[600:]) > 0.85


def test_an_interval_without_width_teaches_nothing() -> None:
    """Memory that stood still climbs by 10 GB and stands still again: to miss what had no width says nothing
    of how many errors an interval has to reach."""
    level = 20 + 10 * np.clip((SECOND - 900) / 60, 0, 1)
    later = [forecast for second, forecast in forecasts(GB * level[:, np.newaxis]) if second > 960]
    assert 30 < max(forecast.p95[2, 0] for forecast in later) / GB < 55


@pytest.mark.slow
@pytest.mark.parametrize("tick_s", [1, 10, 30])
def test_what_is_at_times_far_off_is_expected_where_it_is_usually(tick_s: int) -> None:
    """Of three values one is about 0 and two are about 90: neither the last value nor the mean is near. From
    about 0 a blend is told, and from about 90 the last value is as good."""
    rng, (ticks, series) = np.random.default_rng(7), (7200 // tick_s, 30)
    values = np.where(rng.random((ticks, series)) < 1 / 3, 0.0, 90.0) + rng.random((ticks, series))
    bank, ahead = TrendBank(series), 300 // tick_s
    error, still, told = [], [], []
    for tick in range(ticks - ahead):
        bank.update(START_MS + 1000 * tick_s * tick, values[tick])
        if tick * tick_s % 10 == 0:
            said, truth = bank.forecast(), values[tick + ahead]
            if tick * tick_s >= 3600:
                error.append(np.abs(said.value[2] - truth))
                still.append(np.abs(values[tick] - truth))
                told.append(said.method[2] > 0)
    made = np.array(told)
    assert 0.3 < made.mean() < 0.5
    least = np.array(error)[made].mean() / np.array(still)[made].mean()
    assert least < 0.7, "half is the least that is possible"


def test_intervals_reach_what_is_rare_and_large() -> None:
    """A fifth of the ticks is full, the others next to nothing."""
    rng, (seconds, series) = np.random.default_rng(5), (3600, 20)
    values = np.where(rng.random((seconds, series)) < 0.2, 100.0, 0.0) + rng.random((seconds, series))
    assert np.mean(are_inside(values)[60:]) > 0.84

"""Trends: the same numbers as River's, whatever is missing, and the same after a restart."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river.time_series import HoltWinters

from streams.operators.columns.arrays import Floats
from streams.operators.trends.bank import TrendBank, TrendForecast
from streams.operators.trends.holt import ALPHA, BETA, LEVEL, SLOPE
from streams.operators.trends.horizon import METHODS
from streams.state.codec import from_bytes, to_bytes
from tests.support.examples import examples

START_MS = 1_700_000_000_000
VALUES = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def fed(rows: Floats, *, step_ms: int = 1000, bank: TrendBank | None = None, first: int = 0) -> TrendBank:
    """A bank that took the rows, one per ``step_ms``, and knows of no cycle every ten."""
    bank = bank or TrendBank(rows.shape[1])
    for tick, row in enumerate(rows, first):
        bank.update(START_MS + step_ms * tick, row)
        if tick % 10 == 9:
            bank.forecast()
    return bank


def figures(said: TrendForecast) -> Floats:
    """All that is said of each series, shape (n, figures)."""
    return np.vstack((said.level, said.slope_per_s, said.value, said.p05, said.p95)).T


def text(bank: TrendBank) -> bytes:
    return to_bytes(bank.snapshot())


def noise(ticks: int, columns: int, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).normal(size=(ticks, columns))


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=2, max_size=40))
@settings(max_examples=examples(60))
def test_level_and_slope_are_those_of_river(rows: list[tuple[float, ...]]) -> None:
    state = fed(np.array(rows))._holt.state
    for column in range(3):
        # River's model with our gains; ``Any`` as River's methods have no types.
        made: Any = HoltWinters
        model = made(alpha=ALPHA, beta=BETA)
        for row in rows:
            model.learn_one(row[column])
        assert state[LEVEL, column] == pytest.approx(model.level[-1], rel=1e-9, abs=1e-6)
        assert state[SLOPE, column] == pytest.approx(model.trend[-1], rel=1e-9, abs=1e-6)


SAMPLINGS = {
    "regular": [1000],
    "twice as slow": [2000],
    "jitter": [900, 1100, 1003, 997],
    "every third tick missing": [1000, 2000],
    "fast bursts": [100, 100, 1800],
}


@pytest.mark.parametrize("gaps_ms", SAMPLINGS.values(), ids=SAMPLINGS)
def test_a_line_is_a_line_at_any_sampling(gaps_ms: list[int]) -> None:
    bank, at = TrendBank(1), 0
    for tick in range(600):
        at += gaps_ms[tick % len(gaps_ms)]
        bank.update(START_MS + at, np.array([5.0 + 0.003 * at]))
    said = bank.forecast()
    assert said.slope_per_s[0] == pytest.approx(3.0, rel=1e-3)
    assert said.level[0] == pytest.approx(5.0 + 0.003 * at, rel=1e-4)


@given(st.integers(0, 2**31), st.integers(1, 40))
@settings(max_examples=examples(25))
def test_columns_know_nothing_of_one_another(seed: int, ticks: int) -> None:
    rows = noise(ticks, 4, seed)
    rows[np.random.default_rng(seed).uniform(size=rows.shape) < 0.3] = np.nan
    together = fed(rows).forecast()
    for column in range(4):
        alone = fed(rows[:, [column]]).forecast()
        for ours, theirs in ((together.level, alone.level), (together.p95[:, [column]][0], alone.p95[0])):
            assert ours[column if ours.size == 4 else 0] == pytest.approx(theirs[0], nan_ok=True, rel=1e-12)


@given(st.integers(0, 2**31), st.integers(0, 120), st.integers(0, 60), st.floats(0, 0.5))
@settings(max_examples=examples(25))
def test_a_restart_leaves_no_trace(seed: int, before: int, after: int, missing: float) -> None:
    rows = noise(before + after, 3, seed) * 1e9
    rows[np.random.default_rng(seed).uniform(size=rows.shape) < missing] = np.nan
    straight = fed(rows)
    stopped = TrendBank.restore(from_bytes(text(fed(rows[:before]))) if before else TrendBank(3).snapshot())
    resumed = fed(rows[before:], bank=stopped, first=before)
    assert text(resumed) == text(straight)
    ours, theirs = resumed.forecast(), straight.forecast()
    assert np.array_equal(ours.p95, theirs.p95, equal_nan=True)


def test_series_come_go_and_move() -> None:
    rows = noise(100, 3)
    bank = fed(rows)
    was = bank.forecast()
    bank.resize(np.array([2, -1, 0]))
    now = bank.forecast()
    assert np.array_equal(figures(now)[[0, 2]], figures(was)[[2, 0]], equal_nan=True)
    assert np.isnan(figures(now)[1]).all()
    bank.update(START_MS + 100_000, np.array([1.0, 7.0, 2.0]))
    bank.update(START_MS + 101_000, np.array([1.0, 9.0, 2.0]))
    begun = bank.forecast()
    assert (begun.level[1], begun.slope_per_s[1]) == (8.0, 0.0)
    assert np.isnan(begun.value[:, 1]).all()


def test_unseen_for_a_while_is_forecast_far_ahead_only_and_for_long_begins_anew() -> None:
    rows = noise(600, 1).cumsum(axis=0)
    assert fed(rows).forecast().known.all()
    for_a_minute = fed(np.full((60, 1), np.nan), bank=fed(rows), first=600).forecast()
    for_long = fed(np.full((130, 1), np.nan), bank=fed(rows), first=600).forecast()
    assert for_a_minute.known[:, 0].tolist() == [False, False, True]
    assert np.isnan(figures(for_long)).all()


def test_no_tick_for_long_begins_anew() -> None:
    bank = fed(noise(300, 1) + 50)
    bank.update(START_MS + 1_000_000, np.array([5.0]))
    assert np.isnan(figures(bank.forecast())).all()
    bank.update(START_MS + 1_001_000, np.array([5.0]))
    assert bank.forecast().level[0] == 5.0


def test_forecasts_stay_within_their_bounds() -> None:
    rows = np.stack([np.linspace(0, 99, 200), np.linspace(99, 0, 200), np.linspace(0, 99, 200)], axis=1)
    said = fed(rows).forecast(lower=np.array([0.0, 0.0, np.nan]), upper=np.array([100.0, 100.0, np.nan]))
    bounded = np.concatenate((said.value[:2], said.p05[:2], said.p95[:2]))[:, :2]
    assert bounded.min() >= 0
    assert bounded.max() <= 100
    assert said.p95[1, 2] > 100


def test_intervals_hold_what_they_promise() -> None:
    rows, hits, count = noise(1200, 20, 3), np.zeros(3), 0
    bank = TrendBank(20)
    for tick, row in enumerate(rows):
        bank.update(START_MS + 1000 * tick, row)
        if tick % 10 == 0:
            bank.forecast()
        if tick >= 500 and tick % 10 == 0 and tick + 300 < len(rows):
            said, truth = bank.forecast(), rows[[tick + 10, tick + 30, tick + 300]]
            hits += ((said.p05 <= truth) & (truth <= said.p95)).mean(axis=1)
            count += 1
    assert np.all(hits / count > 0.86)
    assert np.all(hits / count < 0.99)


@pytest.mark.parametrize(("tick_s", "every", "nearest"), [(1, 10, 10), (3, 4, 3), (1.5, 7, 7)])
def test_intervals_hold_what_is_read_where_values_are_means(tick_s: float, every: int, nearest: int) -> None:
    """Where ticks are three seconds apart, that before the forecast's moment is the nearest. ``every``,
    ``nearest``: ticks between two forecasts, and to the one nearest to ten seconds later."""
    means, readings = np.full((900, 20), 50.0), 50 + 10 * noise(900, 20)
    bank, inside, off = TrendBank(20), [], []
    for tick in range(890):
        row = slice(tick, tick + 1)
        bank.extend(np.array([START_MS + round(1000 * tick_s * tick)]), means[row], readings[row])
        if tick % every == 0:
            forecast, later = bank.forecast(), readings[tick + nearest]
            if tick >= 300:
                off.append(abs(forecast.value[0] - 50))
                inside.append((forecast.p05[0] <= later) & (later <= forecast.p95[0]))
    assert np.mean(off) < 0.5, "the mean is nearer to what will be read than what was read"
    assert 0.86 < np.mean(inside) < 0.95


def test_persistence_tells_what_was_read_where_the_mean_of_a_tick_is_far_from_it() -> None:
    """GPUs that pause for one second of six: the mean of a tick is that of the second before it was read."""
    readings = np.where(np.arange(901) % 6 == 5, 5.0, 100.0)
    means = np.where(np.arange(901) % 6 == 0, 21.0, 100.0)
    steady = 50 + 10 * noise(901, 1)[:, 0]
    bank, columns = TrendBank(2), np.column_stack((means, np.full(901, 50.0)))
    for tick in range(901):
        rows = slice(tick, tick + 1)
        read = np.array([[readings[tick], steady[tick]]])
        bank.extend(np.array([START_MS + 1000 * tick]), columns[rows], read)
        if tick % 10 == 0:
            forecast = bank.forecast()
            if tick >= 600:
                assert forecast.value[1, 0] == readings[tick]
                assert forecast.value[1, 1] == pytest.approx(50), "a mean is nearer than what is noise"


def test_the_blend_is_told_where_it_was_better_than_persistence_and_else_persistence() -> None:
    walks, mean_reverting = noise(1200, 20, 1).cumsum(axis=0), noise(1200, 20, 2)
    said = fed(np.hstack((walks, mean_reverting))).forecast()
    persistent = said.method == METHODS.index("persistence")
    assert said.known.all()
    assert persistent[:, :20].mean() >= 0.8
    assert np.all(said.method[:2, 20:] == METHODS.index("blend"))
    last = np.broadcast_to(walks[-1], (3, 20))[persistent[:, :20]]
    assert np.array_equal(said.value[:, :20][persistent[:, :20]], last)


def test_an_interval_reaches_as_far_as_is_measured() -> None:
    bank = fed(np.full((600, 2), 60.0))
    said = bank.forecast(upper=np.array([np.nan, 60.5]), resolution=np.array([1.0, 1.0]))
    assert said.known.all()
    assert said.p05.tolist() == [[59.0, 59.0]] * 3
    assert said.p95.tolist() == [[61.0, 60.5]] * 3


def test_an_interval_reaches_to_the_next_whole_number_of_a_source_that_rounds() -> None:
    rows = np.full((600, 2), 60.0)
    rows[3, 1] = 60.25
    bank = fed(rows)
    for told in (bank, TrendBank.restore(from_bytes(text(bank)))):
        forecast = told.forecast(resolution=np.array([0.1, 0.1]))
        assert forecast.p05[0].tolist() == [59.0, pytest.approx(59.9)]
        assert forecast.p95[0].tolist() == [61.0, pytest.approx(60.1)]


def test_an_interval_has_a_width_where_a_ramp_comes_to_its_bound() -> None:
    ramp = np.linspace(0, 90, 900)[:, np.newaxis]
    said = fed(ramp).forecast(upper=np.array([92.0]), resolution=np.array([1.0]))
    assert said.known.all()
    assert said.value[2, 0] == said.p95[2, 0] == 92
    assert said.p05[2, 0] <= 91


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [7, 16, 31, 45])
def test_intervals_hold_at_ticks_that_miss_the_moments_forecast(step_s: int) -> None:
    """A forecast of 30 s is measured by the tick that is nearest, as far as one is near."""
    rows, bank, inside = noise(900, 20, 4), TrendBank(20), []
    gaps_ms = np.random.default_rng(5).integers(1000 * step_s - 900, 1000 * step_s + 900, len(rows))
    times = START_MS + np.cumsum(gaps_ms)
    for tick, (ts_ms, row) in enumerate(zip(times.tolist(), rows, strict=True)):
        bank.update(ts_ms, row)
        said = bank.forecast()
        for horizon_s, p05, p95 in zip(said.horizons_s, said.p05, said.p95, strict=True):
            due_ms = ts_ms + 1000 * horizon_s
            then = int(np.argmin(np.abs(times - due_ms)))
            if tick >= 300 and tick < then and abs(times[then] - due_ms) <= 250 * horizon_s:
                known = ~np.isnan(p05)
                inside.append(
                    ((p05 <= rows[then]) & (rows[then] <= p95))[known].mean() if known.any() else 0.0
                )
    assert len(inside) > 300
    assert 0.85 <= np.mean(inside) <= 0.97


@pytest.mark.parametrize("nonsense", [float("inf"), float("-inf"), 1e300, float("nan")])
def test_nonsense_counts_as_absent(nonsense: float) -> None:
    rows = noise(50, 2)
    spoilt = rows.copy()
    spoilt[25, 0] = nonsense
    clean, other = fed(rows).forecast(), fed(spoilt).forecast()
    assert other.known[0].all()
    assert other.level[1] == clean.level[1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda bank: bank.update(START_MS + 10_000, np.zeros(3)), "2 columns: resize first"),
        (lambda bank: bank.update(START_MS, np.zeros(2)), "not later than"),
        (lambda bank: TrendBank.restore({**bank.snapshot(), "v": 0}), "snapshot of trends: version 0"),
    ],
)
def test_misuse_is_named(wrong: Callable[[TrendBank], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong(fed(noise(2, 2)))

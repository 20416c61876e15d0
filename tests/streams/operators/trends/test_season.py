"""Forecasts of what repeats: as good as the cycle, at once, and gone with it."""

import numpy as np
import pytest

from streams.operators.columns.arrays import Floats
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import Series
from streams.operators.cycles.detect.window import Windows
from streams.operators.node.analysis import AnalysisBank
from streams.operators.trends.bank import TrendForecast
from streams.operators.trends.season import Season, season_of
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import tick_of

START_MS = 1_700_000_000_000
SECOND = np.arange(1500.0)
SERIES = [Series("gpu", "a", "mem_used_bytes"), Series("gpu", "a", "power_w"), Series("gpu", "b", "power_w")]
MEMORY, CYCLIC, PLAIN = range(3)


def noise(size: float, seed: int = 1) -> Floats:
    return np.asarray(size * np.random.default_rng(seed).normal(size=SECOND.size))


def square(period: float, size: int = SECOND.size) -> Floats:
    return np.asarray(300 + 100.0 * (np.arange(size) / period % 1 < 0.4))


def rows(cyclic: Floats) -> Floats:
    return np.stack((np.full(cyclic.size, 1e9), cyclic, 300 + noise(10, 2)[: cyclic.size]), axis=1)


def fed(values: Floats, bank: AnalysisBank | None = None, first: int = 0) -> AnalysisBank:
    """A bank that took the rows, one a second, and was asked every ten."""
    if bank is None:
        bank = AnalysisBank()
        bank.resize(SERIES)
    for tick, row in enumerate(values, first):
        bank.extend(TickBlock([tick_of(SERIES, row, START_MS + 1000 * tick)]), row[np.newaxis])
        if tick % 10 == 9:
            bank.evaluate(START_MS + 1000 * tick)
    return bank


def asked(bank: AnalysisBank, tick: int) -> TrendForecast:
    """What is expected after ``tick``, published or not."""
    bank.evaluate(START_MS + 1000 * tick)
    return bank._trends.forecast(season_of(bank._cycles.locked(), bank._season_columns))


def season(window: Floats, period: float) -> Season:
    windows = Windows(window[np.newaxis], np.array([[0, window.size]]))
    return Season(np.array([0]), np.array([period]), windows, 1000)


@pytest.mark.parametrize("period", [4.0, 7.3, 20.0, 33.35, 100.0])
@pytest.mark.parametrize("horizon_s", [1.0, 10.0, 30.0, 300.0])
def test_a_clean_cycle_on_a_slope_goes_on(period: float, horizon_s: float) -> None:
    moments = np.arange(600.0)
    window = 50 + 0.02 * moments + np.sin(2 * np.pi * moments / period)
    then = 599 + horizon_s
    truth = 50 + 0.02 * then + np.sin(2 * np.pi * then / period)
    found = season(window, period).ahead(np.array([horizon_s]))[0]
    assert found.shape == (2, 1)
    assert found[0, 0] == pytest.approx(truth, abs=0.2)


def test_many_periods_take_the_noise_away() -> None:
    moments = np.arange(600.0)
    errors = []
    for seed in range(40):
        window = np.sin(2 * np.pi * moments / 20) + np.random.default_rng(seed).normal(size=600)
        errors.append(season(window, 20.0).ahead(np.array([10.0]))[0, :, 0] - np.sin(2 * np.pi * 609 / 20))
    long, short = np.sqrt(np.mean(np.square(errors), axis=0))
    assert long < 0.4
    assert short > long


def test_a_window_shorter_than_its_period_says_nothing() -> None:
    assert np.isnan(season(np.arange(8.0), 20.0).ahead(np.array([3.0]))).all()


def test_the_error_in_retrospect_is_about_the_noise() -> None:
    moments = np.arange(600.0)
    window = np.sin(2 * np.pi * moments / 20) + 0.1 * np.random.default_rng(0).normal(size=600)
    windows = Windows(np.array([window, 10 * window]), np.array([[0, 600], [0, 600]]))
    both = Season(np.array([0, 1]), np.array([20.0, 20.0]), windows, 1000)
    tried = both.errors(np.array([0, 1]))
    assert tried[0, 0] == pytest.approx(0.08, rel=0.3)
    assert tried[:, 1] == pytest.approx(10 * tried[:, 0])


def test_a_known_cycle_is_forecast() -> None:
    curve = square(33.3)
    bank = fed(rows((curve + noise(3))[:600]))
    said, truth = asked(bank, 599), curve[[609, 629, 899]]
    assert said.value[:, CYCLIC] == pytest.approx(truth, abs=20)
    width = said.p95 - said.p05
    assert width[:2, CYCLIC].min() < 20
    assert width[:2, CYCLIC].max() < 120  # one edge that came a second late is remembered for long
    assert width[:2, PLAIN].min() > 15


def test_the_interval_is_narrow_soon_after_the_lock_and_wide_soon_after_its_end() -> None:
    ended = np.concatenate((square(20.0, 600), 300 + 100 * np.random.default_rng(5).uniform(size=400)))
    ended += noise(3)[: ended.size]
    bank, width = AnalysisBank(), []
    bank.resize(SERIES)
    for tick, row in enumerate(rows(ended)):
        bank.extend(TickBlock([tick_of(SERIES, row, START_MS + 1000 * tick)]), row[np.newaxis])
        if tick % 10 == 9:
            said = asked(bank, tick)
            width.append((said.p95 - said.p05)[0, CYCLIC])
    assert max(width[15:59]) < 60  # from 150 s: the lock needs three periods, and is evaluated every 10 s
    assert min(width[66:]) > 60  # from 60 s after the end


@pytest.mark.slow
def test_a_restart_leaves_no_trace() -> None:
    values = rows(square(17.7) + noise(5))[:700]
    straight = fed(values)
    for stop in (55, 300, 433):
        stopped = from_bytes(to_bytes(fed(values[:stop]).snapshot()))
        resumed = AnalysisBank()
        resumed.restore(stopped, SERIES)
        fed(values[stop:], resumed, stop)
        assert to_bytes(resumed.snapshot()) == to_bytes(straight.snapshot())

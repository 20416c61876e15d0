"""Which trends are published, and when: on change, and else once a minute at the most."""

import numpy as np
import pytest

from streams.operators.columns.arrays import Floats
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import Series
from streams.operators.node.analysis import AnalysisBank
from streams.operators.trends.bank import TrendForecast
from streams.operators.trends.changes import TrendDebouncer
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import tick_of

EVERY_S = 10
ONE = np.zeros(1, np.int64)
"""The number of the only subject."""


def forecast(
    level: float = 50.0, *, ahead: float | None = None, off: float = 5.0, exhausts_in_s: float = np.nan
) -> TrendForecast:
    """Of one series: three horizons alike, the interval ``off`` to both sides."""
    value = np.full((3, 1), level if ahead is None else ahead)
    return TrendForecast(
        horizons_s=(10.0, 30.0, 300.0), level=np.array([level]), slope_per_s=np.zeros(1), value=value,
        p05=value - off, p95=value + off, method=np.zeros((3, 1), np.int64),
        exhausts_in_s=np.array([exhausts_in_s]),
    )  # fmt: skip


def published(evaluations: list[TrendForecast], *, cyclic: Floats | None = None) -> list[int]:
    """The seconds at which something is published."""
    debouncer, seconds = TrendDebouncer(1), []
    for turn, one in enumerate(evaluations):
        is_cyclic = np.array([cyclic is not None and cyclic[turn] > 0])
        if debouncer.changes(1000 * EVERY_S * turn, one, is_cyclic, ONE).size:
            seconds.append(EVERY_S * turn)
    return seconds


def young(horizons: int) -> TrendForecast:
    """Of one still series that is too young for more horizons."""
    said = forecast()
    for part in (said.value, said.p05, said.p95):
        part[horizons:] = np.nan
    return said


STILL = forecast()
MOVING = [forecast(50 + 0.1 * turn) for turn in range(30)]
RUNNING_OUT = [forecast(exhausts_in_s=1000 - 10.0 * turn) for turn in range(12)]
CASES: dict[str, tuple[list[TrendForecast], list[int]]] = {
    "what stays is published once": ([STILL] * 60, [30]),
    "what moves within its interval, once a minute": (MOVING, [30, 90, 150, 210, 270]),
    "what is not known yet, later": ([forecast(np.nan)] * 10 + [STILL] * 10, [130]),
    "what is still, but can be forecast farther now": ([young(1)] * 12 + [STILL] * 8, [30, 120]),
    "what could not be forecast at all": ([young(0)] * 5 + [STILL] * 12, [30, 90]),
    "what has left its interval, at once": ([STILL] * 4 + [forecast(60.0)] * 6, [30, 60]),
    "one evaluation outside is no change": ([*[STILL] * 4, forecast(60.0), STILL, STILL], [30]),
    "memory that begins to run out": ([STILL] * 8 + RUNNING_OUT, [30, 80, 140]),
    "and that ceases to": ([STILL] * 4 + RUNNING_OUT[:3] + [STILL] * 2, [30, 40, 70]),
    "and that does so sooner": (RUNNING_OUT[:6] + [forecast(exhausts_in_s=400.0)] * 2, [30, 60]),
}


@pytest.mark.parametrize(("evaluations", "seconds"), CASES.values(), ids=CASES)
def test_when_a_trend_is_published(evaluations: list[TrendForecast], seconds: list[int]) -> None:
    assert published(evaluations) == seconds


def test_a_cycle_that_is_found_or_lost_is_published_at_once() -> None:
    cyclic = np.repeat([0.0, 1.0, 0.0], [6, 3, 3])
    assert published([STILL] * 12, cyclic=cyclic) == [30, 60, 90]


def test_a_cycle_swings_and_is_no_change() -> None:
    swings = [forecast(50 + 40.0 * (-1) ** turn, ahead=50.0) for turn in range(13)]
    assert published(swings, cyclic=np.ones(13)) == [30, 100]


def test_what_is_published_is_so_with_all_of_its_subject_that_is_old_enough() -> None:
    debouncer, subjects = TrendDebouncer(4), np.array([0, 1, 0, 0])
    found = []
    for turn in range(9):
        levels = forecast().pick(np.zeros(4, np.int64))
        levels.level[3] = 50.0 if turn >= 5 else np.nan
        levels.exhausts_in_s[0] = 900.0 if turn >= 4 else np.nan
        found.append(debouncer.changes(10_000 * turn, levels, np.zeros(4, np.bool_), subjects).tolist())
    assert found == [[], [], [], [0, 1, 2], [0, 2], [], [], [], [0, 2, 3]]


def test_a_minute_is_counted_from_the_last_record_of_the_subject() -> None:
    debouncer, found = TrendDebouncer(2), []
    for turn in range(14):
        both = forecast(50 + 0.1 * turn).pick(np.zeros(2, np.int64))
        both.exhausts_in_s[0] = 1000.0 - 10 * turn if turn >= 6 else np.nan
        found.append(
            debouncer.changes(10_000 * turn, both, np.zeros(2, np.bool_), np.zeros(2, np.int64)).size
        )
    assert found == [0, 0, 0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 2, 0]


def test_a_restart_and_a_move_leave_no_trace() -> None:
    debouncer = TrendDebouncer(1)
    for turn in range(4):
        debouncer.changes(10_000 * turn, STILL, np.array([False]), ONE)
    before, debouncer = debouncer, TrendDebouncer(1)
    debouncer.restore(from_bytes(to_bytes(before.snapshot())))
    debouncer.resize(np.array([-1, 0]))
    both = STILL.pick(np.array([0, 0]))
    found = [
        debouncer.changes(10_000 * turn, both, np.zeros(2, np.bool_), np.arange(2)).tolist()
        for turn in range(4, 9)
    ]
    assert found == [[], [], [], [0], []]


def test_noise_is_published_once_a_minute_and_stillness_once_for_each_horizon() -> None:
    series = [Series("gpu", "a", "power_w"), Series("gpu", "b", "power_w")]
    bank, found = AnalysisBank(), []
    bank.resize(series)
    noise = 300 + 5 * np.random.default_rng(0).normal(size=600)
    for second, value in enumerate(noise.tolist()):
        row = np.array([value, 300.0])
        bank.extend(TickBlock([tick_of(series, row, 1000 * second)]), row[np.newaxis])
        if second % EVERY_S == EVERY_S - 1:
            now = bank.evaluate(1000 * second)
            assert (now.forecast.level.size if now.forecast else 0) == len(now.trend_series)
            found += now.trend_series
    assert found.count(series[1]) == 3
    assert 8 <= found.count(series[0]) <= 10

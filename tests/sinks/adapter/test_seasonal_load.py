"""The sum over a workload's pods, and what comes one period later."""

import pytest

from sinks.adapter.seasonal_load import SLOT_MS, SLOTS, SeasonalLoad

MINUTE = SLOT_MS
PERIOD_S = 600.0


def seasonal(minutes: int, period: int = 10, first: int = 0) -> SeasonalLoad:
    """In minute m the sum was 100 + m % period, of two pods."""
    load = SeasonalLoad()
    for m in range(first, first + minutes):
        for share in (0.25, 0.75):
            load.add(m * MINUTE, (m + 1) * MINUTE, share * (100 + m % period))
    return load


@pytest.mark.parametrize("horizon", [1, 5, 9, 10, 13, 25])
def test_what_was_there_a_period_before_comes_again(horizon: int) -> None:
    now = 60
    at = now + horizon
    assert seasonal(now).forecast(PERIOD_S, at * MINUTE, now * MINUTE) == 100 + at % 10


def test_what_comes_from_a_day_before_is_not_taken_for_now() -> None:
    load = seasonal(20, first=SLOTS)
    load.add(19 * MINUTE, 20 * MINUTE, 1000)  # the minute whose place the newest has
    assert load.forecast(PERIOD_S, (SLOTS + 29) * MINUTE, (SLOTS + 20) * MINUTE) is None


def test_minutes_that_are_not_complete_do_not_count() -> None:
    load = seasonal(60)
    load.add(60 * MINUTE, 60 * MINUTE + 10_000, 100)  # ten seconds of a minute
    assert load.forecast(PERIOD_S, 70 * MINUTE, 60 * MINUTE) == 100


def test_nothing_is_forecast_before_a_whole_period_was_seen() -> None:
    assert seasonal(9).forecast(PERIOD_S, 10 * MINUTE, 9 * MINUTE) is None
    # The first minute may have been seen in part.
    assert seasonal(10).forecast(PERIOD_S, 10 * MINUTE, 10 * MINUTE) is None
    assert seasonal(12).forecast(PERIOD_S, 12 * MINUTE, 12 * MINUTE) == 102


def test_an_outage_is_not_idleness() -> None:
    load = seasonal(20)
    for m in range(31, 40):  # minutes 20 to 30 are missing
        load.add(m * MINUTE, (m + 1) * MINUTE, 100 + m % 10)
    assert load.forecast(PERIOD_S, 40 * MINUTE, 40 * MINUTE) is None
    assert load.forecast(PERIOD_S, 42 * MINUTE, 40 * MINUTE) == 102


def test_up_to_three_periods_count() -> None:
    load = SeasonalLoad()
    for m in range(40):
        load.add(m * MINUTE, (m + 1) * MINUTE, {5: 1000.0, 15: 90.0, 25: 60.0, 35: 30.0}.get(m, 0.0))
    assert load.forecast(PERIOD_S, 45 * MINUTE, 40 * MINUTE) == 60


@pytest.mark.parametrize(("size_ms", "windows"), [(10_000, 6), (45_000, 4), (180_000, 1)])
def test_windows_of_any_length_add_up(size_ms: int, windows: int) -> None:
    load = SeasonalLoad()
    load.add(0, MINUTE, 30)
    for n in range(windows):
        load.add(MINUTE + n * size_ms, MINUTE + (n + 1) * size_ms, 30)
    load.add(4 * MINUTE, 5 * MINUTE, 30)
    assert load.forecast(60, 2 * MINUTE, 2 * MINUTE) == pytest.approx(30)


def test_a_day_is_kept() -> None:
    load = seasonal(3 * SLOTS + 7, period=SLOTS)
    now = 3 * SLOTS + 7
    assert load.forecast(86_400, (now + 5) * MINUTE, now * MINUTE) == 100 + (now + 5) % SLOTS
    assert load.forecast(2 * 86_400, (now + 5) * MINUTE, now * MINUTE) is None  # two days ago is not

"""Frames and buckets: what was measured stays, gaps stay gaps, nothing is made up."""

import numpy as np
import pytest

from dutycycle.traces.frames import Frame, buckets, total_of_known

NAN = float("nan")


def frame(*ticks: tuple[int, float | None]) -> Frame:
    found = Frame(["a"])
    for ts_ms, value in ticks:
        found.add(ts_ms, {"a": value})
    return found


def test_ticks_are_in_order_and_each_is_there_once() -> None:
    ticks = frame((3000, 3), (1000, 1), (3000, 3), (2000, None), (9000, 9)).between(1000, 3000)
    assert ticks.times.tolist() == [1000, 2000, 3000]
    assert ticks["a"].tolist() == pytest.approx([1, NAN, 3], nan_ok=True)


@pytest.mark.parametrize(
    ("values", "mean", "p95", "most"),
    [
        ([1, 2, 3], 2.0, 3.0, 3.0),
        ([1, None, 3], 2.0, 3.0, 3.0),
        ([5, 9, 1, 4], 4.75, 9.0, 9.0),
        ([100, *[2] * 17, 3, 1], 6.9, 3.0, 100.0),  # 19 of 20
        ([7], 7.0, 7.0, 7.0),
        ([None, None], None, None, None),
    ],
)
def test_figures_of_ticks(
    values: list[float | None], mean: float | None, p95: float | None, most: float | None
) -> None:
    ticks = frame(*((1000 * at, value) for at, value in enumerate(values))).between(0, 100_000)
    assert (ticks.mean("a"), ticks.p95("a")) == (mean, p95)
    assert ticks.most("a") == most


def test_a_p95_counts_each_tick_for_as_long_as_it_stands() -> None:
    ticks = frame(*((1000 * at, 1) for at in range(19)), (20_000, 5), (21_000, 1)).between(0, 30_000)
    assert ticks.p95("a") == 5  # for 2 s of 22 s


def test_a_gap_is_not_taken_for_what_came_after_it() -> None:
    ticks = frame((0, 10), (1000, 10), (2000, 10), (3000, 10), (60_000, 10)).between(0, 60_000)
    assert ticks.total("a") == 60.0  # four ticks of 1 s, and 2 s of the one after the gap


def test_ticks_that_are_early_or_late_have_a_bucket_each() -> None:
    times = np.array([0, 1003, 1997, 3001, 3999])
    found = buckets(times, np.arange(5.0), 0, 3999, most=100)
    assert found.exact
    assert found.mean.tolist() == [0, 1, 2, 3, 4]


def test_a_bucket_keeps_the_peak_and_the_dip_of_many_ticks() -> None:
    times = np.arange(0, 100_000, 1000)
    values = np.full(100, 50.0)
    values[[33, 34]] = 100, 0
    found = buckets(times, values, 0, 99_999, most=10)
    assert len(found.mean) == 10
    assert (found.high.max(), found.low.min()) == (100, 0)
    assert found.mean[3] == 50.0
    assert not found.exact


def test_a_bucket_without_a_tick_is_absent() -> None:
    found = buckets(np.array([0, 1000, 2000, 6000]), np.array([1.0, 1, NAN, 1]), 0, 6000, most=100)
    assert np.isnan(found.mean).tolist() == [False, False, True, True, True, True, False]


def test_a_sum_counts_what_is_not_known_for_a_while_with_its_mean_and_what_is_over_not_at_all() -> None:
    rows = np.array([[100, NAN, NAN, 300, NAN, NAN], [NAN, 10, NAN, 10, 10, NAN], [NAN] * 6])
    np.testing.assert_array_equal(total_of_known(rows), [100, 210, NAN, 310, 10, NAN])

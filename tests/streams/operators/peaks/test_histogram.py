"""Histograms: a percentile is as exact as is said, and counts add up in any order, to the same bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dutycycle.contract.records.parts import Tally
from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.peaks.histogram import (
    Counts,
    Histograms,
    Places,
    bucket_of,
    count,
    merged,
    percentile,
    value_of,
)
from streams.operators.peaks.merge import merge_tally, to_peaks
from streams.state.codec import from_bytes, to_bytes

VALUES = st.floats(0, 100) | st.integers(0, 100) | st.floats(0, 1e13) | st.sampled_from([127.5, 128, 2**40])
MANY = st.lists(VALUES, min_size=1, max_size=200)
PERCENTS = (0, 1, 50, 95, 99, 100)


@entry("void(int32[:, ::1], uint32[:, ::1], int64[::1], float64[:, ::1])")
def _count(places: Places, pages: Counts, rows: Ints, values: Floats) -> None:
    for at in range(len(values)):
        count(places, pages, rows[0], values[at, 0])


def add(histograms: Histograms, row: int, values: list[float]) -> None:
    rows, ticks = np.array([row]), np.array(values, np.float64)[:, None]
    _count(*histograms.with_room(max(row + 1, len(histograms)), rows, ticks), rows, ticks)


def histogram(values: list[float]) -> bytes:
    histograms = Histograms()
    add(histograms, 0, values)
    (found,) = histograms.written()
    return found


def percentiles(found: bytes) -> list[float | None]:
    return [percentile(found, percent) for percent in PERCENTS]


@given(MANY)
@example([100.0] * 50 + [5.0] * 950)
def test_a_percentile_is_as_exact_as_is_said(values: list[float]) -> None:
    found = percentiles(histogram(values))
    exact = np.percentile(values, PERCENTS, method="inverted_cdf").tolist()
    for got, true in zip(found, exact, strict=True):
        assert got is not None
        assert abs(got - true) <= max(0.5, true / 64), (got, true)


def test_whole_percents_stay_as_they_are_and_what_is_no_quantity_is_none() -> None:
    assert [value_of(bucket_of(value)) for value in range(129)] == list(range(129))
    assert [bucket_of(value) for value in (-5.0, 1e30, 1e300)] == [0, 2047, 2047]
    assert percentiles(b"") == [None] * len(PERCENTS)


@given(st.floats(0, 1e20), st.floats(0, 1e20))
def test_a_larger_value_has_no_smaller_bucket(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert bucket_of(low) <= bucket_of(high)


@given(st.lists(MANY, min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_counts_add_up_in_any_order_and_grouping(parts: list[list[float]], random: Any) -> None:
    whole = histogram([value for part in parts for value in part])
    some = [histogram(part) for part in parts]
    random.shuffle(some)
    cut = random.randrange(len(some) + 1)
    assert merged(some) == whole
    assert merged([merged(some[:cut]) or b"", merged(some[cut:]) or b""]) == whole


@given(st.lists(st.tuples(st.integers(0, 3), VALUES), max_size=60), st.integers(0, 60))
def test_rows_are_apart_and_go_on_after_a_restart(values: list[tuple[int, float]], cut: int) -> None:
    one, other = Histograms(), Histograms()
    for at, (row, value) in enumerate(values):
        if at == cut:
            plain = from_bytes(to_bytes(other.snapshot()))
            other = Histograms()
            other.restore(plain)
        add(one, row, [value])
        add(other, row, [value])
    assert other.snapshot() == one.snapshot()
    apart = [[value for of, value in values if of == row] for row in range(len(one))]
    assert one.written() == [histogram(of) if of else b"" for of in apart]
    one.retain(np.arange(len(apart))[::-2])
    assert one.written() == [histogram(of) if of else b"" for of in apart[::-2]]
    add(one, 0, [77.0])  # a page that was left is no page of another row
    if apart:
        assert one.written()[0] == histogram([*apart[-1], 77.0])


@given(st.binary(max_size=200))
def test_bytes_that_are_no_histogram_do_no_harm(raw: bytes) -> None:
    merged([raw, b"\x01\x01"])
    percentile(raw, 95)


@pytest.mark.parametrize("values", [[97.0] * 9, [1000.0], [130.1]])
def test_the_p95_of_a_peak_is_no_more_than_its_maximum(values: list[float]) -> None:
    tally = Tally(max=max(values), at_ms=1, sum=sum(values), count=len(values), histogram=histogram(values))
    assert to_peaks({"m": tally})["m"].p95 == max(values)
    assert to_peaks({"m": merge_tally([tally, tally])})["m"].p95 == max(values)

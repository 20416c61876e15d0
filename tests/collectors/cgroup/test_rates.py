"""Rates out of counters: never negative, never made up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.rates import CounterRatio, PairRate, Rate

RATE_TABLE = [
    # (seconds, counter) …, the rates
    ([(0, 5)], [None]),
    ([(0, 5), (2, 9)], [None, 2.0]),
    ([(0, 5), (0.5, 5)], [None, 0.0]),
    ([(0, 5), (1, 3), (2, 4)], [None, None, 1.0]),
    ([(0, 5), (1, None), (2, 9), (3, 10)], [None, None, None, 1.0]),
    ([(0, 5), (0, 9)], [None, None]),
    ([(0, 500), (1, 0), (2, 502), (3, 503)], [None, None, None, 1.0]),
    ([(0, 500), (1, 0), (2, 0), (3, 3)], [None, None, None, 3.0]),
    ([(0, 500), (1, 0), (2, 3), (3, 5)], [None, None, 3.0, 2.0]),
    ([(0, 500), (1, 0), (2, 0), (3, 502), (4, 503)], [None, None, None, None, 1.0]),
    ([(0, 500), (1, 250), (2, 502), (3, 503)], [None, None, None, 1.0]),
    ([(0, 500), (1, 250), (2, 255)], [None, None, 5.0]),
    ([(0, 0), (1, 0), (2, 2)], [None, 0.0, 2.0]),
    ([(0, 2**64 - 1), (1, 7)], [None, None]),
]


@pytest.mark.parametrize(("readings", "rates"), RATE_TABLE)
def test_rate(readings: list[tuple[float, int | None]], rates: list[float | None]) -> None:
    rate = Rate()
    assert [rate.per_s(value, now) for now, value in readings] == rates


SHARE_TABLE = [
    ([(3, 10)], [None]),
    ([(3, 10), (5, 20)], [None, 20.0]),
    ([(3, 10), (3, 20)], [None, 0.0]),
    ([(0, 0), (0, 0)], [None, 0.0]),
    ([(3, 10), (1, 20), (2, 24)], [None, None, 25.0]),
    ([(3, 10), (3, 5)], [None, None]),
    ([(3, 10), (None, None), (5, 20), (6, 21)], [None, None, None, 100.0]),
    ([(0, 0), (3, 2)], [None, 100.0]),
    ([(30, 100), (0, 0), (31, 110), (31, 120)], [None, None, None, 0.0]),
    ([(30, 100), (15, 50), (31, 110), (31, 120)], [None, None, None, 0.0]),
    ([(30, 100), (0, 0), (0, 0), (31, 110), (32, 120)], [None, None, None, None, 10.0]),
    ([(30, 100), (2, 4), (3, 8)], [None, None, 25.0]),
]


@pytest.mark.parametrize(("readings", "shares"), SHARE_TABLE)
def test_share(readings: list[tuple[int | None, int | None]], shares: list[float | None]) -> None:
    share = CounterRatio()
    assert [share.pct(part, whole) for part, whole in readings] == shares


NEITHER = (None, None)
PAIR_TABLE = [
    ([(0, {"a": (1, 1)}), (2, {"a": (5, 2)})], [NEITHER, (2.0, 0.5)]),
    ([(0, {"a": (1, 1)}), (1, {"a": (2, 1), "b": (99, 99)})], [NEITHER, (1.0, 0.0)]),
    ([(0, {"a": (1, 1), "b": (9, 9)}), (1, {"a": (2, 1)})], [NEITHER, (1.0, 0.0)]),
    ([(0, {"a": (1, 1), "b": (9, 9)}), (1, {"a": (2, 1), "b": (1, 9)})], [NEITHER, NEITHER]),
    ([(0, {"a": (1, 1)}), (1, {"b": (2, 1)})], [NEITHER, NEITHER]),
    (
        [(0, {"a": (99, 9)}), (1, {"a": (0, 0)}), (2, {"a": (99, 9)}), (3, {"a": (100, 9)})],
        [NEITHER, NEITHER, NEITHER, (1.0, 0.0)],
    ),
    (
        [(0, {"a": (99, 9)}), (1, {"a": (50, 9)}), (2, {"a": (99, 9)}), (3, {"a": (100, 9)})],
        [NEITHER, NEITHER, NEITHER, (1.0, 0.0)],
    ),
    (
        [
            (0, {"a": (99, 9), "b": (1, 1)}),
            (1, {"a": (0, 0), "b": (2, 1)}),
            (2, {"a": (0, 0), "b": (4, 2)}),
            (3, {"a": (99, 9), "b": (4, 2)}),
            (4, {"a": (100, 9), "b": (4, 2)}),
        ],
        [NEITHER, NEITHER, (2.0, 1.0), (0.0, 0.0), (1.0, 0.0)],
    ),
    ([(0, {"a": (1, 1)}), (1, {}), (2, {"a": (3, 3)})], [NEITHER, NEITHER, NEITHER]),
    ([(0, {"a": (1, 1)}), (0, {"a": (3, 3)})], [NEITHER, NEITHER]),
]


@pytest.mark.parametrize(("readings", "rates"), PAIR_TABLE)
def test_pair_rate(readings: list[tuple[float, dict[str, tuple[int, int]]]], rates: list[object]) -> None:
    pair = PairRate()
    assert [pair.per_s(devices, now) for now, devices in readings] == rates


counters = st.none() | st.integers(0, 2**64)
steps = st.floats(-1, 10)


@given(st.lists(st.tuples(steps, counters, counters)))
def test_whatever_the_counters_do(readings: list[tuple[float, int | None, int | None]]) -> None:
    rate, share, now = Rate(), CounterRatio(), 0.0
    for step, one, other in readings:
        now += step
        assert (rate.per_s(one, now) or 0) >= 0
        assert 0 <= (share.pct(one, other) or 0) <= 100

"""The grid that samples are kept on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.operators.cycles.ring import EXACT, LOGARITHMS, Ring, Store
from tests.support.examples import examples

START_MS = 1_700_000_000_123
ONE = np.zeros(1, np.int64)


def filled(
    ticks: list[tuple[int, float]], interval_ms: int = 1000, cuts: tuple[int, ...] = (), store: Store = EXACT
) -> Ring:
    """A ring after ticks of (milliseconds from the start, value), one by one or cut into parts."""
    ring = Ring(64, interval_ms, 1, store)
    for part in np.split(np.arange(len(ticks)), cuts or range(1, len(ticks))):
        times, values = zip(*(ticks[place] for place in part), strict=True)
        ring.extend(START_MS + np.array(times), np.array(values)[:, np.newaxis])
    return ring


def kept(ticks: list[tuple[int, float]], interval_ms: int = 1000, since_ms: int = 0) -> list[float]:
    """What is there after ticks of (milliseconds from the start, value)."""
    ring = filled(ticks, interval_ms)
    samples: list[float] = ring.windows(ONE, np.array([since_ms])).of(0).tolist()
    return samples


NAN = float("nan")
TICKS = {
    "regular": ([(0, 1.0), (1000, 2.0), (2000, 3.0)], [1, 2, 3]),
    "ticks that come up to half an interval early or late": ([(0, 1.0), (1400, 2.0), (1600, 3.0)], [1, 2, 3]),
    "several in a slot are averaged": ([(0, 1.0), (100, 3.0), (1000, 5.0)], [2, 5]),
    "a lost tick is bridged": ([(0, 1.0), (3000, 4.0)], [1, 2, 3, 4]),
    "an absent value is bridged": ([(0, 1.0), (1000, NAN), (2000, 3.0)], [1, 2, 3]),
    "absent in a slot with a value": ([(0, 1.0), (1000, 5.0), (1100, NAN)], [1, 5]),
    "what is absent at first does not count": ([(0, NAN), (1000, 2.0)], [2]),
    "absent for a moment up to now": ([(0, 1.0), (1000, 2.0), (2000, NAN)], [1, 2]),
    "absent for long up to now": ([(s * 1000, 1.0 if s < 3 else NAN) for s in range(10)], []),
    "a long gap begins anew": ([(0, 1.0), (1000, 2.0), (9000, 7.0), (10_000, 8.0)], [7, 8]),
    "a gap longer than the ring": ([(0, 1.0), (10**9, 7.0)], [7]),
    "only so many are kept": ([(s * 1000, float(s)) for s in range(100)], list(range(36, 100))),
    "infinite counts as absent": ([(0, 1.0), (1000, float("inf")), (2000, 3.0)], [1, 2, 3]),
    "too large for the ring counts as absent": ([(0, 1.0), (1000, 1e300), (2000, 3.0)], [1, 2, 3]),
    "nothing": ([(0, NAN)], []),
}


@pytest.mark.parametrize(("ticks", "expected"), TICKS.values(), ids=TICKS)
def test_ticks_become_samples(ticks: list[tuple[int, float]], expected: list[float]) -> None:
    assert kept(ticks) == expected


def test_a_coarse_grid_averages_fine_ticks() -> None:
    assert kept([(100 * k, float(k)) for k in range(30)], interval_ms=1000) == [2.0, 9.5, 19.5, 27.0]


def test_what_was_before_a_moment_can_be_left_out() -> None:
    ticks = [(s * 1000, float(s)) for s in range(10)]
    assert kept(ticks, since_ms=START_MS + 6000) == [6, 7, 8, 9]


def test_a_ring_knows_when_its_samples_were() -> None:
    ring = filled([(1000 * second, 1.0) for second in range(100)])
    assert ring.start_ms(1) == START_MS + 99_000
    assert ring.start_ms(40) == START_MS + 60_000


def test_logarithms_keep_a_value_to_a_tenth_of_a_percent() -> None:
    values = [0.0, 1e-3, 0.7, 55.5, 8e10, -3.0, NAN, 1e37]
    ring = filled([(1000 * second, value) for second, value in enumerate(values)], store=LOGARITHMS)
    expected = [0.0, 1e-3, 0.7, 55.5, 8e10, 0.0, NAN, 8.31e18]
    assert ring.recent(8)[0].tolist() == pytest.approx(expected, rel=1e-2 / 8, nan_ok=True)


def test_a_ring_has_room_for_what_was_reached_alone() -> None:
    ring, sizes = Ring(600, 1000, 1), []
    for second in (0, 19, 20, 599, 5000):
        ring.extend(START_MS + np.array([1000 * second]), np.ones((1, 1)))
        sizes.append(len(ring.snapshot()["kept"]) // 4)
    assert sizes == [20, 20, 40, 600, 600]


@pytest.mark.parametrize("store", [EXACT, LOGARITHMS], ids=["exact", "logarithms"])
@given(st.data())
@settings(max_examples=examples(60))
def test_it_does_not_matter_how_ticks_are_cut(store: Store, data: st.DataObject) -> None:
    steps = data.draw(
        st.lists(st.sampled_from([300, 900, 1000, 1100, 7000, 70_000]), min_size=2, max_size=90)
    )
    values = st.sampled_from([NAN, 0.1, 2.7, 1e300])
    ticks = [(at, data.draw(values)) for at in np.cumsum(steps).tolist()]
    places = st.integers(1, len(ticks) - 1)
    cuts = sorted(data.draw(st.sets(places, min_size=1, max_size=5)))
    assert filled(ticks, cuts=tuple(cuts), store=store).snapshot() == filled(ticks, store=store).snapshot()

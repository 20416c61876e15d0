"""Which windows hold a cycle, of which period; and which hold none."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.generators import CONTROLS, Case, Floats
from streams.operators.cycles.detect.detector import spectra
from streams.operators.cycles.detect.window import Detection, Windows, active_parts, find_cycles, look
from tests.support.examples import examples

PLACE = np.arange(600.0)
NOISE = np.random.default_rng(7).normal(size=600)


def detected(series: Floats) -> Detection | None:
    return find_cycles([series])[0]


def period(series: Floats) -> float | None:
    found = detected(series)
    return found.cycles[0].period if found else None


@pytest.mark.parametrize("kind", ["sine", "square", "sawtooth", "bursts"])
@pytest.mark.parametrize("snr", [10.0, 3.0, 1.0])
@pytest.mark.parametrize("trend", [False, True])
@pytest.mark.parametrize("true", [5.0, 13.24, 40.0, 73.5])
def test_a_cycle_is_found(kind: str, snr: float, trend: bool, true: float) -> None:
    exact = 0.04 if kind == "bursts" else 0.02 if snr == 1 else 0.01
    assert period(Case(kind, 3, true, snr, trend).series()) == pytest.approx(true, rel=exact)


def test_a_period_of_few_samples_is_exact() -> None:
    """Six periods of six samples, each with a dip that falls between these, fix it to 3 %."""
    at, errors = np.arange(36 * 20) / 20, []
    for true, first in itertools.product(np.arange(4.1, 7.0, 0.1), np.arange(0, 1, 0.25)):
        dips = 690.0 - 300 * ((at - first * true) % true < 0.9)
        if (told := period(dips.reshape(36, 20)[:, -4:].mean(axis=1))) is not None:
            errors.append(abs(told / true - 1))
    assert len(errors) > 50
    assert max(errors) < 0.03


@pytest.mark.parametrize("kind", CONTROLS)
def test_what_has_no_cycle_has_none(kind: str) -> None:
    fired = [case.seed for case in (Case(kind, seed) for seed in range(20)) if detected(case.series())]
    assert fired == []


SHAPES = {
    "three periods of a sine": (np.sin(PLACE[:90] * 2 * np.pi / 30), 30.0),
    "three periods of a square": ((PLACE[:183] % 61 < 20) * 90.0, 61.0),
    "a short burst in a long rest": ((PLACE % 100 < 8) * 90.0 + NOISE, 100.0),
    "alternating heights are one period of two": ((PLACE % 24 < 6) + 0.6 * ((PLACE - 12) % 24 < 6), 24.0),
    "both halves of a sine's square are alike": (np.sin(PLACE * np.pi / 20) ** 2, 20.0),
    "a dip of two samples in a hundred": (98 - 60.0 * (PLACE % 97 < 2) + NOISE, 97.0),
    "huge numbers": (8e10 + 1e9 * np.sin(PLACE / 3), 6 * np.pi),
    "tiny numbers": (1e-9 * np.sin(PLACE / 3), 6 * np.pi),
    "under a drift ten times as large": (10 * (0.3 * NOISE).cumsum() + 20 * (PLACE % 15 < 5), 15.0),
    "under a falling trend": (90 - 0.1 * PLACE + 10 * (PLACE % 15 < 5) + NOISE, 15.0),
}


@pytest.mark.parametrize(("series", "true"), SHAPES.values(), ids=SHAPES)
def test_shapes(series: Floats, true: float) -> None:
    assert period(series) == pytest.approx(true, rel=0.02)


NOT_CYCLIC = {
    "two periods and a half": (PLACE[:150] % 60 < 20) * 90.0,
    "a window too short to tell": np.sin(PLACE[:20]),
    "nothing at all": PLACE[:0],
    "one value": PLACE[:1],
    "a constant": np.full(600, 97.0),
    "a large constant, with the storage's rounding": np.float64(np.float32(8.1e10)) + 4096.0 * (PLACE % 2),
    "a straight line": PLACE,
    "a parabola": PLACE**2,
    "two bursts": 90.0 * ((PLACE > 100) & (PLACE < 130)) + 90.0 * ((PLACE > 300) & (PLACE < 330)),
    "a step up and down": 90.0 * ((PLACE > 200) & (PLACE < 400)) + NOISE,
}


@pytest.mark.parametrize("series", NOT_CYCLIC.values(), ids=NOT_CYCLIC)
def test_what_is_no_cycle(series: Floats) -> None:
    assert detected(series) is None


def steps(true: float, size: int, pause: float = 0.0) -> Floats:
    """What the driver saw in the last fifth of each second of quick steps, one of which is 1 % longer or
    shorter than the next; after each sixteenth comes a pause."""
    rng, fine = np.random.default_rng([int(100 * true), size]), 20
    lengths = true * (1 + 0.01 * rng.normal(size=size))
    rests = np.where(np.arange(size) % 16 == 15, pause, 0.0)
    begins = np.concatenate(([0.0], (lengths + rests).cumsum()))
    at = np.arange(size * fine) / fine
    step = np.searchsorted(begins, at, side="right") - 1
    busy = (at - begins[step] < 0.6 * true).reshape(size, fine)
    return np.asarray(95.0 * busy[:, -4:].mean(axis=1))


@pytest.mark.parametrize("size", [60, 152, 600])
def test_steps_below_three_samples_are_rarely_taken_for_slower_ones(size: int) -> None:
    said = find_cycles([steps(true, size) for true in np.arange(1.52, 2.9, 0.02)], early=True)
    assert sum(one is not None for one in said) <= len(said) / 4


@pytest.mark.parametrize("true", [2.13, 2.2, 2.3, 2.4])
def test_their_pauses_are_a_cycle(true: float) -> None:
    assert period(steps(true, 600, 4.5)) == pytest.approx(16 * true + 4.5, rel=0.01)


def test_a_second_cycle_is_named_and_the_first_not_twice() -> None:
    both = detected(40 * (PLACE % 10 < 4) + 30 * np.sin(PLACE * 2 * np.pi / 73.0) + NOISE)
    assert both is not None
    assert sorted(r.period for r in both.cycles) == pytest.approx([10, 73], rel=0.02)
    alone = detected(40 * (PLACE % 10 < 4) + NOISE)
    assert alone is not None
    assert len(alone.cycles) == 1


def test_a_cycle_within_a_cycle() -> None:
    found = detected(60.0 * (PLACE % 12 < 5) + 60.0 * (PLACE % 36 < 8) + NOISE)
    assert found is not None
    assert {round(cycle.period) for cycle in found.cycles} == {12, 36}


@pytest.mark.parametrize(("before", "after"), [(0, 0), (300, 0), (0, 200), (250, 150)])
def test_idle_ends_do_not_hide_a_cycle(before: int, after: int) -> None:
    busy = Case("square", 4, 17.5, 10.0).series()[: 600 - before - after]
    found = detected(np.concatenate((np.full(before, 1.0), busy, np.full(after, 1.0))))
    assert found is not None
    assert found.cycles[0].period == pytest.approx(17.5, rel=0.01)
    assert found.goes_on == (after == 0)


def test_windows_know_nothing_of_one_another() -> None:
    cases = [Case(kind, seed, 10.0 + 7 * seed, 3.0) for kind in ("sine", "bursts") for seed in range(5)]
    windows = [
        case.series()[-length:] for case, length in zip(cases, [600, 600, 300, 77, 420] * 2, strict=True)
    ]
    windows += [Case(kind, 0).series() for kind in CONTROLS]
    together = find_cycles(windows)
    alone = [find_cycles([window])[0] for window in windows]
    assert [one and one.cycles for one in together] == [one and one.cycles for one in alone]


def test_a_cycle_that_others_have_needs_less_evidence() -> None:
    faint = [Case("square", seed, 23.0, 0.15, length=304).series() for seed in range(40)]
    alone = [detected(one) for one in faint]
    known = [one for series in faint if (one := recognised(series, 23.0)) is not None]
    assert sum(one is not None for one in alone) + 5 <= len(known)
    assert all(one.cycles[0].period == pytest.approx(23.0, rel=0.05) for one in known)


@pytest.mark.parametrize("kind", CONTROLS)
def test_what_has_no_cycle_has_none_of_the_others_either(kind: str) -> None:
    series = [Case(kind, seed).series() for seed in range(20)]
    assert [one for one in series for other in (7.3, 23.0, 61.0) if recognised(one, other)] == []


def recognised(series: Floats, other: float) -> Detection | None:
    """What is found in a series of a machine on which others have such a period."""
    every = Windows(series[np.newaxis], np.array([[0, series.size]]))
    return look(every, active_parts(*every), np.array([600]), periods=np.array([other])).get(0)


LENGTHS = (40, 76, 150, 304, 600)
MANY = [
    Case(kind, seed, None if kind in CONTROLS else 4.3 + 3 * seed, 3.0, length=length).series()
    for kind in ("sine", "bursts", "white", "random_walk", "constant")
    for seed in range(6)
    for length in LENGTHS[seed % 3 :: 3]
]
SEEN = find_cycles(MANY, early=True)


@given(st.permutations(range(len(MANY))), st.lists(st.integers(1, 9), min_size=1, max_size=len(MANY)))
@settings(max_examples=examples(30))
def test_the_same_bits_however_series_are_split_into_calls(order: list[int], sizes: list[int]) -> None:
    assert sum(one is not None for one in SEEN) >= 10
    first = 0
    for size in itertools.cycle(sizes):
        places = order[first : first + size]
        for place, one in zip(places, find_cycles([MANY[k] for k in places], early=True), strict=True):
            assert _bits(one) == _bits(SEEN[place])
        first += size
        if first >= len(order):
            break


def _bits(found: Detection | None) -> list[tuple[str, str]]:
    return [(one.period.hex(), one.confidence.hex()) for one in found.cycles] if found else []


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 33])
@pytest.mark.parametrize("length", LENGTHS)
def test_a_transform_of_many_rows_is_that_of_each(length: int, size: int) -> None:
    rows = np.random.default_rng(length).normal(size=(size, length))
    lines = spectra(rows)
    for place in range(size):
        assert spectra(rows[place : place + 1].copy())[0].tobytes() == lines[place].tobytes()


def test_bursts_at_odd_distances_are_not_found_with_confidence() -> None:
    said = find_cycles([Case("blips", seed).series() for seed in range(160)])
    assert sum(one is not None for one in said) <= 3
    assert all(one.cycles[0].confidence < 0.99 for one in said if one is not None)


@pytest.mark.parametrize("length", [72, 100, 148])
@pytest.mark.parametrize("true", [3.46, 3.5, 4.5, 5.5, 5.8])
def test_dips_that_fall_differently_into_each_period_are_told_and_no_multiple_of_them(
    true: float, length: int
) -> None:
    """Ticks are means over their second, so a dip is in one of them, or in two."""
    fine = np.arange(10 * length) / 10
    for seed in range(6):
        power = 692.0 - 50 * ((fine / true + seed / 6) % 1 < 0.8 / true)
        found = period(
            power.reshape(-1, 10).mean(axis=1) + 3 * np.random.default_rng(seed).normal(size=length)
        )
        assert found is None or found == pytest.approx(true, rel=0.03)

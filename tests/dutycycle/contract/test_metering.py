"""How a tick of a GPU counts: the mean of the driver's samples, and energy by a counter that fails."""

from math import isnan, nan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.metering import (
    LEAST_DRAWN_W,
    FalseZeros,
    highest_util_pct,
    joules_of_tick,
    mean_of_samples,
)
from dutycycle.contract.records.samples import Gpu

SAMPLES: list[tuple[str, list[tuple[int, float]], int, float, float]] = [
    # what it is, samples, interval, the mean of utilization, that of power
    ("evenly", [(-750, 100), (-500, 50), (-250, 0), (0, 0)], 1000, 37.5, 37.5),
    ("each for the time since the one before it", [(-800, 0), (-600, 0), (0, 80)], 1000, 48, 48),
    ("equal values", [(-900, 33.3), (-300, 33.3), (-1, 33.3)], 1000, 33.3, 33.3),
    ("two of one moment", [(-500, 10), (-500, 10)], 1000, 10, 10),
    ("one of a tick", [(-100, 70)], 1000, 70, 70),
    ("one of a long tick: the GPU was idle before", [(0, 100)], 5000, 20, 100),
    ("idle in between", [(-4000, 50), (0, 50)], 5000, 20, 50),
    ("the buffer is shorter than the tick", [(at, 60) for at in range(-10_000, 1, 200)], 60_000, 60, 60),
    ("older than the tick, after a pause", [(-3000, 20), (-2000, 40)], 1000, 30, 30),
]


@pytest.mark.parametrize("row", SAMPLES, ids=[row[0] for row in SAMPLES])
def test_the_mean_of_a_tick(row: tuple[str, list[tuple[int, float]], int, float, float]) -> None:
    _, samples, interval_ms, util, power = row
    assert mean_of_samples(samples, interval_ms, True) == pytest.approx(util)
    assert mean_of_samples(samples, interval_ms, False) == pytest.approx(power)


@given(
    st.lists(st.tuples(st.integers(-70_000, 0), st.floats(0, 100)), min_size=1, max_size=20).map(sorted),
    st.sampled_from([1, 1000, 5000, 60_000]),
)
def test_a_mean_lies_among_its_samples(samples: list[tuple[int, float]], interval_ms: int) -> None:
    values = [value for _, value in samples]
    assert min(values) <= mean_of_samples(samples, interval_ms, False) <= max(values)
    assert 0 <= mean_of_samples(samples, interval_ms, True) <= max(values)


def energy(ticks: list[tuple[float, float]]) -> tuple[float, float]:
    """The joules of ticks of a second each (counter, power), and what is owed after the last."""
    total, last_j, guessed_j, owed_j, before_j, added_j = 0.0, nan, 0.0, 0.0, nan, 0.0
    for counter_j, power_w in ticks:
        joules, last_j, guessed_j, owed_j, before_j, added_j = joules_of_tick(
            counter_j, power_w, 1.0, last_j, guessed_j, owed_j, before_j, added_j
        )
        assert isnan(joules) or joules >= 0, "a counter that Prometheus reads never goes back"
        total += 0.0 if isnan(joules) else joules
    return total, owed_j


READS = st.lists(
    st.tuples(
        st.sampled_from(["read", "fails", "is 0"]),
        st.booleans(),
        st.integers(0, 500),
        st.one_of(st.integers(0, 500), st.just(nan)),
    ),
    max_size=60,
)


@given(READS)
def test_the_sum_is_the_increase_of_the_counter_or_the_power(
    reads: list[tuple[str, bool, int, float]],
) -> None:
    """Whatever reads fail, and whenever the counter begins anew."""
    ticks: list[tuple[float, float]] = []
    counter, before, by_power, expected = 10**9, nan, 0.0, 0.0
    for read, begins_anew, spent, power in reads:
        counter += -(10**6) if begins_anew else spent  # it does not come back to what it was
        ticks.append(({"read": float(counter), "fails": nan, "is 0": 0.0}[read], power))
        of_power = 0.0 if isnan(power) else power
        if read != "read" or (counter == before and power > LEAST_DRAWN_W):
            by_power += of_power
        else:
            # What the counter says of the time since it was read replaces what the power says.
            if counter >= before:
                expected += counter - before
            else:
                expected += by_power if isnan(before) else by_power + of_power
            before, by_power = counter, 0.0
    total, owed = energy(ticks)
    assert total - owed == pytest.approx(expected + by_power)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["read", "fails", "is 0"]), st.integers(1, 10**9 - 1), st.booleans(),
            st.integers(0, 500), st.one_of(st.integers(0, 500), st.just(nan)),
        ),
        max_size=60,
    )
)  # fmt: skip
def test_a_counter_that_falls_for_one_reading_and_comes_back_counts_once(
    reads: list[tuple[str, int, bool, int, float]],
) -> None:
    """By however much it falls, and whatever reads fail before it is back."""
    ticks: list[tuple[float, float]] = [(1e9, nan)]
    counter, is_fallen = 10**9, False
    for read, fall, falls, spent, power in reads:
        counter += spent
        value = {"read": float(counter), "fails": nan, "is 0": 0.0}[read]
        if read == "read":
            is_fallen = falls and not is_fallen
            value -= (counter - 10**9 + fall) if is_fallen else 0
        ticks.append((value, power))
    ticks.append((counter + 1e6, nan))  # more than was guessed
    assert energy(ticks)[0] == pytest.approx(counter + 1e6 - 1e9)


def test_every_second_read_fails() -> None:
    """100 W for 300 s are 30 kJ, not 45."""
    ticks = [(1000 + 100.0 * at if at % 2 == 0 else nan, 100.0) for at in range(301)]
    assert energy(ticks) == (30_000, 0)


def test_a_counter_that_reads_0_and_comes_back_adds_what_was_used() -> None:
    """50 MJ are not used in a second. First, last and several reads, and a counter that is 0 for good."""
    for zeros in ({10}, {30}, {10, 11, 20}):
        assert energy([(0.0 if at in zeros else 5e7 + 100 * at, 100.0) for at in range(31)]) == (3000, 0)
    # The first read of a counter says nothing; the power of the ticks before it does.
    assert energy([(0.0 if at < 2 else 5e7 + 100 * at, 100.0) for at in range(31)]) == (3000, 0)
    assert energy([(0.0, 100.0)] * 10)[0] == 1000
    assert isnan(joules_of_tick(0.0, nan, 1.0, 5e7, 0.0, 0.0, nan, 0.0)[0]), "without power nobody knows"


def test_a_counter_that_stands_still_while_power_is_drawn_is_not_one() -> None:
    """It stops at 10 s; another one is read out each third second alone; a third is of a GPU that sleeps."""
    assert energy([(100.0 * min(at, 10), 100.0) for at in range(31)]) == (3000, 0)
    assert energy([(100.0 * (at // 3 * 3), 100.0) for at in range(31)]) == (3000, 0)
    assert energy([(5.0, 0.5)] * 10) == (0, 0)


def test_without_a_counter_it_is_the_power_and_without_both_nothing() -> None:
    assert energy([(nan, 50.0)] * 10)[0] == 500
    assert isnan(joules_of_tick(nan, nan, 1.0, nan, 0.0, 0.0, nan, 0.0)[0])
    assert isnan(joules_of_tick(5.0, nan, 1.0, nan, 0.0, 0.0, nan, 0.0)[0]), "one value says nothing"


@pytest.mark.parametrize(
    ("fields", "highest"),
    [
        ({}, None),
        ({"gpu_util_pct": 50}, 50),
        ({"gpu_util_pct": 50, "gpu_util_max_pct": 99}, 99),
        ({"gpu_util_pct": 50, "gpu_util_max_pct": 60, "util_burst": ((-900, 10), (-1, 70))}, 70),
    ],
)
def test_the_most_that_a_gpu_did(fields: dict[str, Any], highest: float | None) -> None:
    assert highest_util_pct(Gpu(uuid="g", index=0, **fields)) == highest


ZEROS: dict[str, Any] = {"sm_active_pct": 0, "tensor_active_pct": 0, "dram_active_pct": 0}


def test_zeros_are_distrusted_from_where_power_contradicts_them_until_a_counter_moves() -> None:
    false_zeros = FalseZeros()

    def sm(power_w: float, uuid: str = "GPU-1", **told: float) -> float | None:
        gpu = Gpu(uuid=uuid, index=0, power_w=power_w, power_limit_w=700, **(ZEROS | told))
        return false_zeros.drop(gpu).sm_active_pct

    assert [sm(90), sm(400), sm(300), sm(90)] == [0, None, None, None]
    assert sm(90, "GPU-2") == 0, "the other works as it should"
    assert [sm(400, "GPU-2", gpu_util_pct=0), sm(90, "GPU-2")] == [0, 0], (
        "no kernel ran, and power falls late"
    )
    assert [sm(500, dram_active_pct=0.1), sm(90), sm(349), sm(350)] == [0, 0, 0, None]

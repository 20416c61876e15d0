"""The driver's buffered samples: each once, at the right moment, whatever clock it stamps them with."""

import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.nvml.clock import Cursor, Now, wall_shift_us
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeGpu, Scenario, Signal, square

DAY_US = 86_400_000_000
STEP = square(1.0, 0.5, 10, 90)
START = 1_700_000_000.0
"""Signals count from here, so that a stamp alone tells the value."""


def world(clock: str = "wall", **values: Signal) -> Scenario:
    shown: dict[str, Signal] = {"util": STEP, "power_w": STEP, "util_hz": 6, "power_hz": 20, **values}
    return Scenario(gpus=[FakeGpu(uuid="GPU-a", values=shown)], start=START, clock=clock)


def watch(probe: Probe, seconds: float, pause_s: float = 0.3) -> list[Answer]:
    """Ticks over ``seconds`` or longer; buffers hold more than a slow machine is late."""
    answers, begun, at = [probe.tick()], time.monotonic(), 0.0
    while at < begun + seconds:
        time.sleep(pause_s)
        at = time.monotonic()
        answers.append(probe.tick(interval_ms=300))
    return answers


def points(answers: list[Answer], field: str) -> list[tuple[int, float]]:
    """All samples of a burst field as (Unix ms, value)."""
    found = ((one.sample, getattr(one.gpu, field) or ()) for one in answers if one.sample)
    return [(sample.ts_ms + offset_ms, value) for sample, burst in found for offset_ms, value in burst]


@pytest.mark.parametrize("clock", ["wall", "boot"])
def test_six_samples_a_second_each_once_at_its_moment(tmp_path: Path, clock: str) -> None:
    with Probe(tmp_path, world(clock)) as probe:
        answers = watch(probe, 2.0)
    seen = points(answers, "util_burst")
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(seen)]
    assert len(seen) >= 12
    assert set(gaps) <= {166, 167, 168}
    for at_ms, value in seen:
        # The mean over the sixth of a second before the stamp: three of each six are in the high half.
        sixth = round((at_ms / 1000 - START) * 6) % 6
        assert value == (90 if sixth in {1, 2, 3} else 10)


def test_power_is_in_watts_and_by_the_moment(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        seen = points(watch(probe, 1.0), "power_burst")
    assert {later - earlier for (earlier, _), (later, _) in pairwise(seen)} <= {49, 50, 51}
    for at_ms, watts in seen:
        assert watts == (90 if round((at_ms / 1000 - START) * 20) % 20 < 10 else 10)


def test_the_first_tick_takes_one_interval_of_what_is_buffered(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        burst = probe.tick(interval_ms=2000).gpu.util_burst
    assert burst
    assert len(burst) >= 11
    assert -2000 < burst[0][0] <= -2000 + 168


def test_a_clock_that_nobody_knows_starts_with_the_second_batch(tmp_path: Path) -> None:
    with Probe(tmp_path, world(clock="-1699000000")) as probe:
        first, *later = watch(probe, 1.5)
    assert first.gpu.util_burst is None
    seen = points(later, "util_burst")
    assert len(seen) >= 6
    # Its newest sample is taken to be of now: order and distances within a batch are the driver's.
    for one in later:
        burst = one.gpu.util_burst or ()
        assert all(-10_000 < offset_ms < 10_000 for offset_ms, _ in burst)
        assert {b[0] - a[0] for a, b in pairwise(burst)} <= {166, 167, 168}


def test_an_idle_gpu_has_no_burst_and_is_still_measured(tmp_path: Path) -> None:
    with Probe(tmp_path, world(util=0)) as probe:
        gpu = probe.tick().gpu
    assert (gpu.util_burst, gpu.power_burst, gpu.gpu_util_pct) == (None, None, 0)


def test_what_came_before_an_idle_time_is_not_told_again(tmp_path: Path) -> None:
    with Probe(tmp_path, world()) as probe:
        before = points([probe.tick()], "util_burst")
        probe.world(world(util=0))
        probe.tick()
        probe.world(world())
        after = points(watch(probe, 0.5), "util_burst")
    assert after
    assert min(at_ms for at_ms, _ in after) > max(at_ms for at_ms, _ in before)


NOW = Now(wall_us=1_700_000_000_000_000, boot_us=5_000_000_000_000, monotonic_us=4_000_000_000_000)


@pytest.mark.parametrize(
    ("stamp_us", "shift_us"),
    [
        (NOW.wall_us, 0),
        (NOW.wall_us - 14_000_000, 0),
        (NOW.wall_us + 500_000, 0),
        (NOW.wall_us - DAY_US, 0),
        (NOW.boot_us - 1_000, NOW.wall_us - NOW.boot_us),
        (NOW.monotonic_us - 1_000, NOW.wall_us - NOW.monotonic_us),
        (NOW.wall_us + 2_000_000, None),
        (NOW.wall_us - DAY_US - 1, None),
        (NOW.wall_us * 1000, None),
        (12, None),
    ],
)
def test_which_clock_a_stamp_is_of(stamp_us: int, shift_us: int | None) -> None:
    assert wall_shift_us(stamp_us, NOW) == shift_us


@given(
    st.integers(0, 60_000_000),
    st.integers(0, DAY_US),
    st.sampled_from(["wall_us", "boot_us", "monotonic_us"]),
)
def test_a_recent_stamp_of_any_clock_finds_its_moment(age_us: int, suspended_us: int, clock: str) -> None:
    now = Now(1_700_000_000_000_000, 10 * DAY_US, 10 * DAY_US - suspended_us)
    shift_us = wall_shift_us(getattr(now, clock) - age_us, now)
    assert shift_us is not None
    found_age_us = now.wall_us - (getattr(now, clock) - age_us + shift_us)
    # Two clocks that differ by less than the age could both be meant: then the younger answer is taken.
    assert -1_000_000 <= found_age_us <= age_us
    assert found_age_us == age_us or suspended_us <= age_us + 1_000_000


def test_a_clock_that_is_set_back_does_not_end_the_samples() -> None:
    cursor = Cursor()
    cursor.last_us = NOW.wall_us
    earlier = NOW._replace(wall_us=NOW.wall_us - 3_600_000_000)
    assert cursor.after_us(NOW) == NOW.wall_us
    assert cursor.after_us(earlier) == 0
    # What was stamped before the clock was set back is still in the buffer.
    batch = [(earlier.wall_us - 100, 1.0), (NOW.wall_us - 100, 2.0)]
    assert cursor.new_of(batch, 0, earlier) == batch[:1]

"""How a locked cycle is followed, and when it is released."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from river import drift

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.locks import ALPHA, DELTA, LEAST, THRESHOLD, Locks, falls, take

PERIOD = 13.0


def state() -> tuple[Floats, Ints]:
    """What is kept of a cycle that was just found."""
    locks = Locks(1)
    locks.hold(0, PERIOD)
    return locks.floats[0], locks.ints[0]


GAINS = {
    "steady": ([1.0] * 40, None),
    "noisy": ([1.0, 0.7, 1.2, 0.9, 1.3, 0.6] * 6, None),
    "ends at once": ([1.0] * 10 + [0.0], 10),
    "ends after long": ([1.0] * 70 + [0.1], 70),
    "wanes": ([1.0, 1.0, 1.0, 0.9, 0.7, 0.4, 0.2], 6),
}


@pytest.mark.parametrize(("gains", "end"), GAINS.values(), ids=GAINS)
def test_a_lock_is_released_when_the_newest_periods_no_longer_follow(
    gains: list[float], end: int | None
) -> None:
    one = state()
    released = next((place for place, gain in enumerate(gains) if take(gain, 0.1, *one)), None)
    assert released == end


def test_what_its_noise_explains_is_no_end() -> None:
    one = state()
    assert not any(take(gain, 0.5, *one) for gain in [1.0] * 10 + [0.0])


def test_the_test_is_that_of_river() -> None:
    assert ALPHA == 1 - 0.0001
    river: Any = drift.PageHinkley(min_instances=LEAST, delta=DELTA, threshold=THRESHOLD, mode="down")
    random = np.random.default_rng(1)
    gains = np.concatenate([1 + 0.1 * random.normal(size=50), 0.3 + 0.1 * random.normal(size=50)])
    fired = []
    for count, gain in enumerate(gains.tolist(), 1):
        river.update(gain)
        fired.append(river.drift_detected)
        assert falls(gains[:count]) == fired[-1]
    assert any(fired)


def test_a_worker_starts_without_what_only_tests_need() -> None:
    script = "import sys, streams.service; print({'scipy.stats', 'river'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_period_that_moves_a_little_is_the_same_cycle() -> None:
    locks = Locks(1)
    locks.hold(0, PERIOD)
    take(0.9, 0.1, locks.floats[0], locks.ints[0])
    followed = locks.floats[0].copy()
    locks.hold(0, 1.04 * PERIOD)
    assert np.array_equal(locks.floats[0, 1:], followed[1:], equal_nan=True)
    locks.hold(0, 1.2 * PERIOD)
    assert np.isnan(locks.floats[0, 1:]).all()
    locks.hold(0, None)
    assert not locks.locked[0]

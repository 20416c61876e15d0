"""Which series can wait for an evaluation."""

import json

import numpy as np
import pytest

from streams.operators.cycles.schedule import PATIENCE, EvaluationBackoff

ONE = np.zeros(1, np.int64)
NOTHING = np.zeros(1, np.bool_)
NAN = float("nan")


def after(noticed: list[tuple[float, float]]) -> EvaluationBackoff:
    """The backoff after means and spreads, and an evaluation of each in which nothing was found."""
    backoff = EvaluationBackoff(1)
    for mean, spread in noticed:
        backoff.observe(np.array([mean]), np.array([spread]))
        backoff.evaluated(ONE, NOTHING)
    return backoff


STEADY = [(50.0 + k % 2, 4.0) for k in range(10)]
CASES = {
    "it was evaluated once": (STEADY[:1], False),
    "time and again": (STEADY, True),
    "another level": ([*STEADY, (80.0, 4.0)], False),
    "wider": ([*STEADY, (50.0, 30.0)], False),
    "a constant": ([(7.0, 0.0)] * 5, True),
    "a constant that moves at last": ([(7.0, 0.0)] * 5 + [(7.1, 1.0)], False),
    "not measured for a moment": ([*STEADY, (NAN, NAN)], True),
}


@pytest.mark.parametrize(("noticed", "waits"), CASES.values(), ids=CASES)
def test_what_goes_on_as_it_did_can_wait(noticed: list[tuple[float, float]], waits: bool) -> None:
    assert (after(noticed).level(0) > 0) == waits


def test_the_backoff_grows() -> None:
    assert [after(STEADY[:1] * n).level(0) for n in (PATIENCE - 1, PATIENCE, 2 * PATIENCE)] == [0, 1, 2]


def test_a_cycle_that_was_found_may_be_found_again() -> None:
    backoff = after(STEADY)
    backoff.evaluated(ONE, ~NOTHING)
    assert backoff.level(0) == 0


def test_columns_move_and_a_restart_leaves_no_trace() -> None:
    backoff = after(STEADY)
    backoff.resize(np.array([-1, 0]))
    assert [backoff.level(column) for column in (0, 1)] == [0, 2]
    again = EvaluationBackoff(2)
    again.restore(json.loads(json.dumps(backoff.snapshot())))
    for one in (backoff, again):
        one.observe(np.array([1.0, 51.0]), np.array([2.0, 4.0]))
        for _ in range(PATIENCE):
            one.evaluated(np.arange(2), np.array([False, False]))
    assert json.dumps(again.snapshot()) == json.dumps(backoff.snapshot())
    assert again.level(0) == 1

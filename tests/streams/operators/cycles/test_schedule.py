"""Which series can wait for a look."""

import json

import numpy as np
import pytest

from streams.operators.cycles.schedule import PATIENT, Patience

ONE = np.zeros(1, np.int64)
NOTHING = np.zeros(1, np.bool_)
NAN = float("nan")


def after(noticed: list[tuple[float, float]]) -> Patience:
    """What is left of patience after means and spreads, each of which was looked at in vain."""
    patience = Patience(1)
    for mean, spread in noticed:
        patience.notice(np.array([mean]), np.array([spread]))
        patience.looked(ONE, NOTHING)
    return patience


STEADY = [(50.0 + k % 2, 4.0) for k in range(10)]
CASES = [
    ("it was looked for once", STEADY[:1], False),
    ("time and again", STEADY, True),
    ("another level", [*STEADY, (80.0, 4.0)], False),
    ("wider", [*STEADY, (50.0, 30.0)], False),
    ("a constant", [(7.0, 0.0)] * 5, True),
    ("a constant that moves at last", [(7.0, 0.0)] * 5 + [(7.1, 1.0)], False),
    ("not measured for a moment", [*STEADY, (NAN, NAN)], True),
]


@pytest.mark.parametrize(("what", "noticed", "waits"), CASES, ids=[case[0] for case in CASES])
def test_what_goes_on_as_it_did_can_wait(what: str, noticed: list[tuple[float, float]], waits: bool) -> None:
    assert (after(noticed).level(0) > 0) == waits


def test_patience_grows() -> None:
    assert [after(STEADY[:1] * n).level(0) for n in (PATIENT - 1, PATIENT, 2 * PATIENT)] == [0, 1, 2]


def test_a_cycle_that_was_found_may_be_found_again() -> None:
    patience = after(STEADY)
    patience.looked(ONE, ~NOTHING)
    assert patience.level(0) == 0


def test_columns_move_and_a_restart_leaves_no_trace() -> None:
    patience = after(STEADY)
    patience.resize(np.array([-1, 0]))
    assert [patience.level(column) for column in (0, 1)] == [0, 2]
    again = Patience(2)
    again.restore(json.loads(json.dumps(patience.snapshot())))
    for one in (patience, again):
        one.notice(np.array([1.0, 51.0]), np.array([2.0, 4.0]))
        for _ in range(PATIENT):
            one.looked(np.arange(2), np.array([False, False]))
    assert json.dumps(again.snapshot()) == json.dumps(patience.snapshot())
    assert again.level(0) == 1

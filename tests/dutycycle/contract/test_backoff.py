"""Goal: waits double up to their bound, are shortened at random, and are short again after a success."""

import random

import pytest

from dutycycle.contract.backoff import Backoff


def test_waits_grow_to_a_bound_and_are_shortened_by_chance() -> None:
    backoff = Backoff(1.0, 8.0, chance=random.Random(1))  # noqa: S311 - not a secret
    found = [backoff.next_s() for _ in range(200)]
    for wait_s, longest in zip(found, [1, 2, 4, 8, *[8] * 196], strict=True):
        assert longest / 2 <= wait_s <= longest
    assert len(set(found)) == len(found)


def test_a_success_is_due_at_once_and_a_failure_after_its_wait() -> None:
    backoff = Backoff(2.0, 10.0, spread=0)
    assert backoff.is_due(0.0)
    waits = []
    for now_s in (100.0, 200.0, 300.0, 400.0):
        backoff.wait_from(now_s)
        waits.append(backoff.due_s - now_s)
    assert waits == [2, 4, 8, 10]
    assert (backoff.is_due(409.9), backoff.is_due(410.0)) == (False, True)
    backoff.reset()
    assert backoff.is_due(400.0)
    assert (backoff.next_s(), backoff.failures) == (2, 1)


@pytest.mark.parametrize(("failures", "wait_s"), [(0, 1), (3, 8), (100_000, 30)])
def test_failures_of_before_count(failures: int, wait_s: float) -> None:
    assert Backoff(1.0, 30.0, spread=0, failures=failures).next_s() == wait_s

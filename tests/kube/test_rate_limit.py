"""Requests are given turns."""

from kube.rate_limit import TokenBucket


def test_turns_are_given_in_order_and_a_pause_is_enough_for_two_seconds() -> None:
    bucket = TokenBucket(10)
    assert [bucket.turn(100.0) for _ in range(20)] == [0.0] * 20
    assert [round(bucket.turn(100.0), 3) for _ in range(3)] == [0.1, 0.2, 0.3]
    assert bucket.turn(100.5) == 0.0
    assert sum(bucket.turn(1000.0) == 0.0 for _ in range(100)) in (19, 20)  # tenths do not add up exactly

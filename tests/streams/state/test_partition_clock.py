"""The time of a partition: a function of the timestamps in its log, which no wrong one can run away with."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.state.partition_clock import PartitionClock, topic_id_of
from streams.state.record import BodyKind, state_key, to_value

STRIDE, CONFIRM = 100, 50_000
YEAR = 31_536_000_000
CASES = [
    pytest.param([0, 10, 20, 30], 30, id="time goes by"),
    pytest.param([1_700_000_000_000, 1_700_000_000_050], 50, id="it counts from the first record"),
    pytest.param([0, 50, 20, 60], 60, id="what is late counts nothing"),
    pytest.param([0, 50, 50, 50], 50, id="what stands still counts nothing"),
    pytest.param([0, 100, 5_000], 200, id="silence counts as a stride"),
    pytest.param([0, YEAR, 10, 20, 30], 100, id="one a year ahead counts as a stride, and then it waits"),
    pytest.param([0, YEAR, 10, YEAR + 1, 20, YEAR + 2], 102, id="one that stays ahead sets the pace"),
    pytest.param([YEAR, 0, 10, 20], 0, id="what is behind moves nothing"),
    pytest.param([0, -YEAR, 10], 10, id="one far behind is passed over"),
]


def heard(clock: PartitionClock, times: list[int], first: int = 0) -> int:
    for offset, ts_ms in enumerate(times, first):
        clock.observe(offset, ts_ms)
    return clock.now_ms


@pytest.mark.parametrize(("times", "now_ms"), CASES)
def test_time(times: list[int], now_ms: int) -> None:
    assert heard(PartitionClock(STRIDE, confirm=CONFIRM), times) == now_ms


def test_a_wrong_reference_is_given_up() -> None:
    clock = PartitionClock(STRIDE, confirm=20)
    assert heard(clock, [0, YEAR, *range(10, 200, 10)]) == STRIDE
    assert heard(clock, [200, 210, 220], 100) == STRIDE + 20, "20 in a row were behind: 200 is now"


def test_a_clock_that_flaps_is_not_believed_again_and_again() -> None:
    """Every second record is a year ahead: that counted once."""
    clock = PartitionClock(STRIDE, confirm=CONFIRM)
    times = [one for second in range(1000) for one in (second, YEAR)]
    assert heard(clock, times) == STRIDE


@given(st.lists(st.integers(-(10**13), 10**13) | st.integers(0, 1000), max_size=50), st.integers(1, 50))
def test_it_never_goes_back_and_goes_on_where_it_was(times: list[int], checkpoint: int) -> None:
    whole, clock, now_ms = PartitionClock(STRIDE, confirm=CONFIRM), PartitionClock(STRIDE, confirm=CONFIRM), 0
    for offset, ts_ms in enumerate(times):
        if offset == checkpoint:
            restored = PartitionClock.restored(STRIDE, clock.stored(3)[1], confirm=CONFIRM)
            assert restored is not None
            clock = restored
            heard(clock, times[:offset])  # read again after a restart: it has heard them
        whole.observe(offset, ts_ms)
        clock.observe(offset, ts_ms)
        assert now_ms <= clock.now_ms <= now_ms + STRIDE
        now_ms = clock.now_ms
    assert clock.now_ms == whole.now_ms


BAD = [None, b"", b"hello", to_value(0, 1, 2, b"{"), to_value(0, 1, 2, b'{"v":9}'), to_value(0, 1, 2, b"[]")]


@pytest.mark.parametrize("value", BAD)
def test_what_is_no_clock(value: bytes | None) -> None:
    assert PartitionClock.restored(STRIDE, value, confirm=CONFIRM) is None


def test_a_clock_is_no_key() -> None:
    clock = PartitionClock(STRIDE, confirm=CONFIRM)
    clock.observe(0, 0)
    assert clock.stored(3)[0] != state_key(3, "")


def test_a_stored_clock_knows_the_topic_whose_records_it_saw() -> None:
    clock = PartitionClock(STRIDE, confirm=CONFIRM)
    clock.observe(0, 1)
    assert topic_id_of(clock.stored(3, "ab12")[1]) == "ab12"
    for unknown in (clock.stored(3)[1], b"hello", None, to_value(BodyKind.PLAIN, 1, 2, b"[]")):
        assert topic_id_of(unknown) is None

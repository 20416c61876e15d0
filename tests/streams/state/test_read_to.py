"""How far a source was read, as its states say, and that one damaged record among them stops nobody."""

import pytest

from streams.source_logs import how_to_begin_anew
from streams.state.record import BodyKind, Record, clock_key, piece_key, state_key, to_value
from streams.state.recovery import read_to


def state(key: str, offset: int, partition: int = 0) -> Record:
    return state_key(partition, key), to_value(BodyKind.PLAIN, offset, 0, b"{}")


def clock(offset: int, partition: int = 0) -> Record:
    return clock_key(partition), to_value(BodyKind.PLAIN, offset, 0, b"{}")


PIECE = piece_key(state_key(0, "a"), 0, 0), to_value(BodyKind.PIECE, 99, 0, b"")


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        ([], {}),
        ([state("a", 7), clock(7)], {0: 8}),
        ([state("a", 1), state("b", 1)], {}),
        ([state("a", 3), state("b", 7), clock(7)], {0: 8}),
        ([state("a", 3), state("b", 7), clock(2**40)], {0: 8}),
        ([state("a", 3), state("b", 2**40), clock(7)], {0: 8}),
        ([state("a", 7), clock(7), state("a", 9, 1), clock(9, 1)], {0: 8, 1: 10}),
        ([state("a", 7), clock(7), PIECE], {0: 8}),
        ([state("a", 7), clock(7), (b"\0\0\x09stray", b"x"), (b"", b"")], {0: 8}),
        ([(state_key(0, "a"), b"garbage"), (clock_key(0), b"garbage")], {}),
    ],
    ids=["none", "one", "strays where nothing was stored", "the clock and the newest", "a damaged clock",
         "a damaged state", "by partition", "a piece is none", "strays", "garbage"],
)  # fmt: skip
def test_read_to(states: list[Record], wanted: dict[int, int]) -> None:
    assert read_to(states) == wanted


def test_what_to_do_names_topics_and_group() -> None:
    words = how_to_begin_anew("t.nvml-samples", ["t.state-nvml"], "t.streams")
    for name in ("the topic t.state-nvml", "group t.streams", "of t.nvml-samples"):
        assert name in words

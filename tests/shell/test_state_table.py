"""Which records of a changelog a worker's table takes over: the rule against workers that come too late."""

from collections.abc import Iterable

import pytest

from streams import state
from streams.state import Packed, pack, unpack
from streams.state_record import state_key, tombstone_headers
from tests.simulation.kafka import Changelog, Stored

KEY = state_key(0, "a")


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "PIECE_BYTES", 20)
    monkeypatch.setattr(state, "_PLAIN_BYTES", 10)


def at(offset: int, previous: bytes | None = None) -> Packed:
    """A state of two pieces or more."""
    return pack(KEY, offset, {"v": 1, "text": f"{offset} 0123456789abcdefghijklmnop"}, previous)


def recovered(*records: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    log, found = Changelog(), dict[bytes, bytes]()
    for batch in records:
        for key, value in batch:
            log.append(Stored(key, value, []))
    log.recover(found)
    return found


def offset_in(table: dict[bytes, bytes]) -> int | None:
    found = unpack(KEY, table.get)
    return None if found is None else found.offset


def test_an_older_state_that_is_written_later_does_not_count() -> None:
    assert offset_in(recovered([at(7).head], at(7).pieces, [at(5).head])) == 7


def test_pieces_of_a_worker_that_was_killed_before_their_head_do_not_keep_out_those_of_the_next() -> None:
    """It was ahead: what it had taken is taken again, but the first commit of the next one comes sooner."""
    first = at(40)
    ahead, after = at(54, first.head[1]), at(44, first.head[1])
    assert {key for key, _ in ahead.pieces} & {key for key, _ in after.pieces}, (
        "both write into the free slot"
    )
    table = recovered(first.pieces, [first.head], ahead.pieces, after.pieces, [after.head])
    assert offset_in(table) == 44


def test_older_pieces_that_come_after_a_head_do_not_spoil_it() -> None:
    first = at(40)
    newest, late = at(60, first.head[1]), at(48, first.head[1])
    table = recovered(first.pieces, [first.head], newest.pieces, [newest.head], late.pieces)
    assert offset_in(table) == 60


def test_a_tombstone_removes_what_is_not_newer() -> None:
    log, found = Changelog(), dict[bytes, bytes]()
    small = pack(KEY, 7, {}, None).head
    for offset, there in ((6, True), (7, False)):
        log.append(Stored(*small, []))
        log.append(Stored(KEY, None, tombstone_headers(offset)))
        found.clear()
        log.recover(found)
        assert (KEY in found) is there


STRAY = [b"", b"\0", b"\0\0", b"\0\0\0", b"garbage", b"\0\0\0\xff", b"\0\0\1", b"\0\0\1\0\0\0", b"\0\0\2x",
         b"\0\0\1\0\0\0\xff"]  # fmt: skip


@pytest.mark.parametrize("key", STRAY)
@pytest.mark.parametrize("value", [b"", b"garbage", b"\2\2" + bytes(16) + b"x"])
def test_records_under_keys_that_are_none_of_ours_are_left_out(key: bytes, value: bytes) -> None:
    table = recovered([at(7).head], at(7).pieces, [(key, value)])
    assert key not in table
    assert offset_in(table) == 7

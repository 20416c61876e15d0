"""Which records of a changelog a worker's table takes over: the rule against workers that come too late."""

from collections.abc import Iterable
from itertools import combinations
from string import ascii_letters, digits

import pytest

from streams.state.codec import Packed, pack, unpack
from streams.state.partition_clock import PartitionClock
from streams.state.record import clock_key, state_key, tombstone_headers
from tests.support.fakes.broker import Changelog, Stored, Table

KEY = state_key(0, "a")


def at(offset: int, previous: bytes | None = None) -> Packed:
    """A state of two pieces or more."""
    return pack(
        KEY, offset, {"v": 1, "text": f"{offset} 0123456789abcdefghijklmnop"}, previous, piece_bytes=20
    )


def recovered(*records: Iterable[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    log = Changelog()
    for batch in records:
        for key, value in batch:
            log.append(Stored(key, value, []))
    return read(log).data


def read(log: Changelog) -> Table:
    """What a worker that begins knows of it."""
    table = Table()
    log.recover(0, table)
    return table


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
    log = Changelog()
    small = pack(KEY, 7, {}, None).head
    for offset, there in ((6, True), (7, False)):
        log.append(Stored(*small, []))
        log.append(Stored(KEY, None, tombstone_headers(offset)))
        assert (KEY in read(log).data) is there


def test_what_was_preferred_over_a_later_record_is_outdated_until_it_is_written_anew() -> None:
    log = Changelog()
    newest = at(7).head
    for record in (*at(7).pieces, newest, at(5).head):
        log.append(Stored(*record, []))
    table = read(log)
    assert [(one.key, one.value) for one in table.reducer.outdated({0})] == [newest]
    assert table.reducer.outdated({1}) == [], "somebody else's partition"
    log.append(Stored(*newest, []))
    assert read(log).reducer.outdated({0}) == []


def test_what_has_left_does_not_come_back_by_a_late_state() -> None:
    log, small = Changelog(), pack(KEY, 7, {}, None).head
    log.append(Stored(*small, []))
    log.append(Stored(KEY, None, tombstone_headers(7)))
    log.append(Stored(*small, []))
    table = read(log)
    assert KEY not in table.data
    (again,) = table.reducer.outdated({0})
    assert (again.value, again.offset) == (None, 7)
    log.append(Stored(KEY, None, tombstone_headers(again.offset)))
    log.append(Stored(*pack(KEY, 8, {}, None).head, []))
    assert KEY in read(log).data, "it is seen again"


def test_a_worker_that_is_ahead_and_ends_before_its_head_does_not_tear_the_state_of_the_next() -> None:
    """Both write into the free slot; the pieces of the one that was replaced come last."""
    first = at(40)
    ahead, after = at(54, first.head[1]), at(44, first.head[1])
    log = Changelog()
    for record in (*first.pieces, first.head, *after.pieces, after.head, *ahead.pieces):
        log.append(Stored(*record, []))
    table = read(log)
    assert offset_in(table.data) == 44
    renewed = table.reducer.outdated({0})
    assert [(one.key, one.value) for one in renewed] == after.pieces
    log.append(Stored(*ahead.head, []))  # it did not end after all
    assert offset_in(read(log).data) == 54


def test_a_head_whose_pieces_are_gone_does_not_count_over_a_state_that_is_whole() -> None:
    first = at(40)
    ahead = at(54, first.head[1])
    table = recovered(first.pieces, [first.head], ahead.pieces[:1], [ahead.head])
    assert offset_in(table) == 40


@pytest.mark.parametrize("head_first", [True, False])
def test_a_piece_that_was_taken_for_left_over_is_there_for_the_head_that_comes_late(head_first: bool) -> None:
    """The next worker's state has fewer pieces, in the same slot: it removes what is over of the late one."""
    first = at(40)
    late = at(60, first.head[1])
    after = pack(KEY, 44, {"v": 1, "text": "44"}, first.head[1], piece_bytes=20)
    over = late.pieces[len(after.pieces) :]
    removed = [Stored(key, None, tombstone_headers(60)) for key, _ in over]
    head = [Stored(*late.head, [])]
    log = Changelog()
    for record in (*first.pieces, first.head, *late.pieces, *after.pieces, after.head):
        log.append(Stored(*record, []))
    for stored in [*head, *removed] if head_first else [*removed, *head]:
        log.append(stored)
    table = read(log)
    assert offset_in(table.data) == 60
    for rewrite in table.reducer.outdated({0}):
        assert rewrite.value is not None
        log.append(Stored(rewrite.key, rewrite.value, []))
    log.compact(log.end - 1, purge_until_s=float("inf"))
    assert offset_in(read(log).data) == 60, "also once only the last record of each key is left"


def mended(log: Changelog) -> Changelog:
    """What is left once the next worker has written anew what counts, and all that can be is compacted."""
    rewrites = [Stored(rewrite.key, rewrite.value, []) for rewrite in read(log).reducer.outdated({0})]
    left = Changelog()
    for record in [*log.records, *rewrites]:
        left.append(record)
    left.compact(left.end - 1, purge_until_s=float("inf"))
    return left


@pytest.mark.parametrize("lengths", [(25, 35), (15, 55), (55, 15)], ids=str)
def test_two_workers_that_store_one_offset_as_other_bytes_never_mix_their_pieces(
    lengths: tuple[int, int],
) -> None:
    """One has been replaced and does not know it. In each order of their records, after each of them, and
    where the next worker mends what is there before the rest comes."""
    first = at(40)
    whole = [unpack(KEY, recovered(first.pieces, [first.head]).get)]
    workers = []
    for letters, length in zip((ascii_letters, ascii_letters[::-1] + digits), lengths, strict=True):
        packed = pack(KEY, 54, {"v": 1, "text": letters[:length]}, first.head[1], piece_bytes=20)
        workers.append([Stored(*record, []) for record in (*packed.pieces, packed.head)])
        whole.append(unpack(KEY, recovered(packed.pieces, [packed.head]).get))
    total = sum(map(len, workers))
    assert total == 8
    for turns in combinations(range(total), len(workers[0])):
        lines = [iter(records) for records in workers]
        order = [next(lines[turn not in turns]) for turn in range(total)]
        log = Changelog()
        for stored in (*first.pieces, first.head):
            log.append(Stored(*stored, []))
        for number, record in enumerate(order, 1):
            log.append(record)
            resumed = unpack(KEY, read(log).data.get)
            has_head = any(other.key == KEY for other in order[:number])
            assert resumed in (whole[1:] if has_head else whole[:1])
            left = mended(log)
            assert unpack(KEY, read(left).data.get) == resumed
            for late in order[number:]:
                left.append(late)
                assert unpack(KEY, read(left).data.get) in whole


STRAY = [b"", b"\0", b"\0\0", b"\0\0\0", b"garbage", b"\0\0\0\xff", b"\0\0\1", b"\0\0\1\0\0\0", b"\0\0\2x",
         b"\0\0\1\0\0\0\xff"]  # fmt: skip


@pytest.mark.parametrize("key", STRAY)
@pytest.mark.parametrize("value", [b"", b"garbage", b"\2\2" + bytes(16) + b"x"])
def test_records_under_keys_that_are_none_of_ours_are_left_out(key: bytes, value: bytes) -> None:
    table = recovered([at(7).head], at(7).pieces, [(key, value)])
    assert key not in table
    assert offset_in(table) == 7


def test_states_of_another_log_are_removed_clocks_last_and_lower_offsets_count_again() -> None:
    """Also where a key had left: the tombstone of an old offset does not keep out a new state."""
    log, evicted = Changelog(), state_key(0, "evicted")
    first = at(40)
    for key, value in (*first.pieces, first.head, PartitionClock(1, confirm=1, offset=41).stored(0)):
        log.append(Stored(key, value, []))
    log.append(Stored(evicted, None, tombstone_headers(900)))
    log.append(Stored(state_key(1, "other"), pack(KEY, 3, {}, None).head[1], []))
    table = read(log)
    for key in table.reducer.discard(0):
        table.mirror(key, None)
    rewrites = table.reducer.outdated({0, 1})
    assert {rewrite.key for rewrite in rewrites} == {key for key, _ in first.pieces} | {
        KEY,
        evicted,
        clock_key(0),
    }
    assert rewrites[-1].key == clock_key(0), (
        "while it lies there, the next worker sees of what the states are"
    )
    for rewrite in rewrites:
        assert rewrite.value is None
        log.append(Stored(rewrite.key, None, tombstone_headers(rewrite.offset)))
    assert set(read(log).data) == {state_key(1, "other")}
    anew = at(5)
    for key, value in (*anew.pieces, anew.head, (evicted, pack(evicted, 6, {}, None).head[1])):
        log.append(Stored(key, value, []))
    found = read(log).data
    assert (offset_in(found), evicted in found) == (5, True)

"""How states are stored: round trips, pieces and slots, damage."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.state.codec import Packed, Resumed, StateError, pack, to_bytes, unpack
from streams.state.record import BodyKind, offset_of, piece_key, state_key, to_value
from tests.support.streams.toy import STAGE

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
)
KEY = state_key(3, "gpu-a")


def noise(bytes_: int) -> str:
    """Text that does not compress to less than half."""
    return random.Random(1).randbytes(bytes_ // 2).hex()  # noqa: S311 - filler


def written(log: dict[bytes, bytes], packed: Packed) -> None:
    log |= dict([*packed.pieces, packed.head])


@given(offset=st.integers(0, 2**63), value=PLAIN)
def test_what_is_packed_is_unpacked(offset: int, value: object) -> None:
    snapshot = {"v": 1, "value": value}
    packed = pack(KEY, offset, snapshot, None)
    assert packed.pieces == []
    assert unpack(KEY, dict([packed.head]).get) == Resumed(offset, snapshot)
    assert offset_of(packed.head[1]) == offset


@pytest.mark.parametrize(
    ("size", "kind", "pieces"),
    [
        (10, BodyKind.PLAIN, 0),
        (4_100, BodyKind.ZSTD, 0),
        (600_000, BodyKind.ZSTD, 0),
        (2_000_000, BodyKind.HEAD, 3),
    ],
)
def test_large_states_are_compressed_then_cut(size: int, kind: BodyKind, pieces: int) -> None:
    packed = pack(KEY, 7, {"v": 1, "text": noise(size)}, None)
    assert (packed.head[1][1], len(packed.pieces)) == (kind, pieces)
    assert all(len(value) < 500_000 for _, value in [*packed.pieces, packed.head])
    log: dict[bytes, bytes] = {}
    written(log, packed)
    assert unpack(KEY, log.get) == Resumed(7, {"v": 1, "text": noise(size)})


def test_a_crash_between_pieces_and_head_leaves_the_state_before() -> None:
    log: dict[bytes, bytes] = {}
    for offset in range(5):
        packed = pack(KEY, offset, {"v": 1, "n": offset, "text": noise(2_000_000)}, log.get(KEY))
        for piece in packed.pieces:
            log |= dict([piece])
            if offset:
                found = unpack(KEY, log.get)
                assert found is not None
                assert found.snapshot["n"] == offset - 1
        written(log, packed)
    assert len(log) == 1 + 2 * 3  # the head, and two slots: no more are ever in use


def test_a_state_may_shrink_and_grow_again() -> None:
    log: dict[bytes, bytes] = {}
    for offset, size in enumerate([2_000_000, 10, 2_000_000, 2_000_000]):
        written(log, pack(KEY, offset, {"v": 1, "text": noise(size)}, log.get(KEY)))
        assert unpack(KEY, log.get) == Resumed(offset, {"v": 1, "text": noise(size)})


def test_keys_do_not_meet() -> None:
    keys = [
        state_key(partition, key) for partition in (0, 1, 256) for key in ("a", "b", "\0a", "\1\0\0\0a", "é")
    ]
    keys += [piece_key(key, slot, number) for key in keys for slot in (0, 1) for number in (0, 1, 300)]
    assert len(set(keys)) == len(keys)


def damaged() -> dict[str, dict[bytes, bytes]]:
    whole: dict[bytes, bytes] = {}
    written(whole, pack(KEY, 5, {"v": 1, "text": noise(2_000_000)}, None))
    piece = next(key for key in whole if key != KEY)
    small = pack(KEY, 5, {"v": 1, "text": noise(5_000)}, None).head[1]
    return {
        "a piece is missing": {key: value for key, value in whole.items() if key != piece},
        "a piece of another state": whole | {piece: pack(KEY, 4, {"v": 1}, None).head[1]},
        "a piece of another state of its offset": whole
        | {piece: dict(pack(KEY, 5, {"v": 2, "text": noise(2_000_000)}, None).pieces)[piece]},
        "cut off": {KEY: small[:-100]},
        "no MessagePack": {KEY: pack(KEY, 5, {"v": 1}, None).head[1][:-1]},
        "no text": {KEY: to_value(BodyKind.PLAIN, 5, 0, b"\xa1\x82")},
        "no object": {KEY: to_value(BodyKind.PLAIN, 5, 0, to_bytes([]))},
        "another format": {KEY: b"\2" + small[1:]},
        "foreign": {KEY: b"hello"},
        "a head that is cut off": {KEY: whole[KEY][:-1]},
        "a head of no length": {KEY: to_value(BodyKind.HEAD, 5, 0, b"")},
    }


@pytest.mark.parametrize("what", list(damaged()))
def test_damage_is_told(what: str) -> None:
    log = damaged()[what]
    with pytest.raises(StateError):
        unpack(KEY, lambda key: log.get(key))


@pytest.mark.parametrize("what", list(damaged()))
def test_damage_is_written_over(what: str) -> None:
    log = damaged()[what]
    written(log, pack(KEY, 6, {"v": 1, "text": noise(1_000_000)}, log.get(KEY)))
    found = unpack(KEY, lambda key: log.get(key))
    assert found is not None
    assert found.offset == 6


def test_nothing_stored() -> None:
    assert unpack(KEY, lambda key: None) is None


def test_a_snapshot_that_is_no_plain_data_is_refused() -> None:
    with pytest.raises(TypeError):
        pack(KEY, 1, {"v": 1, "x": object()}, None)


def test_the_bound_is_below_what_a_topic_takes() -> None:
    assert STAGE.piece_bytes < 500_000

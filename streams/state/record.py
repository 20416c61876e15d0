"""Defines the records of a changelog topic: their keys, and the header of their values.

A key begins with the source's partition (2 bytes), because offsets compare only within one, and a role:

    partition  0  key                       the state of a key, or the head of its pieces
    partition  1  slot  number  key         a piece of a large state
    partition  2                            the clock of the partition (``partition_clock``)

A value is a header and a body:

    format  kind  offset (8 bytes, big-endian)  seen (8 bytes, big-endian)  body

The body of a piece, and of a head, begins with a digest of the whole state: two workers may store a key at
one offset as different bytes, and pieces of both are never taken for those of one.
"""

import struct
from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

FORMAT = 3
_HEADER = struct.Struct(">BBQQ")
HEADER_BYTES = _HEADER.size
_PARTITION = struct.Struct(">H")
_PIECE = struct.Struct(">BH")
DIGEST_BYTES = 8
_HEAD_BYTES = HEADER_BYTES + DIGEST_BYTES + _PIECE.size
_STATE_ROLE, _PIECE_ROLE, _CLOCK_ROLE = b"\0", b"\1", b"\2"
_KEY_AT = _PARTITION.size + 1
_OFFSET_NAME = "dutycycle-offset"

Record = tuple[bytes, bytes]
"""Key and value, as they lie in a changelog topic."""
Version = tuple[int, bytes]
"""Which state a value is of, or a piece of: the offset, and of a large one the digest, else nothing."""
Headers = list[tuple[str, bytes]]
"""Headers of a Kafka record."""


class Write(NamedTuple):
    """Holds a record to be written to a changelog. ``value`` None is a tombstone, which removes what is no
    newer than ``offset``, or whatever there is where that is None."""

    key: bytes
    value: bytes | None
    offset: int | None = None


class BodyKind(IntEnum):
    """Says what a value's body is. 2 and 3 were a head and a piece without a digest: damaged, by now."""

    PLAIN = 0
    """As it is."""
    ZSTD = 1
    HEAD = 4
    """Digest of the state, slot and number of the pieces."""
    PIECE = 5
    """Digest of the state, and a part of it."""


class Header(NamedTuple):
    """Begins a value. ``offset`` is that of the last source record that the value covers; ``seen_ms`` what
    its partition's clock said then."""

    kind: int
    offset: int
    seen_ms: int


class Piece(NamedTuple):
    """Says which piece a key names: of the state under ``head``, in ``slot``, ``number`` counted from 0."""

    head: bytes
    slot: int
    number: int


def state_key(partition: int, key: str) -> bytes:
    """Return the key of a state."""
    return _PARTITION.pack(partition) + _STATE_ROLE + key.encode()


def clock_key(partition: int) -> bytes:
    """Return the key of a partition's clock."""
    return _PARTITION.pack(partition) + _CLOCK_ROLE


def piece_key(head: bytes, slot: int, number: int) -> bytes:
    """Return the key of a piece of the state under ``head``."""
    return head[: _PARTITION.size] + _PIECE_ROLE + _PIECE.pack(slot, number) + head[_KEY_AT:]


def is_ours(key: bytes) -> bool:
    """Tell whether ``key`` is one that we write. Anybody can write to a topic: a stray record stops
    nobody."""
    role, rest = key[_PARTITION.size : _KEY_AT], key[_KEY_AT:]
    if role == _PIECE_ROLE:
        return len(rest) > _PIECE.size and _is_text(rest[_PIECE.size :])
    return (role == _STATE_ROLE and _is_text(rest)) or (role == _CLOCK_ROLE and not rest)


def _is_text(name: bytes) -> bool:
    try:
        return bool(name.decode())
    except UnicodeDecodeError:
        return False


def partition_of(key: bytes) -> int:
    """Return the source's partition that a record belongs to."""
    partition: int = _PARTITION.unpack_from(key)[0]
    return partition


def name_of(key: bytes) -> str | None:
    """Return the key whose state lies under ``key``; None if that is no state."""
    return key[_KEY_AT:].decode() if key[_PARTITION.size : _KEY_AT] == _STATE_ROLE else None


def piece_of(key: bytes) -> Piece | None:
    """Return the piece that ``key`` names; None if it names none."""
    if key[_PARTITION.size : _KEY_AT] != _PIECE_ROLE:
        return None
    slot, number = _PIECE.unpack_from(key, _KEY_AT)
    rest = key[_KEY_AT + _PIECE.size :]
    return Piece(key[: _PARTITION.size] + _STATE_ROLE + rest, slot, number)


def to_value(kind: int, offset: int, seen_ms: int, body: bytes) -> bytes:
    """Return a value with its header."""
    return _HEADER.pack(FORMAT, kind, offset, seen_ms) + body


def header_of(value: bytes | None) -> Header | None:
    """Return the header of a value; None if it is none of ours, or of another format."""
    if value is None or len(value) < _HEADER.size or value[0] != FORMAT:
        return None
    _, kind, offset, seen_ms = _HEADER.unpack_from(value)
    return Header(kind, offset, seen_ms)


def offset_of(value: bytes | None) -> int:
    """Return the offset in a value's header; -1 if it is none of ours, which every real one beats."""
    header = header_of(value)
    return -1 if header is None else header.offset


def version_of(value: bytes | None) -> Version:
    """Return which state a value is of, or a piece of; -1 and no digest if it is none of ours."""
    header = header_of(value)
    if value is None or header is None:
        return -1, b""
    is_large = header.kind in (BodyKind.HEAD, BodyKind.PIECE)
    return header.offset, value[HEADER_BYTES : HEADER_BYTES + DIGEST_BYTES] if is_large else b""


def head_value(offset: int, seen_ms: int, digest: bytes, slot: int, count: int) -> bytes:
    """Return the value of a head: its ``count`` pieces lie in ``slot``."""
    return to_value(BodyKind.HEAD, offset, seen_ms, digest + _PIECE.pack(slot, count))


def slot_and_count(value: bytes | None) -> tuple[int, int] | None:
    """Return what ``head_value`` was given; None if the value is no head, or a damaged one."""
    header = header_of(value)
    if value is None or header is None or header.kind != BodyKind.HEAD or len(value) != _HEAD_BYTES:
        return None
    slot, count = _PIECE.unpack_from(value, HEADER_BYTES + DIGEST_BYTES)
    return slot, count


def named_pieces(key: bytes, value: bytes) -> list[bytes]:
    """Return the keys of the pieces that a value names; none if it is no head, or a damaged one."""
    slot, count = slot_and_count(value) or (0, 0)
    return [piece_key(key, slot, number) for number in range(count)]


def tombstone_headers(offset: int | None) -> Headers:
    """Return what a tombstone carries, as it has no value: the offset of the state that it removes; nothing
    if it removes any."""
    return [] if offset is None else [(_OFFSET_NAME, b"%d" % offset)]


def tombstone_offset(headers: Iterable[tuple[str, bytes]]) -> int | None:
    """Return the offset of the newest state that a tombstone removes; None if it does not say, and removes
    any."""
    given = dict(headers).get(_OFFSET_NAME, b"")
    return int(given) if given.isdigit() else None

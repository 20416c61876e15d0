"""How the state of a key is written to its changelog topic, and read back.

A value is a header and a body. The header holds the offset of the last source record that the state covers,
so that a record is never applied twice and of two states the newer is known without reading them:

    version  kind  offset (8 bytes, big-endian)  body

A body over 400 kB is cut into pieces under keys of their own. They go to the broker before their head, into
the slot that the previous head does not use: a head always names pieces that are complete.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import orjson
import zstandard

from streams.operators.base import Snapshot

FORMAT = 1
_HEADER = struct.Struct(">BBQ")
_KEY = struct.Struct(">H")
_PIECE = struct.Struct(">BH")
_PLAIN_BYTES = 4_096
PIECE_BYTES = 400_000

Record = tuple[bytes, bytes]
"""Key and value, as they lie in a changelog topic."""


class Kind(IntEnum):
    """What a value's body is."""

    JSON = 0
    ZSTD = 1
    HEAD = 2
    """Slot and number of the pieces."""
    PIECE = 3


class StateError(ValueError):
    """A stored state cannot be read. Names why."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A state read back: ``offset`` is that of the last source record it covers."""

    offset: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Packed:
    """A state to be written: all ``pieces`` have to be on the broker before ``head`` is sent."""

    pieces: list[Record]
    head: Record


def state_key(partition: int, key: str) -> bytes:
    """The key of a state. It holds the source's partition, because offsets compare only within one."""
    return _KEY.pack(partition) + b"\0" + key.encode()


def offset_of(value: bytes) -> int:
    """The offset in a value's header; -1 if it is none of ours, which every real one beats."""
    if len(value) < _HEADER.size or value[0] != FORMAT:
        return -1
    offset: int = _HEADER.unpack_from(value)[2]
    return offset


def pack(key: bytes, offset: int, snapshot: Snapshot, previous: bytes | None) -> Packed:
    """The records that store ``snapshot`` under ``key``; ``previous`` is the key's value now, if any.

    Raises ``TypeError`` if the snapshot is no plain data.
    """
    body, kind = orjson.dumps(snapshot), Kind.JSON
    if len(body) > _PLAIN_BYTES:
        body, kind = zstandard.ZstdCompressor(level=1).compress(body), Kind.ZSTD
    if len(body) <= PIECE_BYTES:
        return Packed([], (key, _HEADER.pack(FORMAT, kind, offset) + body))
    slot = 1 - _slot(previous)
    bodies = [body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES)]
    header = _HEADER.pack(FORMAT, Kind.PIECE, offset)
    pieces = [(_piece_key(key, slot, number), header + part) for number, part in enumerate(bodies)]
    head = _HEADER.pack(FORMAT, Kind.HEAD, offset) + _PIECE.pack(slot, len(pieces))
    return Packed(pieces, (key, head))


def unpack(key: bytes, lookup: Callable[[bytes], bytes | None]) -> Resumed | None:
    """The state stored under ``key``, None if there is none. Raises ``StateError`` if it cannot be read."""
    value = lookup(key)
    if value is None:
        return None
    if offset_of(value) < 0:
        raise StateError(f"not a state of format {FORMAT}")
    _, kind, offset = _HEADER.unpack_from(value)
    body = value[_HEADER.size :]
    if kind == Kind.HEAD:
        body, kind = _joined(key, body, offset, lookup), Kind.ZSTD
    return Resumed(offset, _parsed(body, kind))


def _joined(key: bytes, head: bytes, offset: int, lookup: Callable[[bytes], bytes | None]) -> bytes:
    slot, count = _PIECE.unpack(head)
    parts = [lookup(_piece_key(key, slot, number)) for number in range(count)]
    good = [part for part in parts if part is not None and offset_of(part) == offset]
    if len(good) < count:
        raise StateError(f"{count - len(good)} of {count} pieces are missing")
    return b"".join(part[_HEADER.size :] for part in good)


def _parsed(body: bytes, kind: int) -> Snapshot:
    try:
        text = zstandard.ZstdDecompressor().decompress(body) if kind == Kind.ZSTD else body
        found: Any = orjson.loads(text)
    except (zstandard.ZstdError, orjson.JSONDecodeError) as error:
        raise StateError(f"damaged: {error}") from error
    if not isinstance(found, dict):
        raise StateError("damaged: no JSON object")
    return found


def _slot(previous: bytes | None) -> int:
    if previous is None or offset_of(previous) < 0 or previous[1] != Kind.HEAD:
        return 1
    slot: int = _PIECE.unpack_from(previous, _HEADER.size)[0]
    return slot


def _piece_key(key: bytes, slot: int, number: int) -> bytes:
    return key[: _KEY.size] + b"\1" + _PIECE.pack(slot, number) + key[_KEY.size + 1 :]

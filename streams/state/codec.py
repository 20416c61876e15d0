"""Writes the state of a key to its changelog topic, and reads it back.

The header of a value (``state_record``) holds the offset of the last source record that the state covers,
so that a record is never applied twice and of two states the newer is known without reading them.

A body over 400 kB is split into pieces under keys of their own. They go to the broker before their head, into
the slot that the previous head does not use: a head always names pieces that are complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec
import zstandard

from streams.operators.base import Snapshot
from streams.state.record import (
    DIGEST_BYTES,
    FORMAT,
    HEADER_BYTES,
    BodyKind,
    Piece,
    Record,
    head_value,
    header_of,
    named_pieces,
    piece_key,
    slot_and_count,
    to_value,
    version_of,
)

_PLAIN_BYTES = 4_096
"""Below this, compression gains too little."""

Lookup = Callable[[bytes], bytes | None]
"""What a stage's changelog holds under a key."""


class StateError(ValueError):
    """Says why a stored state cannot be read."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Holds a state read back: ``offset`` is that of the last source record it covers, ``seen_ms`` what its
    partition's clock said then."""

    offset: int
    snapshot: Snapshot
    seen_ms: int = 0


@dataclass(frozen=True, slots=True)
class Packed:
    """Holds a state to be written: all ``pieces`` have to be on the broker before ``head`` is sent."""

    pieces: list[Record]
    head: Record


def to_bytes(snapshot: Any) -> bytes:
    """Return a snapshot as MessagePack. Raises ``TypeError`` if it is no plain data."""
    return msgspec.msgpack.encode(snapshot)


def from_bytes(raw: bytes) -> Any:
    """Return what ``to_bytes`` was given. Raises ``StateError`` for other bytes."""
    try:
        return msgspec.msgpack.decode(raw)
    except ValueError as error:  # msgspec's own, or of text that is no UTF-8
        raise StateError(f"damaged: {error}") from error


def pack(
    key: bytes,
    offset: int,
    snapshot: Snapshot,
    previous: bytes | None,
    seen_ms: int = 0,
    *,
    piece_bytes: int = 400_000,
) -> Packed:
    """Return the records that store ``snapshot`` under ``key``; ``previous`` is the key's value now, if any.

    Raises ``TypeError`` if the snapshot is no plain data.
    """
    body, kind = to_bytes(snapshot), BodyKind.PLAIN
    if len(body) > min(_PLAIN_BYTES, piece_bytes // 2):
        body, kind = zstandard.ZstdCompressor(level=1).compress(body), BodyKind.ZSTD
    if len(body) <= piece_bytes:
        return Packed([], (key, to_value(kind, offset, seen_ms, body)))
    used, _ = slot_and_count(previous) or (1, 0)  # of a damaged head, what it named is lost already
    slot, digest = 1 - used % 2, blake2b(body, digest_size=DIGEST_BYTES).digest()
    bodies = [body[at : at + piece_bytes] for at in range(0, len(body), piece_bytes)]
    pieces = [
        (piece_key(key, slot, number), to_value(BodyKind.PIECE, offset, seen_ms, digest + part))
        for number, part in enumerate(bodies)
    ]
    return Packed(pieces, (key, head_value(offset, seen_ms, digest, slot, len(pieces))))


def unpack(key: bytes, lookup: Lookup) -> Resumed | None:
    """Return the state stored under ``key``, None if there is none. Raises ``StateError`` if it cannot be
    read."""
    value = lookup(key)
    if value is None:
        return None
    header = header_of(value)
    if header is None:
        raise StateError(f"state of format {value[:1].hex() or 'none'}, this program reads {FORMAT:02x}")
    body, kind = value[HEADER_BYTES:], header.kind
    if kind == BodyKind.HEAD:
        if slot_and_count(value) is None:
            raise StateError(f"damaged: a head of {len(value)} bytes")
        keys = named_pieces(key, value)
        version = version_of(value)
        good = [part for piece in keys if (part := lookup(piece)) is not None and version_of(part) == version]
        if len(good) < len(keys):
            raise StateError(f"{len(keys) - len(good)} of {len(keys)} pieces are missing")
        joined = b"".join(part[HEADER_BYTES + DIGEST_BYTES :] for part in good)
        body, kind = joined, BodyKind.ZSTD
    try:
        plain = zstandard.ZstdDecompressor().decompress(body) if kind == BodyKind.ZSTD else body
    except zstandard.ZstdError as error:
        raise StateError(f"damaged: {error}") from error
    snapshot = from_bytes(plain)
    if not isinstance(snapshot, dict):
        raise StateError("damaged: no object")
    return Resumed(header.offset, snapshot, header.seen_ms)


def pieces_of(key: bytes, lookup: Lookup) -> list[bytes]:
    """Return the keys of all pieces that lie under ``key``, those of the slot that is not in use as well."""
    keys = []
    for slot in (0, 1):
        number = 0
        while lookup(piece_key(key, slot, number)) is not None:
            keys.append(piece_key(key, slot, number))
            number += 1
    return keys


def is_needed(piece: Piece, head: bytes | None) -> bool:
    """Tell whether the value ``head`` uses the piece, or will write over it when its state is stored next."""
    named = slot_and_count(head)
    return named is not None and piece.number < named[1]

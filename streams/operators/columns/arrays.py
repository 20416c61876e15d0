"""Holds what the banks share: types of arrays, arrays as bytes for snapshots, columns that come, go and move,
and where blocks of time begin."""

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Bytes = npt.NDArray[np.uint8]
T = TypeVar("T", bound=np.generic)

BEFORE_MS = 500
"""Blocks of time are counted from so much before the first tick: none begins at a tick, where jitter would
move that from one to another."""


def pack(array: npt.NDArray[Any]) -> bytes:
    """Return the array's bytes: exact for every float, NaN included.

    The first byte of all numbers comes before the second: what is alike lies together, and compresses better.
    """
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1, 1).view(np.uint8).T.tobytes()


def unpack(raw: bytes, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return the array that ``pack`` wrote. Raises ``ValueError`` if the bytes do not hold that shape."""
    kind = np.dtype(dtype).newbyteorder("<")
    planes = np.frombuffer(raw, np.uint8).reshape(kind.itemsize, -1)
    return np.array(np.ascontiguousarray(planes.T).view(kind).reshape(shape), dtype)


def bytes_of(raw: bytes) -> Bytes:
    """Return bytes for a compiled loop, which takes no array that is read-only."""
    return np.frombuffer(bytearray(raw), np.uint8)


def keep_once(array: npt.NDArray[T]) -> npt.NDArray[T]:
    """Return an equal array that is kept once, for all nodes whose columns are laid out alike. Nobody may
    write into it."""
    return _array_of(array.tobytes(), array.dtype, array.shape)


@lru_cache(maxsize=2048)
def _array_of(raw: bytes, dtype: np.dtype[T], shape: tuple[int, ...]) -> npt.NDArray[T]:
    return np.frombuffer(bytearray(raw), dtype).reshape(shape)


def remap(old: npt.NDArray[T], keep: Ints, fill: float) -> npt.NDArray[T]:
    """Return ``old`` with another last axis: column j is old column ``keep[j]``, or ``fill`` for -1."""
    new = np.full((*old.shape[:-1], keep.size), fill, dtype=old.dtype)
    kept = keep >= 0
    new[..., kept] = old[..., keep[kept]]
    return new


def check_version(snapshot: dict[str, Any], version: int, what: str) -> None:
    """Raises ``ValueError`` unless the snapshot is one of ``what`` in ``version``."""
    if snapshot.get("v") != version:
        raise ValueError(f"snapshot of {what}: version {snapshot.get('v')!r}, this program reads {version}")

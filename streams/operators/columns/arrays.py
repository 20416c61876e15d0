"""What the banks share: types of arrays, arrays as text for snapshots, and columns that come, go and move."""

import base64
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T", bound=np.generic)


def pack(array: npt.NDArray[Any]) -> str:
    """The array's raw little-endian bytes as base64: exact for every float, NaN included."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode("ascii")


def unpack(text: str, dtype: str, shape: tuple[int, ...]) -> npt.NDArray[Any]:
    """The array that ``pack`` wrote. Raises ``ValueError`` if the text does not hold that shape."""
    raw = np.frombuffer(base64.b64decode(text, validate=True), np.dtype(dtype).newbyteorder("<"))
    return raw.astype(dtype).reshape(shape)


def remap(old: npt.NDArray[T], keep: Ints, fill: float) -> npt.NDArray[T]:
    """``old`` with its last axis rearranged: column j is old column ``keep[j]``, or ``fill`` for -1."""
    new = np.full((*old.shape[:-1], keep.size), fill, dtype=old.dtype)
    kept = keep >= 0
    new[..., kept] = old[..., keep[kept]]
    return new


def check_version(snapshot: dict[str, Any], version: int, what: str) -> None:
    """Raises ``ValueError`` unless the snapshot is one of ``what`` in ``version``."""
    if snapshot.get("v") != version:
        raise ValueError(f"snapshot of {what}: version {snapshot.get('v')!r}, this program reads {version}")

"""Keeps the state of n series in arrays. Each array is declared once; how its columns are rearranged, stored
and restored follows from that.

    class Sums(SeriesState):
        _sums: Floats = array(2, "n")
        _since: Ints = array("n", 3, fill=-1, dtype=np.int64)
"""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Ints, pack, unpack


class _Array(NamedTuple):
    """Holds what is declared of an array. In its ``shape`` a name is that of an attribute; ``n``: the
    series."""

    shape: tuple[int | str, ...]
    fill: Any
    dtype: npt.DTypeLike

    def new(self, state: "SeriesState") -> npt.NDArray[Any]:
        """Return one in which nothing has happened yet."""
        shape = tuple(getattr(state, size) if isinstance(size, str) else size for size in self.shape)
        return np.full(shape, self.fill, self.dtype)


def array(*shape: int | str, fill: Any = 0.0, dtype: npt.DTypeLike = np.float64) -> Any:
    """Declare an array of this shape, in which ``"n"``, first or last, is the number of series, and another
    name that of an attribute of its object. ``fill`` is what a new series has, perhaps one for each row."""
    return _Array(shape, fill, dtype)


class SeriesState:
    """Keeps state in the arrays that a subclass declares. Attributes of which shapes are made are set before
    ``__init__``. In a snapshot an array has its attribute's name, less a leading underscore."""

    _arrays: ClassVar[dict[str, _Array]] = {}

    def __init_subclass__(cls) -> None:
        declared = {name: value for name, value in vars(cls).items() if isinstance(value, _Array)}
        cls._arrays = cls._arrays | declared

    def __init__(self, n: int) -> None:
        self.n = n
        self.begin()

    def begin(self) -> None:
        """Forget everything."""
        for name, declared in self._arrays.items():
            setattr(self, name, declared.new(self))

    def resize(self, keep: Ints) -> None:
        """Rearrange the series: number j goes on from old number ``keep[j]``, -1 is a new one."""
        self.n = keep.size
        kept = keep >= 0
        for name, declared in self._arrays.items():
            old, new = getattr(self, name), declared.new(self)
            if declared.shape[-1] == "n":
                new[..., kept] = old[..., keep[kept]]
            else:
                new[kept] = old[keep[kept]]
            setattr(self, name, new)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data from which ``restore`` goes on bit for bit."""
        return {name.lstrip("_"): pack(getattr(self, name)) for name in self._arrays}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of as many series. Raises ``ValueError`` for one of another shape."""
        for name, declared in self._arrays.items():
            shape = getattr(self, name).shape
            setattr(self, name, unpack(plain[name.lstrip("_")], declared.dtype, shape))

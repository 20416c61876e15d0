"""Arrays as bytes of a snapshot: exact, whatever lies in them."""

import numpy as np
import pytest

from streams.operators.columns.arrays import keep_once, pack, unpack

CHANCE = np.random.default_rng(0)
ODD = np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1.7e308])


@pytest.mark.parametrize("dtype", ["f8", "f4", "u2", "i8"])
@pytest.mark.parametrize(
    "shape", [(0,), (0, 5), (5, 0), (3,), (1, 1), (7, 3), (80, 91), (600, 24), (5, 6, 9)]
)
def test_an_array_comes_back_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    array = CHANCE.integers(0, 60_000, shape).astype(dtype)
    back = unpack(pack(array), dtype, shape)
    assert back.dtype == array.dtype
    assert back.shape == shape
    assert back.tobytes() == array.tobytes()
    assert back.flags.writeable, "an operator goes on with it"
    assert unpack(pack(array), dtype, (array.size,)).tobytes() == array.tobytes(), "in another shape as well"


def test_what_is_no_number_comes_back_bit_for_bit() -> None:
    array = np.tile(ODD, (64, 3))
    assert unpack(pack(array), "f8", array.shape).tobytes() == array.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
def test_how_an_array_lies_in_memory_makes_no_difference(order: str) -> None:
    array = CHANCE.random((80, 91))
    assert pack(np.array(array, order="C" if order == "C" else "F")) == pack(array)
    assert pack(np.repeat(array, 2, axis=1)[:, ::2]) == pack(array)


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(pack(np.zeros((80, 91)))[:-8], id="cut off"),
        pytest.param(b"x" + pack(np.zeros((80, 91))), id="something in front"),
        pytest.param(pack(np.zeros((80, 90))), id="fewer columns"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - numpy's words
        unpack(raw, "f8", (80, 91))


@pytest.mark.parametrize("array", [np.arange(6).reshape(2, 3), np.zeros((0, 4)), np.tile(ODD, (3, 1))])
def test_what_is_alike_for_several_nodes_is_kept_once(array: np.ndarray) -> None:
    kept = keep_once(array)
    assert kept is keep_once(array.copy())
    assert (kept.tobytes(), kept.dtype, kept.shape) == (array.tobytes(), array.dtype, array.shape)
    assert kept.flags.writeable, "compiled loops take no other"
    others = array.ravel(), array.view("M8[s]"), np.append(array, array, axis=0)[1:]
    assert all(keep_once(other) is not kept for other in others if other.size)

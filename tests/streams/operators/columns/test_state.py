"""Arrays that are declared once: new, rearranged, stored and restored."""

import numpy as np
import pytest

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.state import SeriesState, array


class Seen(SeriesState):
    """An array of each kind: series last, series first, a size that is known late, a fill for each row."""

    _sums: Floats = array(2, "n", fill=np.array([[0.0], [np.nan]]))
    places: Ints = array("n", "slots", fill=-1, dtype=np.int64)

    def __init__(self, n: int, slots: int) -> None:
        self.slots = slots
        super().__init__(n)


def test_new_moved_and_ended_series() -> None:
    seen = Seen(2, 3)
    seen._sums[:] = [[1.0, 2.0], [3.0, 4.0]]
    seen.places[:] = [[10, 11, 12], [20, 21, 22]]
    seen.resize(np.array([-1, 1]))
    np.testing.assert_array_equal(seen._sums, [[0.0, 2.0], [np.nan, 4.0]])
    np.testing.assert_array_equal(seen.places, [[-1, -1, -1], [20, 21, 22]])
    assert seen.n == 2
    assert seen.places.flags.c_contiguous


def test_a_snapshot_is_named_by_attributes_and_gives_the_same_bits() -> None:
    seen, again = Seen(2, 3), Seen(2, 3)
    seen._sums[:] = [[0.1, np.nan], [-0.0, np.inf]]
    seen.places[1] = 7
    plain = seen.snapshot()
    assert list(plain) == ["sums", "places"]
    again.restore(plain)
    assert again.snapshot() == plain
    assert again._sums.tobytes() == seen._sums.tobytes()
    again.begin()
    assert again.snapshot() == Seen(2, 3).snapshot() != plain


def test_a_snapshot_of_another_number_of_series_is_refused() -> None:
    with pytest.raises(ValueError, match="reshape"):
        Seen(3, 3).restore(Seen(2, 3).snapshot())

"""Snapshots of older versions: step by step to today's, or refused by name."""

from typing import Any

import pytest

from streams.operators.migration import Step, migrated

STEPS: dict[int, Step] = {
    1: lambda plain: {**plain, "b": plain["a"] * 2},
    2: lambda plain: {"v": 2, "c": plain["a"] + plain["b"]},
}


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        pytest.param({"v": 1, "a": 5}, {"v": 3, "c": 15}, id="two steps"),
        pytest.param({"v": 2, "a": 5, "b": 1}, {"v": 3, "c": 6}, id="one step"),
        pytest.param({"v": 3, "c": 7}, {"v": 3, "c": 7}, id="today's"),
    ],
)
def test_older_snapshots(snapshot: dict[str, Any], expected: dict[str, Any]) -> None:
    before = dict(snapshot)
    assert migrated(snapshot, 3, "a toy", STEPS) == expected
    assert snapshot == before, "the one that was given is as it was"


@pytest.mark.parametrize(
    "snapshot",
    [
        pytest.param({"v": 4, "c": 7}, id="newer"),
        pytest.param({"v": 0, "a": 7}, id="older than any step"),
        pytest.param({"v": "1", "a": 7}, id="no number"),
        pytest.param({"v": True, "a": 7}, id="no integer"),
        pytest.param({"a": 7}, id="none"),
    ],
)
def test_what_has_no_way(snapshot: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="snapshot of a toy: version"):
        migrated(snapshot, 3, "a toy", STEPS)

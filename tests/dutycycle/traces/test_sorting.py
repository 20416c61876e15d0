"""Records in any order become one order, however they are cut into runs."""

from pathlib import Path

import pytest

from dutycycle.contract.trace import TraceRecord
from dutycycle.traces.sorting import Sorting


@pytest.mark.parametrize(("run_bytes", "runs"), [(1, 89), (20, 9), (1_000_000, 1)])
def test_the_order_is_that_of_time_then_of_topics(tmp_path: Path, run_bytes: int, runs: int) -> None:
    expected = [
        TraceRecord(topic=f"t.{topic}", key="a", payload=b"{}", offset=2 * ts_ms + copy, ts_ms=ts_ms)
        for ts_ms in range(1, 12)
        for topic in ("pods", "nvml-samples", "cgroup-samples", "cuda-samples")
        for copy in range(2)
    ]
    mixed = sorted(expected, key=lambda one: (one.offset or 0) * 7919 % 101)
    assert mixed != expected
    sorting = Sorting(tmp_path, "t.", run_bytes)
    for one in mixed:
        sorting.add(one)
    assert sorting.count == len(expected)
    assert list(sorting.merged()) == expected
    assert len(list(tmp_path.iterdir())) == runs, "what is in memory together is bounded"


def test_of_nothing_there_is_nothing(tmp_path: Path) -> None:
    assert list(Sorting(tmp_path, "t.").merged()) == []

"""The tables of ``nsys stats``: columns, units and figures."""

import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.profile.profile import read
from dutycycle.profile.statistics import Spread, _spread, rounded
from tests.support.data.profiled import Program, write_export


def spread(values: list[int]) -> Spread:
    counted = sorted((value, values.count(value)) for value in set(values))
    return _spread("one", len(values), iter(("one", value, count) for value, count in counted))


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40))
def test_a_spread_is_that_of_the_values(values: list[int]) -> None:
    found = spread(values)
    assert (found.total, found.count) == (sum(values), len(values))
    assert (found.low, found.high, found.median) == (min(values), max(values), statistics.median(values))
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    assert found.deviation == pytest.approx(deviation, rel=1e-9)


def test_figures_are_those_that_nvidia_prints() -> None:
    """Two copies of 1,024 and 1,408 ns: ``1,216.0 1,216.0 1,024 1,408 271.5`` in a published run."""
    assert spread([1024, 1408]).times() == (1216.0, 1216.0, 1024, 1408, 271.5)


def test_a_half_is_rounded_up_as_by_sqlite() -> None:
    assert [rounded(value, 1) for value in (0.25, 0.35, 1239.25)] == [0.3, 0.4, 1239.3]


def test_all_summaries_have_the_columns_of_nsys_stats(tmp_path: Path) -> None:
    program = Program()
    program.works(3_000, "step")
    for lasts in (100, 300, 800):
        program.launch("a(int)", lasts)
    program.launch("b", 600)
    program.copy("HtoD", 1_500_000, 200)
    program.copy("HtoD", 500_000, 100)
    program.copy("DtoH", 4, 50, "Device")
    tables = {one.title: one for one in read(write_export(program, tmp_path / "e.sqlite")).tables}
    times = ("Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)", "StdDev (ns)")
    sizes = ("Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)", "StdDev (MB)")
    kernels = tables["CUDA GPU Kernel Summary"]
    assert kernels.columns == ("Time (%)", "Total Time (ns)", "Instances", *times, "Name")
    assert kernels.rows == [
        (66.7, 1200, 3, 400.0, 300.0, 100, 800, 360.6, "a(int)"),
        (33.3, 600, 1, 600.0, 600.0, 600, 600, 0.0, "b"),
    ]
    calls = tables["CUDA API Summary"]
    assert calls.columns == ("Time (%)", "Total Time (ns)", "Num Calls", *times, "Name")
    assert calls.rows == [
        (57.1, 20_000, 4, 5000.0, 5000.0, 5000, 5000, 0.0, "cudaLaunchKernel"),
        (42.9, 15_000, 3, 5000.0, 5000.0, 5000, 5000, 0.0, "cudaMemcpyAsync"),
    ]
    by_time = tables["CUDA GPU MemOps Summary (by Time)"]
    assert by_time.columns == ("Time (%)", "Total Time (ns)", "Count", *times, "Operation")
    assert by_time.rows == [
        (85.7, 300, 2, 150.0, 150.0, 100, 200, 70.7, "[CUDA memcpy Host-to-Device]"),
        (14.3, 50, 1, 50.0, 50.0, 50, 50, 0.0, "[CUDA memcpy Device-to-Host]"),
    ]
    by_size = tables["CUDA GPU MemOps Summary (by Size)"]
    assert by_size.columns == ("Total (MB)", "Count", *sizes, "Operation")
    assert by_size.rows[0] == (2.0, 2, 1.0, 1.0, 0.5, 1.5, 0.707, "[CUDA memcpy Host-to-Device]")
    ranges = tables["NVTX Range Summary"]
    assert ranges.columns == ("Time (%)", "Total Time (ns)", "Instances", *times, "Style", "Range")
    assert ranges.rows == [(100.0, 3000, 1, 3000.0, 3000.0, 3000, 3000, 0.0, "PushPop", "step")]

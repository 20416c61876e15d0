"""Where the time of a GPU goes: every nanosecond once."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dutycycle.profile.export import Export
from dutycycle.profile.timeline import GpuTime, ProfileTimeline
from tests.support.data.profiled import ALL_REDUCE, GEMM, LOADER, MS, US, Program, write_export
from tests.support.examples import examples


def gpu_of(program: Program, folder: Path) -> GpuTime:
    path = folder / "export.sqlite"
    path.unlink(missing_ok=True)
    export, timeline = Export(write_export(program, path), lambda _: None), ProfileTimeline()
    timeline.read(export)
    export.close()
    return timeline.gpus[0]


def late_after(host: Callable[[Program], None]) -> Program:
    """A kernel, then what the host does, then a copy of a megabyte and a kernel."""
    program = Program()
    program.launch(GEMM, 100 * US)
    program.synchronize()
    host(program)
    program.copy("HtoD", 1 << 20, 10 * US)
    program.launch(GEMM, 100 * US)
    return program


@pytest.mark.parametrize(
    ("cause", "host"),
    [
        ("synchronization", lambda program: program.works(200 * US)),
        ("input", lambda program: program.works(3 * MS)),
        ("input", lambda program: program.works(200 * US, LOADER)),
        ("input", lambda program: program.works(200 * US, "data_loading")),
    ],
)
def test_the_cause_of_a_wait_is_what_the_host_did(
    tmp_path: Path, cause: str, host: Callable[[Program], None]
) -> None:
    gpu = gpu_of(late_after(host), tmp_path)
    assert {name for name, lasted in gpu.waits.items() if lasted} == {cause}
    assert sum(gpu.shares().values()) == gpu.span
    assert gpu.longest[0] == gpu.waits[cause]


def test_a_host_that_only_launches_is_slow_at_that(tmp_path: Path) -> None:
    program = Program()
    for _ in range(10):
        program.works(20 * US)
        program.launch(GEMM, 5 * US)
    gpu = gpu_of(program, tmp_path)
    assert gpu.waits == {"launch": 9 * 20 * US}
    assert gpu.late == 9


def test_a_launch_that_goes_on_while_the_gpu_is_idle_is_slow(tmp_path: Path) -> None:
    """It had begun before the GPU was idle: the call takes 5 µs, and the kernel before it 4."""
    program = Program()
    for _ in range(10):
        program.launch(GEMM, 4 * US)
    assert gpu_of(program, tmp_path).waits == {"launch": 9 * US}


def test_a_copy_that_had_to_wait_for_the_queue_was_not_late(tmp_path: Path) -> None:
    """The call of a pageable copy lasts until the copy is done."""
    program = Program()
    program.launch(GEMM, 100 * US)
    program.free[0] += 3 * US
    program.copy("HtoD", 1 << 20, 10 * US, "Pageable")
    start, _, correlation, name = program.calls[-1]
    program.calls[-1] = (start, program.free[0], correlation, name)
    assert gpu_of(program, tmp_path).waits == {"queued": 3 * US}


def test_a_host_that_is_late_for_no_reason_that_is_seen_does_something_else(tmp_path: Path) -> None:
    program = Program()
    program.launch(GEMM, 5 * US)
    program.works(4 * MS, "evaluate")
    program.launch(GEMM, 5 * US)
    assert gpu_of(program, tmp_path).waits == {"host": 4 * MS}


def test_what_was_on_the_queue_in_time_has_waited_there(tmp_path: Path) -> None:
    program = Program()
    program.launch(GEMM, 100 * US)
    program.free[0] += 30 * US  # an event of another stream, say
    program.launch(GEMM, 100 * US)
    assert gpu_of(program, tmp_path).waits == {"queued": 30 * US}


def test_a_launch_that_was_not_traced_explains_nothing(tmp_path: Path) -> None:
    program = late_after(lambda program: program.works(3 * MS))
    program.calls = []
    assert set(gpu_of(program, tmp_path).waits) == {"unexplained"}


def test_what_computation_hides_costs_nothing(tmp_path: Path) -> None:
    """A copy and an all-reduce beside a kernel, on streams of their own; each is longer by 10 µs."""
    program = Program()
    start = program.now + 5 * US
    for name, lasts in ((GEMM, 100 * US), (ALL_REDUCE, 110 * US)):
        program.free.clear()
        program.launch(name, lasts)
        program.now = start - 5 * US
    program.free.clear()
    program.copy("HtoD", 1 << 20, 120 * US)
    gpu = gpu_of(program, tmp_path)
    shares = {name: lasted for name, lasted in gpu.shares().items() if lasted}
    assert shares == {"compute": 100 * US, "communication": 10 * US, "copies_to_gpu": 10 * US}
    assert gpu.overlapped == 110 * US


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from([GEMM, ALL_REDUCE, "HtoD", "DtoH"]), st.integers(0, 60), st.integers(1, 30)
        ),
        min_size=1,
        max_size=12,
    )
)
def test_parts_are_those_of_a_count_of_every_nanosecond(
    tmp_path: Path, activities: list[tuple[str, int, int]]
) -> None:
    program = Program()
    sorts: dict[int, int] = {}
    for place, (name, start, lasts) in enumerate(activities):
        sort = (GEMM, ALL_REDUCE, "HtoD", "DtoH").index(name)
        if sort < 2:
            program.kernels.append((start, start + lasts, 0, place, name))
        else:
            program.copies.append((start, start + lasts, 0, place, 8, name, "Pinned"))
        for moment in range(start, start + lasts):
            sorts[moment] = min(sort, sorts.get(moment, sort))
    gpu = gpu_of(program, tmp_path)
    counted = [sum(one == sort for one in sorts.values()) for sort in range(4)]
    names = ("compute", "communication", "copies_to_gpu", "copies_from_gpu")
    assert [gpu.shares()[name] for name in names] == counted
    assert sum(gpu.shares().values()) == gpu.span == max(sorts) + 1 - min(sorts)

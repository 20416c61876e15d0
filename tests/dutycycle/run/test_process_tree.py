"""Which processes are the command's, and what they use together, from a folder that looks like /proc."""

import os
from pathlib import Path

import pytest

from dutycycle.run.collector import GivenGpus, pod_of, visible_gpus
from dutycycle.run.process_tree import ProcessTree

_TICKS, _PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
US = 10


def process(
    proc: Path, pid: int, parent: int, *, ticks: tuple[int, int, int, int] = (0, 0, 0, 0),
    pages: tuple[int, int] = (0, 0), moved: tuple[int, int] | None = (0, 0), name: str = "python",
) -> None:  # fmt: skip
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    before = " ".join(["S", str(parent)] + ["0"] * 9)
    (folder / "stat").write_text(f"{pid} ({name}) {before} {' '.join(map(str, ticks))} 20 0 1 0\n")
    (folder / "statm").write_text(f"900 {pages[0]} {pages[1]} 1 0 5 0\n")
    if moved is not None:
        (folder / "io").write_text(f"rchar: 1\nread_bytes: {moved[0]}\nwrite_bytes: {moved[1]}\n")


def test_the_tree_is_what_we_started_and_its_orphans(tmp_path: Path) -> None:
    process(tmp_path, 1, 0)
    process(tmp_path, US, 1)
    process(tmp_path, 20, US, ticks=(100, 50, 25, 5), pages=(40, 10), moved=(1000, 7))
    process(tmp_path, 21, 20, ticks=(10, 0, 0, 0), pages=(30, 25), moved=(1, 0), name="a) b (c")
    process(tmp_path, 22, US, ticks=(1, 0, 0, 0))  # its parent has ended
    process(tmp_path, 30, 1, ticks=(999, 0, 0, 0), pages=(500, 0), moved=(9, 9))
    use = ProcessTree(US, str(tmp_path)).read()
    assert use is not None
    assert use.pids == {20, 21, 22}
    assert use.cpu_s == pytest.approx(191 / _TICKS)
    assert use.mem_bytes == (30 + 5 + 25) * _PAGE  # what is shared counts once
    assert (use.read_bytes, use.written_bytes) == (1001, 7)


def test_io_that_may_not_be_read_is_absent_and_not_zero(tmp_path: Path) -> None:
    process(tmp_path, 20, US, moved=None)
    use = ProcessTree(US, str(tmp_path)).read()
    assert use is not None
    assert (use.read_bytes, use.written_bytes) == (None, None)


def test_when_all_have_ended_there_is_nothing(tmp_path: Path) -> None:
    process(tmp_path, US, 1)
    assert ProcessTree(US, str(tmp_path)).read() is None


@pytest.mark.parametrize(
    ("text", "visible"),
    [
        (None, None),
        ("", set()),
        ("-1", set()),
        ("0", {"0"}),
        ("0, 3", {"0", "3"}),
        ("1,-1,2", {"1"}),  # CUDA looks no further
        ("GPU-4711,MIG-1", {"GPU-4711", "MIG-1"}),
        ("NoDevFiles", set()),
    ],
)
def test_visible_gpus(text: str | None, visible: set[str] | None) -> None:
    assert visible_gpus(text) == visible


@pytest.mark.parametrize(
    ("text", "slices"),
    [(None, [None]), ("0", [None]), ("GPU-a", [None]), ("MIG-1", ["MIG-1"]), ("1", []), ("MIG-7", [])],
)
def test_what_is_the_commands(text: str | None, slices: list[str | None]) -> None:
    """Of a GPU with two MIG slices."""
    given = GivenGpus(pod_of(["train"], "a", 7, 0), visible_gpus(text))
    held = given.of("GPU-a", 0, {"MIG-1": 1, "MIG-2": 2})
    assert [(allocation.pod, allocation.mig) for allocation in held] == [("train", mig) for mig in slices]


def test_a_run_is_named_as_it_was_typed() -> None:
    pod = pod_of(["/usr/bin/python", "train.py", "--note", "a\nb"], "gpu-a", 7, 5)
    assert (pod.namespace, pod.name, pod.phase) == ("run", "python train.py --note a?b", "Running")
    assert len(pod_of(["x" * 500], "gpu-a", 7, 5).name) == 80

"""Goal: what real processes run, by the kernel's own files; nothing else of their environment; bounded."""

from pathlib import Path

import msgspec
import psutil

from collectors.process.software import Processes
from dutycycle.contract.records.processes import Package, Software
from tests.collectors.process.conftest import LOADS, WAITS, Start

PROC = Path("/proc")
LAUNCHES = """
import subprocess, sys
child = subprocess.Popen([sys.executable, sys.argv[1], *sys.argv[2:]])
child.wait()
"""
FORKS = """
import multiprocessing, os, sys, time
def work(name, ready):
    if name:
        open("/proc/self/comm", "w").write(name)
    ready.release()
    time.sleep(60)
context = multiprocessing.get_context(sys.argv[1])
if __name__ == "__main__":
    ready = context.Semaphore(0)
    workers = [context.Process(target=work, args=(sys.argv[2], ready), daemon=True) for _ in range(3)]
    for one in workers: one.start()
    for one in workers: ready.acquire()
"""


def software(pid: int) -> Software:
    found = Processes(PROC).software(pid, frozenset({pid}))
    assert found is not None
    return found


def test_libraries_of_a_real_process(site: Path, start: Start) -> None:
    libraries = sorted(site.rglob("*.so*"))
    child = start(LOADS + WAITS, *libraries, RANK="2", WORLD_SIZE="4", MASTER_ADDR="node-0", TOKEN="hunter2")
    found = software(child.pid)
    assert found.frameworks == (Package(name="torch", version="2.4.0"),)
    assert (found.cuda, found.nccl) == ("12.4.127", "2.20.5")
    assert found.python is not None
    assert (found.rank, found.world_size, found.master_addr) == (2, 4, "node-0")
    assert (found.data_workers, found.unreadable) == (0, None)
    assert b"hunter2" not in msgspec.json.encode(found)


def test_a_launcher_above_a_real_process(start: Start, tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text("import sys\n" + WAITS)
    launcher = start(LAUNCHES, "rank.py", name="torchrun")
    below = [child.pid for child in psutil.Process(launcher.pid).children()]
    assert len(below) == 1
    assert software(below[0]).launcher == "torchrun"
    assert software(launcher.pid).launcher != "torchrun"


def test_workers_of_a_real_process_by_their_command(start: Start) -> None:
    for method in ("fork", "spawn", "forkserver"):
        child = start(FORKS + "    " + WAITS.strip(), method, "")
        found = software(child.pid)
        assert (found.data_workers, found.data_workers_by) == (3, "command"), method


def test_workers_of_a_real_process_by_the_name_that_pytorch_gives(start: Start) -> None:
    child = start(FORKS + "    " + WAITS.strip(), "fork", "pt_data_worker")
    found = software(child.pid)
    assert (found.data_workers, found.data_workers_by) == (3, "name")


def test_a_process_that_has_ended(start: Start) -> None:
    child = start("import sys\n" + WAITS)
    processes = Processes(PROC)
    child.communicate()
    assert processes.software(child.pid, frozenset()) is None


def test_files_without_end_are_read_to_a_limit(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "stat").write_text("7 (a) b) S 1 7 7")
    (folder / "cmdline").write_bytes(b"python\0train.py\0")
    (folder / "environ").write_bytes(b"X=" + b"x" * 300_000 + b"\0RANK=1\0")
    (folder / "maps").write_text("1-2 r-xp 0 0:0 1 /a/site-packages/torch/lib/libtorch.so\n" * 200_000)
    found = Processes(tmp_path).software(7, frozenset())
    assert found is not None
    assert found.frameworks == (Package(name="torch"),)
    assert found.rank is None  # beyond what is read
    assert Processes(tmp_path).name(7) == "a) b"

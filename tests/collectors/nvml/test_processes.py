"""The processes of a GPU: merged from three lists, named, attributed, and idle only where that is known."""

import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import Attribution, printable
from collectors.nvml.processes import ProcessIdentities, ProcessUtilizations, memory_by_pid
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import ProcessUtilization, RunningProcess
from dutycycle.contract.records.samples import GpuProcess
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry
from tests.support.fakes.nvml.probe import Answer, Probe
from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Scenario
from tests.support.processes.open_files import open_files
from tests.support.waiting import wait_until

SLEEPER = (sys.executable, "-c", "import time; time.sleep(60)")
"""A process of its own that needs no program of PATH."""
WHOLE = (0xFFFFFFFF, 0xFFFFFFFF)
SHARES = ["nvmlDeviceGetProcessUtilization"]


def world(*processes: FakeProcess, errors: dict[str, str] | None = None) -> Scenario:
    return Scenario(
        gpus=[FakeGpu(uuid="GPU-a", values={"util": 50}, processes=processes, errors=errors or {})]
    )


def by_pid(answer: Answer) -> dict[int, GpuProcess]:
    return {one.pid: one for one in answer.gpu.processes or ()}


def host(folder: Path, **names: bytes) -> Path:
    for pid, name in names.items():
        comm = folder / "proc" / pid.removeprefix("pid") / "comm"
        comm.parent.mkdir(parents=True)
        comm.write_bytes(name)
    return folder


def test_everything_that_is_known_of_a_process(tmp_path: Path) -> None:
    process = FakeProcess(pid=4711, util=95, mem_util=40, mem=2e9)
    root = host(tmp_path / "host", pid4711=b"python\n")
    with Probe(tmp_path, world(process), pods={4711: ("uid-1", "c1")}, host_root=root) as probe:
        found = probe.tick().gpu.processes
    assert found == (
        GpuProcess(
            pid=4711, pod_uid="uid-1", container_id="c1", name="python", gpu_util_pct=95,
            mem_copy_util_pct=40, mem_used_bytes=2_000_000_000,
        ),
    )  # fmt: skip


def test_what_is_not_known_is_absent_and_not_idle(tmp_path: Path) -> None:
    with Probe(tmp_path, world(FakeProcess(pid=4711, util=95, mem=None))) as probe:
        found = probe.tick().gpu.processes
    assert found == (GpuProcess(pid=4711, gpu_util_pct=95, mem_copy_util_pct=0),)


@pytest.mark.parametrize("mem", [1.5e19, 1e13])
def test_a_process_has_no_more_memory_than_its_gpu(tmp_path: Path, mem: float) -> None:
    """A record with 2^63 bytes and more would be refused with all GPUs of the node."""
    with Probe(tmp_path, world(FakeProcess(pid=1, mem=mem), FakeProcess(pid=2, mem=2e9))) as probe:
        answer = probe.tick()
    held = {process.pid: process.mem_used_bytes for process in answer.gpu.processes or ()}
    assert held == {1: None, 2: 2_000_000_000}
    assert answer.counts["not_measured", ("process_memory", "out_of_range")] == 1


def test_processes_of_all_lists_are_merged(tmp_path: Path) -> None:
    processes = [
        FakeProcess(pid=4, util=10, mem=4e9),
        FakeProcess(pid=3, util=20, mem=3e9, kind="graphics"),
        FakeProcess(pid=2, util=30, mem=2e9, kind="both"),
        FakeProcess(pid=1, util=40, kind="none"),
        FakeProcess(pid=5, util=0, mem=5e9),
    ]
    with Probe(tmp_path, world(*processes)) as probe:
        found = probe.tick().gpu.processes or ()
    assert [(one.pid, one.gpu_util_pct, one.mem_used_bytes) for one in found] == [
        (1, 40, None), (2, 30, 2_000_000_000), (3, 20, 3_000_000_000), (4, 10, 4_000_000_000),
        (5, 0, 5_000_000_000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("clients", "told"),
    [((), None), ((FakeProcess(pid=2, mem=2e9), FakeProcess(pid=3, util=7, mem=3e9)), [(2, None), (3, 7)])],
    ids=["as the driver lists the server alone", "as it lists clients, too"],
)
def test_a_server_of_mps_is_nobodys_and_its_clients_are_not_idle(
    clients: tuple[FakeProcess, ...], told: list[tuple[int, float | None]] | None, tmp_path: Path
) -> None:
    """What it does is the work of clients in other pods; its own pod does nothing."""
    root = host(tmp_path / "host", pid1=b"nvidia-cuda-mps\n", pid2=b"python\n", pid3=b"python\n")
    scenario = world(FakeProcess(pid=1, util=90, mem=3e7), *clients)
    with Probe(tmp_path, scenario, pods={1: ("mps-control", "c")}, host_root=root) as probe:
        listed = probe.tick().gpu.processes
    assert (listed and [(process.pid, process.gpu_util_pct) for process in listed]) == told


def test_a_driver_whose_rows_are_longer(tmp_path: Path) -> None:
    processes = [FakeProcess(pid=pid, mem=pid * 1e9, util=pid) for pid in (7, 8, 9)]
    scenario = Scenario(driver="535.54.03", gpus=[FakeGpu(uuid="GPU-a", processes=processes)])
    with Probe(tmp_path, scenario) as probe:
        listed = probe.tick().gpu.processes or ()
    assert [(one.pid, one.mem_used_bytes) for one in listed] == [(7, 7e9), (8, 8e9), (9, 9e9)]


OLDER = [f"nvmlDeviceGet{kind}RunningProcesses_v2" for kind in ("Compute", "Graphics")]
NEWER = [name.replace("_v2", "_v3") for name in OLDER]


@pytest.mark.parametrize(
    ("without", "code", "pids"),
    [
        (NEWER, "", [3, 5]), (OLDER, "", [3, 5]), ([*OLDER, *NEWER], "", None), ([], "NOT_SUPPORTED", None),
        ([], "TIMEOUT", None),
    ],
    ids=["before R510", "without the older", "before R450", "not supported", "once"],
)  # fmt: skip
def test_a_gpu_whose_processes_cannot_be_listed_is_not_free(
    without: list[str], code: str, pids: list[int] | None, tmp_path: Path
) -> None:
    processes = [FakeProcess(pid=5, mem=5e9), FakeProcess(pid=3, mem=3e9, kind="graphics")]
    errors = {name: code for name in [*OLDER, *NEWER] if code and "Compute" in name}
    gpu = FakeGpu(uuid="GPU-a", processes=processes if not code else processes[:1], errors=errors)
    with Probe(tmp_path, Scenario(gpus=[gpu]), without=without) as probe:
        listed = [probe.tick().gpu.processes for _ in range(2)][-1]
    assert (listed and [process.pid for process in listed]) == pids


def test_the_first_graphics_process_is_found_ten_ticks_later_at_most(tmp_path: Path) -> None:
    compute, graphics = FakeProcess(pid=5, mem=5e9), FakeProcess(pid=3, mem=3e9, kind="graphics")
    name = "nvmlDeviceGetGraphicsRunningProcesses_v2"
    with Probe(tmp_path, world(compute)) as probe:
        asked = [probe.tick(calls=[name]).calls[name] for _ in range(15)]
        probe.world(world(compute, graphics))
        came = [len(probe.tick().gpu.processes or ()) for _ in range(10)]
        probe.world(world(compute))
        gone = probe.tick().gpu.processes or ()
    assert (asked[0], asked[-1]) == (1, 2), "of 15 ticks in two, while there is none"
    assert (came[0], came[-1]) == (1, 2)
    assert [process.pid for process in gone] == [5], "at once, while there is one"


def test_a_process_on_two_gpus_is_in_both(tmp_path: Path) -> None:
    gpus = [
        FakeGpu(uuid=f"GPU-{n}", values={"util": n}, processes=[FakeProcess(pid=7, util=n)]) for n in (20, 30)
    ]
    with Probe(tmp_path, Scenario(gpus=gpus), pods={7: ("uid-7", "c7")}) as probe:
        found = probe.tick().gpus
    assert [(p.pod_uid, p.gpu_util_pct) for gpu in found.values() for p in gpu.processes or ()] == [
        ("uid-7", 20),
        ("uid-7", 30),
    ]


def test_processes_come_and_go(tmp_path: Path) -> None:
    seen = []
    with Probe(tmp_path, world()) as probe:
        for pids in ([], [1], [1, 2], [2, 3], [3], []):
            probe.world(world(*(FakeProcess(pid=pid) for pid in pids)))
            seen.append(list(by_pid(probe.tick())))
    assert seen == [[], [1], [1, 2], [2, 3], [3], []]


def test_utilization_is_asked_once_a_tick_and_from_the_last_time_on(tmp_path: Path) -> None:
    processes = [FakeProcess(pid=pid, util=30) for pid in (1, 2, 3)]
    with Probe(tmp_path, world(*processes)) as probe:
        first = probe.tick(calls=SHARES)
        # Nothing new since: a busy process is not called idle for that, and not given the old figure.
        again = probe.tick(calls=SHARES)
    assert {pid: one.gpu_util_pct for pid, one in by_pid(first).items()} == {1: 30, 2: 30, 3: 30}
    assert {one.gpu_util_pct for one in by_pid(again).values()} <= {None, 30}
    assert again.calls[SHARES[0]] - first.calls[SHARES[0]] == 1


@pytest.mark.parametrize("clock", ["wall", "boot", "-1699000000"])
def test_a_process_that_works_and_stops(tmp_path: Path, clock: str) -> None:
    def working(util: int) -> Scenario:
        return replace(world(FakeProcess(pid=1, util=util)), clock=clock)

    def wait_for(probe: Probe, wanted: float) -> set[float | None]:
        deadline, seen = time.monotonic() + 120, set[float | None]()
        while wanted not in seen and time.monotonic() < deadline:
            time.sleep(0.1)
            seen.add(by_pid(probe.tick(interval_ms=100))[1].gpu_util_pct)
        return seen

    with Probe(tmp_path, working(80)) as probe:
        first = by_pid(probe.tick())[1].gpu_util_pct
        busy = wait_for(probe, 80)
        probe.world(working(0))
        idle = wait_for(probe, 0)
    # Between two of the driver's samples, and before its clock is known, a process is unknown: never idle.
    assert first in ({None} if clock.startswith("-") else {80})
    assert busy <= {None, 80}
    assert 80 in busy
    assert 0 in idle


def test_shares_from_long_before_the_start_are_not_taken(tmp_path: Path) -> None:
    # The driver remembers nine seconds; this one worked until five seconds before the first tick.
    began = time.time() - 100
    gone = FakeProcess(pid=1, util=80, until_s=95.0)
    gpu = FakeGpu(uuid="GPU-a", values={"util": 50}, processes=[gone, FakeProcess(pid=2, util=10)])
    with Probe(tmp_path, Scenario(gpus=[gpu], start=began)) as probe:
        assert list(by_pid(probe.tick())) == [2]


@pytest.mark.parametrize("code", ["NOT_SUPPORTED", "NO_PERMISSION", "TIMEOUT"])
def test_without_utilization_processes_are_listed_and_not_idle(tmp_path: Path, code: str) -> None:
    scenario = world(FakeProcess(pid=1, util=50), errors={"nvmlDeviceGetProcessUtilization": code})
    with Probe(tmp_path, scenario) as probe:
        one = by_pid(probe.tick())[1]
    assert (one.gpu_util_pct, one.mem_copy_util_pct, one.mem_used_bytes) == (None, None, 1_000_000_000)


def test_without_any_list_processes_are_absent(tmp_path: Path) -> None:
    functions = ["nvmlDeviceGetProcessUtilization", *OLDER, *NEWER]
    errors = dict.fromkeys(functions, "NOT_SUPPORTED")
    with Probe(tmp_path, world(FakeProcess(pid=1), errors=errors)) as probe:
        assert probe.tick().gpu.processes is None


def test_a_name_is_read_again_each_tick(tmp_path: Path) -> None:
    command = ["sh", "-c", 'read line; exec "$@"', "sh", *SLEEPER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as started, ExitStack() as ending:
        ending.callback(started.kill)
        pid = started.pid
        comm = Path(f"/proc/{pid}/comm")
        with Probe(tmp_path, world(FakeProcess(pid=pid)), host_root=Path("/")) as probe:
            before = by_pid(probe.tick())[pid].name
            assert started.stdin
            started.stdin.write("go\n")
            started.stdin.flush()
            wait_until(lambda: comm.read_text() != "sh\n", lambda: "the process runs another program")
            after = by_pid(probe.tick())[pid].name
            started.kill()
            started.wait()
            gone = by_pid(probe.tick())[pid].name
    assert (before, after, gone) == ("sh", Path(sys.executable).name, None)


class Owners(Attribution):
    """Owners of these kinds, one after the other, each time that it is asked; uids are their numbers."""

    def __init__(self, *kinds: CgroupKind) -> None:
        self._owners = [
            CgroupId(kind=kind, path="/", name="", pod_uid=str(number)) for number, kind in enumerate(kinds)
        ]

    def of_pid(self, pid: int) -> CgroupId | None:
        return self._owners.pop(0) if self._owners else None


def test_whose_a_process_is_holds_once_it_is_in_a_pod_until_it_ends() -> None:
    owners = Owners(CgroupKind.UNIT, CgroupKind.POD, CgroupKind.POD)
    identities = ProcessIdentities(owners, "/")
    name = Path(sys.executable).name
    with subprocess.Popen(SLEEPER) as process:
        # The kernel closes what ``Popen`` waits for before it gives the process its new name.
        comm = Path(f"/proc/{process.pid}/comm")
        wait_until(lambda: comm.read_text().strip() == name, lambda: f"the process is called {name}")
        seen = []
        for tick in range(6):
            if tick == 4:  # from now on its number may be another process's
                process.kill()
                process.wait()
            identities.begin_tick()
            seen.append((identities.of(process.pid)[1], identities.of(process.pid)[0]))
    identities.close()
    assert seen == [("0", name), ("1", name), ("1", name), ("1", name), ("2", None), (None, None)]


def test_processes_that_are_on_no_gpu_any_more_hold_no_file() -> None:
    identities = ProcessIdentities(None, "/")
    with subprocess.Popen(SLEEPER) as process:
        identities.of(process.pid)
        assert open_files(f"/proc/{process.pid}")
        identities.begin_tick()
        identities.begin_tick()
        assert open_files(f"/proc/{process.pid}") == []
        process.kill()


@pytest.mark.parametrize("count", [65, 128])
def test_more_processes_than_the_first_answer_has_room_for(tmp_path: Path, count: int) -> None:
    processes = [FakeProcess(pid=pid, util=30) for pid in range(1, count + 1)]
    with Probe(tmp_path, world(*processes)) as probe:
        found = by_pid(probe.tick())
    assert {pid: one.gpu_util_pct for pid, one in found.items()} == dict.fromkeys(range(1, count + 1), 30)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("python", "python"), ("a b", "a b"), ("tab\there", "tab?here"), ("\x1b[31m", "?[31m"), ("", None),
        ("  ", None), ("bad\ufffdbyte", "bad\ufffdbyte"), ("x" * 2000, "x" * 1024),
    ],
)  # fmt: skip
def test_names_can_be_printed(text: str, shown: str | None) -> None:
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("listed", "held"),
    [
        ([], {}),
        ([(1, 5, WHOLE)], {1: 5}),
        ([(1, 5, WHOLE), (1, 5, WHOLE)], {1: 5}),
        ([(1, 5, WHOLE), (1, 7, WHOLE)], {1: 7}),
        ([(1, None, WHOLE)], {1: None}),
        ([(1, None, WHOLE), (1, 7, WHOLE)], {1: 7}),
        ([(1, 7, WHOLE), (1, None, WHOLE)], {1: 7}),
        ([(1, 5, (1, 0)), (1, 7, (2, 0)), (2, 1, (2, 0))], {1: 12, 2: 1}),
        ([(1, 5, (1, 0)), (1, None, (2, 0))], {1: None}),
    ],
)
def test_memory_of_a_process_in_several_lists(
    listed: list[tuple[int, int | None, tuple[int, int]]], held: dict[int, int | None]
) -> None:
    assert memory_by_pid([RunningProcess(*one) for one in listed]) == held


@pytest.mark.parametrize(
    ("covers_period", "pid", "share"),
    [
        (True, 1, (40, 5)), (True, 2, (0, 0)), (False, 1, (40, 5)), (False, 2, (None, None)),
        (True, 3, (None, None)), (True, 4, (100, None)),
    ],
)  # fmt: skip
def test_no_share_is_idle_only_over_a_whole_period(
    covers_period: bool, pid: int, share: tuple[float | None, float | None]
) -> None:
    found = {
        1: ProcessUtilization(1, 0, 40, 5),
        3: ProcessUtilization(3, 0, 180, 4000),
        4: ProcessUtilization(4, 0, 100, 101),
    }
    telemetry = Telemetry("test")
    query = DeviceQuery(None, "GPU 0", telemetry)
    assert ProcessUtilizations(found, covers_period=covers_period, query=query).of(pid) == share
    assert telemetry.count(NOT_MEASURED) == {3: 2, 4: 1}.get(pid, 0)

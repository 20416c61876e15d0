"""The collector's records on v1, v2 and hybrid hosts, against the numbers in the host's files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from collectors.base import Tick
from collectors.cgroup.collector import CgroupCollector
from collectors.files import FilePool, number_in
from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, Container
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry
from tests.support.data.fake_host import LAYOUTS, Counters, FakeHost, pod_path
from tests.support.processes.open_files import open_files

UID = "0f5ae1b4-2c9d-4b63-9a0b-6d0b1f4f7a11"
HASH = "8d1b5c0f3a7e4d2b9c6f1e0a5b4c3d2e"
A, B = "ab" * 32, "0c" * 32
POD = pod_path("systemd", "burstable", UID, A)
SECOND = 1_000_000_000


class Watched:
    """A collector on a host of files, with a clock moved by hand: ``tick(after)`` seconds later."""

    def __init__(self, host: FakeHost, containers: str = "pods") -> None:
        self.now, self.seq = 1000.0, 0
        self.telemetry = Telemetry("test")
        self.collector = CgroupCollector(
            telemetry=self.telemetry, host_root=str(host.root), containers=containers, retire_s=60,
            clock=lambda: self.now,
        )  # fmt: skip

    def tick(self, after: float = 1.0) -> list[ProducerRecord]:
        self.now += after
        self.seq += 1
        tick = Tick(node="a", collector="c", seq=self.seq, ts_ms=int(self.now * 1000), interval_ms=1000,
                    monotonic_s=self.now)  # fmt: skip
        return list(self.collector.collect(tick))

    def sample(self, after: float = 1.0) -> CgroupSample:
        (one,) = (out for out in self.tick(after) if out.topic == "cgroup-samples")
        assert (one.key, one.ts_ms) == ("a", int(self.now * 1000))
        assert one.value is not None
        return decode(CgroupSample, one.value, one.topic)

    def container(self, after: float = 1.0) -> Container:
        (pod,) = self.sample(after).pods
        (container,) = pod.containers
        return container

    def pods(self, after: float = 1.0) -> dict[str, Pod | None]:
        said = [out for out in self.tick(after) if out.topic == "pods"]
        return {out.key: decode(Pod, out.value, "pods") if out.value else None for out in said}


@pytest.fixture(params=LAYOUTS)
def host(tmp_path: Path, request: pytest.FixtureRequest) -> FakeHost:
    """A host of each layout."""
    return FakeHost(tmp_path, request.param)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("qos", ["guaranteed", "burstable", "besteffort"])
@pytest.mark.parametrize("uid", [UID, HASH], ids=["api", "static"])
def test_a_pod_measured(tmp_path: Path, layout: str, driver: str, qos: str, uid: str) -> None:
    host = FakeHost(tmp_path, layout)
    path = pod_path(driver, qos, uid, A)
    host.put(path, Counters(cpu_ns=SECOND, periods=10, throttled=1, mem_used=900, inactive_file=200,
                            mem_limit=4096, io=host.io(1000, 500)))  # fmt: skip
    watched = Watched(host)
    first = watched.sample()
    assert [(pod.uid, pod.qos) for pod in first.pods] == [(uid, qos)]
    assert first.pods[0].containers == (Container(id=A, mem_used_bytes=700, mem_limit_bytes=4096),)

    host.put(path, Counters(cpu_ns=4 * SECOND, periods=30, throttled=6, mem_used=100, inactive_file=200,
                            mem_limit=4096, io=host.io(5000, 500)))  # fmt: skip
    assert watched.container(after=2.0) == Container(
        id=A, cpu_util_pct=150.0, cpu_throttled_pct=25.0, mem_used_bytes=0, mem_limit_bytes=4096,
        io_read_bytes_per_s=2000, io_write_bytes_per_s=0,
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_another_limit_is_known_within_ten_ticks(tmp_path: Path, layout: str) -> None:
    host = FakeHost(tmp_path, layout)
    path = pod_path("systemd", "burstable", UID, A)
    host.put(path, Counters(mem_limit=4096))
    watched = Watched(host)
    limits = [watched.container().mem_limit_bytes or 0]
    host.put(path, Counters(mem_limit=8192))
    limits += [watched.container().mem_limit_bytes or 0 for _ in range(10)]
    assert limits == sorted(limits)
    assert (limits[1], limits[-1]) == (4096, 8192)


def test_no_limit_is_absent_and_idle_is_zero(host: FakeHost) -> None:
    host.put(POD)
    watched = Watched(host)
    watched.tick()
    assert watched.container() == Container(
        id=A, cpu_util_pct=0, cpu_throttled_pct=0, mem_used_bytes=0, io_read_bytes_per_s=0,
        io_write_bytes_per_s=0,
    )  # fmt: skip


def test_counters_that_start_again_give_no_rate_for_that_tick(host: FakeHost) -> None:
    watched = Watched(host)
    rows = []
    for cpu_ns, read in ((9 * SECOND, 900), (SECOND, 1000), (2 * SECOND, 10), (3 * SECOND, 20)):
        host.put(POD, Counters(cpu_ns=cpu_ns, io=host.io(read, 0)))
        found = watched.container()
        rows.append((found.cpu_util_pct, found.io_read_bytes_per_s))
    assert rows == [(None, None), (None, 100), (100.0, None), (100.0, 10)]


def test_what_is_not_measured_is_absent(host: FakeHost) -> None:
    host.put(POD, Counters(cpu_ns=None, mem_used=None))
    watched = Watched(host)
    watched.tick()
    found = watched.container()
    assert (found.cpu_util_pct, found.mem_used_bytes, found.mem_limit_bytes) == (None, None, None)
    assert found.io_read_bytes_per_s == 0


def test_a_group_in_one_v1_hierarchy_has_that_hierarchys_fields(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    folder = host.put_in("memory", "/process/7f", pids=(7,))
    (folder / "memory.usage_in_bytes").write_text("50\n")
    (folder / "memory.stat").write_text("total_inactive_file 8\n")
    watched = Watched(host, "all")
    watched.tick()
    assert watched.container() == Container(id="/process/7f", mem_used_bytes=42)


def test_a_v2_hierarchy_beside_v1_fills_what_v1_lacks(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "hybrid")
    host.put_in("memory", "/a.service", pids=(7,))
    folder = tmp_path / "sys/fs/cgroup/unified/a.service"
    folder.mkdir()
    watched = Watched(host, "all")
    for used in (0, 500_000):
        (folder / "cpu.stat").write_text(f"usage_usec {used}\nuser_usec 0\nsystem_usec 0\n")
        sample = watched.sample()
    assert sample.pods[0].containers == (Container(id="a.service", cpu_util_pct=50.0),)


def test_only_whole_disks_count(host: FakeHost) -> None:
    rows = [("8 0 sda", 1, 1), ("8 1 sda1", 1, 1), ("253 0 dm-0", 1, 1), ("7 0 loop0", 1, 1)]
    host.write("proc/diskstats", "".join(f"{name} 0 0 {r} 0 0 0 {w} 0 0 0 0\n" for name, r, w in rows))
    watched = Watched(host)
    for moved in (0, 4096):
        host.put(POD, Counters(io="".join(host.io(moved, moved, one) for one in ("8:0", "253:0", "7:0"))))
        found = watched.sample().pods[0].containers[0]
    assert (found.io_read_bytes_per_s, found.io_write_bytes_per_s) == (4096, 4096)


def test_a_container_restarted_at_its_path_begins_anew(host: FakeHost, tmp_path: Path) -> None:
    host.put(POD, Counters(cpu_ns=SECOND))
    watched = Watched(host)
    watched.tick()
    for number, folder in enumerate(host.folders(POD)):
        folder.rename(tmp_path / f"kept{number}")
    host.put(POD, Counters(cpu_ns=5 * SECOND))
    assert watched.container().cpu_util_pct is None
    host.put(POD, Counters(cpu_ns=6 * SECOND))
    assert watched.container().cpu_util_pct == 100.0


def test_a_pod_that_ends_is_no_error(host: FakeHost) -> None:
    host.put(pod_path("systemd", "guaranteed", HASH, B))
    for folder in host.folders(POD):  # still listed, but there is nothing left to read
        folder.mkdir(parents=True)
    watched = Watched(host)
    assert [pod.uid for pod in watched.sample().pods] == [HASH]
    host.remove("/kubepods.slice")
    assert watched.sample().pods == ()


def test_the_containers_of_a_pod_are_together(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put(POD)
    host.put(pod_path("systemd", "burstable", UID, B))
    (pod,) = Watched(host).sample().pods
    assert [one.id for one in pod.containers] == [B, A]


def test_each_job_of_slurm_is_measured_by_itself(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    scope = "/system.slice/slurmstepd.scope"
    host.put(f"{scope}/system", pids=(5,))
    for job in (7, 8):
        host.put(f"{scope}/job_{job}", Counters(mem_used=job))
        host.put(f"{scope}/job_{job}/step_0/user/task_0", pids=(job,))
    watched = Watched(host, "all")
    names = {uid: pod and (pod.namespace, pod.name) for uid, pod in watched.pods().items()}
    memory = {names[pod.uid]: pod.containers[0].mem_used_bytes for pod in watched.sample().pods}
    assert memory == {("slurm", "job_7"): 7, ("slurm", "job_8"): 8}


def network_host(tmp_path: Path, netns: str) -> FakeHost:
    host = FakeHost(tmp_path, "v2")
    host.put(POD, pids=(70,))
    host.process(70, POD, netns=netns)
    host.network(70, lo=(5, 5), eth0=(1000, 100), eth1=(0, 0))
    return host


def test_a_pods_network_is_its_namespaces_without_lo(tmp_path: Path) -> None:
    host = network_host(tmp_path, "net:[2]")
    watched = Watched(host)
    assert watched.sample().pods[0].net_rx_bytes_per_s is None
    host.network(70, lo=(900, 900), eth0=(3000, 100), eth1=(500, 0))
    pod = watched.sample().pods[0]
    assert (pod.net_rx_bytes_per_s, pod.net_tx_bytes_per_s) == (2500, 0)


@pytest.mark.parametrize("beside", [f"{POD}/init", pod_path("systemd", "burstable", UID, "f" * 64)])
def test_a_pods_network_is_not_that_of_a_container_nested_in_it(tmp_path: Path, beside: str) -> None:
    host = FakeHost(tmp_path, "v2")
    nested = f"{POD}/docker/{B}"
    for path in (POD, f"{POD}/docker"):
        host.put(path)
    for path, pid, netns in ((nested, 80, "net:[3]"), (beside, 70, "net:[2]")):
        host.put(path, pids=(pid,))
        host.process(pid, path, netns=netns)
        host.network(pid, eth0=(0, 0))
    watched = Watched(host)
    watched.tick()
    host.network(80, eth0=(7, 7))
    host.network(70, eth0=(3000, 100), docker0=(7, 7), veth12ab=(7, 7))
    pod = watched.sample().pods[0]
    assert (pod.net_rx_bytes_per_s, pod.net_tx_bytes_per_s) == (3000, 100)


def unreadable(host: FakeHost) -> None:
    (host.root / "proc/70/ns/net").unlink()


def host_unreadable(host: FakeHost) -> None:
    (host.root / "proc/1/ns/net").unlink()


def on_the_host(host: FakeHost) -> None:
    host.process(70, POD, netns="net:[1]")


def gone(host: FakeHost) -> None:
    (host.root / "proc/70/net/dev").unlink()


def empty(host: FakeHost) -> None:
    host.put(POD, pids=())


@pytest.mark.parametrize("change", [unreadable, host_unreadable, on_the_host, gone, empty])
def test_a_network_that_is_not_the_pods_own_is_left_out(
    tmp_path: Path, change: Callable[[FakeHost], None]
) -> None:
    host = network_host(tmp_path, "net:[2]")
    change(host)
    watched = Watched(host)
    watched.tick()
    if change is not gone:
        host.network(70, eth0=(9000, 9000))
    pod = watched.sample().pods[0]
    assert (pod.net_rx_bytes_per_s, pod.net_tx_bytes_per_s) == (None, None)
    assert pod.containers[0].cpu_util_pct == 0


@pytest.mark.parametrize(
    ("is_reaped", "netns", "rate"),
    [(True, "net:[2]", 3000), (False, "net:[2]", 3000), (True, "net:[3]", None)],
    ids=["ended", "waits to be reaped", "in another namespace are other counters"],
)
def test_a_pods_network_survives_the_process_it_was_seen_through(
    tmp_path: Path, netns: str, rate: float | None, *, is_reaped: bool
) -> None:
    host = network_host(tmp_path, "net:[2]")
    if not is_reaped:
        host.write("proc/70/comm", "python\n")
    watched = Watched(host)
    watched.tick()
    if not is_reaped:
        gone(host)
    host.put(POD, pids=(71,))
    host.process(71, POD, netns=netns)
    host.network(71, eth0=(4000, 100), eth1=(0, 0))
    assert watched.sample().pods[0].net_rx_bytes_per_s == rate


def test_a_process_that_is_there_is_not_searched_again(tmp_path: Path) -> None:
    host = network_host(tmp_path, "net:[2]")
    host.write("proc/70/comm", "python\n")
    watched = Watched(host)
    watched.tick()
    host.put(POD, pids=(71, 70))
    host.network(70, lo=(5, 5), eth0=(3000, 100), eth1=(0, 0))
    assert watched.sample().pods[0].net_rx_bytes_per_s == 2000


def test_the_life_of_a_synthetic_pod(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v1")
    watched = Watched(host, "all")
    host.put(f"/docker/{A}")
    host.put("/system.slice/sshd.service", pids=(7,))
    host.put(POD)
    said = watched.pods()
    docker, sshd = said.values()
    assert docker is not None
    assert sshd is not None
    assert (docker.namespace, docker.name, docker.node, docker.phase) == ("docker", A[:12], "a", "Running")
    assert (sshd.namespace, sshd.name) == ("systemd", "sshd.service")
    assert set(said) | {UID} == {pod.uid for pod in watched.sample().pods}
    assert watched.pods() == {}, "what was said is not said again at every tick"

    host.put("/system.slice/sshd.service", pids=())
    went_ms = int((watched.now + 1) * 1000)
    assert watched.pods() == {sshd.uid: Pod(uid=sshd.uid, namespace="systemd", name="sshd.service", node="a",
                                            phase="Unknown", finished_ms=went_ms)}  # fmt: skip
    assert watched.pods(after=59) == {}
    assert watched.pods() == {sshd.uid: None}
    assert watched.pods() == {}


def test_a_synthetic_pod_that_comes_back_runs_again(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    watched = Watched(host, "all")
    phases = []
    for pids in ((7,), (), (8,), (8,)):
        host.put("/a.service", pids=pids)
        phases += [(pod.phase, pod.finished) for pod in watched.pods().values() if pod]
    assert phases == [("Running", False), ("Unknown", True), ("Running", False)]
    assert [pod.phase for pod in watched.pods(after=301).values() if pod] == ["Running"], "for late readers"


def test_pods_are_announced_by_others(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put(POD)
    watched = Watched(host, "all")
    assert watched.pods() == {}
    host.remove(POD)
    assert watched.pods() == {}


@pytest.mark.parametrize("name", ["tab\there", "x" * 250, "bytes\udcff"])
def test_names_that_no_record_could_carry(tmp_path: Path, name: str) -> None:
    host = FakeHost(tmp_path, "v2")
    host.put(f"/{name}/{name}/{name}", pids=(7,))
    watched = Watched(host, "all")
    (pod,) = watched.pods().values()
    assert pod is not None
    assert pod.name.isprintable()
    (sampled,) = watched.sample().pods
    assert sampled.containers[0].id == pod.name


def held(root: Path) -> set[str]:
    return {file.name for file in open_files(root)}


def test_files_are_held_while_their_container_lives(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    watched = Watched(host)
    host.put(POD)
    watched.tick()
    of_node = {"stat", "meminfo"}
    of_pod = {"cpu.stat", "memory.current", "memory.stat", "memory.max", "io.stat"}
    assert held(tmp_path) == of_node | of_pod
    host.remove("/kubepods.slice")
    watched.tick()
    assert held(tmp_path) == of_node
    host.put(POD)
    watched.tick()
    watched.collector.close()
    assert held(tmp_path) == set()


def test_memory_of_a_group_that_uses_no_cpu_is_read_every_tenth_tick(host: FakeHost) -> None:
    def put(cpu_ns: int, mem_used: int, written: int = 0) -> None:
        host.put(
            POD, Counters(cpu_ns=cpu_ns, periods=9, throttled=3, mem_used=mem_used, io=host.io(0, written))
        )

    put(SECOND, 1000)
    watched = Watched(host)
    assert watched.container().mem_used_bytes == 1000
    put(SECOND, 400, written=500)
    asleep = [watched.container() for _ in range(10)]
    memory = [container.mem_used_bytes or 0 for container in asleep]
    assert memory == sorted(memory, reverse=True)
    assert (set(memory), memory[-1]) == ({1000, 400}, 400)
    assert {(container.cpu_util_pct, container.cpu_throttled_pct) for container in asleep} == {(0, 0)}
    assert [container.io_write_bytes_per_s for container in asleep[:2]] == [500, 0], (
        "by the kernel's own threads"
    )
    put(2 * SECOND, 300, written=500)
    awake = watched.container()
    assert (awake.cpu_util_pct, awake.mem_used_bytes) == (100, 300)


def test_memory_of_a_group_whose_cpu_time_is_not_known_is_read_in_each_tick(host: FakeHost) -> None:
    watched = Watched(host)
    for mem_used in (5, 5, 5, 6, 6, 6, 7, 8, 8, 8, 9):
        host.put(POD, Counters(cpu_ns=None, mem_used=mem_used))
        assert (watched.container().mem_used_bytes, watched.container().cpu_util_pct) == (mem_used, None)


@pytest.mark.parametrize("limit", [0, 1, 1000])
def test_any_number_of_files_may_be_held(tmp_path: Path, limit: int) -> None:
    file = FilePool(limit).file(str(tmp_path / "x"))
    assert file.read() is None
    for text in ("1\n", "22\n", "max\n"):
        (tmp_path / "x").write_text(text)
        assert (file.read(), number_in(file.read())) == (
            text.encode(),
            int(text) if text[0].isdigit() else None,
        )
    (tmp_path / "x").write_text("9" * 70_000)
    assert file.read() == b"9" * 70_000
    file.close()


@pytest.mark.parametrize("limit", [0, 1000])
def test_a_file_of_records_is_read_to_its_end(limit: int) -> None:
    """The kernel gives 4 kB of it a call, here of the memory of this process."""
    file = FilePool(limit).file_of_records("/proc/self/maps")
    for _ in range(2):
        text = file.read()
        assert text is not None
        assert len(text) > 4096
        assert text.splitlines()[-1] == Path("/proc/self/maps").read_bytes().splitlines()[-1]
    file.close()


@pytest.mark.parametrize(
    ("layout", "missing", "said"),
    [
        ("v2", "sys", {("cgroups", "not_mounted")}),
        ("v2", "sys/fs/cgroup/cgroup.controllers", {("cgroups", "not_mounted")}),
        ("hybrid", "sys/fs/cgroup/memory/cgroup.procs", {("memory", "not_counted")}),
        ("hybrid", "sys/fs/cgroup/blkio/cgroup.procs", {("io", "not_counted")}),
        ("v1", "sys/fs/cgroup/pids/cgroup.procs", set()),
    ],
)
def test_what_a_host_cannot_give_is_said_once_and_the_rest_goes_on(
    tmp_path: Path, layout: str, missing: str, said: set[tuple[str, str]]
) -> None:
    host = FakeHost(tmp_path, layout)
    (tmp_path / missing).rename(tmp_path / "elsewhere")
    watched = Watched(host)
    assert watched.sample().host.mem_total_bytes == 1_024_000
    assert watched.sample().pods == ()
    assert watched.telemetry.counts == {(NOT_MEASURED.name, labels): 1 for labels in said}


@pytest.mark.parametrize("shared", [False, True])
def test_where_namespaces_may_not_be_read_their_counters_tell_them_apart(
    tmp_path: Path, shared: bool
) -> None:
    host = network_host(tmp_path, "net:[2]")
    host_unreadable(host)
    unreadable(host)
    counters = [host.root / f"proc/{pid}/net/dev" for pid in (1, 70)]
    if shared:  # one namespace has one file, whichever process it is seen through
        counters[0].parent.mkdir(parents=True, exist_ok=True)
        counters[0].hardlink_to(counters[1])
    else:
        host.network(1, eth0=(1, 1))
    watched = Watched(host)
    watched.tick()
    with counters[1].open("r+") as file:  # the same inode
        text = file.read()
        file.seek(0)
        file.write(text.replace("eth0: 1000 ", "eth0: 3000 "))
    assert watched.sample().pods[0].net_rx_bytes_per_s == (None if shared else 2000)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("io.stat", "8:0 rbytes=many wbytes=0\n"), ("io.stat", "\xff=1\n"),
        ("memory.stat", "inactive_file max\n"),
        ("memory.stat", "inactive_file\n"), ("cpu.stat", "usage_usec \nnr_periods x\n"),
        ("memory.current", "max\n"), ("memory.max", "\n"), ("memory.max", "-1\n"),
        ("memory.current", "-4096\n"), ("memory.current", f"{2**64 - 1}\n"),
        ("memory.current", f"{10**20}\n"), ("memory.current", "2000000\n"),
    ],
)  # fmt: skip
def test_a_file_that_says_no_number_costs_no_other_container(tmp_path: Path, name: str, text: str) -> None:
    host = FakeHost(tmp_path, "v2")
    good, bad = (pod_path("systemd", "burstable", UID, container) for container in (A, B))
    for second in range(2):
        for path in (good, bad):
            host.put(
                path, Counters(cpu_ns=second * SECOND, mem_used=900, inactive_file=200, io=host.io(9, 9))
            )
    (folder,) = host.folders(bad)
    (folder / name).write_text(text, encoding="latin-1")
    (pod,) = Watched(host).sample().pods
    measured = {container.id: container.mem_used_bytes for container in pod.containers}
    assert measured[A] == 700
    assert measured.get(B) == (None if name in ("memory.stat", "memory.current") else 700)


def test_a_counter_that_leaps_is_absent_and_said(tmp_path: Path) -> None:
    """A host of one CPU cannot have used a year of it in a second."""
    host = FakeHost(tmp_path, "v2")
    watched = Watched(host)
    seen = []
    for used_s in (1, 2, 2 + 365 * 86_400, 3 + 365 * 86_400):
        host.put(POD, Counters(cpu_ns=used_s * SECOND))
        seen.append(watched.container().cpu_util_pct)
    assert seen == [None, 100.0, None, 100.0]
    assert watched.telemetry.count(NOT_MEASURED) == 1


def test_devices_that_share_a_line_of_io(tmp_path: Path) -> None:
    """As Linux 5.13 to 5.18 writes them."""
    host = FakeHost(tmp_path, "v2")
    host.write("proc/diskstats", "8 0 sda 1 0 1 0 1 0 1 0 0 0 0\n")
    watched = Watched(host)
    for second in range(2):
        host.put(POD, Counters(io=f"7:0 8:0 rbytes={5000 * second} wbytes=0 rios=0\n"))
        container = watched.container()
    assert (container.io_read_bytes_per_s, container.io_write_bytes_per_s) == (5000, 0)

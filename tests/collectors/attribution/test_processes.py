"""From a process to its pod: what is answered, what is said when there is no answer, what is remembered."""

from pathlib import Path

import pytest

from collectors.attribution.cgroup_path import CgroupId, CgroupKind
from collectors.attribution.processes import Attribution, Unattributed, best_of, cgroup_paths
from dutycycle.telemetry.events import ATTRIBUTION_FAILED, Telemetry
from tests.support.data.fake_host import LAYOUTS, FakeHost, pod_path

UID = "0f5ae1b4-2c9d-4b63-9a0b-6d0b1f4f7a11"
OTHER_UID = "11111111-2c9d-4b63-9a0b-6d0b1f4f7a11"
A, B = "ab" * 32, "0c" * 32
POD = pod_path("systemd", "burstable", UID, A)


def attribution(host: FakeHost, containers: str = "pods", capacity: int = 4096) -> Attribution:
    return Attribution(
        node="a", telemetry=Telemetry("test"), host_root=str(host.root), containers=containers,
        capacity=capacity,
    )  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_pods_process(tmp_path: Path, layout: str) -> None:
    host = FakeHost(tmp_path, layout)
    host.process(7, POD)
    found = attribution(host).of_pid(7)
    assert found is not None
    assert (found.kind, found.pod_uid, found.container_id, found.qos) == (CgroupKind.POD, UID, A, "burstable")


INCLUSION = [
    # path, the smallest setting that includes it
    (POD, "pods"),
    (f"/docker/{A}", "containers"),
    ("/system.slice/sshd.service", "all"),
    ("/some/group", "all"),
    ("/", None),
]


@pytest.mark.parametrize("containers", ["pods", "containers", "all"])
@pytest.mark.parametrize(("path", "smallest"), INCLUSION)
def test_the_setting_decides_who_counts(
    tmp_path: Path, path: str, smallest: str | None, containers: str
) -> None:
    host = FakeHost(tmp_path, "v2")
    host.process(7, path)
    sizes = ["pods", "containers", "all"]
    found = attribution(host, containers).explain(7)
    if smallest is None or sizes.index(containers) < sizes.index(smallest):
        assert found is Unattributed.NOT_A_POD
    else:
        assert isinstance(found, CgroupId)
        assert found.pod_uid == (UID if path == POD else found.synthetic_uid("a"))


def test_why_there_is_no_answer_is_counted(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    host.process(7, "/init.scope")
    host.process(8, POD)
    host.write("proc/8/cgroup", "")
    host.process(9, POD)
    (tmp_path / "proc/9/cgroup").unlink()
    host.process(10, POD)
    (tmp_path / "proc/10/cgroup").unlink()
    (tmp_path / "proc/10/cgroup").mkdir()  # reading it fails, though it is there
    telemetry = Telemetry("test")
    of = Attribution(node="a", telemetry=telemetry, host_root=str(tmp_path))
    assert [of.of_pid(pid) for pid in (7, 8, 9, 10, 4711)] == [None] * 5
    reasons = {
        labels[0]: n for (name, labels), n in telemetry.counts.items() if name == ATTRIBUTION_FAILED.name
    }
    assert reasons == {"not_a_pod": 1, "no_cgroup": 2, "gone": 2}


def test_a_pid_given_to_another_process_is_another_pod(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    of = attribution(host)
    host.process(7, POD, started=100)
    assert of.explain(7) == of.explain(7)
    host.process(7, pod_path("cgroupfs", "guaranteed", OTHER_UID, B), started=101)
    found = of.of_pid(7)
    assert found is not None
    assert found.pod_uid == OTHER_UID


def test_a_known_process_is_not_looked_up_again(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    of = attribution(host)
    host.process(7, POD)
    first = of.of_pid(7)
    (tmp_path / "proc/7/cgroup").unlink()
    assert of.of_pid(7) == first


def test_a_process_on_its_way_into_a_container_is_found_there_later(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    of = attribution(host, "all")
    host.process(7, "/system.slice/containerd.service")
    before = of.of_pid(7)
    host.process(7, POD)
    after = of.of_pid(7)
    assert before is not None
    assert after is not None
    assert (before.kind, after.kind) == (CgroupKind.UNIT, CgroupKind.POD)


def test_memory_is_bounded_and_forgets_the_longest_unused(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, "v2")
    of = attribution(host, capacity=2)
    for pid in (7, 8):
        host.process(pid, POD)
        assert of.of_pid(pid) is not None
    assert of.of_pid(7) is not None
    host.process(9, POD)
    assert of.of_pid(9) is not None
    for pid in (7, 8, 9):
        (tmp_path / f"proc/{pid}/cgroup").unlink()
    answers = {pid: isinstance(of.explain(pid), CgroupId) for pid in (7, 8, 9)}
    assert answers == {7: True, 8: False, 9: True}


def test_paths_of_the_file() -> None:
    text = "12:cpu,cpuacct:/a\n1:name=systemd:/b:c:d\n0::/e\nbroken\n"
    assert cgroup_paths(text) == ["/a", "/b:c:d", "/e"]


BEST = [
    (["/", "/system.slice/a.service", f"/docker/{A}", POD], CgroupKind.POD),
    (["/", f"/docker/{A}", "/system.slice/a.service"], CgroupKind.CONTAINER),
    (["/x", "/system.slice/a.service/", "/some/much/longer/path"], CgroupKind.UNIT),
    (["/", "/process/7f"], CgroupKind.OTHER),
]


@pytest.mark.parametrize(("paths", "kind"), BEST)
def test_the_most_telling_hierarchy_speaks(paths: list[str], kind: CgroupKind) -> None:
    for order in (paths, paths[::-1]):
        found = best_of(order)
        assert found is not None
        assert found.kind is kind
    assert best_of(["/", "/"]) is None


def test_a_process_of_a_slurm_job_on_v1_is_the_jobs_and_not_the_daemons() -> None:
    """Slurm leaves it below slurmd.service in the hierarchies that it does not limit."""
    paths = [
        "/system.slice/slurmd.service",
        "/",
        "/slurm/uid_1/job_3/step_0/task_0",
        "/slurm/uid_1/job_3/step_0",
    ]
    for order in (paths, paths[::-1]):
        found = best_of(order)
        assert found is not None
        assert (found.name, found.path) == ("job_3", "/slurm/uid_1/job_3")


def test_this_process_is_somewhere() -> None:
    import os

    of = Attribution(node="a", telemetry=Telemetry("test"), containers="all")
    found = of.explain(os.getpid())
    paths = cgroup_paths(Path("/proc/self/cgroup").read_text())
    if set(paths) <= {"/"}:
        assert found is Unattributed.NOT_A_POD
    else:
        assert isinstance(found, CgroupId)
        assert any(path.startswith(found.path) for path in paths)

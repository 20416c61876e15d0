"""Who a cgroup's path says it is: every layout that kubelets, runtimes and systemd make."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.attribution.cgroup_path import CgroupId, CgroupKind, parse_cgroup_path
from tests.support.data.fake_host import pod_path

UID = "0f5ae1b4-2c9d-4b63-9a0b-6d0b1f4f7a11"
DASHED = UID.replace("-", "_")
HASH = "8d1b5c0f3a7e4d2b9c6f1e0a5b4c3d2e"
POD, CONTAINER, UNIT, OTHER = CgroupKind
A, B = "ab" * 32, "0c" * 32

POD_TABLE = [
    # path, uid, container, qos
    (f"/kubepods/pod{UID}/{A}", UID, A, "guaranteed"),
    (f"/kubepods/burstable/pod{UID}/{A}", UID, A, "burstable"),
    (f"/kubepods/besteffort/pod{UID}/crio-{A}", UID, A, "besteffort"),
    (f"/kubepods/besteffort/pod{UID}/crio-conmon-{A}", UID, None, "besteffort"),
    (f"/kubepods/besteffort/pod{HASH}/{A}", HASH, A, "besteffort"),
    (f"/kubepods/burstable/pod{UID}", UID, None, "burstable"),
    (f"/kubepods/burstable/pod{UID}/kata_overhead", UID, None, "burstable"),
    (f"/kubepods.slice/kubepods-pod{DASHED}.slice/cri-containerd-{A}.scope", UID, A, "guaranteed"),
    (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{DASHED}.slice/docker-{A}.scope",
     UID, A, "burstable"),
    (f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{DASHED}.slice/libpod-{A}.scope",
     UID, A, "besteffort"),
    (f"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{HASH}.slice/crio-{A}.scope/container",
     HASH, A, "burstable"),
    (f"/kubepods.slice/kubepods-pod{DASHED}.slice/crio-conmon-{A}.scope", UID, None, "guaranteed"),
    (f"/custom.slice/custom-kubepods.slice/custom-kubepods-pod{DASHED}.slice/cri-containerd-{A}.scope",
     UID, A, "guaranteed"),
    (f"/custom/kubepods/pod{UID}/{A}", UID, A, "guaranteed"),
    # containerd without SystemdCgroup under a kubelet with it
    (f"/system.slice/containerd.service/kubepods-burstable-pod{DASHED}.slice:cri-containerd:{A}",
     UID, A, "burstable"),
    (f"/kubepods-besteffort-pod{DASHED}.slice:cri-containerd:{A}", UID, A, "besteffort"),
    # kind, on both of its drivers
    (f"/docker/{B}/kubelet/kubepods/burstable/pod{UID}/{A}", UID, A, "burstable"),
    (f"/docker/{B}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
     f"kubelet-kubepods-besteffort-pod{DASHED}.slice/cri-containerd-{A}.scope", UID, A, "besteffort"),
    # a pod that runs kind: the deepest pod
    (f"/kubepods/pod{HASH}/{B}/kubelet/kubepods/besteffort/pod{UID}/{A}", UID, A, "besteffort"),
    # Docker inside a pod: the container that the kubelet made
    (f"/kubepods/pod{UID}/{A}/docker/{B}", UID, A, "guaranteed"),
    # a container whose own manager makes its path anew inside of it: the outer one
    (f"/kubepods/pod{UID}/{A}/kubepods/pod{UID}/{A}", UID, A, "guaranteed"),
    (f"/kubepods/pod{UID}/{A}/kubepods/pod{UID}", UID, A, "guaranteed"),
    (f"/kubepods/pod{UID}/kubepods-pod{DASHED}.slice:cri-containerd:{A}", UID, A, "guaranteed"),
    # seen from a cgroup namespace: the names above are hidden
    (f"/../../pod{UID}/{A}", UID, A, None),
    (f"/../../../burstable/pod{UID}/{A}", UID, A, "burstable"),
    (f"/../../../kubepods-burstable.slice/kubepods-burstable-pod{DASHED}.slice/cri-containerd-{A}.scope",
     UID, A, "burstable"),
    (f"/kubepods/pod{UID}/{A} (deleted)", UID, A, "guaranteed"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "uid", "container", "qos"), POD_TABLE)
def test_pods(path: str, uid: str, container: str | None, qos: str | None) -> None:
    found = parse_cgroup_path(path)
    assert found is not None
    assert (found.kind, found.pod_uid, found.container_id, found.qos) == (POD, uid, container, qos)
    assert found.namespace is None
    assert found.name == (container[:12] if container else uid)


def test_a_container_that_has_its_own_path_inside_is_all_of_it() -> None:
    outer = f"/kubepods/pod{UID}/{A}"
    found = parse_cgroup_path(f"{outer}/kubepods/pod{UID}/{A}")
    assert found is not None
    assert found.path == outer


CONTAINER_TABLE = [
    (f"/docker/{A}", A, "docker"),
    (f"/system.slice/docker-{A}.scope", A, "docker"),
    (f"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-{A}.scope", A, "docker"),
    (f"/docker/{B}/docker/{A}", A, "docker"),
    (f"/docker/{A}/system.slice/kubelet.service", A, "docker"),
    (f"/docker/{A}/init.scope", A, "docker"),
    (f"/machine.slice/libpod-{A}.scope/container", A, "podman"),
    (f"/machine.slice/machine-libpod_pod_{B}.slice/libpod-{A}.scope", A, "podman"),
    (f"/libpod_parent/libpod-{A}", A, "podman"),
    (f"/system.slice/nerdctl-{A}.scope", A, "containerd"),
    (f"/system.slice/cri-containerd-{A}.scope", A, "containerd"),
    (f"/system.slice:cri-containerd:{A}", A, "containerd"),
    (f"/k8s.io/{A}", A, "containerd"),
    ("/default/redis", "redis", "containerd"),
    (f"/default/dind/docker/{A}", A, "docker"),
    (f"/system.slice/crio-{A}.scope", A, "crio"),
    (f"/custom/{A}", A, "containerd"),
]


@pytest.mark.parametrize(("path", "container", "namespace"), CONTAINER_TABLE)
def test_containers_that_are_no_pods(path: str, container: str, namespace: str) -> None:
    found = parse_cgroup_path(path)
    assert found is not None
    assert (found.kind, found.container_id, found.namespace) == (CONTAINER, container, namespace)
    assert (found.name, found.pod_uid, found.qos) == (container[:12], None, None)


REST_TABLE = [
    # path, kind, name, the cgroup that stands for it
    ("/system.slice/sshd.service", UNIT, "sshd.service", None),
    ("/init.scope", UNIT, "init.scope", None),
    ("/system.slice/system-getty.slice/getty@tty1.service", UNIT, "getty@tty1.service", None),
    ("/system.slice/docker.service/init", UNIT, "docker.service", "/system.slice/docker.service"),
    ("/user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope/x", UNIT, "editor.scope",
     "/user.slice/user-1000.slice/user@1000.service/app.slice/editor.scope"),
    ("/user.slice/user-1000.slice", UNIT, "user-1000.slice", None),
    (f"/machine.slice/libpod-conmon-{A}.scope", UNIT, f"libpod-conmon-{A}.scope", None),
    (f"/libpod_parent/libpod-conmon-{A}", OTHER, f"/libpod_parent/libpod-conmon-{A}", None),
    ("/some/group", OTHER, "/some/group", None),
    ("/kubepods/burstable", OTHER, "/kubepods/burstable", None),
    ("/default", OTHER, "/default", None),
    ("/jobs/job_1", OTHER, "/jobs/job_1", None),
    ("/system.slice/slurmstepd.scope/system", UNIT, "slurmstepd.scope", "/system.slice/slurmstepd.scope"),
    ("/podcast/pod1", OTHER, "/podcast/pod1", None),
    ("/group:with:colons:in", OTHER, "/group:with:colons:in", None),
]  # fmt: skip


@pytest.mark.parametrize(("path", "kind", "name", "stands_for"), REST_TABLE)
def test_units_and_others(path: str, kind: CgroupKind, name: str, stands_for: str | None) -> None:
    found = parse_cgroup_path(path)
    assert found is not None
    assert (found.kind, found.name, found.path) == (kind, name, stands_for or path)
    assert found.namespace == ("systemd" if kind is UNIT else "cgroup")
    assert found.pod_uid is None
    assert found.container_id is None


@pytest.mark.parametrize(
    ("path", "name", "stands_for"),
    [
        ("/slurm/uid_1000/job_123/step_0/task_1", "job_123", "/slurm/uid_1000/job_123"),
        ("/slurm_gpu-1/uid_1000/job_7/step_batch", "job_7", "/slurm_gpu-1/uid_1000/job_7"),
        ("/system.slice/slurmstepd.scope/job_123/step_0/user/task_0", "job_123",
         "/system.slice/slurmstepd.scope/job_123"),
        ("/system.slice/gpu-1_slurmstepd.scope/job_8", "job_8", "/system.slice/gpu-1_slurmstepd.scope/job_8"),
    ],
)  # fmt: skip
def test_jobs_of_slurm(path: str, name: str, stands_for: str) -> None:
    """Each is itself, and not all one unit."""
    job = parse_cgroup_path(path)
    assert job is not None
    assert (job.kind, job.name, job.path, job.namespace) == (UNIT, name, stands_for, "slurm")


@pytest.mark.parametrize("path", ["/", "", "//", "/..", "/../../", "kubepods", "/./"])
def test_the_root_is_the_host_and_nonsense_is_nobody(path: str) -> None:
    assert parse_cgroup_path(path) is None


hexes = st.text("0123456789abcdef", min_size=64, max_size=64)
uids = st.uuids().map(str) | st.text("0123456789abcdef", min_size=32, max_size=32)
levels = st.sampled_from(["guaranteed", "burstable", "besteffort"])
drivers = st.sampled_from(["cgroupfs", "systemd"])
runtimes = st.sampled_from(["cri-containerd", "crio", "docker", "libpod"])
parents = st.lists(st.sampled_from(["docker", "kubelet", B, "system.slice", "lxc.payload.a", "x.service"]))
inner = st.lists(st.sampled_from(["container", "init.scope", "docker", A, "system.slice", "a b", "é"]))


@given(uids, hexes, levels, drivers, runtimes, parents, inner)
def test_any_pod_is_found_again(
    uid: str, container: str, qos: str, driver: str, runtime: str, above: list[str], below: list[str]
) -> None:
    own = "".join(f"/{name}" for name in above) + pod_path(driver, qos, uid, container, runtime)
    found = parse_cgroup_path(own + "".join(f"/{name}" for name in below))
    assert found == CgroupId(
        kind=POD, path=own, name=container[:12], pod_uid=uid, container_id=container, qos=qos
    )


@given(st.text(max_size=60) | st.lists(st.text(max_size=8)).map(lambda names: "/" + "/".join(names)))
def test_any_text_is_somebody_or_nobody(path: str) -> None:
    found = parse_cgroup_path(path)
    if found is not None:
        assert found.path.startswith("/")
        assert parse_cgroup_path(found.path) == found


def test_a_synthetic_uid_is_stable_and_of_its_node() -> None:
    seen = {parse_cgroup_path(path) for path in (f"/docker/{A}", f"/system.slice/docker-{A}.scope")}
    uids_of_a = {one.synthetic_uid("a") for one in seen if one}
    assert len(uids_of_a) == 1, "one container has one uid, whatever its path in a hierarchy"
    unit, other = parse_cgroup_path("/a/x.service"), parse_cgroup_path("/b/x.service")
    assert unit is not None
    assert other is not None
    assert unit.synthetic_uid("a") == "298a5b72-c1d5-5ce0-80ca-add0be1e72a1"  # published: it must not change
    assert len({unit.synthetic_uid("a"), unit.synthetic_uid("b"), other.synthetic_uid("a"), *uids_of_a}) == 4

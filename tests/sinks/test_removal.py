"""``dutycycle remove``, as a process: from everything, ours alone, and what failed is told."""

import asyncio
from pathlib import Path

import pytest

from dutycycle.kube.discovery import Kind
from sinks.removal import may_carry
from tests.support.fakes.api_server import MPIJOB, NODE, FakeApi, Trouble
from tests.support.processes.commands import environ, run_to_end
from tests.support.servers.kube.client import kubeconfig

ELSEWHERE = "/api/v1/namespaces/other/pods/elsewhere"
FOREIGN = {
    "dutycycle.io/trial": "gpus=1,2", "example.org/a": "1", "plain": "2", "xdutycycle.io/a": "3",
    "dutycycle.io.example/a": "4",
}  # fmt: skip


def pod(i: int) -> str:
    return f"/api/v1/namespaces/default/pods/pod-{i}"


@pytest.fixture
def api(api: FakeApi) -> FakeApi:
    """With objects that carry annotations of ours, and of others."""
    for i in range(7):
        two = {"dutycycle.io/a": "1", "dutycycle.io/b": "2"}
        api.add(pod(i), f"uid-{i}")["annotations"] = two | FOREIGN
    api.add("/api/v1/namespaces/default/pods/untouched", "u")["annotations"] = dict(FOREIGN)
    for namespace in ("default", "other"):
        api.add(f"/api/v1/namespaces/{namespace}")["annotations"] = dict(FOREIGN)
    for path in (NODE, MPIJOB, ELSEWHERE):
        api.add(path, path)["annotations"] = {"dutycycle.io/gpu-0": "{}", **FOREIGN}
    return api


async def removal(api: FakeApi, folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, output and errors of the command."""
    env = environ() | {"KUBECONFIG": str(kubeconfig(folder / "config", api.url))}
    done = await asyncio.to_thread(run_to_end, "remove", *arguments, env=env)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


async def test_all_of_ours_and_nothing_else_goes(api: FakeApi, tmp_path: Path) -> None:
    status, out, err = await removal(api, tmp_path, "--dry-run")
    assert (status, err) == (0, "")
    assert "Pod default/pod-0: dutycycle.io/a, dutycycle.io/b\n" in out
    assert out.endswith("would remove 17 annotations from 10 objects: 1 MPIJob, 1 Node, 8 Pod\n")
    assert api.count("PATCH") == 0
    status, out, err = await removal(api, tmp_path)
    assert (status, out) == (0, "removed 17 annotations from 10 objects: 1 MPIJob, 1 Node, 8 Pod\n")
    assert "a sink or webhook that still runs makes them again" in err
    assert all(one["annotations"] == FOREIGN for one in api.objects.values())
    assert api.count("PATCH") == 10
    assert all(set(one["annotations"].values()) == {None} for one in api.patches)
    status, out, err = await removal(api, tmp_path)
    assert (status, out, err) == (0, "removed 0 annotations from 0 objects\n", "")


async def test_in_one_namespace(api: FakeApi, tmp_path: Path) -> None:
    status, out, _ = await removal(api, tmp_path, "-n", "other")
    assert (status, out) == (0, "removed 1 annotations from 1 objects: 1 Pod\n")
    assert api.objects[ELSEWHERE]["annotations"] == FOREIGN
    assert "dutycycle.io/gpu-0" in api.objects[NODE]["annotations"]


async def test_a_namespace_that_does_not_exist_is_an_error(api: FakeApi, tmp_path: Path) -> None:
    for flags in ([], ["--dry-run"]):
        status, out, err = await removal(api, tmp_path, "-n", "nosuch", *flags)
        assert (status, out) == (1, "")
        assert err == "dutycycle: there is no namespace nosuch: see --namespace\n"
    assert api.count("PATCH") == 0


async def test_a_namespace_without_a_name_is_not_all_of_them(api: FakeApi, tmp_path: Path) -> None:
    api.refused["/api/v1/namespaces/"] = 403
    status, out, err = await removal(api, tmp_path, "-n", "")
    assert (status, out) == (1, "")
    assert "--namespace: is empty" in err
    assert api.count("PATCH") == 0


async def test_a_namespace_that_may_not_be_asked_for_is_taken_as_it_is(api: FakeApi, tmp_path: Path) -> None:
    api.refused["/api/v1/namespaces/other"] = 403
    status, out, err = await removal(api, tmp_path, "-n", "other")
    assert (status, out) == (0, "removed 1 annotations from 1 objects: 1 Pod\n")
    assert "is not known" not in err


async def test_nothing_in_a_namespace_that_may_not_be_asked_for_may_be_no_namespace(
    api: FakeApi, tmp_path: Path
) -> None:
    api.refused["/api/v1/namespaces/nosuch"] = 403
    status, out, err = await removal(api, tmp_path, "-n", "nosuch")
    assert (status, out) == (0, "removed 0 annotations from 0 objects\n")
    assert err.startswith(
        "dutycycle: nothing was found, and whether there is a namespace nosuch is not known: 403: "
    )
    assert err.count("\n") == 1


async def test_copies_go_after_what_they_are_copied_from(api: FakeApi, tmp_path: Path) -> None:
    """Kubernetes copies a Deployment's annotations to its ReplicaSet whenever either changes."""
    api.groups["/apis/apps/v1"] = [("ReplicaSet", "replicasets", True), ("Deployment", "deployments", True)]
    begin = "/apis/apps/v1/namespaces/default"
    objects = [f"{begin}/deployments/web", f"{begin}/replicasets/web-1", f"{begin}/replicasets/web-2"]
    for path in objects:
        api.add(path, path)["annotations"] = {"dutycycle.io/web-1-x": "{}"} | FOREIGN
    status, out, _ = await removal(api, tmp_path, "-n", "default")
    assert status == 0
    assert "1 Deployment, 1 MPIJob, 7 Pod, 2 ReplicaSet" in out
    assert all(api.objects[path]["annotations"] == FOREIGN for path in objects)
    patched = [path for method, path in api.seen if method == "PATCH" and path in objects]
    assert patched[0] == objects[0]


async def test_what_fails_is_told_and_does_not_stop_the_rest(api: FakeApi, tmp_path: Path) -> None:
    no = '{"message":"pods \\"pod-3\\" is forbidden: User \\"u\\" cannot patch resource \\"pods\\""}'
    api.always = Trouble(403, path=pod(3), body=no)
    api.trouble.extend([Trouble(429, {"Retry-After": "1"}), Trouble(500), Trouble(409)])
    status, out, err = await removal(api, tmp_path)
    assert status == 1
    assert out == "removed 15 annotations from 9 objects: 1 MPIJob, 1 Node, 7 Pod\n"
    assert 'patch Pod default/pod-3: 403: pods "pod-3" is forbidden' in err
    assert "a role must allow it" in err
    assert "dutycycle.io/a" in api.objects[pod(3)]["annotations"]


async def test_a_kind_that_may_not_be_listed(api: FakeApi, tmp_path: Path) -> None:
    api.always = Trouble(403, method="GET", path="/mpijobs", body='{"message":"cannot list resource"}')
    status, out, err = await removal(api, tmp_path)
    assert (status, out) == (1, "removed 16 annotations from 9 objects: 1 Node, 8 Pod\n")
    assert "list mpijobs: 403: cannot list resource (a role must allow it)" in err


@pytest.mark.parametrize("flags", [[], ["-n", "other"]], ids=["everywhere", "namespace"])
async def test_without_a_server(flags: list[str], api: FakeApi, tmp_path: Path) -> None:
    await api.stop()
    status, out, err = await removal(api, tmp_path, *flags)
    assert (status, out) == (1, "")
    assert err.startswith("dutycycle: the API server's kinds cannot be read: http://127.0.0.1:")
    assert err.count("\n") == 1


CARRY: dict[tuple[str, str], bool] = {
    ("v1", "Pod"): True,
    ("v1", "Node"): True,
    ("v1", "Secret"): False,
    ("v1", "ConfigMap"): False,
    ("batch/v1", "Job"): True,
    ("apps/v1", "StatefulSet"): True,
    ("apps/v1", "ReplicaSet"): True,
    ("apps/v1", "ControllerRevision"): True,
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): True,
    ("kubeflow.org/v2beta1", "MPIJob"): True,
    ("example.com/v1", "Experiment"): True,
    ("rbac.authorization.k8s.io/v1", "Role"): False,
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): False,
    ("policy/v1", "PodDisruptionBudget"): False,
}


@pytest.mark.parametrize(("what", "expected"), CARRY.items(), ids=map("-".join, CARRY))
def test_what_can_carry_annotations(what: tuple[str, str], expected: bool) -> None:
    kind = Kind(*what, plural="x", namespaced=True, verbs=frozenset({"list", "patch", "get"}))
    assert may_carry(kind, None) is expected
    assert not may_carry(Kind(*what, plural="x", namespaced=True, verbs=frozenset({"list"})), None)
    assert not may_carry(Kind(*what, plural="x", namespaced=False, verbs=kind.verbs), "default")

"""Objects of a fake API server, read and merged into. A real one also validates."""

import pytest

from dutycycle.kube.errors import GoneError, NoKindError
from dutycycle.kube.references import ObjectRef
from tests.support.fakes.api_server import MPIJOB, NODE, POD, FakeApi

TARGET = ObjectRef("v1", "Pod", "pod-of-uid-1", "default", "uid-1")


async def test_a_merge_patch_writes_and_takes_away_and_leaves_others_alone(api: FakeApi) -> None:
    api.add(POD, "uid-1", example__a="1", dutycycle="2")
    client = api.client()
    after = await client.annotate(TARGET, {"dutycycle.io/a": '"ü"', "dutycycle.io/b": "2"})
    assert after == {"example/a": "1", "dutycycle": "2", "dutycycle.io/a": '"ü"', "dutycycle.io/b": "2"}
    await client.annotate(TARGET, {"dutycycle.io/b": None})
    assert await client.annotations(TARGET) == {"example/a": "1", "dutycycle": "2", "dutycycle.io/a": '"ü"'}
    assert api.content_types == {"application/merge-patch+json"}
    assert api.patches[0]["uid"] == "uid-1"
    await client.close()


async def test_every_kind_by_one_path_and_one_discovery(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    api.add(NODE, "any")
    api.add(MPIJOB, "job-1")
    client = api.client()
    node = ObjectRef("v1", "Node", "gpu-a")
    job = ObjectRef("kubeflow.org/v2beta1", "MPIJob", "bert", "default", "job-1")
    for target in (TARGET, node, job, TARGET, job):
        await client.annotate(target, {"dutycycle.io/a": "1"})
    assert [path for method, path in api.seen if method == "GET"] == [
        "/api/v1", "/apis/kubeflow.org/v2beta1",
    ]  # fmt: skip
    with pytest.raises(GoneError, match="no kind Pood"):
        await client.annotations(ObjectRef("v1", "Pood", "x", "default"))
    await client.close()


async def test_an_object_is_found_again_when_its_version_is_served_no_more(api: FakeApi) -> None:
    api.groups["/apis/kubeflow.org/v2"] = [("MPIJob", "mpijobs", True)]
    api.add(MPIJOB, "job-1", example__a="1")
    client = api.client()
    job = ObjectRef("kubeflow.org/v2beta1", "MPIJob", "bert", "default", "job-1")
    assert await client.annotations(job) == {"example/a": "1"}
    del api.groups["/apis/kubeflow.org/v2beta1"]
    api.objects[MPIJOB.replace("v2beta1", "v2")] = api.objects.pop(MPIJOB)
    assert await client.annotate(job, {"dutycycle.io/a": "1"}) == {"example/a": "1", "dutycycle.io/a": "1"}
    api.seen.clear()
    assert await client.annotations(job) == {"example/a": "1", "dutycycle.io/a": "1"}
    with pytest.raises(GoneError, match='mpijobs "gone" not found'):
        await client.annotations(ObjectRef("kubeflow.org/v2beta1", "MPIJob", "gone", "default"))
    assert {path.rpartition("/")[0] for path in api.requests} == {
        MPIJOB.replace("v2beta1", "v2").rpartition("/")[0]
    }
    del api.groups["/apis/kubeflow.org/v2"]
    api.objects.clear()
    with pytest.raises(NoKindError, match=r"kubeflow\.org/v2beta1 has no kind MPIJob"):
        await client.annotations(job)
    await client.close()

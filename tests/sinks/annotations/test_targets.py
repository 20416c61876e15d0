"""Goal: only an object that is surely the one that was measured is written."""

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.pods import JobRef, Pod, name_key
from sinks.annotations.core.targets import job_target, pod_target

POD = Pod(uid="u", name="bert-0", node="gpu-a", phase="Running")
JOB = JobRef(api_version="batch/v1", kind="Job", name="bert", uid="u")


@pytest.mark.parametrize(
    ("uid", "namespace", "there"),
    [("u", "team", True), ("u", None, False), (name_key("team", "bert-0"), "team", False)],
)
def test_a_pod_is_known_by_its_uid(uid: str, namespace: str | None, there: bool) -> None:
    assert (pod_target(replace(POD, uid=uid, namespace=namespace)) is not None) is there


@pytest.mark.parametrize(
    ("fields", "namespace", "there"),
    [
        ({"uid": "u"}, "team", True),
        ({"uid": "u"}, None, False),
        ({"uid": name_key("team", "Job", "bert")}, "team", False),
        ({"uid": "u", "api_version": "v1", "kind": "Pod"}, "team", False),
        ({"uid": "u", "api_version": "unknown", "kind": "PyTorchJob"}, "team", False),
    ],
)
def test_a_job_is_another_object_than_its_pod(
    fields: dict[str, str], namespace: str | None, there: bool
) -> None:
    assert (job_target(replace(JOB, **fields), namespace) is not None) is there

"""Goal: what the API server shows of a pod becomes its record; what it does not show stays absent."""

from typing import Any

import pytest

from collectors.pods.convert import pod_record, records, replica_of, revision_of, role_of
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.kube.references import ObjectRef
from dutycycle.kube.resources import gpu_request, gpu_uuids
from dutycycle.kube.templates import template_of

GPU_1 = "GPU-00000000-0000-4000-8000-000000000001"
GPU_2 = "GPU-00000000-0000-4000-8000-000000000002"
_KUBEFLOW = "training.kubeflow.org/"
_JOBSET = "jobset.sigs.k8s.io/"
MIG = "MIG-00000000-0000-4000-8000-00000000000a"
MPI = ObjectRef("kubeflow.org/v2beta1", "MPIJob", "bert", "team", "u-bert")
POD: dict[str, Any] = {
    "metadata": {
        "uid": "u1", "name": "bert-worker-0", "namespace": "team",
        "creationTimestamp": "2023-11-14T22:13:20Z",
        "labels": {_KUBEFLOW + "job-role": "worker", _KUBEFLOW + "replica-index": "0"},
    },
    "spec": {
        "nodeName": "gpu-a",
        "containers": [{"image": "bert:1", "resources": {"limits": {"nvidia.com/gpu": "2", "cpu": "4"}}}],
    },
    "status": {"phase": "Running", "startTime": "2023-11-14T22:13:21.5Z"},
}  # fmt: skip


def test_a_whole_pod() -> None:
    record = pod_record(POD, MPI)
    assert record == Pod(
        uid="u1", namespace="team", name="bert-worker-0", node="gpu-a", phase="Running",
        created_ms=1_700_000_000_000, started_ms=1_700_000_001_500, images=("bert:1",), gpu_request=2,
        program=template_of(POD["spec"]).program, template=template_of(POD["spec"]).template,
        cpu_request=4, cpu_limit=4,
        job=JobRef(
            api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="u-bert", role="worker",
            replica=0,
        ),
    )  # fmt: skip
    assert decode(Pod, encode(record), "pods") == record


def test_an_image_that_cannot_be_printed_costs_no_record() -> None:
    spec = POD["spec"] | {"containers": [{"image": "bert:1\u200b"}, {"image": ""}, {}]}
    record = pod_record(POD | {"spec": spec}, None)
    assert record.images == ("bert:1?",)
    assert decode(Pod, encode(record), "pods") == record


def test_labels_that_were_asked_for() -> None:
    labels = {"team": "blue", "empty": "", "other": "x"}
    pod = POD | {"metadata": POD["metadata"] | {"labels": labels}}
    assert pod_record(pod, None, ("team", "empty", "missing")).labels == {"team": "blue"}
    assert pod_record(pod, None, ("missing",)).labels is None
    assert [one.labels for one in records(pod, None, ("team",))] == [{"team": "blue"}]


def test_a_pod_of_a_trial_says_whose() -> None:
    labels = {"dutycycle.io/trial-of": "train"}
    assert pod_record(POD | {"metadata": POD["metadata"] | {"labels": labels}}, None).trial_of == "train"
    assert pod_record(POD, None).trial_of is None


def test_a_pod_of_which_little_is_known() -> None:
    record = pod_record({"metadata": {"uid": "u1", "name": "n"}, "spec": {"nodeName": "gpu-a"}}, None)
    assert record == Pod(uid="u1", name="n", node="gpu-a", phase="Unknown", images=(), gpu_request=0)


def ended(*ends: str | None) -> dict[str, Any]:
    states: list[dict[str, Any]] = [
        {"state": {"terminated": {"finishedAt": end}}} if end else {"state": {}} for end in ends
    ]
    return {"phase": "Succeeded", "containerStatuses": states}


@pytest.mark.parametrize(
    ("status", "finished_ms"),
    [
        (ended("2023-11-14T22:13:20Z", "2023-11-14T22:13:22Z"), 1_700_000_002_000),
        (ended("2023-11-14T22:13:20Z", None), 1_700_000_000_000),
        (ended("2023-11-14T23:13:20+01:00"), 1_700_000_000_000),
        (ended("yesterday"), None),
        (ended(), None),
        (ended("2023-11-14T22:13:20Z") | {"phase": "Failed"}, 1_700_000_000_000),
        (ended("2023-11-14T22:13:20Z") | {"phase": "Running"}, None),
        ({"phase": "Failed", "reason": "Evicted"}, None),
        ({"phase": "Failed", "containerStatuses": None}, None),
    ],
)
def test_when_a_pod_finished(status: dict[str, Any], finished_ms: int | None) -> None:
    assert pod_record(POD | {"status": status}, None).finished_ms == finished_ms


def test_a_static_pod_is_known_by_the_uid_of_its_cgroup_too() -> None:
    meta = POD["metadata"] | {"annotations": {"kubernetes.io/config.hash": "ab" * 16}}
    first, second = records(POD | {"metadata": meta}, None)
    assert (first.uid, second.uid) == ("u1", "ab" * 16)
    assert (second.name, first.object_uid, second.object_uid) == (first.name, None, "u1")
    assert [one.uid for one in records(POD, None)] == ["u1"]


@pytest.mark.parametrize("text", ["", "x" * 600, "13ed334a-563d-4708-a676-4312092b00cb", "u1"])
def test_a_hash_that_the_kubelet_did_not_write_is_no_second_uid(text: str) -> None:
    """Whoever makes a pod may write it: with the uid of another's pod he would take its place."""
    meta = POD["metadata"] | {"annotations": {"kubernetes.io/config.hash": text}}
    assert [one.uid for one in records(POD | {"metadata": meta}, None)] == ["u1"]


@pytest.mark.parametrize(
    "pod", [{}, {"metadata": {"name": "n"}}, {"metadata": {"uid": "u", "name": "n"}, "spec": {}}]
)
def test_what_is_no_pod(pod: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        pod_record(pod, None)


def asking(**resources: Any) -> dict[str, Any]:
    return {"resources": resources}


@pytest.mark.parametrize(
    ("spec", "request_"),
    [
        ({}, 0),
        ({"containers": [{}]}, 0),
        ({"containers": [asking(requests={"cpu": "1"})]}, 0),
        ({"containers": [asking(limits={"nvidia.com/gpu": "1"})]}, 1),
        ({"containers": [asking(requests={"nvidia.com/gpu": "2"}, limits={"nvidia.com/gpu": "2"})]}, 2),
        ({"containers": [asking(limits={"nvidia.com/gpu": 1}), asking(limits={"nvidia.com/gpu": 3})]}, 4),
        ({"containers": [asking(limits={"nvidia.com/mig-1g.18gb": "2", "nvidia.com/gpu.shared": "1"})]}, 3),
        ({"containers": [asking(limits={"nvidia.com/gpumem": "9000", "nvidia.com/gpucores": "30"})]}, None),
        ({"containers": [asking(limits={"nvidia.com/gpu": 2, "nvidia.com/gpumem": "9000"})]}, 2),
        ({"containers": [asking(limits={"aliyun.com/gpu-mem": "8"})]}, None),
        ({"containers": [asking(limits={"aliyun.com/gpu-mem": "0"})]}, 0),
        ({"containers": [asking(limits={"nvidia.com/gpu": "{{inputs.parameters.gpus}}"})]}, None),
        ({"containers": [asking(limits={"nvidia.com/gpu": "{{n}}"}), asking(limits={"amd.com/gpu": 2})]}, 2),
        ({"containers": [asking(limits={"gpu.intel.com/i915": 1, "gpu.intel.com/millicores": 500})]}, 1),
        ({"containers": [asking(limits={"deviceclass.resource.kubernetes.io/gpu.nvidia.com": 2})]}, 2),
        ({"containers": [asking(limits={"amd.com/gpu": "8"})]}, 8),
        ({"containers": [asking(limits={"amd.com/cpx_nps4": "8"})]}, 8),
        ({"containers": [asking(limits={"nvidia.com/GP102GL_Tesla_P40": "1"})]}, 1),
        ({"containers": [asking(limits={"nvidia.com/NVIDIA_A10-12Q": "1", "nvidia.com/pgpu": "1"})]}, 2),
        ({"containers": [asking(limits={"nvidia.com/hostdev": "1"})]}, 0),
        ({"containers": [asking(limits={"nvidia.com/gpu": "1k"})]}, 1000),
        ({"containers": [asking(limits={"nvidia.com/gpu": "many"})]}, None),
        (
            {
                "containers": [asking(limits={"nvidia.com/gpu": "1"})],
                "initContainers": [asking(limits={"nvidia.com/gpu": "4"})],
            },
            4,
        ),
        (
            {
                "containers": [asking(limits={"nvidia.com/gpu": "1"})],
                "initContainers": [asking(limits={"nvidia.com/gpu": "1"}) | {"restartPolicy": "Always"}],
            },
            2,
        ),
        ({"containers": [{}], "resourceClaims": [{"name": "gpu"}]}, None),
    ],
)
def test_what_a_pod_asks_for(spec: dict[str, Any], request_: float | None) -> None:
    assert gpu_request(spec, None) == request_


@pytest.mark.parametrize(
    ("annotations", "visible", "uuids"),
    [
        ({}, None, None),
        ({}, "all", None),
        ({}, "0,1", None),
        ({}, f"{GPU_1},{GPU_2}", (GPU_1, GPU_2)),
        ({}, MIG, (MIG,)),
        ({"hami.io/vgpu-devices-allocated": f"{GPU_1},NVIDIA,3000,30:;"}, None, (GPU_1,)),
        ({"hami.io/vgpu-devices-allocated": f"{GPU_1},NVIDIA,3000,30:;"}, GPU_1, (GPU_1,)),
        ({"example.org/note": f"once failed on {GPU_1}"}, None, None),
        ({"dutycycle.io/gpu_util": '{"gpu_0_827505":27}'}, None, None),
    ],
)
def test_which_gpus_a_pod_was_given(
    annotations: dict[str, str], visible: str | None, uuids: tuple[str, ...] | None
) -> None:
    environment = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}] if visible else None
    assert gpu_uuids({"containers": [{"env": environment}]}, annotations) == uuids


@pytest.mark.parametrize(
    ("kind", "labels", "revision"),
    [
        ("Deployment", {"pod-template-hash": "5d8f"}, "5d8f"),
        ("StatefulSet", {"controller-revision-hash": "web-7c9b"}, "web-7c9b"),
        ("LeaderWorkerSet",
         {"leaderworkerset.sigs.k8s.io/template-revision-hash": "a", "controller-revision-hash": "b"}, "a"),
        ("CronJob", {"batch.kubernetes.io/job-name": "nightly-2"}, "nightly-2"),
        ("RayService", {"ray.io/cluster": "llm-xk2"}, "llm-xk2"),
        ("RayCluster", {}, "raycluster"),
        ("Job", {"batch.kubernetes.io/job-name": "train", "controller-uid": "x"}, None),
        ("MPIJob", {"pod-template-hash": "5d8f"}, None),
    ],
)  # fmt: skip
def test_the_pods_of_what_does_not_end_are_of_a_revision_or_run(
    kind: str, labels: dict[str, str], revision: str | None
) -> None:
    assert revision_of(kind, labels) == revision


@pytest.mark.parametrize(
    ("labels", "role", "replica"),
    [
        ({}, None, None),
        ({_KUBEFLOW + "replica-type": "Worker", _KUBEFLOW + "replica-index": "3"}, "worker", 3),
        ({_KUBEFLOW + "replica-type": "worker", _KUBEFLOW + "job-role": "master"}, "worker", None),
        ({_KUBEFLOW + "replica-type": "worker", _KUBEFLOW + "replica-index": "9" * 30}, "worker", None),
        ({_KUBEFLOW + "job-role": "launcher"}, "launcher", None),
        ({"batch.kubernetes.io/job-completion-index": "7"}, None, 7),
        ({"ray.io/node-type": "head"}, "head", None),
        ({"ray.io/node-type": "worker", "ray.io/worker-group-replica-index": "1"}, "worker", 1),
        (
            {
                _JOBSET + "replicatedjob-name": "node", _JOBSET + "replicatedjob-replicas": "1",
                _JOBSET + "job-index": "0", "batch.kubernetes.io/job-completion-index": "5",
            },
            "node", 5,
        ),
        (
            {
                _JOBSET + "replicatedjob-name": "workers",
                _JOBSET + "replicatedjob-replicas": "4", _JOBSET + "job-index": "2",
                "batch.kubernetes.io/job-completion-index": "0",
            },
            "workers", 2,
        ),
        ({"apps.kubernetes.io/pod-index": "2"}, None, 2),
        ({"leaderworkerset.sigs.k8s.io/worker-index": "1"}, None, 1),
        ({"volcano.sh/task-spec": "ps", "volcano.sh/task-index": "0"}, "ps", 0),
        ({_KUBEFLOW + "replica-index": "two"}, None, None),
        ({_KUBEFLOW + "replica-index": "-1"}, None, None),
        ({_KUBEFLOW + "replica-index": "²"}, None, None),
    ],
)  # fmt: skip
def test_a_pod_s_part_in_its_job(labels: dict[str, str], role: str | None, replica: int | None) -> None:
    assert (role_of(labels), replica_of(labels)) == (role, replica)


@pytest.mark.parametrize(
    ("annotations", "gpus"),
    [
        ({"gpu-fraction": "0.5"}, 0.5),
        ({"gpu-fraction": "0.25", "gpu-fraction-num-devices": "2"}, 0.5),
        ({"gpu-memory": "2000"}, None),
        ({"gpu-fraction": "half"}, None),
        ({"gpu-fraction": "-1"}, None),
        ({"team": "a"}, 0),
    ],
)
def test_parts_of_gpus_that_annotations_ask_for(annotations: dict[str, str], gpus: float | None) -> None:
    """As the KAI scheduler has them; where containers ask for GPUs, these count."""
    assert gpu_request({"containers": [{}]}, annotations) == gpus
    whole = {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 2}}}]}
    assert gpu_request(whole, annotations) == 2

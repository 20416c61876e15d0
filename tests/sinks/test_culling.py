"""Only what is proven idle is idle: each pod that holds GPUs, now, and for so long."""

from typing import Any, cast

import pytest

from dutycycle.contract.records.derived import pod_subject
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import PodInsight, WorkloadState
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.units import utc_day
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import KubeError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.stops import kind_of, manager_of, stop_command, stop_of
from sinks.culling.ledger import CullLedger
from sinks.culling.verdicts import FRESH_MS, IdlePods, IdleWorkload, unproven

HOUR_MS = 3_600_000
NOW = 100 * HOUR_MS
WEB = JobRef(api_version="apps/v1", kind="Deployment", name="web", uid="uid-of-web")
_INSIGHT = Insight(
    subject=pod_subject("n", "a"), ts_ms=1, since_ms=1, kind="idle", confidence=1, bottleneck="idle",
    bottleneck_confidence=1,
)  # fmt: skip


def said(
    uid: str, idle_h: float | None, *, age_ms: int = 0, gpus: float | None = 1, job: JobRef | None = WEB
) -> PodInsight:
    since_ms = None if idle_h is None else round(NOW - idle_h * HOUR_MS)
    pod = Pod(uid=uid, namespace="ml", name=uid, node="n", phase="Running", gpu_request=gpus, job=job)
    return PodInsight(
        pod=pod, insight=_INSIGHT, state=WorkloadState(seen_ms=NOW - age_ms, idle_since_ms=since_ms)
    )


def idle(*records: PodInsight) -> list[tuple[str, ...]]:
    known = IdlePods()
    for record in records:
        known.take(record)
    return [tuple(pod.uid for pod in found.pods) for found in known.workloads(NOW, 8 * HOUR_MS)]


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([said("a", 9)], [("a",)]),
        ([said("a", 9), said("b", 20)], [("a", "b")]),
        ([said("a", 9), said("b", 7.9)], []),  # one has not been idle for so long
        ([said("a", 9), said("b", None)], []),  # one works, or nobody knows
        ([said("a", 9), said("launcher", None, gpus=0)], [("a",)]),  # it has no GPU to use
        ([said("a", 9, age_ms=FRESH_MS + 1)], []),  # it may work by now
        ([said("a", 9, age_ms=-60_000)], [("a",)]),
        ([said("a", 9, age_ms=-FRESH_MS - 1)], []),  # its clock is wrong: who knows for how long it was idle
        ([said("a", 9), said("b", 9, age_ms=-FRESH_MS - 1)], []),
        ([said("a", 9), said("a", None, age_ms=1000)], [("a",)]),  # read again
        ([said("a", None), said("a", 9, age_ms=1000)], []),
        ([said("a", 9, job=None)], []),
    ],
)
def test_a_workload_is_idle_if_all_its_pods_are(
    records: list[PodInsight], expected: list[tuple[str, ...]]
) -> None:
    assert idle(*records) == expected


def workload(job: JobRef = WEB) -> IdleWorkload:
    known = IdlePods()
    known.take(said("a", 9, job=job))
    (found,) = known.workloads(NOW, HOUR_MS)
    return found


def pod(uid: str, owner: str = "web-1", *, phase: str = "Running", gpus: int = 1) -> dict[str, Any]:
    reference = {"kind": "ReplicaSet", "name": owner, "uid": f"uid-of-{owner}", "controller": True}
    meta: dict[str, Any] = {"uid": uid, "name": uid, "ownerReferences": [reference]}
    meta["labels"] = {"pod-template-hash": owner.rpartition("-")[2]}
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    spec = {"containers": [{"name": "c", "resources": {"limits": limits}}]}
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def annotated(of: dict[str, Any], key: str) -> dict[str, Any]:
    of["metadata"]["annotations"] = {key: "0.5"}
    return of


@pytest.mark.parametrize(
    ("pods", "said"),
    [
        ([pod("a"), annotated(pod("part", gpus=0), "gpu-fraction")], "of its pod part it is not known"),
        ([pod("a"), annotated(pod("part", gpus=0), "gpu-memory")], "of its pod part it is not known"),
        ([pod("a")], None),
        ([pod("a"), pod("other", "api-1")], None),
        ([pod("a"), pod("done", phase="Succeeded")], None),
        ([pod("a"), pod("proxy", gpus=0)], None),
        ([pod("a"), pod("b", phase="Pending")], "of its pod b it is not known"),
        ([pod("a"), pod("new", "web-2")], "of its pod new it is not known"),  # a rollout
        ([pod("a", phase="Failed")], "its pods are gone"),
        ([], "its pods are gone"),
    ],
)
def test_pods_of_which_nothing_is_known_may_be_about_to_work(
    pods: list[dict[str, Any]], said: str | None
) -> None:
    assert unproven(workload(), pods) == said


def test_what_is_stopped_already_or_of_another_kind_is_not_stopped() -> None:
    notebook = JobRef(api_version="kubeflow.org/v1", kind="Notebook", name="nb", uid="u")
    jobset = JobRef(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="js", uid="u")
    volcano = JobRef(api_version="batch.volcano.sh/v1alpha1", kind="Job", name="v", uid="u")
    job = JobRef(api_version="batch/v1", kind="Job", name="j", uid="u")
    stopped_notebook = {"metadata": {"annotations": {"kubeflow-resource-stopped": "x"}}}
    for owner, thing in (
        (WEB, {"spec": {"replicas": 0}}), (job, {"spec": {"suspend": True}}), (notebook, stopped_notebook),
    ):  # fmt: skip
        assert kind_of(owner) is not None
        assert stop_of(owner, "ml", thing, NOW) is None
    assert kind_of(jobset) is kind_of(volcano) is None


@pytest.mark.parametrize(
    ("metadata", "spec", "manager"),
    [
        ({}, {}, None),
        ({"labels": {"app": "web"}}, {"managedBy": "kubernetes.io/job-controller"}, None),
        # An owner that no role lets the collectors read: it would scale its Deployment up again.
        ({"ownerReferences": [{"kind": "NIMService", "name": "llama", "controller": True}]}, {},
            "NIMService llama"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "gpus"}}, {}, "Kueue"),
        ({}, {"managedBy": "kueue.x-k8s.io/multikueue"}, "kueue.x-k8s.io/multikueue"),
    ],
)  # fmt: skip
def test_who_would_begin_a_workload_again(
    metadata: dict[str, Any], spec: dict[str, Any], manager: str | None
) -> None:
    assert manager_of({"kind": "Job", "metadata": metadata, "spec": spec}) == manager
    if not metadata.get("ownerReferences"):  # of a Deployment each new pod waits in the queue
        assert manager_of({"kind": "Deployment", "metadata": metadata, "spec": {}}) is None


class LedgerServer:
    """A ConfigMap as the API server keeps it: of a MiB at most, and only for who has read it last."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self._version = 1

    async def read(self, kind: Kind, name: str, namespace: str) -> dict[str, Any]:
        return {"metadata": {"resourceVersion": str(self._version)}, "data": self.data}

    async def merge(self, kind: Kind, name: str, namespace: str, change: dict[str, Any]) -> None:
        assert change["metadata"]["resourceVersion"] == str(self._version)
        data = {**self.data, **change["data"]}
        self.data = {key: text for key, text in data.items() if text is not None}
        if sum(map(len, self.data.values())) > 2**20:
            raise RefusedError("422", "Too long: must have at most 1048576 bytes")
        self._version += 1


async def test_the_ledger_forgets_its_oldest_days_when_it_is_full() -> None:
    server = LedgerServer()
    ledger = CullLedger(cast("ApiServer", server), "ns", "dutycycle-cull")
    await ledger.load()
    entry, day_ms = {"why": "w" * 600}, 24 * HOUR_MS
    for day in range(60):
        for _ in range(50):
            await ledger.note(entry, NOW + day * day_ms)
        assert ledger.stopped_on(NOW + day * day_ms) == 50
    days = sorted(server.data.keys() - {"announced"})
    assert 20 < len(days) < 30
    assert days[-1].endswith(utc_day(NOW + 59 * day_ms))


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"u": 7}', '{"u": {"at_ms": 1, "idle_since_ms": "x"}}'])
async def test_a_ledger_that_somebody_has_made_unreadable_names_the_key(text: str) -> None:
    server = LedgerServer()
    server.data = {"announced": text}
    with pytest.raises(KubeError, match=r"announced is no .*: mend it, or take the key away"):
        await CullLedger(cast("ApiServer", server), "ns", "dutycycle-cull").load()


@pytest.mark.parametrize(
    ("api_version", "kind", "command"),
    [
        ("apps/v1", "Deployment", "kubectl -n ml scale deployment/w --replicas=0"),
        ("apps/v1", "StatefulSet", "kubectl -n ml scale statefulset/w --replicas=0"),
        ("batch/v1", "Job", """kubectl -n ml patch job/w --type=merge -p '{"spec":{"suspend":true}}'"""),
        ("kubeflow.org/v1", "Notebook",
            "kubectl -n ml annotate notebook/w kubeflow-resource-stopped=1970-01-01T00:00:00Z"),
        ("kubeflow.org/v1", "PyTorchJob", "kubectl -n ml delete pytorchjob/w"),
        ("batch.volcano.sh/v1alpha1", "Job", "kubectl -n ml delete job.batch.volcano.sh/w"),
    ],
)  # fmt: skip
def test_what_a_person_types_to_stop_a_workload(api_version: str, kind: str, command: str) -> None:
    job = JobRef(api_version=api_version, kind=kind, name="w", uid="u")
    assert stop_command(job, "ml", 0) == command


def test_names_that_a_shell_would_read_are_quoted_where_a_command_is_copied() -> None:
    job = JobRef(api_version="apps/v1", kind="Deployment", name="w; rm -rf ~", uid="u")
    assert (
        stop_command(job, "ml$(id)", 0) == "kubectl -n 'ml$(id)' scale 'deployment/w; rm -rf ~' --replicas=0"
    )


def test_a_stop_is_taken_back_by_the_command_that_it_tells() -> None:
    job = JobRef(api_version="batch/v1", kind="Job", name="w", uid="u")
    stop = stop_of(job, "ml", {}, NOW)
    assert stop is not None
    assert stop.undo == stop_command(job, "ml", NOW).replace("true", "false")

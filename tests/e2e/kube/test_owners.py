"""Whose a pod is, on the real API server and under the shipped permissions: every operator's chain of owners.

The kinds and labels are those that the operators make; the operators themselves are played by the tests.
"""

from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from collectors.pods.watch import RefreshPolicy
from dutycycle.telemetry.events import OWNER_FORBIDDEN
from tests.support.kube.cluster import Cluster
from tests.support.kube.contents import APP, CRON, SPEC
from tests.support.kube.shipped import account, shipped_rules
from tests.support.kube.watching import Watch, bound, job_of
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

KUBEFLOW = "training.kubeflow.org"
JOBSET = "jobset.sigs.k8s.io"


@dataclass(frozen=True)
class Case:
    """``chain``: (apiVersion, kind, content) from the top to the pod's own owner; the top is the job."""

    chain: tuple[tuple[str, str, Object], ...]
    labels: dict[str, str] = field(default_factory=dict)
    role: str | None = None
    replica: int | None = None


def one(api_version: str, kind: str, content: Object | None = None) -> tuple[str, str, Object]:
    return api_version, kind, content or {}


JOB = one("batch/v1", "Job", SPEC)
SET = one("apps/v1", "StatefulSet", APP)
POD = one("v1", "Pod", {"spec": {"containers": [{"name": "main", "image": "any"}]}})
CASES = {
    "Job": Case((JOB,), {"batch.kubernetes.io/job-completion-index": "4"}, None, 4),
    "CronJob": Case((one("batch/v1", "CronJob", CRON), JOB)),
    "Deployment": Case((one("apps/v1", "Deployment", APP), one("apps/v1", "ReplicaSet", APP))),
    "StatefulSet": Case(
        (one("apps/v1", "StatefulSet", APP),), {"apps.kubernetes.io/pod-index": "2"}, None, 2
    ),
    "DaemonSet": Case((one("apps/v1", "DaemonSet", APP),)),
    "MPIJob v1": Case(
        (one("kubeflow.org/v1", "MPIJob"),),
        {f"{KUBEFLOW}/replica-type": "worker", f"{KUBEFLOW}/replica-index": "1"}, "worker", 1,
    ),
    "MPIJob v2beta1": Case(
        (one("kubeflow.org/v2beta1", "MPIJob"),),
        {f"{KUBEFLOW}/job-role": "worker", f"{KUBEFLOW}/replica-index": "0"}, "worker", 0,
    ),
    "MPIJob's launcher": Case(
        (one("kubeflow.org/v2beta1", "MPIJob"), JOB), {f"{KUBEFLOW}/job-role": "launcher"}, "launcher"
    ),
    "PyTorchJob": Case(
        (one("kubeflow.org/v1", "PyTorchJob"),),
        {f"{KUBEFLOW}/replica-type": "Master", f"{KUBEFLOW}/replica-index": "0"}, "master", 0,
    ),
    "TFJob": Case(
        (one("kubeflow.org/v1", "TFJob"),),
        {f"{KUBEFLOW}/replica-type": "ps", f"{KUBEFLOW}/replica-index": "3"}, "ps", 3,
    ),
    "TrainJob": Case(
        (one("trainer.kubeflow.org/v1alpha1", "TrainJob"), one("jobset.x-k8s.io/v1alpha2", "JobSet"), JOB),
        {f"{JOBSET}/replicatedjob-name": "node", f"{JOBSET}/replicatedjob-replicas": "1",
         f"{JOBSET}/job-index": "0", "batch.kubernetes.io/job-completion-index": "7"}, "node", 7,
    ),
    "JobSet of several Jobs": Case(
        (one("jobset.x-k8s.io/v1alpha2", "JobSet"), JOB),
        {f"{JOBSET}/replicatedjob-name": "driver", f"{JOBSET}/replicatedjob-replicas": "3",
         f"{JOBSET}/job-index": "2", "batch.kubernetes.io/job-completion-index": "0"}, "driver", 2,
    ),
    "RayJob": Case(
        (one("ray.io/v1", "RayJob"), one("ray.io/v1", "RayCluster")), {"ray.io/node-type": "head"}, "head"
    ),
    "RayJob's submitter": Case((one("ray.io/v1", "RayJob"), JOB)),
    "RayCluster": Case(
        (one("ray.io/v1", "RayCluster"),),
        {"ray.io/node-type": "worker", "ray.io/worker-group-replica-index": "5"}, "worker", 5,
    ),
    "Volcano Job": Case(
        (one("batch.volcano.sh/v1alpha1", "Job"),),
        {"volcano.sh/task-spec": "trainer", "volcano.sh/task-index": "6"}, "trainer", 6,
    ),
    "Spark executor of a driver in a Job": Case((JOB, POD), {"spark-role": "executor"}, "executor"),
    "Spark executor of a driver of nobody": Case((POD,), {"spark-role": "executor"}, "executor"),
    "LeaderWorkerSet's worker": Case(
        (one("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"), SET, POD, SET),
        {"leaderworkerset.sigs.k8s.io/worker-index": "3"}, None, 3,
    ),
    "Spark executor of an application": Case(
        (one("sparkoperator.k8s.io/v1beta2", "SparkApplication"), POD), {"spark-role": "executor"}, "executor"
    ),
    "a step of an Argo Workflow": Case((one("argoproj.io/v1alpha1", "Workflow"),)),
    "a Job in an AppWrapper": Case((one("workload.codeflare.dev/v1beta2", "AppWrapper"), JOB)),
    "InferenceService": Case((
        one("serving.kserve.io/v1beta1", "InferenceService"), one("apps/v1", "Deployment", APP),
        one("apps/v1", "ReplicaSet", APP),
    )),
    "Notebook": Case(
        (one("kubeflow.org/v1", "Notebook"), one("apps/v1", "StatefulSet", APP)),
        {"apps.kubernetes.io/pod-index": "0"}, None, 0,
    ),
}  # fmt: skip


def chain(cluster: Cluster, case: Case) -> list[Object]:
    """The owners, from the top down, each owned by the one before."""
    made: list[Object] = []
    for level, (api_version, kind, content) in enumerate(case.chain):
        made.append(cluster.make(api_version, kind, f"level-{level}", *made[-1:], **content))
    return made


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_topmost_owner_is_the_job(case: Case, cluster: Cluster, watch: Watch) -> None:
    owners = chain(cluster, case)
    pod = bound(cluster, "p", owners[-1], labels=case.labels)
    with watch() as seen:
        assert seen.of(pod).job == job_of(owners[0], case.role, case.replica)
        assert seen.telemetry.count(OWNER_FORBIDDEN) == 0, "what is shipped is enough"


def test_a_kind_that_the_shipped_role_never_heard_of_ends_the_walk_and_is_said(
    cluster: Cluster, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    owner = cluster.make("example.com/v1", "Experiment", "top")
    below = cluster.make("batch/v1", "Job", "below", owner, **SPEC)
    pod = bound(cluster, "p", below)
    with watch() as seen:
        assert seen.of(pod).job == job_of(below), "the last that may be read"
        assert seen.telemetry.count(OWNER_FORBIDDEN) == 1
    assert 'cannot get resource "experiments" in API group "example.com"' in caplog.text


def test_a_name_that_is_used_again_is_another_job(cluster: Cluster, watch: Watch) -> None:
    """The Job was deleted with its pod left behind, and one of the same name has another owner."""
    job = cluster.make("batch/v1", "Job", "train", **SPEC)
    orphan = bound(cluster, "orphan", job)
    cluster.delete(job)
    other = cluster.make("kubeflow.org/v1", "PyTorchJob", "other")
    again = cluster.make("batch/v1", "Job", "train", other, **SPEC)
    pod = bound(cluster, "p", again)
    with watch() as seen:
        assert seen.of(orphan).job == job_of(job), "its own, which is gone, by the uid that it names"
        assert seen.of(pod).job == job_of(other)


def test_a_job_that_is_deleted_before_its_pods_stays_their_job(cluster: Cluster, watch: Watch) -> None:
    """RayJob → RayCluster → Pod: the garbage collector begins at the top, and pods may take long to end."""
    job = cluster.make("ray.io/v1", "RayJob", "train")
    group = cluster.make("ray.io/v1", "RayCluster", "train-x", job)
    pod = bound(cluster, "p", group)
    with watch(refresh=RefreshPolicy(fresh_s=0.0)) as seen:
        assert seen.of(pod).job == job_of(job)
        cluster.delete(job)
        cluster.running(pod, "c1")
        assert seen.of(pod, lambda record: record.phase == "Running").job == job_of(job)
        cluster.delete(group)
        cluster.ended(pod, "c1")
        assert seen.of(pod, lambda record: record.phase == "Succeeded").job == job_of(job)


def test_a_kind_that_is_not_installed(cluster: Cluster, watch: Watch) -> None:
    owner = {
        "apiVersion": "sparkoperator.k8s.io/v1beta2", "kind": "SparkApplication",
        "metadata": {"name": "pi", "uid": str(uuid4())},
    }  # fmt: skip
    pod = bound(cluster, "p", owner, labels={"spark-role": "executor"})
    with watch() as seen:
        assert seen.of(pod).job == job_of(owner, "executor")
        assert seen.telemetry.count(OWNER_FORBIDDEN) == 0


def test_a_permission_that_is_given_is_used_by_a_collector_that_runs(
    kube: Kube, cluster: Cluster, watch: Watch
) -> None:
    """Nothing happens to the pod meanwhile."""
    refresh = RefreshPolicy(watch_s=1, fresh_s=0.0)
    owner = cluster.make("example.com/v1", "Experiment", "top")
    below = cluster.make("batch/v1", "Job", "below", owner, **SPEC)
    pod = bound(cluster, "p", below)
    rules = shipped_rules("collector")
    extra = {"apiGroups": ["example.com"], "resources": ["experiments"], "verbs": ["get"]}
    with watch(rules, refresh) as seen:
        assert seen.of(pod).job == job_of(below)
        account(kube, cluster.namespace, "collector", (*rules, extra))
        assert seen.of(pod, lambda record: record.job != job_of(below)).job == job_of(owner)

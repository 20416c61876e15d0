"""A pod's part in its job, from the labels that operators set. Pure.

Sources: the label constants of the Kubeflow training and MPI operators, JobSet, KubeRay, LeaderWorkerSet,
Volcano, Spark, and Kubernetes' own for indexed Jobs and StatefulSets.
"""

from collections.abc import Mapping

_ROLES = (
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "ray.io/node-type",
    "volcano.sh/task-spec",
    "spark-role",
)
_REPLICAS = (
    "training.kubeflow.org/replica-index",
    "ray.io/worker-group-replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "volcano.sh/task-index",
    "batch.kubernetes.io/job-completion-index",
    "apps.kubernetes.io/pod-index",
)
_JOBSET_INDEX = "jobset.sigs.k8s.io/job-index"
_JOBSET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"


def role_of(labels: Mapping[str, str]) -> str | None:
    """``worker``, ``launcher``, ``master``, ``head`` … in lower case; None where no operator says it."""
    return next((labels[key].lower() for key in _ROLES if labels.get(key)), None)


def replica_of(labels: Mapping[str, str]) -> int | None:
    """The pod's number within its role, from 0; None where no operator says it.

    A replicated job of several Jobs counts the Jobs; of one Job, that Job's pods.
    """
    jobs = _number(labels.get(_JOBSET_REPLICAS))
    if jobs is not None and jobs > 1:
        return _number(labels.get(_JOBSET_INDEX))
    return next((found for key in _REPLICAS if (found := _number(labels.get(key))) is not None), None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() else None

"""Turns a pod as the API server shows it into the record on the topic ``pods``. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from collectors.attribution.processes import printable
from dutycycle.contract.records.pods import FINISHED_PHASES, TRIAL_OF, UNENDING, JobRef, Pod
from dutycycle.contract.units import unix_ms
from dutycycle.kube import resources
from dutycycle.kube.references import ObjectRef
from dutycycle.kube.templates import template_of

STATIC_POD = "kubernetes.io/config.hash"
"""Annotation of a static pod: the uid that the kubelet gave it, which its cgroup carries."""
_HASH = re.compile(r"[0-9a-f]{32}")
"""What the kubelet writes there: anybody may write it, and the uid of another's pod is none."""
# The labels of the Kubeflow training and MPI operators, JobSet, KubeRay, LeaderWorkerSet, Volcano, Spark, and
# Kubernetes' own for indexed Jobs and StatefulSets.
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
_REVISIONS = (
    "leaderworkerset.sigs.k8s.io/template-revision-hash",
    "serving.knative.dev/revision",
    "pod-template-hash",
    "controller-revision-hash",
)
"""By which controllers that replace pods tell those of one template from those of the next."""
_RUNS = {
    "CronJob": "batch.kubernetes.io/job-name",
    "RayService": "ray.io/cluster",
    "RayCluster": "ray.io/cluster",
}
"""Owners that do not end and begin again: by what the pods of one run are told."""
_JOBSET_INDEX = "jobset.sigs.k8s.io/job-index"
_JOBSET_REPLICAS = "jobset.sigs.k8s.io/replicatedjob-replicas"


def pod_record(pod: Mapping[str, Any], owner: ObjectRef | None, label_keys: Sequence[str] = ()) -> Pod:
    """Return the record of one pod on a node; ``owner`` is its job. Raises ``KeyError`` for what is none.

    ``label_keys``: the labels that it has in its record.
    """
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    phase = status.get("phase") or "Unknown"
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    made = template_of(spec) if spec.get("containers") else None
    finished_ms = None
    if phase in FINISHED_PHASES:
        # When the last container ended; a pod that ended before it had any, as on eviction, does not say it.
        states = [container.get("state") or {} for container in status.get("containerStatuses") or ()]
        ends = [_ms((state.get("terminated") or {}).get("finishedAt")) for state in states]
        finished_ms = max((end for end in ends if end), default=None)
    return Pod(
        uid=meta["uid"],
        namespace=meta.get("namespace"),
        name=meta["name"],
        node=spec["nodeName"],
        phase=phase,
        created_ms=_ms(meta.get("creationTimestamp")),
        started_ms=_ms(status.get("startTime")),
        finished_ms=finished_ms,
        images=tuple(
            image
            for container in spec.get("containers") or ()
            if (image := printable(container.get("image") or ""))
        ),
        program=made and made.program,
        template=made and made.template,
        trial_of=labels.get(TRIAL_OF) or None,
        gpu_uuids=resources.gpu_uuids(spec, annotations),
        gpu_request=resources.gpu_request(spec, annotations),
        cpu_request=resources.request(spec, "cpu"),
        cpu_limit=resources.limit(spec, "cpu"),
        mem_request_bytes=resources.request(spec, "memory"),
        job=job_ref(owner, labels),
        labels={key: labels[key] for key in label_keys if labels.get(key)} or None,
    )


def records(pod: Mapping[str, Any], owner: ObjectRef | None, label_keys: Sequence[str] = ()) -> Iterator[Pod]:
    """Yield the pod's record; for a static pod a second one, under the uid that its cgroup carries."""
    record = pod_record(pod, owner, label_keys)
    yield record
    static = (pod["metadata"].get("annotations") or {}).get(STATIC_POD)
    if static and _HASH.fullmatch(static) and static != record.uid:
        yield replace(record, uid=static, object_uid=record.uid)


def job_ref(owner: ObjectRef | None, labels: Mapping[str, str]) -> JobRef | None:
    """Return a pod's job, and by the pod's labels its part in it; None for a pod without a job."""
    if owner is None:
        return None
    return JobRef(
        api_version=owner.api_version, kind=owner.kind, name=owner.name, uid=owner.uid or "",
        role=role_of(labels), replica=replica_of(labels), revision=revision_of(owner.kind, labels),
    )  # fmt: skip


def _ms(text: str | None) -> int | None:
    """Return the Unix milliseconds of an RFC 3339 time; None for none, or for one that is no time."""
    try:
        return unix_ms(text) if text else None
    except ValueError:
        return None


def role_of(labels: Mapping[str, str]) -> str | None:
    """Return ``worker``, ``launcher``, ``master``, ``head`` … in lower case; None where no operator says
    it."""
    return next((labels[key].lower() for key in _ROLES if labels.get(key)), None)


def replica_of(labels: Mapping[str, str]) -> int | None:
    """Return the pod's number within its role, from 0; None where no operator says it.

    A replicated job of several Jobs counts the Jobs; of one Job, that Job's pods.
    """
    jobs = _number(labels.get(_JOBSET_REPLICAS))
    if jobs is not None and jobs > 1:
        return _number(labels.get(_JOBSET_INDEX))
    return next((rank for key in _REPLICAS if (rank := _number(labels.get(key))) is not None), None)


def revision_of(kind: str, labels: Mapping[str, str]) -> str | None:
    """Tell which of the templates, or the runs, of a job of this kind a pod is of; None for a job that
    ends."""
    if kind not in UNENDING:
        return None
    keys = (_RUNS[kind],) if kind in _RUNS else _REVISIONS
    # Where no label tells them apart, all pods are of one.
    return next((labels[key] for key in keys if labels.get(key)), kind.lower())


def _number(text: str | None) -> int | None:
    """Return the number that a label is; None for none, and for one that no job has."""
    return int(text) if text and re.fullmatch(r"[0-9]{1,9}", text) else None

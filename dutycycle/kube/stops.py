"""Says how each kind of workload is stopped, and begun again: for who does it, and for who is told how.
Pure."""

from collections.abc import Mapping
from shlex import quote
from typing import Any, NamedTuple

from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.units import rfc3339
from dutycycle.kube.discovery import Kind, group_of

_NOTEBOOK_STOPPED = "kubeflow-resource-stopped"
"""The annotation by which Kubeflow's controller of notebooks stops one; its value is the moment."""
_DEPLOYMENT, _JOB, _NOTEBOOK = ("apps", "Deployment"), ("batch", "Job"), ("kubeflow.org", "Notebook")
_PLURALS = {_DEPLOYMENT: "deployments", _JOB: "jobs", _NOTEBOOK: "notebooks"}
_KNOWN_TO_KUBECTL = frozenset({"", "apps", "batch", "kubeflow.org"})
"""Groups of which a kind is named alone; in others there may be a kind of the same name."""
_QUEUE_OF_KUEUE = "kueue.x-k8s.io/queue-name"
_JOB_CONTROLLER = "kubernetes.io/job-controller"


class Stop(NamedTuple):
    """Says how something is stopped. ``change``: to be merged into the object. ``does``: in words. ``undo``:
    by which command it begins again."""

    change: Mapping[str, Any]
    does: str
    undo: str


def kind_of(job: JobRef) -> Kind | None:
    """Tell where the API serves a workload; None for a kind that Dutycycle never stops by itself."""
    plural = _PLURALS.get((group_of(job.api_version), job.kind))
    return None if plural is None else Kind(job.api_version, job.kind, plural)


def manager_of(thing: Mapping[str, Any]) -> str | None:
    """Tell who would begin a workload again that somebody else has stopped; None where nobody would.

    Its owner may be of a kind that no role lets the collectors read: then it counts as the topmost. Kueue
    lets a Job go on that it has admitted, whoever suspends it.
    """
    meta, spec = thing["metadata"], thing.get("spec") or {}
    for owner in meta.get("ownerReferences") or ():
        return f"{owner['kind']} {owner['name']}"
    if thing["kind"] != "Job":
        return None
    if (meta.get("labels") or {}).get(_QUEUE_OF_KUEUE):
        return "Kueue"
    manager = spec.get("managedBy") or _JOB_CONTROLLER
    return None if manager == _JOB_CONTROLLER else str(manager)


def stop_of(job: JobRef, namespace: str, thing: Mapping[str, Any], now_ms: int) -> Stop | None:
    """Tell how to stop ``thing``, the workload as it is; None if it is stopped already."""
    spec = thing.get("spec") or {}
    match group_of(job.api_version), job.kind:
        case "apps", "Deployment":
            replicas = spec.get("replicas", 1)
            undo = scale_command(job, namespace, replicas)
            return Stop({"spec": {"replicas": 0}}, f"scaled from {replicas} to 0", undo) if replicas else None
        case "batch", "Job":
            undo = suspend_command(job, namespace, suspend=False)
            return None if spec.get("suspend") else Stop({"spec": {"suspend": True}}, "suspended", undo)
        case _:
            change = {"metadata": {"annotations": {_NOTEBOOK_STOPPED: rfc3339(now_ms)}}}
            undo = f"{_command(job, namespace, 'annotate')} {_NOTEBOOK_STOPPED}-"
            annotations = thing["metadata"].get("annotations") or {}
            return None if _NOTEBOOK_STOPPED in annotations else Stop(change, "stopped", undo)


def stop_command(job: JobRef, namespace: str, now_ms: int) -> str:
    """Return what a person types to stop a workload: so that it can begin again, where its kind has a way."""
    match group_of(job.api_version), job.kind:
        case "apps", "Deployment" | "StatefulSet" | "ReplicaSet":
            return scale_command(job, namespace, 0)
        case "batch", "Job":
            return suspend_command(job, namespace, suspend=True)
        case "kubeflow.org", "Notebook":
            return f"{_command(job, namespace, 'annotate')} {_NOTEBOOK_STOPPED}={rfc3339(now_ms)}"
        case _:
            return _command(job, namespace, "delete")


def scale_command(job: JobRef, namespace: str, replicas: int) -> str:
    """Return the command that gives a workload so many pods."""
    return f"{_command(job, namespace, 'scale')} --replicas={replicas}"


def suspend_command(job: JobRef, namespace: str, *, suspend: bool) -> str:
    """Return the command that suspends a Job of Kubernetes, or lets it go on."""
    patch = f'{{"spec":{{"suspend":{str(suspend).lower()}}}}}'
    return f"{_command(job, namespace, 'patch')} --type=merge -p '{patch}'"


def _command(job: JobRef, namespace: str, verb: str) -> str:
    group = group_of(job.api_version)
    kind = job.kind.lower() if group in _KNOWN_TO_KUBECTL else f"{job.kind.lower()}.{group}"
    # Of a pod that no API server named, owner and namespace are anybody's text.
    return f"kubectl -n {quote(namespace)} {verb} {quote(f'{kind}/{job.name}')}"

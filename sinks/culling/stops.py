"""How each kind of workload is stopped, and begun again. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dutycycle.contract.units import rfc3339
from dutycycle.kube.discovery import Kind
from sinks.culling.verdicts import IdleWorkload

NOTEBOOK_STOPPED = "kubeflow-resource-stopped"
"""The annotation by which Kubeflow's controller of notebooks stops one; its value is the moment."""


class Stop(NamedTuple):
    """``change``: to be merged into the object. ``does``: in words. ``undo``: by which command it begins
    again."""

    change: Mapping[str, Any]
    does: str
    undo: str


def kind_of(workload: IdleWorkload) -> Kind | None:
    """Tell where the API serves it; None for a kind that is never stopped."""
    job = workload.job
    group = job.api_version.rpartition("/")[0]
    plural = {
        ("apps", "Deployment"): "deployments", ("batch", "Job"): "jobs",
        ("kubeflow.org", "Notebook"): "notebooks",
    }.get((group, job.kind))  # fmt: skip
    return None if plural is None else Kind(job.api_version, job.kind, plural)


def stop_of(workload: IdleWorkload, thing: Mapping[str, Any], now_ms: int) -> Stop | None:
    """Tell how to stop ``thing``, the workload as it is; None if it is stopped already."""
    name, namespace = workload.job.name, workload.namespace
    spec = thing.get("spec") or {}
    match workload.job.kind:
        case "Deployment":
            replicas = spec.get("replicas", 1)
            undo = f"kubectl -n {namespace} scale deployment/{name} --replicas={replicas}"
            stop = Stop({"spec": {"replicas": 0}}, f"scaled from {replicas} to 0", undo)
            return stop if replicas else None
        case "Job":
            undo = (
                f'kubectl -n {namespace} patch job/{name} --type=merge -p \'{{"spec":{{"suspend":false}}}}\''
            )
            return None if spec.get("suspend") else Stop({"spec": {"suspend": True}}, "suspended", undo)
        case _:
            change = {"metadata": {"annotations": {NOTEBOOK_STOPPED: rfc3339(now_ms)}}}
            undo = f"kubectl -n {namespace} annotate notebook/{name} {NOTEBOOK_STOPPED}-"
            annotations = thing["metadata"].get("annotations") or {}
            return None if NOTEBOOK_STOPPED in annotations else Stop(change, "stopped", undo)

"""The kinds of job operators, as CustomResourceDefinitions: their names and paths, with open schemas."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind. ``versions``: served, the last one stored. All of these have a status subresource."""

    group: str
    versions: tuple[str, ...]
    kind: str
    plural: str


# Sources: the CustomResourceDefinitions that each project publishes.
KINDS = (
    Kind("kubeflow.org", ("v1", "v2beta1"), "MPIJob", "mpijobs"),
    Kind("kubeflow.org", ("v1",), "PyTorchJob", "pytorchjobs"),
    Kind("kubeflow.org", ("v1",), "TFJob", "tfjobs"),
    Kind("kubeflow.org", ("v1",), "XGBoostJob", "xgboostjobs"),
    Kind("kubeflow.org", ("v1",), "PaddleJob", "paddlejobs"),
    Kind("kubeflow.org", ("v1",), "JAXJob", "jaxjobs"),
    Kind("kubeflow.org", ("v1",), "Notebook", "notebooks"),
    Kind("trainer.kubeflow.org", ("v1alpha1",), "TrainJob", "trainjobs"),
    Kind("jobset.x-k8s.io", ("v1alpha2",), "JobSet", "jobsets"),
    Kind("ray.io", ("v1",), "RayJob", "rayjobs"),
    Kind("ray.io", ("v1",), "RayCluster", "rayclusters"),
    Kind("ray.io", ("v1",), "RayService", "rayservices"),
    Kind("batch.volcano.sh", ("v1alpha1",), "Job", "jobs"),
    Kind("leaderworkerset.x-k8s.io", ("v1",), "LeaderWorkerSet", "leaderworkersets"),
    Kind("sparkoperator.k8s.io", ("v1beta2",), "SparkApplication", "sparkapplications"),
    Kind("argoproj.io", ("v1alpha1",), "Workflow", "workflows"),
    Kind("workload.codeflare.dev", ("v1beta2",), "AppWrapper", "appwrappers"),
    Kind("serving.kserve.io", ("v1beta1",), "InferenceService", "inferenceservices"),
    Kind("example.com", ("v1",), "Experiment", "experiments"),
)


def manifests() -> Iterator[dict[str, Any]]:
    """One CustomResourceDefinition for each of ``KINDS``."""
    return map(manifest, KINDS)


def manifest(kind: Kind) -> dict[str, Any]:
    """A namespaced kind whose objects may hold anything."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}", "annotations": _approved(kind)},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"kind": kind.kind, "plural": kind.plural, "singular": kind.kind.lower()},
            "versions": [_version(name, stored=name == kind.versions[-1]) for name in kind.versions],
        },
    }


def _version(name: str, *, stored: bool) -> dict[str, Any]:
    return {
        "name": name, "served": True, "storage": stored, "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _ANYTHING},
    }  # fmt: skip


def _approved(kind: Kind) -> dict[str, str]:
    """Groups below k8s.io are reserved: the API server asks where their kinds were approved."""
    return {"api-approved.kubernetes.io": "unapproved, for tests"} if kind.group.endswith("k8s.io") else {}

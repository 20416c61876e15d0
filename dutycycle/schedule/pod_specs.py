"""Finds the pods that the objects of a file ask for, as far as the file says what runs in them. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle.kube.resources import gpu_request
from dutycycle.submit.documents import ManifestDocument

Spec = Mapping[str, Any]
_TRAINER = "node"
"""How the runtimes of Kubeflow call the job, and its container, that a TrainJob's trainer runs in."""
_STEP = "trainer.kubeflow.org/trainjob-ancestor-step"
_REFERENCES = {"workflowTemplateRef": "WorkflowTemplate", "taskRef": "Task", "pipelineRef": "Pipeline"}


@dataclass(frozen=True, slots=True)
class AskedPod:
    """Holds a pod template of a file. ``role``: where it stands in it, such as ``Worker``. ``note``: what the
    file does not say of it; None where it says all."""

    role: str
    namespace: str
    spec: Spec
    note: str | None = None

    @property
    def gpus(self) -> float:
        """Return how many GPUs it asks for, slices and shares too; 0 for none, and where a resource claim may
        hold some."""
        return gpu_request(self.spec) or 0.0


@dataclass(frozen=True, slots=True)
class AskedPods:
    """Holds the pods of an object; ``missing`` says why there are none."""

    pods: Sequence[AskedPod]
    missing: str | None = None


def pods_of(
    document: ManifestDocument, namespace: str, documents: Sequence[ManifestDocument] = ()
) -> AskedPods:
    """Return the pod templates of an object; ``namespace``: of one that names none.

    ``documents``: all of the files, in which the runtime of a TrainJob may stand.
    """
    if not document.has_pods:
        return AskedPods((), "it makes no pods")
    spec, own = document.spec, document.namespace or namespace
    if document.kind == "TrainJob":
        return _train_job(spec, own, documents)
    specs = list(_spark(spec) if document.kind.endswith("SparkApplication") else _specs(spec, ""))
    pods = [AskedPod(role, own, pod_spec) for role, pod_spec in specs]
    return AskedPods(pods, None if pods else _elsewhere(document))


def _specs(part: Any, role: str) -> Iterator[tuple[str, Spec]]:
    """Yield pod specs in ``part``, with the name of what holds their template.

    A container that stands by itself, as in a template of an Argo workflow, is a pod; the steps of a Tekton
    task are the containers of one.
    """
    if isinstance(part, Mapping):
        if isinstance(part.get("containers"), list):
            yield role, part
            return
        if isinstance(part.get("image"), str):
            yield role, {"containers": [part]}
            return
        steps = part.get("steps")
        if isinstance(steps, list) and any(isinstance(step, Mapping) and "image" in step for step in steps):
            yield role, {"containers": steps}
            return
        for name, inner in part.items():
            unnamed = name in ("template", "spec", "container", "script", "containerSet")
            yield from _specs(inner, role if unnamed else str(name))
    elif isinstance(part, list):
        for inner in part:
            named = inner.get("name", role) if isinstance(inner, Mapping) else role
            yield from _specs(inner, str(named))


def _spark(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield driver and executors. Their memory is not stated: Spark adds its overhead to what the file
    says."""
    application = spec.get("template") or spec  # of a ScheduledSparkApplication
    for role in ("driver", "executor"):
        part = application.get(role) or {}
        gpu, cores = part.get("gpu") or {}, part.get("coreRequest") or part.get("cores")
        asked = {gpu.get("name"): gpu.get("quantity"), "cpu": cores}
        limits = {name: amount for name, amount in asked.items() if name and amount is not None}
        image = part.get("image") or application.get("image")
        yield role, {"containers": [{"name": role, "image": image, "resources": {"requests": limits}}]}


def _train_job(spec: Spec, namespace: str, documents: Sequence[ManifestDocument]) -> AskedPods:
    """Return the pods of its runtime, and in them what the trainer says instead."""
    reference = spec.get("runtimeRef") or {}
    kind, name = str(reference.get("kind") or "ClusterTrainingRuntime"), str(reference.get("name") or "")
    trainer = spec.get("trainer") or {}
    stated = {key: trainer[key] for key in ("image", "command", "args") if trainer.get(key)}
    if trainer.get("resourcesPerNode"):
        stated["resources"] = trainer["resourcesPerNode"]
    runtime = next(
        (document for document in documents if (document.kind, document.name) == (kind, name)), None
    )
    if runtime is not None:
        pods = [
            AskedPod(role, namespace, _with_trainer(pod, stated) if is_trainer else pod)
            for role, pod, is_trainer in _of_runtime(runtime.spec)
        ]
        return AskedPods(pods, None if pods else f"{runtime.where}: {runtime} has no pod template")
    where = (
        f"its {kind} {name} is not in these files: kubectl get {kind.lower()} {name} -o yaml > runtime.yaml, "
        "and give that file too"
    )
    if "image" not in stated:
        return AskedPods((), f"no prediction: it names no image, and {where}")
    pod = AskedPod(_TRAINER, namespace, {"containers": [{"name": _TRAINER, **stated}]}, f"by itself: {where}")
    return AskedPods([pod])


def _of_runtime(spec: Spec) -> Iterator[tuple[str, Spec, bool]]:
    """Name and pod spec of each of its jobs, and whether the trainer runs in it."""
    jobs = ((spec.get("template") or {}).get("spec") or {}).get("replicatedJobs") or ()
    for job in jobs:
        template, role = job.get("template") or {}, str(job.get("name") or "")
        labels = (template.get("metadata") or {}).get("labels") or {}
        for _, pod in _specs(template, role):
            yield role, pod, labels.get(_STEP, "") == "trainer" or role == _TRAINER


def _with_trainer(pod: Spec, stated: Spec) -> Spec:
    containers = pod["containers"]
    names = [container.get("name") for container in containers]
    place = names.index(_TRAINER) if _TRAINER in names else 0
    return {
        **pod,
        "containers": [
            container | stated if at == place else container for at, container in enumerate(containers)
        ],
    }


def _elsewhere(document: ManifestDocument) -> str:
    """Tell where what its pods run is said, if not in it."""
    if document.runs_in is not None:
        return f"no prediction: it runs in the pods of {document.runs_in}, which are there already"
    for key, kind in _REFERENCES.items():
        if isinstance(reference := document.spec.get(key), Mapping):
            return f"no prediction: its pods stand in {kind} {reference.get('name')}: give that file instead"
    return "no prediction: what its pods run does not stand in the file: its controller adds it"

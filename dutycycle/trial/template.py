"""Reads the Job that trials are made of, as it stands in a file or in the cluster. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutycycle.contract.errors import SettingError
from dutycycle.kube.references import KubeObject
from dutycycle.kube.resources import gpu_resources
from dutycycle.submit.documents import ManifestDocument
from dutycycle.trial.job_fields import refused_field


@dataclass(frozen=True, slots=True)
class JobTemplate:
    """Holds a Job whose pods have one container with GPUs. ``name``: of the Job, or its ``generateName``.

    ``resource``: such as ``nvidia.com/gpu``; ``gpus``: of a pod; ``pods``: that run together.
    """

    thing: KubeObject
    name: str
    namespace: str | None
    container: str
    resource: str
    gpus: int
    pods: int

    @property
    def pod(self) -> KubeObject:
        """Return the specification of its pods."""
        spec: KubeObject = self.thing["spec"]["template"]["spec"]
        return spec

    @property
    def pod_labels(self) -> Mapping[str, str]:
        """Return the labels of its pods, as far as the Job has them itself."""
        return (self.thing["spec"]["template"].get("metadata") or {}).get("labels") or {}


def template_in(documents: Sequence[ManifestDocument]) -> JobTemplate:
    """Return the Job of a file. Raises ``SettingError``."""
    for document in documents:
        if document.kind != "Job" or document.api_version != "batch/v1":
            raise SettingError(
                f"{document.where}: is a {document.kind} of {document.api_version}, and trials are runs of "
                "one Job of batch/v1: put the Job into a file of its own, and apply what it needs first"
            )
    if len(documents) > 1:
        raise SettingError(f"{documents[1].where}: is a second Job: give one file with one Job")
    (document,) = documents
    given = str(document.thing["metadata"].get("generateName") or document.name).rstrip("-.")
    return template_of(document.thing, document.where, given)


def template_of(thing: KubeObject, where: str, name: str) -> JobTemplate:
    """Return a Job as a template. ``where``: for messages. Raises ``SettingError`` for a Job of which no
    trial can be made."""
    if (refused := refused_field(thing)) is not None:
        raise SettingError(f"{where}: the Job {name} is none that the API server takes: {refused}")
    spec = thing.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    if pod.get("nodeName"):
        raise SettingError(f"{where}: its pods name their node ({pod['nodeName']}): take spec.nodeName out")
    if pod.get("resourceClaims"):
        raise SettingError(
            f"{where}: its GPUs come from resource claims, whose number a trial cannot change: "
            "use limits such as nvidia.com/gpu: 1"
        )
    containers = [
        (container["name"], resource, gpus)
        for container in pod.get("containers") or ()
        for resource, gpus in gpu_resources(container).items()
        if gpus
    ]
    if not containers:
        raise SettingError(
            f"{where}: its containers ask for no GPUs: give one of them a limit such as nvidia.com/gpu: 1"
        )
    if len(containers) > 1:
        names = ", ".join(f"{name} ({resource})" for name, resource, _ in containers)
        raise SettingError(f"{where}: several ask for GPUs: {names}; a trial can change one of them only")
    ((container, resource, gpus),) = containers
    pods = spec.get("parallelism", 1)
    if not isinstance(pods, int) or pods < 1:
        raise SettingError(f"{where}: spec.parallelism is {pods!r}: expected a number from 1 on")
    return JobTemplate(thing, name, thing["metadata"].get("namespace"), container, resource, int(gpus), pods)

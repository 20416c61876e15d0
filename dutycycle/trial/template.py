"""Reads the Job that trials are made of, as it stands in a file or in the cluster, and checks that its fields
are of the types that the API server takes. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.errors import SettingError
from dutycycle.kube.references import KubeObject
from dutycycle.kube.resources import gpu_resources
from dutycycle.submit.amounts import refused_amounts
from dutycycle.submit.documents import ManifestDocument

_Fields = type | list[Any] | dict[str, Any]
"""A type, a list with what its members are, or an object with its fields, of which those with ``!`` must be
there; what stands under ``*`` is said of each key. A field that is not here may be anything."""
_TEXTS: _Fields = {"*": str}
_META: _Fields = {"labels": _TEXTS, "annotations": _TEXTS}
_EXPRESSIONS: _Fields = [{"key!": str, "operator!": str, "values": [str]}]
_NODE_TERMS: _Fields = {
    "nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS, "matchFields": _EXPRESSIONS}]
}
_POD_TERMS: _Fields = [
    {
        "topologyKey": str,
        "labelSelector": {"matchLabels": _TEXTS, "matchExpressions": _EXPRESSIONS},
    }
]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_RESOURCES: _Fields = {"limits": {"*": object}, "requests": {"*": object}}
_CONTAINERS: _Fields = [
    {"name!": str, "env": [{"name!": str, "value": str}], "resources": _RESOURCES, "restartPolicy": str}
]
_POD: _Fields = {
    "containers": _CONTAINERS,
    "initContainers": _CONTAINERS,
    "resources": _RESOURCES,
    "nodeSelector": _TEXTS,
    "tolerations": [{"key": str, "operator": str, "value": str, "effect": str}],
    "affinity": {
        "nodeAffinity": {_REQUIRED: _NODE_TERMS},
        "podAffinity": {_REQUIRED: _POD_TERMS},
        "podAntiAffinity": {_REQUIRED: _POD_TERMS},
    },
    "nodeName": str,
    "resourceClaims": [{"*": object}],
}
_JOB: _Fields = {
    "metadata": _META,
    "spec": {"parallelism": int, "template": {"metadata": _META, "spec": _POD}},
}
_WORDS = {str: "a text", int: "a whole number", list: "a list", dict: "an object"}
_INDEX = re.compile(r"\[\d+\]")
_AMOUNTS = ("containers", "initContainers", "resources")


def refused_field(job: Mapping[str, Any]) -> str | None:
    """Say which field of a Job the API server refuses, the first one, with its path and what is expected;
    None where it takes all that a trial needs."""
    for path, problem in _refused(job, _JOB, ""):
        return f"{path} {problem} (kubectl explain job.{_INDEX.sub('', path)})"
    pod = ((job.get("spec") or {}).get("template") or {}).get("spec") or {}
    amounts = {name: pod[name] for name in _AMOUNTS if name in pod}
    return next(refused_amounts(amounts, "spec.template.spec"), None)


def _refused(part: Any, fields: _Fields, path: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each field that is of another type, and what it is. An absent one is none."""
    expected = fields if isinstance(fields, type) else type(fields)
    if part is None:
        return
    if not issubclass(type(part), expected) or (expected is int and type(part) is bool):
        yield path, f"is {_WORDS.get(type(part), repr(part))}: expected {_WORDS[expected]}"
    elif isinstance(fields, list):
        for number, member in enumerate(part):
            if member is None:
                yield f"{path}[{number}]", "is empty"
            yield from _refused(member, fields[0], f"{path}[{number}]")
    elif isinstance(fields, dict):
        yield from _refused_inside(part, fields, path)


def _refused_inside(
    part: Mapping[Any, Any], fields: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str]]:
    for field, inner in fields.items():
        name = field.removesuffix("!")
        if field != name and part.get(name) is None:
            yield f"{path}.{name}", "is missing"
        for key in part if name == "*" else [name] if name in part else ():
            if not isinstance(key, str):
                yield path, f"has the key {key!r}: put it in quotes"
            yield from _refused(part[key], inner, f"{path}.{key}".removeprefix("."))


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

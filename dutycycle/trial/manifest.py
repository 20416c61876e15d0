"""Makes the Job of one trial, from the Job that it tries. Pure."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from math import ceil
from typing import Any

from dutycycle.contract.records.pods import TRIAL_OF
from dutycycle.trial.nodes import HOST_LABEL
from dutycycle.trial.options import PRIORITY_CLASS
from dutycycle.trial.plan import Variant
from dutycycle.trial.template import JobTemplate

ALIVE = "dutycycle.io/trial-alive"
"""Annotation of each Job of a trial: when its program last said that it is there."""
_RUN = "dutycycle.io/trial-run"
_OF_CONTROLLER = frozenset(
    {"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
)
_LONGEST_NAME = 63  # no value of a label is longer, and the Job's controller puts its name into one
_TTL_S = 60
_SPARE_S = 60.0
_KEPT_OF_SPEC = ("template", "completionMode")
_DROPPED_OF_POD = ("priority", "preemptionPolicy", "schedulingGates")


@dataclass(frozen=True, slots=True)
class TrialRun:
    """Identifies one trial. ``id``: new for each trial, of letters that a name may have; ``longest_s``: after
    which the cluster ends it; ``now``: as a time of Kubernetes."""

    id: str
    longest_s: float
    now: str
    priority_class: str = PRIORITY_CLASS


def job_of(template: JobTemplate, variant: Variant, run: TrialRun) -> dict[str, Any]:
    """Return a whole Job: what runs is the template's, all of the rest is a trial's."""
    ending = f"-trial-{variant.name}-{run.id}"
    meta = template.thing["metadata"]
    labels = _labels(meta) | {TRIAL_OF: template.name[:_LONGEST_NAME], _RUN: run.id}
    given = template.thing["spec"]
    spec: dict[str, Any] = {name: deepcopy(given[name]) for name in _KEPT_OF_SPEC if name in given}
    spec |= {"parallelism": variant.pods, "backoffLimit": 0, "ttlSecondsAfterFinished": _TTL_S}
    spec["activeDeadlineSeconds"] = ceil(run.longest_s + _SPARE_S)
    if given.get("completions") is not None:
        spec["completions"] = variant.pods
    pod = spec["template"]
    pod["metadata"] = {
        "labels": _labels(pod.get("metadata") or {})
        | {TRIAL_OF: template.name[:_LONGEST_NAME], _RUN: run.id},
        "annotations": dict((pod.get("metadata") or {}).get("annotations") or {}),
    }
    for name in _DROPPED_OF_POD:
        pod["spec"].pop(name, None)
    pod["spec"]["priorityClassName"] = run.priority_class
    for container in pod["spec"]["containers"]:
        if container["name"] == template.container:
            _give(container, template.resource, variant)
    if variant.model is not None:
        selector = pod["spec"].get("nodeSelector") or {}
        pod["spec"]["nodeSelector"] = {**selector, variant.model.key: variant.model.value}
    if variant.placement is not None:
        # All on one node, or each on its own: required, as what is only preferred would not be measured
        kind = "podAffinity" if variant.placement == "packed" else "podAntiAffinity"
        term = {"labelSelector": {"matchLabels": {_RUN: run.id}}, "topologyKey": HOST_LABEL}
        affinity = pod["spec"]["affinity"] = dict(pod["spec"].get("affinity") or {})
        of_kind = affinity[kind] = dict(affinity.get(kind) or {})
        rule = "requiredDuringSchedulingIgnoredDuringExecution"
        of_kind[rule] = [*(of_kind.get(rule) or ()), term]
    thing: dict[str, Any] = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": template.name[: _LONGEST_NAME - len(ending)].rstrip("-.") + ending, "labels": labels,
            "annotations": {ALIVE: run.now},
        },
        "spec": spec,
    }  # fmt: skip
    if template.namespace:
        thing["metadata"]["namespace"] = template.namespace
    return thing


def _labels(meta: Mapping[str, Any]) -> dict[str, str]:
    return {key: value for key, value in (meta.get("labels") or {}).items() if key not in _OF_CONTROLLER}


def _give(container: dict[str, Any], resource: str, variant: Variant) -> None:
    """Give a container so many GPUs, and two variables that say so: commands and arguments may hold
    ``$(TRIAL_GPUS)``."""
    resources = container.setdefault("resources", {})
    for part in ("limits", "requests"):
        if part == "limits" or resource in (resources.get(part) or {}):
            resources[part] = {**(resources.get(part) or {}), resource: str(variant.gpus)}
    given = {"TRIAL_GPUS": str(variant.gpus), "TRIAL_PODS": str(variant.pods)}
    others = [variable for variable in container.get("env") or () if variable.get("name") not in given]
    container["env"] = [*({"name": name, "value": value} for name, value in given.items()), *others]

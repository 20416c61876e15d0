"""Goal: a Job that the API server refuses is refused by its field, and by no traceback."""

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from dutycycle.contract.errors import SettingError
from dutycycle.trial.manifest import TrialRun, job_of
from dutycycle.trial.nodes import HOST_LABEL
from dutycycle.trial.options import NodeLabel
from dutycycle.trial.plan import Variant
from dutycycle.trial.room import room_of
from dutycycle.trial.template import refused_field, template_of

_RULE = "requiredDuringSchedulingIgnoredDuringExecution"
_EXPRESSIONS = [{"key": "pool", "operator": "In", "values": ["gpu"]}]
_TERM = {
    "topologyKey": HOST_LABEL,
    "labelSelector": {"matchLabels": {"app": "train"}, "matchExpressions": _EXPRESSIONS},
}
_CONTAINER = {
    "name": "main", "image": "train:1", "env": [{"name": "A", "value": "1"}],
    "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "2"}, "requests": {"cpu": "1"}},
}  # fmt: skip
_POD = {
    "containers": [_CONTAINER], "initContainers": [{"name": "fetch", "resources": {"limits": {"cpu": 1}}}],
    "nodeSelector": {"pool": "gpu"},
    "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {_RULE: {"nodeSelectorTerms": [{"matchExpressions": _EXPRESSIONS}]}},
        "podAffinity": {_RULE: [_TERM]}, "podAntiAffinity": {_RULE: [_TERM]},
    },
}  # fmt: skip
JOB: dict[str, Any] = {
    "apiVersion": "batch/v1", "kind": "Job",
    "metadata": {"name": "train", "labels": {"team": "ml"}, "annotations": {"a": "b"}},
    "spec": {
        "parallelism": 2,
        "template": {"metadata": {"labels": {"app": "train"}, "annotations": {"a": "b"}}, "spec": _POD},
    },
}  # fmt: skip
NODE = {
    "metadata": {"name": "n1", "labels": {"pool": "gpu"}},
    "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]},
    "status": {"allocatable": {"nvidia.com/gpu": "8", "cpu": "64"}},
}
RUN = TrialRun("x7k2q", longest_s=780, now="2026-11-23T08:00:00Z")


def paths(part: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where each value of an object stands."""
    inner = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from paths(value, (*path, key))


def changed(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Return the Job with another value at one place."""
    job = deepcopy(JOB)
    part: Any = job
    for key in path[:-1]:
        part = part[key]
    part[path[-1]] = value
    return job


PLACES = [path for path in paths(JOB) if path[0] not in ("apiVersion", "kind") and path != ("metadata",)]


@pytest.mark.parametrize("place", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_a_value_of_any_type_at_any_place_makes_a_trial_or_is_refused_in_words(
    place: tuple[Any, ...],
) -> None:
    for value in (
        "text",
        "",
        7,
        -1,
        1.5,
        True,
        [],
        ["a"],
        [7],
        [None],
        {},
        {"a": "b"},
        {"a": 1},
        {1: "a"},
        None,
    ):
        job = changed(place, value)
        try:
            template = template_of(job, "a.yaml, object 1", "train")
        except SettingError:
            continue
        model = NodeLabel("nvidia.com/gpu.product", "L4")
        job_of(template, Variant(1, 2, "packed", model), RUN)
        job_of(template, Variant(1, 2, "spread"), RUN)
        room_of([NODE], [], template)


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            ("spec", "template", "spec", "containers", 0, "env"), {"A": "1"},
            "spec.template.spec.containers[0].env is an object: expected a list "
            "(kubectl explain job.spec.template.spec.containers.env)",
        ),
        (
            ("spec", "template", "spec", "containers", 0, "env", 0, "value"), 1,
            "spec.template.spec.containers[0].env[0].value is a whole number: expected a text "
            "(kubectl explain job.spec.template.spec.containers.env.value)",
        ),
        (
            ("spec", "template", "spec", "containers", 0, "name"), None,
            "spec.template.spec.containers[0].name is missing "
            "(kubectl explain job.spec.template.spec.containers.name)",
        ),
        (
            ("spec", "template", "spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"), "one",
            "spec.template.spec.containers[0].resources.limits.nvidia.com/gpu: 'one' is no quantity: "
            "write 500m, 2, 1Gi",
        ),
        (("metadata", "labels"), {1: "a"},
         "metadata.labels has the key 1: put it in quotes (kubectl explain job.metadata.labels)"),
    ],
)  # fmt: skip
def test_the_field_is_named(place: tuple[Any, ...], value: Any, message: str) -> None:
    assert refused_field(changed(place, value)) == message


def test_a_job_that_is_taken_is_not_refused() -> None:
    assert refused_field(JOB) is None
    absent = changed(("spec", "template", "metadata"), None)
    absent["spec"]["template"]["spec"] |= {"affinity": None, "nodeSelector": None, "tolerations": None}
    assert refused_field(absent) is None
    assert (
        refused_field(changed(("spec", "template", "spec", "nodeSelector"), {"resources": "large"})) is None
    )

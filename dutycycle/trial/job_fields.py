"""Checks the fields of a Job that a trial reads or changes: that they are of the types that the API server
takes. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dutycycle.submit.amounts import refused_amounts

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

"""Finds the amounts of resources that the API server refuses in a part of an object. Pure.

The rules are those of ``ValidateResourceRequirements`` and ``validateContainerResourceName`` in
pkg/apis/core/validation/validation.go, of https://github.com/kubernetes/kubernetes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dutycycle.kube.resources import parse_quantity

_RESOURCES = ("resources", "resourcesPerNode", "computeResources")
_CONTAINERS = ("containers", "initContainers")
_PLACEHOLDER = "{{"
"""An amount that is filled in later, as in a template of Argo."""


def refused_amounts(part: Any, path: str) -> Iterator[str]:
    """Yield a sentence for each amount below ``path`` that is refused, and for what can hold none: with its
    path, its value and the rule."""
    if isinstance(part, Mapping):
        for name, inner in part.items():
            below = f"{path}.{name}" if path else str(name)
            if name in _RESOURCES and isinstance(inner, Mapping):
                yield from _of_requirements(inner, below)
            elif name in _RESOURCES and inner is not None and _PLACEHOLDER not in str(inner):
                yield f"{below}: {inner!r} is no object: expected limits and requests"
            elif (
                name in _CONTAINERS
                and inner is not None
                and not (
                    isinstance(inner, list) and all(isinstance(container, Mapping) for container in inner)
                )
            ):
                yield f"{below}: {inner!r} is no list of containers"
            else:
                yield from refused_amounts(inner, below)
    elif isinstance(part, list):
        for number, inner in enumerate(part):
            yield from refused_amounts(inner, f"{path}[{number}]")


def refused_amount(resource: str, text: Any, path: str) -> Iterator[str]:
    """Yield a sentence where one amount of a resource is refused; ``text`` is absent where none is stated."""
    if text is None or _PLACEHOLDER in str(text):
        return
    amount = parse_quantity(text)
    if amount is None and str(text).startswith("$"):
        yield f"{path}: {str(text)!r} is to be filled in: give what envsubst < FILE prints, with it set"
    elif amount is None:
        yield f"{path}: {str(text)!r} is no quantity: write 500m, 2, 1Gi"
    elif amount < 0:
        yield f"{path}: {str(text)!r} is below 0"
    elif _is_counted(resource) and amount != amount.to_integral_value():
        yield f"{path}: {str(text)!r} is no whole number, and {resource} is counted"


def _of_requirements(requirements: Mapping[str, Any], path: str) -> Iterator[str]:
    stated = {what: requirements.get(what) or {} for what in ("limits", "requests")}
    for what, amounts in stated.items():
        if not isinstance(amounts, Mapping):
            yield f"{path}.{what}: {amounts!r} names no resources: write cpu: 2, memory: 1Gi"
            return
        for resource, text in amounts.items():
            if not isinstance(resource, str):
                yield f"{path}.{what}: {resource!r} is no name of a resource"
            yield from refused_amount(str(resource), text, f"{path}.{what}.{resource}")
    for resource, text in stated["requests"].items():
        if _is_counted(str(resource)) and resource not in stated["limits"]:
            yield f"{path}.requests.{resource}: {str(text)!r} has no limit, and {resource} needs the same one"
        asked, most = parse_quantity(text), parse_quantity(stated["limits"].get(resource))
        if asked is not None and most is not None and asked != most:
            is_counted = _is_counted(str(resource))
            if is_counted or asked > most:
                rule = "is not its limit" if is_counted else "is more than its limit"
                limit = str(stated["limits"][resource])
                yield f"{path}.requests.{resource}: {str(text)!r} {rule}, {limit!r}"


def _is_counted(resource: str) -> bool:
    """Tell whether a resource comes in whole pieces: those of devices, such as ``nvidia.com/gpu``."""
    domain, slash, _ = resource.partition("/")
    return bool(slash) and (not domain.endswith("kubernetes.io") or domain.startswith("deviceclass."))

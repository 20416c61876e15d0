"""Which kinds the API server has, from its aggregated discovery: one answer tells all groups. Pure.

See https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery; Kubernetes has it
since 1.30.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from dutycycle.kubectl.kinds import Kind

ACCEPT = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def kinds(answer: Mapping[str, Any]) -> tuple[Kind, ...]:
    """The kinds that live in a namespace, each in the first version that has it: groups prefer that one.

    Raises ``KeyError`` for what is no aggregated discovery.
    """
    found: dict[tuple[str, str], Kind] = {}
    for kind in _every(answer):
        found.setdefault((kind.group, kind.plural), kind)
    return tuple(found.values())


def _every(answer: Mapping[str, Any]) -> Iterator[Kind]:
    for group in answer["items"]:
        for version in group["versions"]:
            for one in version.get("resources") or ():  # none of a server that cannot be asked just now
                shape = one.get("responseKind") or {}
                if one["scope"] == "Namespaced" and shape.get("kind"):
                    yield Kind(group["metadata"]["name"], version["version"], one["resource"], shape["kind"])

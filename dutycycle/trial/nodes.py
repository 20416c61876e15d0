"""Tells which nodes the pods of a Job take at all: by cordons, taints, node affinity and what there is. Pure.

The rules are the scheduler's own: https://kubernetes.io/docs/concepts/scheduling-eviction/, assign-pod-node/
and taint-and-toleration/. Labels of ``nodeSelector`` are not among them: a trial may change those.
"""

import re
from collections.abc import Mapping
from typing import Any

from dutycycle.kube.resources import gpu_resources, parse_quantity, request

Spec = Mapping[str, Any]

_REFUSING = frozenset({"NoSchedule", "NoExecute"})
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeletedByClusterAutoscaler")
"""Beginnings of taints by which Kubernetes says how a node is at the moment, such as not-ready."""
HOST_LABEL = "kubernetes.io/hostname"
_WHOLE = re.compile(r"-?\d+", re.ASCII).fullmatch


def why_refused(node: Mapping[str, Any], pod: Spec, resource: str) -> str | None:
    """Tell why no pod of this specification runs on a node, ever; None where one may.

    ``resource``: of the GPUs that it asks for. A taint of that name counts as tolerated: the API server may
    add the toleration (admission plugin ExtendedResourceToleration), as those of cloud providers do.
    """
    spec, meta = node.get("spec") or {}, node["metadata"]
    if spec.get("unschedulable"):
        return "cordoned"
    for taint in spec.get("taints") or ():
        key = taint.get("key") or ""
        lasting = taint.get("effect") in _REFUSING and key != resource and not key.startswith(_PASSING)
        if lasting and not any(_tolerates(toleration, taint) for toleration in pod.get("tolerations") or ()):
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"taint {key}{value}:{taint['effect']}"
    rule = _required(pod, "nodeAffinity")
    if rule and not any(_matches(term, meta) for term in rule.get("nodeSelectorTerms") or ()):
        return "not of its nodeAffinity"
    there = (node.get("status") or {}).get("allocatable") or {}
    # The names of what its containers ask for, other GPUs left out
    names: set[str] = set()
    for part in (pod, *(pod.get("containers") or ()), *(pod.get("initContainers") or ())):
        stated = part.get("resources") or {}
        names |= {*(stated.get("limits") or ()), *(stated.get("requests") or ())} - gpu_resources(part).keys()
    for name in sorted(names - {resource}):
        offered = there.get(name, 0 if "/" in name else None)  # of cpu and memory each node has some
        wanted, amount = request(pod, name), parse_quantity(offered)
        if wanted is not None and amount is not None and wanted > amount:
            return f"a pod asks for more {name} than {offered}"
    return None


def keep_apart(pod: Spec, labels: Mapping[str, str]) -> bool:
    """Tell whether pods with these labels never share a node, by an anti-affinity to one another."""
    for term in _required(pod, "podAntiAffinity") or ():
        selector = term.get("labelSelector")  # an empty one selects all, an absent one nothing
        if term.get("topologyKey") != HOST_LABEL or selector is None:
            continue
        expressions = selector.get("matchExpressions") or ()
        is_selected = (selector.get("matchLabels") or {}).items() <= labels.items()
        if is_selected and all(_holds(expression, labels) for expression in expressions):
            return True
    return False


def _required(pod: Spec, kind: str) -> Any:
    rules = (pod.get("affinity") or {}).get(kind) or {}
    return rules.get("requiredDuringSchedulingIgnoredDuringExecution")


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    exists = toleration.get("operator") == "Exists"
    if not toleration.get("key"):
        return exists
    same_value = (toleration.get("value") or "") == (taint.get("value") or "")
    return toleration["key"] == taint.get("key") and (exists or same_value)


def _matches(term: Mapping[str, Any], meta: Mapping[str, Any]) -> bool:
    """Tell whether all expressions of a term match a node; an empty term matches none."""
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    labels, name = meta.get("labels") or {}, {"metadata.name": meta["name"]}
    return bool(expressions or fields) and (
        all(_holds(expression, labels) for expression in expressions)
        and all(_holds(expression, name) for expression in fields)
    )


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    values, label = expression.get("values") or (), labels.get(expression["key"])
    match expression["operator"]:
        case "In":
            return label in values
        case "NotIn":
            return label not in values
        case "Exists":
            return label is not None
        case "DoesNotExist":
            return label is None
        case "Gt" | "Lt" as operator:
            numbers = [int(text) for text in (label, *values) if text is not None and _WHOLE(text)]
            if len(numbers) != 2:
                return False
            return numbers[0] > numbers[1] if operator == "Gt" else numbers[0] < numbers[1]
    return False

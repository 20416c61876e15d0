"""Finds where the pods of a trial fit: GPUs of nodes, all and free. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dutycycle.contract.records.pods import FINISHED_PHASES
from dutycycle.kube.resources import gpu_resources, parse_quantity
from dutycycle.trial.nodes import keep_apart, why_refused
from dutycycle.trial.plan import Variant
from dutycycle.trial.template import JobTemplate
from dutycycle.words import listed

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Room:
    """Holds GPUs of the nodes that the Job's pods take, and the labels of nodes.

    ``selector``: the labels that the Job itself wants of a node. ``refused``: of each node with GPUs that its
    pods never take, why. ``apart``: the Job says itself that no two of its pods share a node.
    """

    gpus: Mapping[str, int]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False

    def take(self, variant: Variant) -> "Room | None":
        """Return what is left after the pods of a trial were put there; None where they do not fit."""
        left = dict(self.gpus)
        nodes = sorted(self._able(variant), key=lambda node: -left[node])
        if variant.placement == "packed":
            if not nodes or left[nodes[0]] < variant.total or self._is_contradicted(variant):
                return None
            left[nodes[0]] -= variant.total
            if self.apart:
                del left[nodes[0]]
            return replace(self, gpus=left)
        for _ in range(variant.pods):
            node = next((name for name in nodes if left[name] >= variant.gpus), None)
            if node is None:
                return None
            left[node] -= variant.gpus
            if variant.placement == "spread" or self.apart:
                nodes.remove(node)
            if self.apart:  # nor are pods of other trials of this Job put there
                del left[node]
        return replace(self, gpus=left)

    def _is_contradicted(self, variant: Variant) -> bool:
        return self.apart and variant.placement == "packed" and variant.pods > 1

    def _able(self, variant: Variant) -> list[str]:
        """Return the nodes with the labels that the Job wants, and with the variant's model of GPU."""
        wanted = self._wanted(variant).items()
        return [node for node in self.gpus if wanted <= self.labels.get(node, {}).items()]

    def _wanted(self, variant: Variant) -> dict[str, str]:
        model = variant.model
        return {**self.selector, **({} if model is None else {model.key: model.value})}

    def why_never(self, variant: Variant) -> str | None:
        """Tell why a trial can never run on nodes with so many GPUs in all; None where it can."""
        if self.take(variant) is not None:
            return None
        nodes: dict[str, list[str]] = {}
        for node, reason in self.refused.items():
            nodes.setdefault(reason, []).append(node)
        left_out = [f"{listed(names, _NAMED)} ({reason})" for reason, names in sorted(nodes.items())]
        beside = f"; its pods never take {', '.join(left_out)}" if left_out else ""
        gpus = [self.gpus[node] for node in self._able(variant)]
        most = max(gpus, default=0)
        if not gpus and (wanted := self._wanted(variant)):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            lacks = f"no node that takes its pods has the label{'s' * (len(wanted) > 1)} {labels}"
        elif self._is_contradicted(variant):
            lacks = "no two of its pods share a node (podAntiAffinity), so they cannot be packed on one"
        elif variant.gpus > most:
            lacks = f"no node has {variant.gpus} GPUs: the largest has {most}"
        elif variant.placement == "packed":
            lacks = f"no node has {variant.total} GPUs for all pods: the largest has {most}"
        else:
            able = sum(free >= variant.gpus for free in gpus)
            each = " of their own" if variant.placement == "spread" or self.apart else ""
            pods = f"{variant.pods} pods of {variant.gpus} GPUs"
            lacks = f"{pods} need nodes{each}: {able} nodes have so many GPUs"
        return lacks + beside


def room_of(nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], job: JobTemplate) -> Room:
    """Return GPUs that none of ``pods`` asks for, of the nodes that the pods of a Job take."""
    gpus: dict[str, int] = {}
    refused: dict[str, str] = {}
    for node in nodes:
        amount = ((node.get("status") or {}).get("allocatable") or {}).get(job.resource)
        reason = why_refused(node, job.pod, job.resource)
        if amount is not None and reason is None:
            gpus[node["metadata"]["name"]] = int(parse_quantity(amount) or 0)
        elif amount is not None and parse_quantity(amount):
            refused[node["metadata"]["name"]] = reason or ""
    for pod in pods:
        node_name = pod["spec"].get("nodeName")
        if node_name in gpus and (pod.get("status") or {}).get("phase") not in FINISHED_PHASES:
            for container in pod["spec"].get("containers") or ():
                gpus[node_name] -= int(gpu_resources(container).get(job.resource, 0))
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    apart = keep_apart(job.pod, job.pod_labels)
    return Room(gpus, labels, job.pod.get("nodeSelector") or {}, refused, apart)

"""Where the pods of a trial fit: GPUs of nodes, all and free. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutycycle.kube.quantity import parse_quantity
from dutycycle.kube.resources import gpu_resources
from dutycycle.trial.plan import Variant

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs by node, and the labels of nodes. ``selector``: the labels that the Job itself wants of a node."""

    gpus: Mapping[str, int]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    selector: Mapping[str, str] = field(default_factory=dict)

    def take(self, variant: Variant) -> "Room | None":
        """What is left after the pods of a trial were put there; None where they do not fit."""
        left = dict(self.gpus)
        nodes = sorted(self._able(variant), key=lambda node: -left[node])
        if variant.placement == "packed":
            if not nodes or left[nodes[0]] < variant.total:
                return None
            left[nodes[0]] -= variant.total
            return Room(left, self.labels, self.selector)
        for _ in range(variant.pods):
            node = next((one for one in nodes if left[one] >= variant.gpus), None)
            if node is None:
                return None
            left[node] -= variant.gpus
            if variant.placement == "spread":
                nodes.remove(node)
        return Room(left, self.labels, self.selector)

    def _able(self, variant: Variant) -> list[str]:
        """The nodes with the labels that the Job wants, and with the variant's model of GPU."""
        wanted = self._wanted(variant).items()
        return [node for node in self.gpus if wanted <= self.labels.get(node, {}).items()]

    def _wanted(self, variant: Variant) -> dict[str, str]:
        model = variant.model
        return {**self.selector, **({} if model is None else {model.key: model.value})}

    def why_never(self, variant: Variant) -> str | None:
        """Why a trial can never run on nodes with so many GPUs in all; None where it can."""
        if self.take(variant) is not None:
            return None
        gpus = [self.gpus[node] for node in self._able(variant)]
        if not gpus and (wanted := self._wanted(variant)):
            labels = ", ".join(f"{key}={value}" for key, value in sorted(wanted.items()))
            return f"no node that takes pods has the label{'s' * (len(wanted) > 1)} {labels}"
        most = max(gpus, default=0)
        if variant.gpus > most:
            return f"no node has {variant.gpus} GPUs: the largest has {most}"
        if variant.placement == "packed":
            return f"no node has {variant.total} GPUs for all pods: the largest has {most}"
        able = sum(free >= variant.gpus for free in gpus)
        each = " of their own" if variant.placement == "spread" else ""
        return f"{variant.pods} pods of {variant.gpus} GPUs need nodes{each}: {able} nodes have so many GPUs"


def room_of(
    nodes: Sequence[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], resource: str,
    selector: Mapping[str, str] | None = None,
) -> Room:  # fmt: skip
    """GPUs that no pod asks for, of nodes that take pods; ``selector``: the Job's ``nodeSelector``."""
    gpus = {
        one["metadata"]["name"]: int(parse_quantity(amount) or 0)
        for one in nodes
        if not (one.get("spec") or {}).get("unschedulable")
        and (amount := ((one.get("status") or {}).get("allocatable") or {}).get(resource)) is not None
    }
    for pod in pods:
        node = pod["spec"].get("nodeName")
        if node in gpus and (pod.get("status") or {}).get("phase") not in _ENDED:
            for container in pod["spec"].get("containers") or ():
                gpus[node] -= int(gpu_resources(container).get(resource, 0))
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in nodes}
    return Room(gpus, labels, selector or {})

"""Where the pods of a trial fit: GPUs of nodes, all and free. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.kube.quantity import parse_quantity
from dutycycle.kube.resources import gpu_resources
from dutycycle.trial.plan import Variant

_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class Room:
    """GPUs by node."""

    gpus: Mapping[str, int]

    def take(self, variant: Variant) -> "Room | None":
        """What is left after the pods of a trial were put there; None where they do not fit."""
        left = dict(self.gpus)
        if variant.placement == "packed":
            node = max(left, key=lambda one: left[one], default=None)
            if node is None or left[node] < variant.total:
                return None
            left[node] -= variant.total
            return Room(left)
        nodes = sorted(left, key=lambda one: -left[one])
        for _ in range(variant.pods):
            node = next((one for one in nodes if left[one] >= variant.gpus), None)
            if node is None:
                return None
            left[node] -= variant.gpus
            if variant.placement == "spread":
                nodes.remove(node)
        return Room(left)

    def why_never(self, variant: Variant) -> str | None:
        """Why a trial can never run on nodes with so many GPUs in all; None where it can."""
        if self.take(variant) is not None:
            return None
        most = max(self.gpus.values(), default=0)
        if variant.gpus > most:
            return f"no node has {variant.gpus} GPUs: the largest has {most}"
        if variant.placement == "packed":
            return f"no node has {variant.total} GPUs for all pods: the largest has {most}"
        able = sum(one >= variant.gpus for one in self.gpus.values())
        each = " of their own" if variant.placement == "spread" else ""
        return f"{variant.pods} pods of {variant.gpus} GPUs need nodes{each}: {able} nodes have so many GPUs"


def room_of(nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], resource: str) -> Room:
    """GPUs that no pod asks for, of nodes that take pods."""
    gpus = {
        one["metadata"]["name"]: int(parse_quantity(amount) or 0)
        for one in nodes
        if not (one.get("spec") or {}).get("unschedulable")
        and (amount := ((one.get("status") or {}).get("allocatable") or {}).get(resource)) is not None
    }
    for one in pods:
        node = one["spec"].get("nodeName")
        if node in gpus and (one.get("status") or {}).get("phase") not in _ENDED:
            for container in one["spec"].get("containers") or ():
                gpus[node] -= int(gpu_resources(container).get(resource, 0))
    return Room(gpus)

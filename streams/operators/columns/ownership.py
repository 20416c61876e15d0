"""Who holds a GPU by the kubelet's word, and whether alone; ``contract.records.attribution`` says more."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from contract.records.samples import Allocation


class Holder(NamedTuple):
    """A pod that was given the GPU (``mig`` absent) or a slice of it; ``alone``: and nobody else was."""

    pod_uid: str
    mig: str | None
    alone: bool


def holders(allocated: Iterable[Allocation]) -> Iterator[Holder]:
    """The pods of a GPU's ``allocated`` whose uid is known, once for each device, in the order told."""
    by_device: dict[str | None, dict[Any, bool]] = {}
    for one in allocated:
        # A pod without a known uid still is one more: by its name.
        who = one.pod_uid or (one.namespace, one.pod)
        pods = by_device.setdefault(one.mig, {})
        pods[who] = pods.get(who, False) or bool(one.shared)
    for mig, pods in by_device.items():
        for who, shared in pods.items():
            if isinstance(who, str):
                yield Holder(who, mig, alone=len(pods) == 1 and not shared)

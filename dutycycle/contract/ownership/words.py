"""Defines the words for where a pod's figures on a GPU come from, and what two of them are together.

``measured``: processes that run in the pod's cgroups, or what an exporter tells of each pod on a device that
they share. ``allocated``: the kubelet gave the device to this pod
alone, and whose the processes are is not known; the device's figures stand in for the pod's. ``unknown``: it
was given the device together with others, or others run there: no figure, which is not the same as idle.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dutycycle.contract.records.samples import Allocation

MEASURED = "measured"
ALLOCATED = "allocated"
UNKNOWN = "unknown"
_RANK = {UNKNOWN: 0, MEASURED: 1, ALLOCATED: 2}
"""Of two origins the higher counts: a figure that is partly allocated is not measured."""


def merged(many: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return origins by scope for several such, in the order of the scopes; in whatever order they come."""
    words: dict[str, str] = {}
    for origins in many:
        for scope, word in origins.items():
            words[scope] = less_sure(words.get(scope), word)
    return {scope: words[scope] for scope in sorted(words)}


def less_sure(known: str | None, word: str) -> str:
    """Return the origin of two figures together; a word of another version counts as measured."""
    return word if known is None or _RANK.get(word, 1) > _RANK.get(known, 1) else known


class Holder(NamedTuple):
    """Holds a pod that was given a GPU (``mig`` None) or a slice of it; ``alone``: no other pod was."""

    pod_uid: str
    mig: str | None
    alone: bool


def holders(allocated: Iterable[Allocation]) -> Iterator[Holder]:
    """Yield the pods of a GPU's ``allocated`` whose uid is known, once for each device, in the order of the
    record."""
    by_device: dict[str | None, dict[Any, bool]] = {}
    for allocation in allocated:
        # A pod without a known uid is one more pod all the same, by its name.
        who = allocation.pod_uid or (allocation.namespace, allocation.pod)
        pods = by_device.setdefault(allocation.mig, {})
        pods[who] = pods.get(who, False) or bool(allocation.shared)
    for mig, pods in by_device.items():
        for who, shared in pods.items():
            if isinstance(who, str):
                yield Holder(who, mig, alone=len(pods) == 1 and not shared)

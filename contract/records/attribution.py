"""The words for where a pod's figures on a GPU come from, and what two of them are together.

``measured``: processes that run in the pod's cgroups. ``allocated``: the kubelet gave the device to this pod
alone, and whose the processes are is not known; the device's figures stand in for the pod's. ``unknown``: it
was given the device together with others, or others run there: no figure, which is not the same as idle.
"""

from collections.abc import Iterable, Mapping

MEASURED = "measured"
ALLOCATED = "allocated"
UNKNOWN = "unknown"
_RANK = {UNKNOWN: 0, MEASURED: 1, ALLOCATED: 2}
"""Of two origins the higher counts: a figure that is partly allocated is not measured."""


def merged(many: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Origins by scope for several such, in the order of the scopes; in whatever order they come."""
    found: dict[str, str] = {}
    for origins in many:
        for scope, word in origins.items():
            found[scope] = less_sure(found.get(scope), word)
    return {scope: found[scope] for scope in sorted(found)}


def less_sure(known: str | None, word: str) -> str:
    """The origin of two figures together; a word of another version counts as measured."""
    return word if known is None or _RANK.get(word, 1) > _RANK.get(known, 1) else known

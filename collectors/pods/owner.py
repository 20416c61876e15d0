"""From a pod to its job: the walk up the owner references. Pure; reading an owner is passed in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Meta = Mapping[str, Any]
"""The ``metadata`` of a Kubernetes object, as JSON."""

_MOST_LEVELS = 16
_NO_JOBS = frozenset({"Node"})
"""Owners that are no job: a static pod belongs to its node."""


@dataclass(frozen=True, slots=True)
class Owner:
    """An owner as its child names it. Names are used again, so ``uid`` decides who is meant."""

    api_version: str
    kind: str
    name: str
    uid: str


Read = Callable[[str, Owner], Meta | None]
"""The metadata of a namespace's object, or None where it is not known: it may not be read, or is gone."""


def controller_of(meta: Meta) -> Owner | None:
    """The owner that manages the object: the one marked so, else the first."""
    references = meta.get("ownerReferences") or ()
    managing = [one for one in references if one.get("controller")] or list(references)
    if not managing:
        return None
    one = managing[0]
    return Owner(one.get("apiVersion", ""), one.get("kind", ""), one.get("name", ""), one.get("uid", ""))


def topmost_owner(pod: Meta, read: Read) -> Owner | None:
    """The topmost owner that can be read; the one that the pod itself names where not even that can.

    An owner whose uid is not the one referred to is another object of the same name: it counts as gone.
    Owners that own each other end the walk at the last new one. What ``read`` raises passes through.
    """
    at = controller_of(pod)
    if at is None or at.kind in _NO_JOBS:
        return None
    top, seen = at, {at.uid}
    while len(seen) <= _MOST_LEVELS:
        meta = read(pod.get("namespace", ""), at)
        if meta is None or meta.get("uid") != at.uid:
            break
        top, at = at, controller_of(meta) or at
        if at.uid in seen:
            break
        seen.add(at.uid)
    return top

"""Tells which pods are made alike: two hashes of what a user wrote, which each run of it has. Pure.

Names, labels and environment differ from run to run, and the API server adds to all else; so only what is
run counts, and what is asked for it. A hash tells nothing of what was hashed.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, NamedTuple

import orjson

from dutycycle.kube.resources import quantity_text

_DIGITS = 16


class TemplateIdentity(NamedTuple):
    """Holds the hashes of a pod. ``program``: the images and commands of the containers. ``template``: these
    with their arguments, and what they ask for."""

    program: str
    template: str


def template_of(spec: Mapping[str, Any]) -> TemplateIdentity:
    """Return the hashes of a pod's specification, as a user wrote it or as the API server shows it."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    programs = [[container.get("image"), container.get("command") or []] for container in containers]
    asked = []
    for container in containers:
        # What is requested; of what is only limited, the API server makes a request too. As one text for each
        # amount: the API server shows ``cpu: 8000m`` as ``"8"``, and hashes are of text.
        resources = container.get("resources") or {}
        requests = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        amounts = {name: quantity_text(amount or 0) for name, amount in requests.items()}  # null is 0, too
        asked.append([container.get("args") or [], amounts])
    return TemplateIdentity(_hash(programs), _hash([programs, asked]))


def _hash(value: Any) -> str:
    text = orjson.dumps(value, default=str, option=orjson.OPT_SORT_KEYS)
    return sha256(text).hexdigest()[:_DIGITS]

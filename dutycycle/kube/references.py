"""Says how an object is named, and what is read of it and changed in it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

JSON = "application/json"
KubeObject = Mapping[str, Any]
"""An object of Kubernetes, or a part of it, as JSON."""
Metadata = Mapping[str, Any]
"""The ``metadata`` of an object, as JSON."""
Patch = Mapping[str, str | None]
"""What to change of annotations: new values by key, None to take a key away."""


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """Names one object. ``uid`` tells it from a later one of the same name; None where any one will do."""

    api_version: str
    kind: str
    name: str
    namespace: str | None = None
    uid: str | None = None

    def __str__(self) -> str:
        where = f"{self.namespace}/" if self.namespace else ""
        return f"{self.kind} {where}{self.name}"


def deployment_of(meta: Metadata) -> str | None:
    """Give the Deployment of a pod, by the name of its ReplicaSet; None for a pod of something else.

    The Deployment puts a hash of its template on its pods, and at the end of the name of their ReplicaSet.
    """
    template_hash = (meta.get("labels") or {}).get("pod-template-hash")
    for owner in meta.get("ownerReferences") or ():
        if template_hash and owner.get("controller") and owner.get("kind") == "ReplicaSet":
            return str(owner["name"].removesuffix(f"-{template_hash}"))
    return None

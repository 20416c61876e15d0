"""Makes Kubernetes Events of ours: what ``kubectl describe`` prints below an object. Pure.

https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.kube.discovery import Kind
from dutycycle.kube.heartbeat import micro_time
from dutycycle.kube.references import ObjectRef

EVENT = Kind("events.k8s.io/v1", "Event", "events")
CONTROLLER = "dutycycle.io/sinks"
"""Who reports; kubectl prints it as ``From``, and the admission policy knows our Events by it."""
CULLER = "dutycycle.io/cull"
"""The same of Events on idle workloads that are stopped."""
_ACTION = "Measuring"
# With a dot and the digest a name stays below the 253 letters that Kubernetes allows.
_LONGEST_NAME = 200
_HASH_CHARS = 16


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Describes something that holds of an object since ``since_ms``. ``type`` is ``Normal`` or ``Warning``.

    ``fault``: which of several that have one reason; empty where an object has one at a time.
    """

    about: ObjectRef
    reason: str
    type: str
    since_ms: int
    note: str
    fault: str = ""

    @property
    def namespace(self) -> str:
        """Return where its Event lies: what is about an object of the cluster has to be in ``default``."""
        return self.about.namespace or "default"

    @property
    def name(self) -> str:
        """Return the name of its Event: the same whoever writes it, and however often, as long as it
        holds."""
        what = f"{self.about.uid}/{self.reason}/{self.since_ms}" + (f"/{self.fault}" if self.fault else "")
        digest = hashlib.sha256(what.encode()).hexdigest()[:_HASH_CHARS]
        return f"{self.about.name[:_LONGEST_NAME].rstrip('-.')}.{digest}"


def new_event(
    occurrence: Occurrence, at_ms: int, controller: str = CONTROLLER, action: str = _ACTION
) -> Mapping[str, Any]:
    """Return the Event when it is written first; ``controller``: who reports it."""
    about = occurrence.about
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"name": occurrence.name, "namespace": occurrence.namespace},
        "eventTime": micro_time(at_ms),
        "reportingController": controller,
        "reportingInstance": controller.replace("/", "-"),
        "action": action,
        "type": occurrence.type,
        "reason": occurrence.reason,
        "note": occurrence.note,
        "regarding": {
            "apiVersion": about.api_version, "kind": about.kind, "name": about.name,
            # The uid of a Node is its name here, as the kubelet writes it and kubectl asks for it.
            **({"uid": about.name} if about.namespace is None else
               {"namespace": about.namespace, "uid": about.uid}),
        },
    }  # fmt: skip


def repetition(count: int, at_ms: int) -> Mapping[str, Any]:
    """Give what is merged into the Event when it was observed ``count`` times, the last time at ``at_ms``."""
    return {"series": {"count": count, "lastObservedTime": micro_time(at_ms)}}

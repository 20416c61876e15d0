"""Makes and reads the heartbeat of a node: a Lease whose renewal is the time of the node's newest sample.
Pure.

The sinks write it, the kubectl plugin reads it. It lies in the namespace of the sinks, with the node's name.
https://kubernetes.io/docs/concepts/architecture/leases/
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from dutycycle.kube.discovery import Kind

LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
LABELS = {"app.kubernetes.io/managed-by": "dutycycle"}
SELECTOR = ",".join(f"{name}={value}" for name, value in LABELS.items())
"""What finds all heartbeats, in whichever namespace."""
_HOLDER = "dutycycle"
MISSED = 3
"""After so many renewals that did not come, the node counts as silent: ``leaseDurationSeconds`` says it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Says when a node was sampled last, and how long that may be ago while it is alive."""

    node: str
    sampled_ms: int
    duration_s: int

    def is_stale(self, now_ms: int) -> bool:
        """Tell whether the node's samples have stopped coming."""
        return now_ms > self.sampled_ms + self.duration_s * 1000


def heartbeat_of(lease: Mapping[str, Any]) -> Heartbeat | None:
    """Return what a Lease of ours says; None for one that is not ours, or was changed by hand."""
    metadata, spec = lease.get("metadata") or {}, lease.get("spec") or {}
    if spec.get("holderIdentity") != _HOLDER or not LABELS.items() <= (metadata.get("labels") or {}).items():
        return None
    try:
        renewed = datetime.fromisoformat(spec["renewTime"])
        millis = (renewed - _EPOCH) // timedelta(milliseconds=1)
        return Heartbeat(metadata["name"], millis, int(spec["leaseDurationSeconds"]))
    except (KeyError, TypeError, ValueError):
        return None


def renewal(sampled_ms: int, period_s: float) -> dict[str, Any]:
    """Return what is merged into the Lease of a node that was sampled at ``sampled_ms``; ``period_s``:
    seconds between two renewals."""
    spec = {
        "holderIdentity": _HOLDER,
        "leaseDurationSeconds": max(1, round(MISSED * period_s)),
        "renewTime": micro_time(sampled_ms),
    }
    return {"metadata": {"labels": LABELS}, "spec": spec}


def new_lease(node: str, node_uid: str, namespace: str, sampled_ms: int, period_s: float) -> dict[str, Any]:
    """Return a node's first Lease. It belongs to the Node: Kubernetes removes it when the Node is gone."""
    owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
    metadata = {"name": node, "namespace": namespace, "labels": LABELS, "ownerReferences": [owner]}
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.name,
        "metadata": metadata,
        "spec": renewal(sampled_ms, period_s)["spec"],
    }


def micro_time(ms: int) -> str:
    """Return Unix milliseconds as Kubernetes' MicroTime, with exactly six digits behind the point."""
    return (_EPOCH + timedelta(milliseconds=ms)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

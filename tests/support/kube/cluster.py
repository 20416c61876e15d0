"""What a scheduler, a kubelet and an operator would do in a cluster: bind pods, report on them, end them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

GPU = "nvidia.com/gpu"
_IMAGE = "registry.example.com/train:1"


def owned_by(owner: Object) -> Object:
    """The owner reference to an object."""
    meta = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": meta["name"], "uid": meta["uid"],
        "controller": True,
    }  # fmt: skip


class Cluster:
    """One namespace, and one node of its own for its pods."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._admin = kube.admin
        self.namespace = namespace
        self.node = f"{namespace}-gpu-a"
        self.node_object = self._admin.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.node, "labels": {"zone": "a"}}}
        )

    def make(self, api_version: str, kind: str, name: str, *owners: Object, **more: Any) -> Object:
        """Any object of the namespace. ``more``: spec, status; labels and annotations of its metadata."""
        meta: Object = {"namespace": self.namespace, "name": name}
        meta |= {key: more.pop(key) for key in ("labels", "annotations") if key in more}
        meta |= {"ownerReferences": [owned_by(owner) for owner in owners]} if owners else {}
        return self._admin.create({"apiVersion": api_version, "kind": kind, "metadata": meta, **more})

    def pod(
        self, name: str, *owners: Object, gpus: int = 1, labels: Mapping[str, str] | None = None
    ) -> Object:
        """A pod that waits for a node."""
        resources: Object = {"requests": {"cpu": "100m"}}
        resources |= {"limits": {GPU: str(gpus)}} if gpus else {}
        spec = {
            "containers": [{"name": "main", "image": _IMAGE, "resources": resources}],
            "restartPolicy": "OnFailure",
        }
        return self.make("v1", "Pod", name, *owners, labels=dict(labels or {}), spec=spec)

    def bind(self, pod: Object) -> None:
        """Put the pod on the node, as the scheduler does."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{self.namespace}/pods/{meta['name']}/binding"
        body: Object = {"metadata": {"name": meta["name"]}, "target": {"kind": "Node", "name": self.node}}
        self._admin.request("POST", path, {"apiVersion": "v1", "kind": "Binding", **body})

    def running(self, pod: Object, container_id: str, *, restarts: int = 0) -> None:
        """Its container runs, the kubelet says."""
        state = {"running": {"startedAt": now()}}
        self._status(pod, "Running", state, container_id, restarts)

    def ended(self, pod: Object, container_id: str, *, phase: str = "Succeeded", restarts: int = 0) -> None:
        """Its container has ended for good, the kubelet says."""
        state = {"terminated": {"exitCode": int(phase == "Failed"), "startedAt": now(), "finishedAt": now()}}
        self._status(pod, phase, state, container_id, restarts)

    def delete(self, thing: Object) -> None:
        """Gone at once."""
        self._admin.delete(thing)

    def annotations(self, thing: Object, prefix: str = "dutycycle.io/") -> dict[str, str]:
        """What kubectl's JSON says of our annotations, keys without prefix; of all with the prefix ``""``."""
        found = self._admin.get(thing)["metadata"].get("annotations") or {}
        return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}

    def _status(self, pod: Object, phase: str, state: Object, container_id: str, restarts: int) -> None:
        status = pod_status(phase, pod["spec"]["containers"][0], state, container_id, restarts)
        started = pod["metadata"]["creationTimestamp"]
        self._admin.patch(pod, {"status": status | {"startTime": started}}, "status")


def pod_status(
    phase: str, container: Object, state: Object, container_id: str = "", restarts: int = 0
) -> dict[str, Any]:
    """What a kubelet says of a pod with one container."""
    one = {
        "name": container["name"], "image": container["image"], "imageID": "", "restartCount": restarts,
        "ready": "running" in state, "state": state,
        "containerID": f"containerd://{container_id}" if container_id else "",
    }  # fmt: skip
    ready = "True" if "running" in state else "False"
    conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Initialized", "status": "True"}]
    conditions += [{"type": name, "status": ready} for name in ("ContainersReady", "Ready")]
    return {"phase": phase, "conditions": conditions, "containerStatuses": [one]}


def gpus_of(pod: Object) -> int:
    """How many GPUs its containers ask for."""
    limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    return sum(int(one.get(GPU, 0)) for one in limits)


def now() -> str:
    """The time as Kubernetes writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

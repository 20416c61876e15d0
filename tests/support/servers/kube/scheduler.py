"""The stock kube-scheduler, and nodes that are only objects, as KWOK makes them: nothing runs on them."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.support.servers.kube.build import find_scheduler
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube
from tests.support.servers.process import ServerProcess

_API = "kubescheduler.config.k8s.io/v1"
_OPTIONS = ["--leader-elect=false", "--secure-port=0", "--authentication-skip-lookup=true"]


class Scheduler(ServerProcess):
    """Schedules the pods of an API server until it is stopped; ``extenders`` of its configuration.

    ``gates``: features that are on.
    """

    def __init__(
        self, kube: Kube, folder: Path, extenders: Sequence[Mapping[str, Any]] = (), gates: str = ""
    ) -> None:
        config = {
            "apiVersion": _API,
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kube.admin.kubeconfig)},
            "leaderElection": {"leaderElect": False},
            # What a person waits for in a cluster, a test does not: 1 s and 10 s.
            "podInitialBackoffSeconds": 1,
            "podMaxBackoffSeconds": 1,
            "extenders": [*extenders],
        }
        file = folder / "kube-scheduler.yaml"
        file.write_text(yaml.safe_dump(config))
        command: list[str | Path] = [find_scheduler(), *_OPTIONS, f"--config={file}"]
        command += [f"--feature-gates={gates}"] if gates else []
        super().__init__(command, folder / "kube-scheduler.log")


def add_node(admin: Client, name: str, *, gpus: int = 8) -> Object:
    """A node that is ready and takes 110 pods. No controller runs that asks after its heartbeat."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {
        "type": "Ready", "status": "True", "reason": "KubeletReady", "message": "",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    }  # fmt: skip
    node = admin.create(
        {
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": room, "capacity": room, "conditions": [ready]},
        }
    )  # fmt: skip
    # The API server gives every new node the taint "not-ready", which a controller takes off.
    return admin.patch(node, {"spec": {"taints": None}})


def gpu_pod(namespace: str, name: str, *, gpus: int = 1, **spec: Any) -> Object:
    """A pod that asks for GPUs; ``spec``: more of its specification."""
    room = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    container = {
        "name": "main", "image": "train:1",
        "resources": {"requests": {"cpu": "1", **room}, "limits": room},
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": namespace, "name": name},
        "spec": {"containers": [container], **spec},
    }  # fmt: skip

"""kube-controller-manager with a few controllers: those that a test names do what they do in a cluster."""

from pathlib import Path

from tests.support.servers.kube.build import find_controllers
from tests.support.servers.kube.server import Kube
from tests.support.servers.process import ServerProcess

AUTOSCALING = ("horizontal-pod-autoscaler-controller", "deployment-controller", "replicaset-controller")
"""An autoscaler, and what makes pods of the replicas that it asks for."""
WORKLOADS = (
    "job-controller",
    "deployment-controller",
    "replicaset-controller",
    "garbage-collector-controller",
)
"""What makes pods of Jobs and Deployments, and deletes them with their owners."""

_OPTIONS = [
    "--leader-elect=false",
    "--secure-port=0",
    "--use-service-account-credentials=true",  # each controller may what its role allows, as in a cluster
    # What a person waits for in a cluster, a test does not: 15 s, and 5 minutes before it scales down.
    "--horizontal-pod-autoscaler-sync-period=1s",
    "--horizontal-pod-autoscaler-downscale-stabilization=3s",
]


class Controllers(ServerProcess):
    """Runs ``controllers`` on an API server until it is stopped."""

    def __init__(self, kube: Kube, folder: Path, controllers: tuple[str, ...] = AUTOSCALING) -> None:
        config = f"--kubeconfig={kube.admin.kubeconfig}"
        super().__init__(
            [find_controllers(), *_OPTIONS, config, f"--controllers={','.join(controllers)}"],
            folder / "kube-controller-manager.log",
        )

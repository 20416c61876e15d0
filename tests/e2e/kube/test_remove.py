"""``dutycycle remove`` on the real API server: all that was made at run time goes, and nothing else."""

import subprocess
import sys

import pytest

from dutycycle.kube.discovery import EVENT, PRIORITY_CLASS
from dutycycle.kube.events import EVENT as EVENT_TO_WRITE
from dutycycle.kube.events import Occurrence, new_event
from dutycycle.kube.heartbeat import LEASE, new_lease
from dutycycle.kube.references import ObjectRef
from dutycycle.telemetry.events import Telemetry
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.webhook.classes import PriorityClasses
from tests.support.kube.api_server import api_server
from tests.support.processes.commands import environ
from tests.support.servers.kube.server import Kube

pytestmark = pytest.mark.kube
NOW_MS = 1_795_000_000_000
OURS = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Ddutycycle"
POLICY = Policy(bands={"": Band(50_000_000, 60_000_000)}, longest_s=1200.0)


def run_remove(kube: Kube, *arguments: str) -> str:
    env = environ() | {"KUBECONFIG": str(kube.admin.kubeconfig)}
    env.pop("KUBERNETES_SERVICE_HOST", None)
    done = subprocess.run(
        [sys.executable, "-m", "dutycycle", "remove", *arguments],
        env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def ours(kube: Kube, namespace: str) -> dict[str, int]:
    """How many objects there are of each kind that is made at run time."""
    paths = {
        "PriorityClass": f"{PRIORITY_CLASS.path()}?{OURS}",
        "Lease": f"{LEASE.path(namespace=namespace)}?{OURS}",
        "Event": f"{EVENT.path(namespace=namespace)}?fieldSelector=reportingComponent%3Ddutycycle.io%2Fsinks",
    }
    return {kind: len(kube.admin.request("GET", path)["items"]) for kind, path in paths.items()}


@pytest.mark.parametrize("everywhere", [True, False])
async def test_what_was_made_goes_and_what_users_and_others_made_stays(
    kube: Kube, namespace: str, everywhere: bool
) -> None:
    server = await api_server(kube.admin.kubeconfig)
    try:
        await PriorityClasses(server, POLICY, Telemetry("test"), wall=lambda: 0.0).refresh()
        classes = ours(kube, namespace)["PriorityClass"]
        assert classes > 10
        carried = {"dutycycle.io/gpu_util": "{}", "dutycycle.io/trial": "gpus=1", "example.org/a": "1"}
        metadata = {"name": "train-0", "namespace": namespace, "annotations": carried}
        containers = [{"name": "c", "image": "i"}]
        pod = kube.admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers}}
        )
        labels = {"dutycycle.io/gpu-idle": "true", "zone": "a"}
        name = f"{namespace}-a"
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        node_uid = kube.admin.create(node)["metadata"]["uid"]
        await server.create(LEASE, new_lease(f"{namespace}-a", node_uid, namespace, NOW_MS, 10.0))
        other = {"apiVersion": LEASE.api_version, "kind": "Lease", "spec": {}}
        kube.admin.create(other | {"metadata": {"name": "other", "namespace": namespace}})
        about = ObjectRef("v1", "Pod", "train-0", namespace, pod["metadata"]["uid"])
        idle = Occurrence(about, "Idle", "Warning", NOW_MS, "idle for an hour")
        await server.create(EVENT_TO_WRITE, new_event(idle, NOW_MS))
        assert ours(kube, namespace) == {"PriorityClass": classes, "Lease": 1, "Event": 1}
        where = () if everywhere else ("-n", namespace)
        named = run_remove(kube, *where, "--dry-run")
        assert f"Lease {namespace}/{namespace}-a\n" in named
        assert f"Pod {namespace}/train-0: dutycycle.io/gpu_util\n" in named
        assert ours(kube, namespace)["Lease"] == 1
        removed = run_remove(kube, *where)
        assert ("PriorityClass" in removed) == everywhere
        left = {"PriorityClass": 0 if everywhere else classes, "Lease": 0, "Event": 0}
        assert ours(kube, namespace) == left
        kept = {"zone": "a"} if everywhere else labels
        assert kube.admin.get(node)["metadata"]["labels"] == kept
        assert kube.admin.get(pod)["metadata"]["annotations"].keys() == {
            "dutycycle.io/trial",
            "example.org/a",
        }
        assert kube.admin.request("GET", LEASE.path("other", namespace))["metadata"]["name"] == "other"
        kube.admin.delete(node)
    finally:
        kube.admin.request("DELETE", f"{PRIORITY_CLASS.path()}?{OURS}")
        await server.close()

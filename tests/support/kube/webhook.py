"""``dutycycle webhook`` on this machine, as the chart registers it with an API server."""

import base64
import json
from pathlib import Path

from tests.support.deploy.manifests import WITH_WEBHOOK, of_kind, render
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.waiting import wait_until


def opted_in(admin: Client, namespace: str, port: int, authority: Path) -> Object:
    """The configuration that the chart ships, for a webhook on this machine and pods of ``namespace``."""
    made = of_kind(render(WITH_WEBHOOK), "MutatingWebhookConfiguration")
    ca = base64.b64encode(authority.read_bytes()).decode()
    made["webhooks"][0]["clientConfig"] = {"url": f"https://127.0.0.1:{port}/mutate", "caBundle": ca}
    made["webhooks"][0]["timeoutSeconds"] = 10  # this machine may be slow; what is awaited is the answer
    admin.patch(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"metadata": {"labels": made["webhooks"][0]["namespaceSelector"]["matchLabels"]}},
    )
    return admin.create(made)


def gpu_job(namespace: str, name: str, image: str, **labels: str) -> Object:
    """A pod that asks for a GPU and is not there yet."""
    made = gpu_pod(namespace, name)
    made["metadata"]["labels"] = labels
    made["spec"]["containers"][0]["image"] = image
    return made


def said_why(made: Object) -> Object:
    """Why a pod has its place; empty if the webhook gave it none."""
    found: Object = json.loads(made["metadata"].get("annotations", {}).get("dutycycle.io/priority", "{}"))
    return found


def wait_until_asked(admin: Client, namespace: str, log: Path) -> None:
    """Until a pod that would be created now gets its place."""
    wait_until(lambda: "webhook_serves" in log.read_text(), log.read_text)
    probe, dry = gpu_job(namespace, "probe", "probe:1"), f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    wait_until(lambda: bool(said_why(admin.request("POST", dry, probe))), log.read_text)

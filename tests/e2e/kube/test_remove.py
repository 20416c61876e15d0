"""``dutycycle remove`` on the real API server: all that was made at run time goes, and nothing else."""

import json
from collections.abc import Iterator

import pytest

from dutycycle.kube.discovery import EVENT, PRIORITY_CLASS
from dutycycle.kube.events import CULLER, Occurrence, new_event
from dutycycle.kube.events import EVENT as EVENT_TO_WRITE
from dutycycle.kube.heartbeat import LEASE, new_lease
from dutycycle.kube.references import ObjectRef
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.node import CONDITIONS
from sinks.culling.ledger import CullLedger
from sinks.scheduling.core.policy import Band, Policy
from sinks.scheduling.webhook.classes import PriorityClasses
from tests.support.deploy.manifests import CHART, FULL, NAMESPACE, ROOT, helm
from tests.support.kube.api_server import api_server
from tests.support.processes.commands import dutycycle, environ
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.crds import Kind, manifest
from tests.support.servers.kube.server import Kube

pytestmark = pytest.mark.kube
NOW_MS = 1_795_000_000_000
OURS = "labelSelector=app.kubernetes.io%2Fmanaged-by%3Ddutycycle"
POLICY = Policy(bands={"": Band(50_000_000, 60_000_000)}, longest_s=1200.0)

GUIDE = (ROOT / "docs/kubernetes.md").read_text().partition("## Remove it")[2]
EVERYTHING: Object = FULL | {
    "certManager": {"enabled": False}, "prometheusRule": {"enabled": True}, "dashboards": {"enabled": True},
    "kafka": {"trial": {"enabled": True}}, "sinks": {"annotations": {"nodeLabels": True}},
}  # fmt: skip
"""Every switch, with records on a volume."""


def run_remove(kube: Kube, *arguments: str) -> str:
    env = environ() | {"KUBECONFIG": str(kube.admin.kubeconfig)}
    return dutycycle("remove", *arguments, env=env).stdout


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


@pytest.fixture
def own_kube() -> Iterator[Kube]:
    """A server of its own: what is left of other tests would count."""
    kube = Kube()
    try:
        yield kube
    finally:
        kube.discard()


def everything(admin: Client) -> dict[str, Object]:
    """Every object of the cluster by kind, namespace and name: its labels and annotations. Without Events of
    Kubernetes' own controllers, which write when they like and delete after an hour."""
    kinds = ",".join(admin.kubectl("api-resources", "--verbs=list", "-o", "name").split())
    found: dict[str, Object] = {}
    for thing in json.loads(admin.kubectl("get", kinds, "-A", "-o", "json"))["items"]:
        by = thing.get("reportingComponent") or thing.get("reportingController") or ""
        if thing["kind"] == "Event" and not by.startswith("dutycycle.io/"):
            continue
        meta = thing["metadata"]
        found[f"{thing['kind']} {meta.get('namespace', '')}/{meta['name']}"] = {
            name: meta.get(name) or {} for name in ("labels", "annotations")
        } | {"spec": thing.get("spec")}
    return found


def of_the_server(name: str) -> bool:
    """Whether the API server makes and renews it by itself."""
    return "apiserver" in name or "kube-root-ca" in name or " default/kubernetes" in name


async def work(kube: Kube, pod: Object, node: Object) -> None:
    """Make all that our processes make while they run, by their own code."""
    server, admin = await api_server(kube.admin.kubeconfig), kube.admin
    try:
        await PriorityClasses(server, POLICY, Telemetry("test"), wall=lambda: 0.0).refresh()
        await server.create(LEASE, new_lease("gpu-a", node["metadata"]["uid"], NAMESPACE, NOW_MS, 10.0))
        about = ObjectRef("v1", "Pod", "train-0", "ml", pod["metadata"]["uid"])
        for reason, controller in (("GpuIdle", None), ("IdleStopped", CULLER)):
            idle = Occurrence(about, reason, "Normal", NOW_MS, "idle for an hour")
            await server.create(EVENT_TO_WRITE, new_event(idle, NOW_MS, *filter(None, [controller])))
        ledger = CullLedger(server, NAMESPACE, "dutycycle-cull")
        await ledger.load()
        await ledger.note({"workload": "Deployment ml/web"}, NOW_MS)
    finally:
        await server.close()
    annotations = {
        "dutycycle.io/gpu_util_max": "97",
        "dutycycle.io/culled": "{}",
        "dutycycle.io/placement": "{}",
    }
    web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ml"}}
    for thing in (pod, node, web):
        admin.patch(thing, {"metadata": {"annotations": annotations}})
    labels = {f"dutycycle.io/{name}": "true" for name in CONDITIONS}
    admin.patch(node, {"metadata": {"labels": labels}})


async def test_only_what_the_guide_names_is_left_and_nothing_of_the_users_is_taken(own_kube: Kube) -> None:
    admin = own_kube.admin
    for kind, plural in (("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules")):
        admin.create(manifest(Kind("monitoring.coreos.com", ("v1",), kind, plural)))
    for name in ("ml", "vision", NAMESPACE):
        admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    users = {"dutycycle.io/trial": "gpus=1", "example.org/a": "1"}
    metadata = {
        "name": "train-0",
        "namespace": "ml",
        "annotations": users,
        "labels": {"dutycycle.io/keep": "true"},
    }
    spec = {"containers": [{"name": "c", "image": "i"}]}
    pod = admin.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    node = admin.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-a", "labels": {"zone": "a"}}}
    )
    selector = {"matchLabels": {"app": "web"}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    admin.create({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"replicas": 2, "selector": selector, "template": template},
    })  # fmt: skip
    admin.create(
        {
            "apiVersion": PRIORITY_CLASS.api_version,
            "kind": "PriorityClass",
            "metadata": {"name": "ours"},
            "value": 7,
        }
    )
    before = everything(admin)

    where = (f"--namespace={NAMESPACE}", f"--kubeconfig={admin.kubeconfig}")
    installed = helm("install", "dutycycle", str(CHART), *where, values=EVERYTHING)
    assert installed.returncode == 0, installed.stderr
    await work(own_kube, pod, node)
    assert len(everything(admin).keys() - before.keys()) > 100

    uninstalled = helm("uninstall", "dutycycle", *where, "--wait")
    assert uninstalled.returncode == 0, uninstalled.stderr
    run_remove(own_kube)
    after = everything(admin)
    left = {name for name in after.keys() - before.keys() if not of_the_server(name)}
    assert left == {
        f"ConfigMap {NAMESPACE}/dutycycle-cull", f"PersistentVolumeClaim {NAMESPACE}/dutycycle-sinks"
    }  # fmt: skip
    assert all(name.rpartition("/")[2] in GUIDE for name in left)
    taken = {name: (thing, after.get(name)) for name, thing in before.items() if after.get(name) != thing}
    assert not {name for name in taken if not of_the_server(name)}, taken
    assert (after["Pod ml/train-0"]["annotations"], after["Node /gpu-a"]["labels"]) == (users, {"zone": "a"})

"""Each permission that is shipped is needed: without it something fails, says what lacks, and goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kube.errors import RefusedError
from dutycycle.kube.heartbeat import Heartbeat, heartbeat_of
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import OWNER_FORBIDDEN, Telemetry
from sinks.annotations.core.targets import Target
from sinks.annotations.heartbeats import Heartbeats
from tests.e2e.test_sink import publish
from tests.support.kafka import all_topics, settings_of
from tests.support.kube.api_server import api_server
from tests.support.kube.cluster import Cluster
from tests.support.kube.contents import APP, CONTROLLER, CRON, SPEC
from tests.support.kube.shipped import account, shipped_rules, without
from tests.support.kube.watching import Watch, bound, job_of
from tests.support.processes.commands import environ, read_now, running
from tests.support.servers.kube.accounts import Permission, expand
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.waiting import wait_until

OWNERS: dict[tuple[str, str], tuple[str, str, Object]] = {
    ("", "pods"): ("v1", "Pod", {"spec": {"containers": [{"name": "main", "image": "driver"}]}}),
    ("", "replicationcontrollers"): ("v1", "ReplicationController", CONTROLLER),
    ("apps", "deployments"): ("apps/v1", "Deployment", APP),
    ("apps", "replicasets"): ("apps/v1", "ReplicaSet", APP),
    ("apps", "statefulsets"): ("apps/v1", "StatefulSet", APP),
    ("apps", "daemonsets"): ("apps/v1", "DaemonSet", APP),
    ("batch", "jobs"): ("batch/v1", "Job", SPEC),
    ("batch", "cronjobs"): ("batch/v1", "CronJob", CRON),
    ("kubeflow.org", "mpijobs"): ("kubeflow.org/v2beta1", "MPIJob", {}),
    ("kubeflow.org", "pytorchjobs"): ("kubeflow.org/v1", "PyTorchJob", {}),
    ("kubeflow.org", "tfjobs"): ("kubeflow.org/v1", "TFJob", {}),
    ("kubeflow.org", "xgboostjobs"): ("kubeflow.org/v1", "XGBoostJob", {}),
    ("kubeflow.org", "paddlejobs"): ("kubeflow.org/v1", "PaddleJob", {}),
    ("kubeflow.org", "jaxjobs"): ("kubeflow.org/v1", "JAXJob", {}),
    ("kubeflow.org", "notebooks"): ("kubeflow.org/v1", "Notebook", {}),
    ("trainer.kubeflow.org", "trainjobs"): ("trainer.kubeflow.org/v1alpha1", "TrainJob", {}),
    ("jobset.x-k8s.io", "jobsets"): ("jobset.x-k8s.io/v1alpha2", "JobSet", {}),
    ("ray.io", "rayjobs"): ("ray.io/v1", "RayJob", {}),
    ("ray.io", "rayclusters"): ("ray.io/v1", "RayCluster", {}),
    ("ray.io", "rayservices"): ("ray.io/v1", "RayService", {}),
    ("batch.volcano.sh", "jobs"): ("batch.volcano.sh/v1alpha1", "Job", {}),
    ("leaderworkerset.x-k8s.io", "leaderworkersets"): ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", {}),
    ("sparkoperator.k8s.io", "sparkapplications"): ("sparkoperator.k8s.io/v1beta2", "SparkApplication", {}),
    ("argoproj.io", "workflows"): ("argoproj.io/v1alpha1", "Workflow", {}),
    ("workload.codeflare.dev", "appwrappers"): ("workload.codeflare.dev/v1beta2", "AppWrapper", {}),
    ("serving.kserve.io", "inferenceservices"): ("serving.kserve.io/v1beta1", "InferenceService", {}),
}
"""By group and resource: how an object of it is made."""
LEASES = [(verb, "coordination.k8s.io", "leases") for verb in ("create", "patch")]
EVENTS = [(verb, "events.k8s.io", "events") for verb in ("create", "patch")]
"""``tests/dutycycle/kube/test_real_events.py`` tries these."""
EVERY_OWNER = pytest.mark.parametrize(
    "owner", OWNERS, ids=lambda owner: ".".join(filter(None, reversed(owner)))
)


def test_what_is_shipped_is_what_is_tried_here() -> None:
    owners = {(verb, *owner) for verb in ("get", "patch") for owner in OWNERS}
    pods = {("list", "", "pods"), ("watch", "", "pods")}
    assert expand(shipped_rules("collector")) == pods | {one for one in owners if one[0] == "get"}
    objects = {(verb, "", resource) for verb in ("get", "patch") for resource in ("nodes", "pods")}
    assert expand(shipped_rules("sinks")) == objects | owners | set(LEASES) | set(EVENTS)


def test_with_all_of_them_no_owner_is_forbidden(cluster: Cluster, watch: Watch) -> None:
    pods = {owner: bound(cluster, f"p{i}", middle(cluster, owner)[1]) for i, owner in enumerate(OWNERS)}
    with watch() as seen:
        for owner, pod in pods.items():
            job = seen.of(pod).job
            assert job is not None
            assert job.name.startswith("top-"), f"{owner} was walked through"
        assert seen.telemetry.count(OWNER_FORBIDDEN) == 0


@EVERY_OWNER
def test_the_collector_needs_get_on_every_owner(
    owner: tuple[str, str], cluster: Cluster, watch: Watch, caplog: pytest.LogCaptureFixture
) -> None:
    _, between = middle(cluster, owner)
    pod, other = bound(cluster, "p", between), bound(cluster, "other")
    rules = without(shipped_rules("collector"), ("get", *owner))
    with watch(rules) as seen:
        assert seen.of(pod).job == job_of(between)
        assert seen.of(other).job is None
    group, resource = owner
    lines = [
        line for line in caplog.messages if f'cannot get resource "{resource}" in API group "{group}"' in line
    ]
    assert len(lines) == 1
    assert lines[0].startswith("owner_forbidden kind=")


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_the_collector_needs_to_list_and_watch_pods(
    verb: str, kube: Kube, cluster: Cluster, tmp_path: Path
) -> None:
    """The real process: it says so once, and measures on."""
    pod = bound(cluster, "p")
    rules = without(shipped_rules("collector"), (verb, "", "pods"))
    client = account(kube, cluster.namespace, "collector", rules)
    log = tmp_path / "log"
    with EmbeddedBroker(all_topics()) as broker:
        env = environment(
            broker.url, client, node=cluster.node, spool=str(tmp_path / "spool"), interval="0.2s"
        )
        settings = settings_of(env)
        with running("collect", env=env, log=log):
            missing = f'cannot {verb} resource "pods" in API group "" at the cluster scope'
            wait_until(lambda: missing in log.read_text(), log.read_text)
            known = len(read_now(settings, ["cgroup-samples"])["cgroup-samples", cluster.node])
            wait_until(
                lambda: (
                    len(read_now(settings, ["cgroup-samples"])["cgroup-samples", cluster.node]) > known + 10
                ),
                log.read_text,
            )
        listed = ("pods", pod["metadata"]["uid"]) in read_now(settings, ["pods"])
    assert listed == (verb == "watch"), "what was listed is published, whether or not it can be followed"
    assert sum(missing in line for line in log.read_text().splitlines()) == 1
    assert "Traceback" not in log.read_text()


async def test_the_sinks_need_get_and_patch_on_all_that_they_annotate(kube: Kube, cluster: Cluster) -> None:
    targets = {
        ("", "nodes"): Target("node", "v1", "Node", cluster.node),
        **{owner: target_of(middle(cluster, owner)[1]) for owner in OWNERS},
    }
    for (group, resource), target in targets.items():
        for verb in ("get", "patch"):
            rules = without(shipped_rules("sinks"), (verb, group, resource))
            async with annotating(account(kube, cluster.namespace, "sinks", rules)) as server:
                missing = f'cannot {verb} resource "{resource}" in API group "{group}"'
                with pytest.raises(RefusedError, match=missing):
                    await read_and_write(server, target)
                if verb == "patch":
                    assert "dutycycle.io/x" not in await server.annotations(target.ref)


@pytest.mark.parametrize("lacking", [*LEASES, ("get", "", "nodes")], ids=" ".join)
async def test_the_sinks_need_to_create_and_renew_leases(
    lacking: Permission, kube: Kube, cluster: Cluster
) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{cluster.node}"
    telemetry = Telemetry("test")
    rules = without(shipped_rules("sinks"), lacking)
    async with annotating(account(kube, cluster.namespace, "sinks", rules)) as server:
        beats = Heartbeats(server, 60.0, "annotations", telemetry, lambda: 0.0)
        beats.sampled(cluster.node, 1)
        await beats.write_due(lambda: True)
    ((event, permission),) = telemetry.conditions
    assert (event, permission) == (
        "permission_missing",
        " ".join((lacking[0], lacking[2], lacking[1])).strip(),
    )
    assert not kube.admin.answers(path)
    async with annotating(account(kube, cluster.namespace, "sinks", shipped_rules("sinks"))) as server:
        beats = Heartbeats(server, 60.0, "annotations", telemetry, lambda: 0.0)
        for _ in range(2):
            beats.sampled(cluster.node, 1)
            await beats.write_due(lambda: True)
    assert heartbeat_of(kube.admin.request("GET", path)) == Heartbeat(cluster.node, 1, 180)


def test_a_sink_that_may_not_patch_nodes_says_so_and_annotates_pods(
    kube: Kube, cluster: Cluster, tmp_path: Path
) -> None:
    """The real process."""
    pod = cluster.pod("p")
    uid = pod["metadata"]["uid"]
    fields = {"namespace": cluster.namespace, "name": "p", "node": cluster.node}
    rules = without(shipped_rules("sinks"), ("patch", "", "nodes"))
    client = account(kube, cluster.namespace, "sinks", rules)
    log = tmp_path / "log"
    with EmbeddedBroker(all_topics()) as broker:
        env = environment(broker.url, client, records=f"sqlite:///{tmp_path}/r.db", annotation_interval="1s")
        with running("sink", env=env, log=log):
            tick = made.sample(made.K80)
            publish(env, ("nvml-samples", cluster.node, replace(tick, node=cluster.node)))
            missing = 'cannot patch resource "nodes" in API group "" at the cluster scope'
            wait_until(lambda: missing in log.read_text(), log.read_text)
            publish(env, ("pod-peaks", uid, made.pod_peaks(uid, fields)))
            wait_until(lambda: "max_cpu_util" in cluster.annotations(pod), log.read_text)
        letters = read_now(settings_of(env), ["dead-letters"])
    assert not cluster.annotations(cluster.node_object)
    assert [b'"reason":"rejected"' in payload for payloads in letters.values() for payload in payloads] == [
        True
    ]
    said = [line for line in log.read_text().splitlines() if missing in line and "write_rejected" in line]
    assert len(said) == 1
    assert "Traceback" not in log.read_text()


def middle(cluster: Cluster, owner: tuple[str, str]) -> tuple[Object, Object]:
    """An object of the kind ``owner``, and a job that owns it."""
    api_version, kind, content = OWNERS[owner]
    name = "-".join(owner).replace(".", "-").strip("-")
    above = ("kubeflow.org/v1", "PyTorchJob") if kind == "MPIJob" else ("kubeflow.org/v2beta1", "MPIJob")
    top = cluster.make(*above, f"top-{name}")
    return top, cluster.make(api_version, kind, f"middle-{name}", top, **content)


def target_of(thing: Object) -> Target:
    meta = thing["metadata"]
    kind = "pod" if thing["kind"] == "Pod" else "job"
    return Target(kind, thing["apiVersion"], thing["kind"], meta["name"], meta["namespace"], meta["uid"])


@asynccontextmanager
async def annotating(client: Client) -> AsyncIterator[ApiServer]:
    """The sinks' own border to the API server, as an account."""
    server = await api_server(client.kubeconfig)
    yield server
    await server.close()


async def read_and_write(server: ApiServer, target: Target) -> None:
    """What a sink does with an object that it meets for the first time."""
    await server.annotations(target.ref)
    await server.annotate(target.ref, {"dutycycle.io/x": "1"})


def environment(url: str, client: Client, **settings: str) -> dict[str, str]:
    return environ(broker=url, **settings) | {"KUBECONFIG": str(client.kubeconfig)}

"""The scheduler's own gangs (alpha in Kubernetes 1.36) with the extender: all pods start, or none."""

from pathlib import Path

import pytest

from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, read_now, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.scheduler import Scheduler, add_node, gpu_pod
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
GATES = "GenericWorkload=true,GangScheduling=true"
PODS = 3
API = "scheduling.k8s.io/v1alpha2"


def gang(kube: Kube, name: str) -> list[Object]:
    """A group, and its pods, of which each wants a GPU."""
    kube.admin.create({
        "apiVersion": API, "kind": "PodGroup", "metadata": {"namespace": "default", "name": name},
        "spec": {"schedulingPolicy": {"gang": {"minCount": PODS}}},
    })  # fmt: skip
    group = {"podGroupName": name}
    return [
        kube.admin.create(gpu_pod("default", f"{name}-{rank}", schedulingGroup=group)) for rank in range(PODS)
    ]


def bound(kube: Kube, pods: list[Object]) -> int:
    """How many have a node."""
    return sum("nodeName" in kube.admin.get(one)["spec"] for one in pods)


def refused(kube: Kube, one: Object) -> bool:
    """Whether the scheduler tried it and found no place."""
    conditions = kube.admin.get(one)["status"].get("conditions") or ()
    return any(found["type"] == "PodScheduled" and found["status"] == "False" for found in conditions)


def test_all_pods_of_a_gang_start_or_none(kafka: RunningBroker, topic_prefix: str, tmp_path: Path) -> None:
    port = free_port()
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, serve_listen=f"127.0.0.1:{port}")
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
        "weight": 10, "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "5s",
    }  # fmt: skip
    kube = Kube([f"--feature-gates={GATES}", f"--runtime-config={API}=true"])
    log = tmp_path / "extender.log"
    try:
        with running("extender", env=env, log=log):
            wait_until(lambda: "extender_serves" in log.read_text(), log.read_text)
            scheduler = Scheduler(kube, tmp_path, [extender], GATES)
            try:
                for name in ("node-0", "node-1"):
                    add_node(kube.admin, name, gpus=1)
                pods = gang(kube, "train")
                wait_until(lambda: all(refused(kube, one) for one in pods), scheduler.log_tail)
                assert bound(kube, pods) == 0  # though two nodes have a free GPU
                add_node(kube.admin, "node-2", gpus=1)
                wait_until(lambda: bound(kube, pods) == PODS, scheduler.log_tail)
            finally:
                scheduler.stop()
    finally:
        kube.discard()
    settings = settings_of(env)
    scored = {key for _, key in read_now(settings, ["placements"])}
    assert scored <= {one["metadata"]["uid"] for one in pods}
    assert len(scored) >= PODS - 1  # where one node is left, as for the last of them, no score is asked for

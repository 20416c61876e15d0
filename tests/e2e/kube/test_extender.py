"""The stock kube-scheduler with ``dutycycle extender``: pods go where there is room, and on without it."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bus.kafka.producer import Producer
from bus.kafka.topics import ensure_topics
from contract.codec import encode
from contract.settings.groups import PREFIX, Settings
from contract.settings.load import load
from contract.topics import full_name
from kube.templates import template_of
from tests.support.processes.commands import environ, running, wait_until
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.scheduler import Scheduler, add_node, gpu_pod
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.sinks.scheduling import GIB, gpu, nvml, peaks, pod

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
FREE_GIB = {"node-0": 30, "node-1": 80, "node-2": 10}
"""Of the GPU of each node, which nobody has asked for: the stock scheduler takes them for alike."""


async def publish(settings: Settings, namespace: str) -> None:
    """What collectors and streams say: how much memory is free, and that a pod like ours used 40 GiB."""
    await ensure_topics(
        settings, ["nvml-samples", "cgroup-samples", "pods", "insights", "cycles", "pod-peaks"]
    )
    now_ms = round(time.time() * 1000)
    made = template_of(gpu_pod(namespace, "any")["spec"])
    old = pod("old", namespace=namespace, program=made.program, template=made.template)
    records = [
        ("nvml-samples", node, encode(nvml(gpu(used=(80 - free) * GIB), node=node, ts_ms=now_ms)))
        for node, free in FREE_GIB.items()
    ]
    producer = Producer(settings, "test")
    await producer.start()
    for topic, key, payload in [*records, ("pod-peaks", "old", encode(peaks(old, 40)))]:
        name = full_name(settings.topic_prefix, topic)
        await producer.settle([await producer.send(name, key, payload, now_ms)])
    await producer.stop()


@pytest.fixture
def nodes(kube: Kube) -> Iterator[None]:
    made = [add_node(kube.admin, name, gpus=1) for name in FREE_GIB]
    yield
    for one in made:
        kube.admin.delete(one)


def _node_of(admin: Client, made: Object) -> str | None:
    found: str | None = admin.get(made)["spec"].get("nodeName")
    return found


def _bound(admin: Client, made: Object, said: Callable[[], str]) -> str:
    wait_until(lambda: _node_of(admin, made) is not None, said)
    return str(_node_of(admin, made))


async def test_pods_go_where_there_is_room_and_on_without_the_extender(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, namespace: str, nodes: None, tmp_path: Path
) -> None:
    port = free_port()
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, extender_listen=f"127.0.0.1:{port}")
    await publish(load({key: one for key, one in env.items() if key.startswith(PREFIX)}), namespace)
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
        "weight": 10, "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "1s",
    }  # fmt: skip
    scheduler = Scheduler(kube, tmp_path, [extender])
    log = tmp_path / "extender.log"

    def said() -> str:
        return f"{log.read_text()}\n{scheduler.log_tail()}"

    try:
        with running("extender", env=env, log=log):
            wait_until(lambda: "extender_serves" in log.read_text(), said)
            first = kube.admin.create(gpu_pod(namespace, "first"))
            assert _bound(kube.admin, first, said) == "node-1"  # the others have not the 40 GiB that it needs
        second = kube.admin.create(gpu_pod(namespace, "second"))
        assert _bound(kube.admin, second, said) in ("node-0", "node-2")
    finally:
        scheduler.stop()

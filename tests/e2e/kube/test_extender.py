"""The stock kube-scheduler with ``dutycycle extender``: pods go where there is room, and on without it."""

import asyncio
import base64
import http.client
import re
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp.test_utils import TestServer

from dutycycle.contract.records.health import GpuHealth, NodeHealth
from dutycycle.kube.templates import template_of
from dutycycle.telemetry.events import EXTENDER, Telemetry
from sinks.scheduling import questions
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.extender import Extender
from tests.support.deploy.manifests import NAMESPACE, render
from tests.support.kafka import make_topics, send, settings_of
from tests.support.kubectl.plugin_user import KubectlUser, install
from tests.support.processes.commands import environ, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.scheduler import Scheduler, add_node, gpu_pod
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.sinks.scheduling import GIB, app_of, gpu, nvml, peaks, pod
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
FREE_GIB = {"node-0": 30, "node-1": 80, "node-2": 10}
"""Of the GPU of each node, which nobody has asked for: the stock scheduler takes them for alike."""


def someone_of(kube: Kube, namespace: str, folder: Path) -> KubectlUser:
    """Somebody with a right on the pods of their namespace, and on nothing else."""
    rbac = "rbac.authorization.k8s.io"
    meta = {"namespace": namespace, "name": "pods"}
    kube.admin.create({
        "apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": meta,
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
    })  # fmt: skip
    kube.admin.create({
        "apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": meta,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "pods"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "jane"}],
    })  # fmt: skip
    config = yaml.safe_load(kube.admin.kubeconfig.read_text())
    for one in config["users"]:
        one["user"]["as"] = "jane"
    kubeconfig = folder / "jane.yaml"
    kubeconfig.write_text(yaml.safe_dump(config))
    return KubectlUser(kube, kubeconfig, install(folder))


def certificates_of_the_chart(kube: Kube, folder: Path) -> dict[str, str]:
    """The files of the Secrets that Helm makes, by the end of the Secret's name."""
    files = {}
    for thing in render({"extender": {"enabled": True}}, kubeconfig=kube.admin.kubeconfig):
        if thing["kind"] == "Secret":
            secret = thing["metadata"]["name"].removeprefix("dutycycle-extender-")
            for name, text in thing["data"].items():
                file = folder / f"{secret}-{name}"
                file.write_bytes(base64.b64decode(text))
                files[f"{secret}/{name}"] = str(file)
    return files


def is_answered(port: int, authority: str) -> bool:
    """Whether a client without a certificate is."""
    context = ssl.create_default_context(cafile=authority)
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=120)
    try:
        connection.request("POST", "/prioritize", "{}")
        connection.getresponse()
    except OSError:  # TLS 1.3 refuses after the handshake
        return False
    return True


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
    port, files = free_port(), certificates_of_the_chart(kube, tmp_path)
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, serve_listen=f"127.0.0.1:{port}",
        serve_cert=files["tls/tls.crt"], serve_key=files["tls/tls.key"],
        extender_client_ca=files["client-tls/ca.crt"],
        annotation_interval="1s", records=f"sqlite:///{tmp_path}/records.db",
    ) | {"KUBECONFIG": str(kube.admin.kubeconfig)}  # fmt: skip
    settings = settings_of(env)
    await make_topics(settings, ["nvml-samples", "cgroup-samples", "pods", "insights", "cycles", "pod-peaks"])
    now_ms = round(time.time() * 1000)
    made = template_of(gpu_pod(namespace, "any")["spec"])
    old = pod("old", namespace=namespace, program=made.program, template=made.template)
    records = [
        ("nvml-samples", node, nvml(gpu(used=(80 - free) * GIB), node=node, ts_ms=now_ms))
        for node, free in FREE_GIB.items()
    ]
    await send(settings, [*records, ("pod-peaks", "old", peaks(old, 40))], now_ms)
    extender = {
        "urlPrefix": f"https://127.0.0.1:{port}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
        "weight": 10, "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "1s",
        "tlsConfig": {
            "serverName": f"dutycycle-extender.{NAMESPACE}.svc", "caFile": files["tls/ca.crt"],
            "certFile": files["client-tls/tls.crt"], "keyFile": files["client-tls/tls.key"],
        },
    }  # fmt: skip
    scheduler = Scheduler(kube, tmp_path, [extender])
    log = tmp_path / "extender.log"

    def said() -> str:
        return f"{log.read_text()}\n{scheduler.log_tail()}"

    try:
        with running("extender", env=env, log=log), running("sink", env=env, log=tmp_path / "sink.log"):
            wait_until(lambda: "extender_serves" in log.read_text(), said)
            assert not is_answered(port, files["tls/ca.crt"]), "who has no certificate writes no placements"
            first = kube.admin.create(gpu_pod(namespace, "first"))
            assert _bound(kube.admin, first, said) == "node-1"  # the others have not the 40 GiB that it needs
            person = someone_of(kube, namespace, tmp_path)
            wait_until(lambda: "nodes " in person.run("why", "first", "-n", namespace)[1], said)
            assert person.run("why", "first", "-n", namespace)[1].splitlines()[1:5] == [
                "  expected     takes 10.0 min, 40.0 GiB of a GPU's memory at most, 2.5 CPUs (p95); "
                "1 ended pod with the same owner template; one says nothing of how it varies",
                "  nodes        the best 3 of 3, scores of 10, 2 left out for want of GPU memory",
                "               10 node-1 (it is here): leaves 0 of 1 GPUs free; "
                "needs 40.0 GiB of GPU memory, 80.0 GiB is free",
                "               0 node-0: leaves 0 of 1 GPUs free; "
                "needs 40.0 GiB of GPU memory, 30.0 GiB is free",
            ]
        second = kube.admin.create(gpu_pod(namespace, "second"))
        assert _bound(kube.admin, second, said) in ("node-0", "node-2")
    finally:
        scheduler.stop()
    assert not [line for line in log.read_text().splitlines() if "ERROR" in line or "Unclosed" in line]


async def test_whole_nodes_of_the_scheduler_are_cut_out_of_what_it_sends(
    kube: Kube, namespace: str, nodes: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Go writes them as the reader expects it: not one question is read in the slow way. The scheduler takes
    the answer: two of three nodes are left out."""

    read = questions.QuestionReader._read_as_go_writes

    def read_as_go_writes(reader: questions.QuestionReader, body: bytearray) -> Any:
        parts = read(reader, body)
        if parts is None:
            raise ValueError(f"not as Go writes it: {body[:2000].decode()}")
        return parts

    monkeypatch.setattr(questions.QuestionReader, "_read_as_go_writes", read_as_go_writes)
    known, now_ms = ClusterView(), round(time.time() * 1000)
    sick = GpuHealth(gpu="GPU-0", index=0, level="reset", since_ms=1, seen_ms=now_ms)
    for name in FREE_GIB.keys() - {"node-1"}:
        known.take(name, NodeHealth(node=name, ts_ms=now_ms, gpus=(sick,)))
    telemetry = Telemetry(EXTENDER)
    async with TestServer(app_of(Extender(known, telemetry, sick="filter").routes())) as server:
        scheduler = Scheduler(kube, tmp_path, [{
            "urlPrefix": f"http://127.0.0.1:{server.port}", "filterVerb": "filter",
            "prioritizeVerb": "prioritize", "weight": 10, "nodeCacheCapable": False, "httpTimeout": "5s",
        }])  # fmt: skip
        try:
            made = kube.admin.create(gpu_pod(namespace, "first"))
            bound = await asyncio.to_thread(_bound, kube.admin, made, scheduler.log_tail)
        finally:
            await asyncio.to_thread(scheduler.stop)
    assert bound == "node-1"
    page = telemetry.metrics.page().decode()
    assert set(re.findall(r'extender_answers_total{.*code="(\d+)"', page)) == {"200"}, page

"""The adapter as the chart installs it, and the example's Deployment as a cluster with GPUs would run it."""

import asyncio
import base64
import json
import re
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import yaml

from dutycycle.contract.records.derived import WindowAggregate, WindowMetric, pod_subject
from dutycycle.contract.settings.groups import Settings
from sinks.adapter.role import TOPICS
from tests.support.deploy.manifests import NAMESPACE, ROOT, of_kind, render
from tests.support.kafka import make_topics, send, settings_of
from tests.support.kube.cluster import Cluster
from tests.support.processes.commands import environ, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.accounts import new_token
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.waiting import wait_until

EXAMPLES = ROOT / "deploy/examples/hpa"
CUSTOM = "/apis/custom.metrics.k8s.io/v1beta1"
EXTERNAL = "/apis/external.metrics.k8s.io/v1beta1"
_NAME = "dutycycle-adapter"
_APIS = ["custom.metrics.k8s.io", "external.metrics.k8s.io"]
_WINDOW_MS = 1000


class Adapter:
    """The process, its log, and how it is reached without the API server."""

    def __init__(self, kafka: RunningBroker, prefix: str, kube: Kube, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self._kube = kube
        values = {"adapter": {"enabled": True, "apis": _APIS}}
        things = render(values, kubeconfig=kube.admin.kubeconfig)
        self._things = [
            one for one in things if one["metadata"]["labels"]["app.kubernetes.io/component"] == "adapter"
        ]
        secret = of_kind(self._things, "Secret")["data"]
        for name in ("ca.crt", "tls.crt", "tls.key"):
            (folder / name).write_bytes(base64.b64decode(secret[name]))
        self._env = environ(
            broker=kafka.url, topic_prefix=prefix, partitions="2", lateness="0",
            serve_listen=f"127.0.0.1:{self.port}",
            serve_cert=str(folder / "tls.crt"), serve_key=str(folder / "tls.key"),
        )  # fmt: skip
        self.settings: Settings = settings_of(self._env)
        asyncio.run(make_topics(self.settings, TOPICS))

    @contextmanager
    def run(self) -> Iterator[None]:
        """Installed and available, until it ends in good order."""
        admin = self._kube.admin
        namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        wanted = ("Secret", "ServiceAccount", "ClusterRole", "RoleBinding", "Service", "APIService")
        things = [namespace, *(self._here(one) for one in self._things if one["kind"].startswith(wanted))]
        admin.kubectl(
            "apply", "--server-side", "--force-conflicts", "-f", "-", stdin=yaml.safe_dump_all(things)
        )
        account = self._kube.client(new_token(self._kube, NAMESPACE, _NAME), NAMESPACE)
        env = self._env | {"KUBECONFIG": str(account.kubeconfig)}
        try:
            with running("adapter", env=env, log=self.folder / "adapter.log"):
                wait_until(lambda: admin.answers(CUSTOM) and admin.answers(EXTERNAL), lambda: self.said)
                yield
        finally:
            for one in things:
                if one["kind"] == "APIService":
                    admin.delete(one)
        assert "Traceback" not in self.said

    @property
    def said(self) -> str:
        """Its log."""
        return (self.folder / "adapter.log").read_text()

    def publish(self, topic: str, records: dict[str, Any]) -> None:
        """Records by key."""
        asyncio.run(send(self.settings, [(topic, key, record) for key, record in records.items()]))

    def _here(self, thing: Object) -> Object:
        """Without nodes and a network of services: the Service leads to this machine."""
        if thing["kind"] == "Service":
            return thing | {"spec": {"type": "ExternalName", "externalName": "localhost"}}
        if thing["kind"] == "APIService":
            spec = thing["spec"]
            return thing | {"spec": spec | {"service": spec["service"] | {"port": self.port}}}
        return thing


def window(uid: str, end_ms: int, size_ms: int = _WINDOW_MS, **means: float) -> WindowAggregate:
    """A window of a pod, of one second."""
    return WindowAggregate(
        subject=pod_subject("gpu-a", uid), source="nvml", size_ms=size_ms,
        start_ms=end_ms - size_ms, end_ms=end_ms,
        metrics={name: WindowMetric(count=1, mean=mean, max=mean) for name, mean in means.items()},
    )  # fmt: skip


class Figures(Protocol):
    """What an autoscaler's figures are published to, and its log."""

    @property
    def said(self) -> str: ...

    def publish(self, topic: str, records: dict[str, Any], /) -> None: ...


class VisionApi:
    """The example's Deployment: its pods are run, and the load of its GPUs is shared by them.

    ``manifest``: of its autoscaler. A second stands for ten: the autoscaler waits for a tenth of what the
    manifest says, and figures are so old as if they were ``LAG_S`` times ten.
    """

    LAG_S = 3.0

    def __init__(
        self,
        cluster: Cluster,
        admin: Client,
        adapter: Figures,
        controllers: Controllers,
        manifest: str = "hpa.yaml",
    ) -> None:
        self._cluster = cluster
        self._admin = admin
        self._adapter = adapter
        self._controllers = controllers
        self._running: set[str] = set()
        self._each: deque[tuple[float, float]] = deque()
        """When, and the utilization of each pod then."""
        self.most = 0
        """The most replicas that were ever asked for."""
        admin.kubectl("apply", "-n", cluster.namespace, "-f", str(EXAMPLES / "vision-api.yaml"))
        scaler = yaml.safe_load((EXAMPLES / manifest).read_text())
        scaler["spec"]["behavior"]["scaleUp"]["stabilizationWindowSeconds"] //= 10
        admin.kubectl("apply", "-n", cluster.namespace, "-f", "-", stdin=yaml.safe_dump(scaler))

    @property
    def replicas(self) -> int:
        """That the Deployment is to have."""
        return int(self._get("apps/v1", "deployments", "vision-api")["spec"]["replicas"])

    @property
    def conditions(self) -> dict[str, str]:
        """Of the autoscaler: the reason of each that holds, and ``not <reason>`` of each that does not."""
        status = self._get("autoscaling/v2", "horizontalpodautoscalers", "vision-api").get("status") or {}
        return {
            one["type"]: one["reason"] if one["status"] == "True" else f"not {one['reason']}"
            for one in status.get("conditions", ())
        }

    def under(self, load_pct: float | None, replicas: int) -> None:
        """Until there are so many replicas and their pods run; None: the collector is silent."""

        def so_many() -> bool:
            pods, wanted = self.moment(load_pct), self.replicas
            self.most = max(self.most, wanted)
            return wanted == replicas == len(pods)

        wait_until(so_many, lambda: f"{replicas} replicas: {self._state()}")

    def moment(self, load_pct: float | None) -> list[Object]:
        """Run the pods that there are, and say what their GPUs did ``LAG_S`` ago."""
        pods = self.pods()
        for pod in pods:
            if pod["metadata"]["uid"] not in self._running:
                self._cluster.bind(pod)
                self._cluster.running(pod, pod["metadata"]["uid"])
                self._running.add(pod["metadata"]["uid"])
        if load_pct is not None:
            now = time.monotonic()
            self._each.append((now, min(100.0, load_pct / max(1, len(pods)))))
            while len(self._each) > 1 and self._each[1][0] <= now - self.LAG_S:
                self._each.popleft()
            each, end_ms = self._each[0][1], round(time.time() * 1000)
            uids = [pod["metadata"]["uid"] for pod in pods]
            self._adapter.publish(
                "window-aggregates", {f"pod/{uid}": window(uid, end_ms, gpu_util_pct=each) for uid in uids}
            )
        return pods

    def pods(self) -> list[Object]:
        """That are not about to go."""
        path = f"/api/v1/namespaces/{self._cluster.namespace}/pods?labelSelector=app%3Dvision-api"
        items = self._admin.request("GET", path)["items"]
        return [
            {"apiVersion": "v1", "kind": "Pod", **one}
            for one in items
            if "deletionTimestamp" not in one["metadata"]
        ]

    def _get(self, version: str, plural: str, name: str) -> Object:
        return self._admin.request(
            "GET", f"/apis/{version}/namespaces/{self._cluster.namespace}/{plural}/{name}"
        )

    def _state(self) -> str:
        events = self._admin.kubectl("get", "events", "-n", self._cluster.namespace, check=False)
        said = re.sub(r"(?m)^I.*\n", "", self._controllers.log_tail())
        return f"{self.replicas} {self.conditions}\n{events}\n{said[-2000:]}\n{self._adapter.said[-2000:]}"


def values(answer: Object) -> dict[str, str]:
    """The value of each pod in a MetricValueList."""
    assert answer["kind"] == "MetricValueList", json.dumps(answer)
    return {one["describedObject"]["name"]: one["value"] for one in answer["items"]}

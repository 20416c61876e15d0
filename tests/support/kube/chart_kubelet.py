"""What a scheduler, a kubelet and the Prometheus Operator do, with a process for each of our pods.

There is no container runtime here. A pod of the chart becomes the process that its container would run: its
arguments, its environment, the files that its volumes have, the token of its account. Addresses lead to this
machine, and time runs faster: what is measured every 5 s in the chart is measured every second.
"""

import base64
import json
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.support.processes.commands import STOP_S, environ
from tests.support.servers.kube.accounts import new_token
from tests.support.servers.kube.client import Object, Refused
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.servers.prometheus import Prometheus

NODE = "gpu-a"
NAMESPACE = "dutycycle"
_FASTER = {"DUTYCYCLE_INTERVAL": "1s", "DUTYCYCLE_ANNOTATION_INTERVAL": "1s"}
_TURN_S = 0.5


@dataclass(slots=True)
class _Running:
    pod: Object
    process: subprocess.Popen[bytes] | None = None
    port: int = 0
    https: int = 0
    ready: bool = False
    log: Path = field(default_factory=Path)


class ChartKubelet:
    """The node ``gpu-a``. ``broker``: where the trial's Kafka is. ``operated``: the folder with Prometheus'
    targets and rules."""

    def __init__(self, kube: Kube, folder: Path, broker: str, prometheus: Prometheus, operated: Path) -> None:
        self._kube, self._admin = kube, kube.admin
        self._folder, self._broker = folder, broker
        self._prometheus, self._operated = prometheus, operated
        self._pods: dict[str, _Running] = {}
        self._admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})

    def running_pods(self) -> list[tuple[str, str]]:
        """(namespace, name) of the pods that run."""
        metas = [one.pod["metadata"] for one in list(self._pods.values())]
        return [(meta["namespace"], meta["name"]) for meta in metas]

    def said(self) -> str:
        """The ends of all logs."""
        pods = "".join(
            f"{one.pod['metadata']['name']} ready={one.ready}\n" for one in list(self._pods.values())
        )
        logs = [one.log for one in list(self._pods.values()) if one.process is not None]
        return pods + "\n".join(f"== {log.name}\n{log.read_text()[-1500:]}" for log in logs)

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Does its work until the block ends. Fails where that failed."""
        stop, failures = threading.Event(), list[BaseException]()

        def work() -> None:
            while not stop.wait(_TURN_S):
                try:
                    self._turn()
                except BaseException as error:
                    failures.append(error)
                    raise

        thread = threading.Thread(target=work, name="kubelet")
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            for uid in list(self._pods):
                self._stop(uid)
        assert not failures

    def _turn(self) -> None:
        items = self._admin.request("GET", "/api/v1/pods")["items"]
        pods = {one["metadata"]["uid"]: {"apiVersion": "v1", "kind": "Pod", **one} for one in items}
        for uid, pod in pods.items():
            leaving = "deletionTimestamp" in pod["metadata"]
            if uid in self._pods and leaving:
                self._stop(uid)
            if leaving:
                self._admin.delete(pod)
            elif uid not in self._pods:
                self._start(uid, pod)
        for uid in self._pods.keys() - pods.keys():
            self._stop(uid)
        for one in list(self._pods.values()):
            self._probe(one)
        self._operate()

    def _start(self, uid: str, pod: Object) -> None:
        meta = pod["metadata"]
        self._admin.request(
            "POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/binding",
            {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]},
             "target": {"kind": "Node", "name": NODE}},
        )  # fmt: skip
        one = self._pods[uid] = _Running(pod)
        (container,) = pod["spec"]["containers"]
        if meta["namespace"] == NAMESPACE and container.get("args"):
            self._run(one, container)
        self._report(one, "Running")

    def _run(self, one: _Running, container: Object) -> None:
        folder = self._folder / one.pod["metadata"]["name"]
        folder.mkdir()
        one.port, one.https, one.log = free_port(), free_port(), folder / f"{folder.name}.log"
        own = {each["name"]: each["value"] for each in container["env"]}
        for mount in container["volumeMounts"]:
            here = self._volume(one.pod, mount["name"], folder / mount["name"])
            own = {name: text.replace(mount["mountPath"], str(here)) for name, text in own.items()}
        env = environ() | own | _FASTER
        env |= {"DUTYCYCLE_BROKER": self._broker, "DUTYCYCLE_LISTEN": f"127.0.0.1:{one.port}"}
        env |= {"DUTYCYCLE_SERVE_LISTEN": f"127.0.0.1:{one.https}"} if "adapter" in container["args"] else {}
        account = one.pod["spec"].get("serviceAccountName")
        if one.pod["spec"].get("automountServiceAccountToken") and account:
            client = self._kube.client(new_token(self._kube, NAMESPACE, account), NAMESPACE)
            env["KUBECONFIG"] = str(client.kubeconfig)
        with one.log.open("wb") as out:
            command = [sys.executable, "-m", "dutycycle", *container["args"]]
            one.process = subprocess.Popen(command, env=env, stdout=out, stderr=subprocess.STDOUT)

    def _volume(self, pod: Object, name: str, here: Path) -> Path:
        here.mkdir()
        (volume,) = (each for each in pod["spec"]["volumes"] if each["name"] == name)
        if "secret" in volume:
            named: Object = {"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE}}
            named["metadata"]["name"] = volume["secret"]["secretName"]
            for key, text in self._admin.get(named)["data"].items():
                (here / key).write_bytes(base64.b64decode(text))
        return here

    def _probe(self, one: _Running) -> None:
        """Its readiness, as its probe asks for it; what ended in success, as its Job wants to know."""
        if one.process is not None and one.process.poll() is not None:
            if not one.ready:
                self._report(one, "Succeeded" if one.process.returncode == 0 else "Failed")
                one.ready = True
            return
        if not one.ready and (one.process is None or _answers(f"http://127.0.0.1:{one.port}/readyz")):
            one.ready = True
            self._report(one, "Running")

    def _report(self, one: _Running, phase: str) -> None:
        ready = "True" if one.ready and phase == "Running" else "False"
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [
            {"type": kind, "status": ready, "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        started = one.pod["metadata"]["creationTimestamp"]
        try:
            self._admin.patch(
                one.pod,
                {"status": {"phase": phase, "startTime": started, "conditions": conditions}},
                "status",
            )
        except Refused as answer:
            if answer.status != 404:  # deleted meanwhile
                raise

    def _stop(self, uid: str) -> None:
        one = self._pods.pop(uid)
        if one.process is not None and one.process.poll() is None:
            one.process.send_signal(signal.SIGTERM)
            try:
                one.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()

    def _operate(self) -> None:
        """What the Prometheus Operator makes of a PodMonitor and of rules; and the network of a Service."""
        monitored = self._items("monitoring.coreos.com/v1", "podmonitors")
        targets = [f"127.0.0.1:{one.port}" for one in self._pods.values() if one.port and monitored]
        _replace(self._operated / "targets.json", json.dumps([{"targets": sorted(targets)}]))
        rules = [one["spec"] for one in self._items("monitoring.coreos.com/v1", "prometheusrules")]
        if _replace(self._operated / "rules.yml", yaml.safe_dump(rules[0] if rules else {"groups": []})):
            self._prometheus.reload()
        for one in self._pods.values():
            if one.https and one.pod["metadata"]["labels"]["app.kubernetes.io/component"] == "adapter":
                self._lead_to(one.https)

    def _lead_to(self, port: int) -> None:
        api: Object = {
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
            "metadata": {"name": "v1beta1.custom.metrics.k8s.io"},
        }  # fmt: skip
        try:
            wanted = self._admin.get(api)["spec"]["service"]
        except Refused:  # not there yet, or not any more
            return
        if wanted["port"] != port:
            service = {
                "apiVersion": "v1", "kind": "Service",
                "metadata": {"namespace": NAMESPACE, "name": wanted["name"]},
            }  # fmt: skip
            outside = {
                "type": "ExternalName",
                "externalName": "localhost",
                "clusterIP": None,
                "clusterIPs": None,
            }
            self._admin.patch(service, {"spec": outside})
            self._admin.patch(api, {"spec": {"service": {"port": port}}})

    def _items(self, version: str, plural: str) -> list[Object]:
        path = f"/apis/{version}/namespaces/{NAMESPACE}/{plural}"
        return list(self._admin.request("GET", path)["items"])


def _replace(file: Path, text: str) -> bool:
    """Whether that is new. At once, as Prometheus may read it any time."""
    if file.exists() and file.read_text() == text:
        return False
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - loopback
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False

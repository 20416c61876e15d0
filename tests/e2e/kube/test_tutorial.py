"""docs/tutorial.md: every command of it, in its order, on real servers; what it shows is what comes."""

import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.pages import Step, is_shown, steps
from tests.support.data.prometheus_ticks import Start
from tests.support.deploy.manifests import ROOT
from tests.support.fakes.exporter_pages import dcgm
from tests.support.kafka import all_topics
from tests.support.kube.cluster import owned_by
from tests.support.processes.commands import STOP_S, environ
from tests.support.servers.exposition import MetricsPage, serve_metrics
from tests.support.servers.helm.build import find_helm
from tests.support.servers.kube.accounts import new_token
from tests.support.servers.kube.client import Object, Refused
from tests.support.servers.kube.controllers import AUTOSCALING, Controllers
from tests.support.servers.kube.crds import Kind, manifest
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import program
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
    log: Path = Path()


class ChartKubelet:
    """The node ``gpu-a``: what a scheduler, a kubelet and the Prometheus Operator do, without containers.

    A pod of the chart becomes the process that its container would run: its arguments, environment and the
    files of its volumes, the token of its account. Addresses lead to this machine, and what is measured
    every 5 s in the chart is measured every second. ``broker``: where the trial's Kafka is. ``operated``: the
    folder with Prometheus' targets and rules.
    """

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
        # What the Prometheus Operator makes of a PodMonitor and of rules; and the network of a Service.
        monitored = self._items("monitoring.coreos.com/v1", "podmonitors")
        targets = [f"127.0.0.1:{one.port}" for one in self._pods.values() if one.port and monitored]
        _replace(self._operated / "targets.json", json.dumps([{"targets": sorted(targets)}]))
        rules = [one["spec"] for one in self._items("monitoring.coreos.com/v1", "prometheusrules")]
        if _replace(self._operated / "rules.yml", yaml.safe_dump(rules[0] if rules else {"groups": []})):
            self._prometheus.reload()
        for one in self._pods.values():
            if one.https and one.pod["metadata"]["labels"]["app.kubernetes.io/component"] == "adapter":
                self._lead_to(one.https)

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


pytestmark = [pytest.mark.kube, pytest.mark.prometheus]

PAGE = ROOT / "docs/tutorial.md"
DEADLINE_S = 600
PERIOD_S, BUSY_S = 8.0, 5.5
LOAD_PCT = 150
KAFKA = load({}, {})
VISION_API = {"namespace": "default", "name": "vision-api"}
OPERATORS = (("PodMonitor", "podmonitors"), ("PrometheusRule", "prometheusrules"))


class Field:
    """A cluster with GPUs, dcgm-exporter, a Prometheus with its operator, a training, a notebook."""

    def __init__(self, kube: Kube, folder: Path, prometheus: Start, page: MetricsPage, broker: str) -> None:
        self.kube = kube
        operated = folder / "operated"
        operated.mkdir()
        (operated / "targets.json").write_text("[]")
        (operated / "rules.yml").write_text("groups: []")
        self.prometheus: Prometheus = prometheus(_configuration(page.target, operated))
        for kind, plural in OPERATORS:
            kube.admin.create(manifest(Kind("monitoring.coreos.com", ("v1",), kind, plural)))
        self.kubelet = ChartKubelet(kube, folder, broker, self.prometheus, operated)
        job = kube.admin.create(
            {
                "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {},
                "metadata": {"namespace": "default", "name": "bert"},
            }
        )  # fmt: skip
        self._pod("bert-worker-0", job)
        self._pod("notebook-7")
        folder.joinpath("bin").mkdir()
        for name, path in (
            ("helm", find_helm()),
            ("kubectl", kube.programs.kubectl),
            ("promtool", program("promtool")),
        ):
            folder.joinpath("bin", name).symlink_to(path)
        self.env = {
            "PATH": f"{folder / 'bin'}:/usr/bin:/bin", "HOME": str(folder),
            "KUBECONFIG": str(kube.admin.kubeconfig), "PROMETHEUS": self.prometheus.url,
            "PROMETHEUS_FOR_PODS": self.prometheus.url,
        }  # fmt: skip

    def _pod(self, name: str, *owners: Object) -> None:
        container = {"name": "main", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
        meta = {"namespace": "default", "name": name, "ownerReferences": [owned_by(one) for one in owners]}
        self.kube.admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}
        )

    def measured(self) -> str:
        """What dcgm-exporter shows now: a GPU for each pod of the namespace that runs."""
        pods = sorted(name for namespace, name in self.kubelet.running_pods() if namespace == "default")
        pods = [name for name in pods if not name.startswith("vision-api-load")]
        services = sum(name.startswith("vision-api") for name in pods)
        stepping = 97.0 if time.time() % PERIOD_S < BUSY_S else 10.0
        util = {"bert-worker-0": stepping, "notebook-7": 0.0}
        return "".join(
            dcgm(
                NODE, util_pct=util.get(name, min(100.0, LOAD_PCT / max(services, 1))), index=index,
                used_bytes=(40 if name.startswith("bert") else 8) * 2**30, energy_j=time.monotonic() * 100,
                given_to={"namespace": "default", "pod": name, "container": "main"},
                xid=79 if name == "notebook-7" else 0,
            )
            for index, name in enumerate(pods)
        )  # fmt: skip

    def take(self, step: Step, env: dict[str, str]) -> dict[str, str]:
        """Run its commands as a person would, again and again until what is shown comes. Returns what the
        shell's variables are then."""
        end, output = time.monotonic() + DEADLINE_S, ""
        while time.monotonic() < end:
            script = f"set -euo pipefail\n{step.commands}\nenv -0 >&3"
            status, output, env_after = _bash(script, env)
            assert status == 0, f"{step.commands}\n{output}\n{self.kubelet.said()}"
            if all(is_shown(line, output) for line in step.shown.splitlines()):
                print(f"$ {step.commands}{output}", flush=True)
                return env_after
            time.sleep(1)
        raise AssertionError(
            f"{step.commands}\nshows\n{output}\nand not\n{step.shown}\n{self.kubelet.said()}"
        )


def _bash(script: str, env: dict[str, str]) -> tuple[int, str, dict[str, str]]:
    read, write = os.pipe()
    done = subprocess.run(
        ["bash", "-c", script.replace(">&3", f">&{write}")], env=env, cwd=ROOT, pass_fds=[write],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE_S * 2, check=False,
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as pipe:
        after = dict(one.split("=", 1) for one in pipe.read().split("\0") if "=" in one)
    return done.returncode, done.stdout, after


def _configuration(exporter: str, operated: Path) -> dict[str, Any]:
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(operated / "rules.yml")],
        "scrape_configs": [
            {"job_name": "dcgm", "honor_labels": True, "static_configs": [{"targets": [exporter]}]},
            {
                "job_name": "dutycycle", "honor_labels": True,
                "file_sd_configs": [{"files": [str(operated / "targets.json")]}],
            },
        ],
    }  # fmt: skip


@pytest.fixture
def field(prometheus: Start, tmp_path: Path) -> Iterator[Field]:
    """On an API server of its own: the page installs what other tests install, too."""
    kube = Kube()
    try:
        with serve_metrics("") as page, EmbeddedBroker(all_topics()) as broker:
            one = Field(kube, tmp_path, prometheus, page, broker.url)
            controllers = Controllers(
                kube, tmp_path, (*AUTOSCALING, "statefulset-controller", "job-controller")
            )
            page.text = one.measured
            with one.kubelet.at_work():
                yield one
            controllers.stop()
    finally:
        kube.discard()


def test_the_page_from_its_beginning_to_its_end(field: Field) -> None:
    env, began = field.env, time.monotonic()
    for step in steps(PAGE):
        if "delete -f" in step.commands:  # what has moved by then
            scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": VISION_API}
            assert field.kube.admin.get(scaled)["spec"]["replicas"] > 2
        env = field.take(step, env)
        if "apply -f" in step.commands:  # figures are 10 s old here, and 30 s in the chart
            kind = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}
            wait = {"scaleUp": {"stabilizationWindowSeconds": 20}}
            field.kube.admin.patch({**kind, "metadata": VISION_API}, {"spec": {"behavior": wait}})
        print(f"({time.monotonic() - began:.0f} s)", flush=True)


@pytest.mark.parametrize(
    ("line", "output", "shown"),
    [
        ('{pod="bert-0"} => 8.02 @[1795.1]', '{pod="bert-7"} => 12 @[1799]', True),
        ("a   1", "x\n  a 25\ny", True),
        ("a 1", "a b", False),
        ("a 1", "a 1 b", False),
        ('{"items":[…', '{"items":[{}]}', True),
        ("condition met", "", False),
    ],
)
def test_what_counts_as_shown(line: str, output: str, shown: bool) -> None:
    assert is_shown(line, output) is shown

"""docs/third-run.md: every command of it, on a real API server, kube-scheduler, Job controller and Kafka.

No kubelet runs: the test says for it that pods have ended, and for collectors and streams what was measured.
"""

import asyncio
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from dutycycle.contract.codec import encode
from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.producer import Producer
from dutycycle.kube.templates import template_of
from tests.support.data.pages import Step, is_shown, steps
from tests.support.deploy.manifests import ROOT
from tests.support.kafka import make_topics, settings_of
from tests.support.kube.simulated_pods import SimulatedPods
from tests.support.kube.webhook import opted_in, wait_until_asked
from tests.support.kubectl.plugin_user import install
from tests.support.processes.commands import environ, running
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.certificates import make_certificates
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.controllers import Controllers
from tests.support.servers.kube.scheduler import Scheduler, add_node
from tests.support.servers.kube.server import Kube
from tests.support.servers.ports import free_port
from tests.support.sinks.scheduling import GIB, gpu, nvml, peaks, pod
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]

PAGE = ROOT / "docs/third-run.md"
FREE_GIB = {"node-0": 30, "node-1": 80, "node-2": 10}
TOPICS = (
    "nvml-samples", "cgroup-samples", "pods", "insights", "cycles", "pod-peaks", "placements", "usage",
)  # fmt: skip
JOBS = ("job-controller", "garbage-collector-controller")
COMMANDS_S = 240
STEPS_S = {"1": 11.0, "2": 6.0}
"""By GPUs: two are nearly twice as fast as one."""


class Nodes(threading.Thread):
    """What happens on the nodes: their GPUs are measured, and the pods of the first two runs end."""

    def __init__(self, kube: Kube, settings: Settings) -> None:
        super().__init__(daemon=True)
        self._kube, self.settings = kube, settings
        self._over = threading.Event()
        self.running = "train-3"
        """What such names begin with runs on."""

    def run(self) -> None:
        asyncio.run(self._work())

    def stop(self) -> None:
        self._over.set()
        self.join()

    async def _work(self) -> None:
        await make_topics(self.settings, TOPICS)
        producer = Producer(self.settings, "test")
        await producer.start()
        while not self._over.is_set():
            now_ms = round(time.time() * 1000)
            found: list[tuple[str, str, VersionedRecord]] = [
                ("nvml-samples", node, nvml(gpu(used=(80 - free) * GIB), node=node, ts_ms=now_ms))
                for node, free in FREE_GIB.items()
            ]
            pods = self._kube.admin.request("GET", "/api/v1/namespaces/default/pods")["items"]
            ending = [
                {"apiVersion": "v1", "kind": "Pod"} | one
                for one in pods
                if one["spec"].get("nodeName")
                and one["status"]["phase"] == "Pending"
                and not one["metadata"]["name"].startswith(self.running)
            ]
            found += [("pod-peaks", one["metadata"]["uid"], _peaks(one)) for one in ending]
            for topic, key, record in found:
                name = full_name(self.settings.topic_prefix, topic)
                await producer.settle([await producer.send(name, key, encode(record), now_ms)])
            for one in ending:
                self._kube.admin.patch(one, {"status": {"phase": "Succeeded"}}, "status")
            await asyncio.sleep(0.5)
        await producer.stop()


def _peaks(one: Object) -> VersionedRecord:
    made, meta = template_of(one["spec"]), one["metadata"]
    return peaks(
        pod(meta["uid"], namespace=meta["namespace"], program=made.program, template=made.template), 40
    )


@pytest.fixture
def kube() -> Iterator[Kube]:
    """One of its own: the page works in the namespace ``default``."""
    one = Kube()
    yield one
    one.discard()


def _run(commands: str, env: dict[str, str]) -> str:
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail\n{commands}"], env=env, cwd=ROOT, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=COMMANDS_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{commands}\n{done.stdout}"
    return done.stdout


def test_the_page_from_its_beginning_to_its_end(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, tmp_path: Path
) -> None:
    port = free_port()
    certificates = make_certificates(tmp_path)
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, serve_listen=f"127.0.0.1:{port}",
        serve_cert=str(tmp_path / "server.crt"), serve_key=str(tmp_path / "server.key"),
        annotation_interval="1s", records=f"sqlite:///{tmp_path}/records.db",
    ) | {"KUBECONFIG": str(kube.admin.kubeconfig)}  # fmt: skip
    extender = {
        "urlPrefix": f"https://127.0.0.1:{port}", "filterVerb": "filter", "prioritizeVerb": "prioritize",
        "weight": 10, "nodeCacheCapable": True, "ignorable": True, "httpTimeout": "5s",
        "tlsConfig": {"caFile": str(certificates.authority)},
    }  # fmt: skip
    for name in FREE_GIB:
        add_node(kube.admin, name, gpus=1)
    nodes = Nodes(kube, settings_of(env))
    nodes.start()
    commands = {"serve": ["--roles", "extender,webhook"], "sink": []}
    logs = {name: tmp_path / f"{name}.log" for name in commands}
    opted_in(kube.admin, "default", port, certificates.authority)
    tmp_path.joinpath("kubectl").symlink_to(kube.programs.kubectl)
    person = {"KUBECONFIG": str(kube.admin.kubeconfig), "HOME": str(tmp_path), "PATH": install(tmp_path)}
    try:
        with ExitStack() as stack:
            for name, log in logs.items():
                stack.enter_context(running(name, *commands[name], env=env, log=log))
            wait_until(lambda: "extender_serves" in logs["serve"].read_text(), logs["serve"].read_text)
            wait_until_asked(kube.admin, "default", logs["serve"])
            scheduler = Scheduler(kube, tmp_path, [extender])
            controllers = Controllers(kube, tmp_path, JOBS)
            try:
                found = steps(PAGE)
                (at,) = (place for place, one in enumerate(found) if "/trial=" in one.commands)
                first, trial, last = found[:at], [found[at]], found[at + 1 :]
                _follow(first, person, scheduler)
                nodes.running = "train-3-trial"
                kube.admin.kubectl("wait", "--for=condition=complete", "job/train-3", "--timeout=120s")
                nodes.stop()
                _add_second_choice(kube, "node-3", gpus=2)
                tried = running("trial", "--watch", "default", env=env, log=tmp_path / "trial.log")
                with tried, SimulatedPods(kube, "default", nodes.settings, _step_s) as pods:
                    _follow(trial, person, scheduler)
                assert not pods.errors
                _follow(last, person, scheduler)
            finally:
                controllers.stop()
                scheduler.stop()
    finally:
        nodes.stop()


def _add_second_choice(kube: Kube, name: str, gpus: int) -> None:
    """A node for what fits on no other: each trial has one of its own, whose samples are its alone."""
    taint = {"key": "larger", "effect": "PreferNoSchedule"}
    kube.admin.patch(add_node(kube.admin, name, gpus=gpus), {"spec": {"taints": [taint]}})


def _step_s(pods: Sequence[Object]) -> float:
    (one,) = pods
    return STEPS_S[one["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]]


def _follow(page: Sequence[Step], person: dict[str, str], scheduler: Scheduler) -> None:
    """Each step as a person would, again until what is shown comes."""
    for step in page:
        output: list[str] = []

        def shows(commands: str = step.commands, shown: str = step.shown, said: list[str] = output) -> bool:
            said.append(_run(commands, person))
            return all(is_shown(line, said[-1]) for line in shown.splitlines())

        wait_until(shows, lambda said=output: f"{said[-1]}\n{scheduler.log_tail()}")  # type: ignore[misc]
        print(f"$ {step.commands}{output[-1]}", flush=True)
        assert "40.0 GiB" not in output[-1] or "10 node-1 (it is here)" in output[-1]
        rates = dict(re.findall(r"gpus=(\d): ([\d.]+) cycles/s", output[-1]))
        assert "trials" not in output[-1] or {gpus: float(rate) for gpus, rate in rates.items()} == {
            gpus: pytest.approx(1 / seconds, rel=0.03) for gpus, seconds in STEPS_S.items()
        }, output[-1]

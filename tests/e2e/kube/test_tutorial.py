"""docs/tutorial.md: every command of it, in its order, on real servers; what it shows is what comes."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from tests.support.data.pages import Step, is_shown, steps
from tests.support.data.prometheus_ticks import Start
from tests.support.deploy.manifests import ROOT
from tests.support.fakes.exporter_pages import dcgm
from tests.support.kafka import all_topics
from tests.support.kube.chart_kubelet import NODE, ChartKubelet
from tests.support.kube.cluster import owned_by
from tests.support.servers.exposition import MetricsPage, serve_metrics
from tests.support.servers.helm.build import find_helm
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.controllers import AUTOSCALING, Controllers
from tests.support.servers.kube.crds import Kind, manifest
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import program
from tests.support.servers.prometheus import Prometheus

pytestmark = [pytest.mark.kube, pytest.mark.prometheus]

PAGE = ROOT / "docs/tutorial.md"
DEADLINE_S = 600
PERIOD_S, BUSY_S = 8.0, 5.5
LOAD_PCT = 150
KAFKA = load({}, {})
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
            scale = {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"namespace": "default", "name": "vision-api"},
            }
            assert field.kube.admin.get(scale)["spec"]["replicas"] > 2
        env = field.take(step, env)
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

"""Goal: Alertmanager takes our configuration, and alerts arrive where it says."""

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deploy.compose_file import ROOT, services
from tests.support.servers.loopback import serve_http
from tests.support.servers.missing import program
from tests.support.servers.ports import free_port
from tests.support.servers.process import ServerProcess
from tests.support.waiting import wait_until

FILE = ROOT / "deploy/alertmanager/alertmanager.yml"

pytestmark = pytest.mark.prometheus


def test_amtool_finds_nothing_to_say() -> None:
    done = subprocess.run(
        [program("amtool"), "check-config", FILE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_knows_where_it_is() -> None:
    config = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (target,) = config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
    name, port = target.split(":")
    assert services()[name]["ports"][0].endswith(f":{port}")


@pytest.fixture
def received() -> Iterator[tuple[str, list[Any]]]:
    """A receiver of webhooks: its address, and what came."""
    came: list[Any] = []

    def take(request: BaseHTTPRequestHandler) -> tuple[int, str]:
        came.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        return 200, ""

    with serve_http(take) as place:
        yield place, came


def post(url: str, alerts: list[dict[str, Any]]) -> None:
    request = urllib.request.Request(  # noqa: S310 - our own loopback address
        url, json.dumps(alerts).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310 - as above
        assert answer.status == 200


def is_ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:  # noqa: S310 - as above
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_a_warning_arrives_once_for_a_job_and_an_info_does_not(
    received: tuple[str, list[Any]], tmp_path: Path
) -> None:
    place, came = received
    config = tmp_path / "alertmanager.yml"
    text = FILE.read_text().replace("http://alerts.example.invalid/", f"http://{place}/")
    config.write_text(text.replace("group_wait: 30s", "group_wait: 1s"))
    url = f"http://127.0.0.1:{free_port()}"
    process = ServerProcess(
        [
            program("prometheus-alertmanager"),
            f"--config.file={config}",
            f"--storage.path={tmp_path / 'data'}",
            f"--web.listen-address={url.removeprefix('http://')}",
            "--cluster.listen-address=",
        ],
        tmp_path / "alertmanager.log",
    )
    try:
        process.wait_until(lambda: is_ready(url), 240)
        of_job = {"namespace": "ml", "job_name": "bert"}
        alerts = [
            {"labels": {"alertname": "MemoryRunsOut", "severity": "warning", "pod": f"bert-{n}", **of_job}}
            for n in range(3)
        ]
        quiet = {"labels": {"alertname": "CycleSlower", "severity": "info", "pod": "bert-0", **of_job}}
        idle = {
            "labels": {"alertname": "PodHoldsIdleGpu", "severity": "warning", "namespace": "x", "pod": "p"}
        }
        lost = {"labels": {"alertname": "CycleLost", "severity": "warning", "namespace": "x", "pod": "p"}}
        post(f"{url}/api/v2/alerts", [quiet, idle, *alerts, lost])
        wait_until(lambda: len(came) >= 2, lambda: str(came))
        groups = {one["groupLabels"]["alertname"]: len(one["alerts"]) for one in came}
        assert groups == {"MemoryRunsOut": 3, "PodHoldsIdleGpu": 1}
    finally:
        process.stop()

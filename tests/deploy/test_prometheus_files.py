"""Prometheus' configuration and rules, judged by promtool."""

import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy.compose_file import ROOT
from tests.servers.missing import ServerMissingError, skip_or_fail
from tests.servers.prometheus import check

FOLDER = ROOT / "deploy/prometheus"
RULES = FOLDER / "rules/gpu.yml"
IDLE = 'DCGM_FI_DEV_GPU_UTIL{Hostname="a",gpu="0",UUID="GPU-1"}'
HELD = 'DCGM_FI_DEV_FB_USED{Hostname="a",gpu="0",UUID="GPU-1"}'

pytestmark = pytest.mark.prometheus


def checked(kind: str, file: Path) -> None:
    try:
        check(kind, file)
    except ServerMissingError as reason:
        skip_or_fail(reason)


def test_the_configuration(tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus/", f"{FOLDER}/")
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    checked("config", file)


def test_the_rules() -> None:
    checked("rules", RULES)


@pytest.mark.parametrize(
    ("util", "held", "minute", "alarms"),
    [
        ("0x60", "40000x60", 45, 1),  # idle and full for 45 minutes
        ("0x60", "40000x60", 20, 0),  # not long enough
        ("0x30 90 0x29", "40000x60", 45, 0),  # one burst is work
        ("0x60", "3x60", 45, 0),  # 3 MiB is the driver's own
        ("_x60", "40000x60", 45, 0),  # not measured is not idle
    ],
)
def test_a_gpu_that_is_held_and_idle(tmp_path: Path, util: str, held: str, minute: int, alarms: int) -> None:
    labels = {"Hostname": "a", "gpu": "0", "UUID": "GPU-1"}
    expected = {
        "exp_labels": {**labels, "severity": "info"},
        "exp_annotations": {"summary": "GPU 0 of a holds memory and has not worked for 40 minutes"},
    }
    case = {
        "interval": "1m",
        "input_series": [{"series": IDLE, "values": util}, {"series": HELD, "values": held}],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": "GpuHeldIdle", "exp_alerts": [expected] * alarms}
        ],
    }
    file = tmp_path / "test.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]})
    )
    try:
        done = subprocess.run(
            ["promtool", "test", "rules", file], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        skip_or_fail(ServerMissingError("promtool is not installed (Debian: apt-get install prometheus)"))
    assert done.returncode == 0, done.stdout + done.stderr

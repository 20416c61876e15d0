"""Prometheus' configuration and rules, judged by promtool."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.deploy.compose_file import services
from tests.support.deploy.manifests import CHART, ROOT
from tests.support.servers.missing import program
from tests.support.servers.prometheus import check

FOLDER = ROOT / "deploy/prometheus"
RULE_FOLDER = CHART / "files/rules"
IDLE = 'DCGM_FI_DEV_GPU_UTIL{Hostname="a",gpu="0",UUID="GPU-1"}'
HELD = 'DCGM_FI_DEV_FB_USED{Hostname="a",gpu="0",UUID="GPU-1"}'

pytestmark = pytest.mark.prometheus


def test_the_configuration(tmp_path: Path) -> None:
    text = (FOLDER / "prometheus.yml").read_text().replace("/etc/prometheus/", f"{FOLDER}/")
    mounted = dict(volume.split(":")[:2] for volume in services()["prometheus"]["volumes"])
    (rules,) = yaml.safe_load(text)["rule_files"]
    assert rules == f"{mounted[f'./{RULE_FOLDER.relative_to(ROOT)}']}/*.yml"
    text = text.replace(rules, f"{RULE_FOLDER}/*.yml")
    file = tmp_path / "prometheus.yml"
    file.write_text(text)
    check("config", file)


@pytest.mark.parametrize("file", sorted(RULE_FOLDER.glob("*.yml")), ids=lambda file: file.stem)
def test_the_rules(file: Path) -> None:
    check("rules", file)


def series(name: str, **labels: str) -> str:
    return f"dutycycle_{name}{{" + ",".join(f'{key}="{value}"' for key, value in labels.items()) + "}"


PIPELINE = {
    "waits": ("DutycycleNotReady", series("ready", job="dutycycle-stream"), "0x20", 10, 1),
    "waited": ("DutycycleNotReady", series("ready", job="dutycycle-stream"), "0x3 1x16", 10, 0),
    "behind": ("DutycycleLagGrows", series("consumer_lag_max_records", topic="pods"), "0+100x60", 45, 1),
    "catches up": ("DutycycleLagGrows", series("consumer_lag_max_records", topic="x"), "9000-100x60", 45, 0),
    "no commits": ("DutycycleCommitsStand", series("snapshot_age_seconds"), "0+60x20", 10, 1),
    "no database": ("DutycycleSinkAway", series("sink_up", sink="records"), "1x2 0x20", 15, 1),
    "no source": ("DutycycleSourceDown", series("source_up", collector="nvml"), "0x20", 10, 1),
    "lost": ("DutycycleRecordsLost", series("spool_dropped_total"), "0x5 8x20", 8, 1),
    "samples lost": ("DutycycleRecordsLost", series("samples_dropped_total", reason="full"),
                     "0x5 8x20", 8, 1),
    "nothing lost": ("DutycycleRecordsLost", series("spool_dropped_total"), "0x20", 8, 0),
    "nobody reads": ("DutycyclePartitionsUnread", series("unassigned_partitions", topic="pods"),
                     "0x5 4x20", 8, 1),
    "all is read": ("DutycyclePartitionsUnread", series("unassigned_partitions", topic="pods"),
                    "4 0x20", 8, 0),
    "a clock set back": ("DutycycleClockWrong", series("clock_set_back_total", topic="nvml-samples"),
                         "0x5 1x20", 8, 1),
    "a clock ahead": ("DutycycleClockWrong", series("clock_jump_total", topic="nvml-samples"),
                      "0x5 9x20", 8, 1),
    "clocks are right": ("DutycycleClockWrong", series("clock_set_back_total", topic="nvml-samples"),
                         "3x30", 8, 0),
    "two collectors": ("DutycycleTwoCollectors", series("duplicate_producer_total", topic="nvml-samples"),
                       "0+60x60", 31, 1),
    "a new collector": ("DutycycleTwoCollectors", series("duplicate_producer_total", topic="nvml-samples"),
                        "0x5 1x60", 31, 0),
    "dead letters": ("DutycycleDeadLetters", series("dead_letter_total", topic="pods", reason="decode"),
                     "0x5 1x20", 8, 1),
}  # fmt: skip


@pytest.mark.parametrize("case", PIPELINE.values(), ids=PIPELINE.keys())
def test_alerts_of_the_pipeline(case: tuple[str, str, str, int, int], tmp_path: Path) -> None:
    alert, name, values, minute, alarms = case
    fires = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values}],
        "promql_expr_test": [
            {"expr": fires, "eval_time": f"{minute}m", "exp_samples": [{"labels": "{}", "value": alarms}]}
        ],
    }
    judged(tmp_path, RULE_FOLDER / "pipeline.yml", test)


@pytest.mark.parametrize(("limit", "alarms"), [(64_000_000, 1), (300_000_000, 0)])
def test_a_spool_fills_by_its_own_limit(limit: int, alarms: int, tmp_path: Path) -> None:
    fires = 'count(ALERTS{alertname="DutycycleSpoolFills",alertstate="firing"}) or vector(0)'
    given = {"spool_bytes": "60000000x20", "spool_limit_bytes": f"{limit}x20"}
    test = {
        "interval": "1m",
        "input_series": [{"series": series(name), "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {"expr": fires, "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": alarms}]}
        ],
    }
    judged(tmp_path, RULE_FOLDER / "pipeline.yml", test)


@pytest.mark.parametrize("job", ["dutycycle-sink", "monitoring/gpus", "kubernetes-pods"])
def test_a_process_that_begins_again_and_again_is_known_by_its_series_whatever_its_job(
    tmp_path: Path, job: str
) -> None:
    """The Operator calls a job by the PodMonitor's namespace and name."""
    ours, other = f'job="{job}",instance="10.0.0.1:19470"', f'job="{job}",instance="10.0.0.2:8080"'
    ready = {"series": f"dutycycle_ready{{{ours}}}", "values": "0 _ _ 0 _ _ _ 0 _ _ _ _"}
    starts = [
        {"series": f"process_start_time_seconds{{{where}}}", "values": "0+1x20"} for where in (ours, other)
    ]
    fires = 'count by (instance) (ALERTS{alertname="DutycycleRestarts",alertstate="firing"})'
    expected = [{"labels": '{instance="10.0.0.1:19470"}', "value": 1}]
    test = {
        "interval": "1m",
        "input_series": [ready, *starts],
        "promql_expr_test": [{"expr": fires, "eval_time": "10m", "exp_samples": expected}],
    }
    judged(tmp_path, RULE_FOLDER / "pipeline.yml", test)


@pytest.mark.parametrize(
    ("job", "served", "alarms"),
    [
        ("monitoring/gpus", True, 1),
        ("monitoring/database", False, 0),  # somebody else's, which other alerts are about
        ("dutycycle-stream", False, 1),  # it was never up
        ("exporters", False, 1),
    ],
)
def test_a_target_that_is_down_is_told_if_it_is_ours(
    tmp_path: Path, job: str, served: bool, alarms: int
) -> None:
    where = f'{{job="{job}",instance="10.0.0.1:19470"}}'
    up = {"series": f"up{where}", "values": ("1" if served else "0") + " 0x20"}
    ready = [{"series": f"dutycycle_ready{where}", "values": "1 _x20"}] if served else []
    fires = 'count(ALERTS{alertname="TargetDown",alertstate="firing"}) or vector(0)'
    expected = [{"labels": "{}", "value": alarms}]
    test = {
        "interval": "1m",
        "input_series": [up, *ready],
        "promql_expr_test": [{"expr": fires, "eval_time": "15m", "exp_samples": expected}],
    }
    judged(tmp_path, RULE_FOLDER / "gpu.yml", test)


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
    judged(tmp_path, RULE_FOLDER / "gpu.yml", case)


@pytest.mark.parametrize(("util", "alarms"), [("0x60", 1), ("0x30 0.9 0x29", 0), ("0x30 90 0x29", 0)])
def test_a_gpu_that_is_held_and_idle_by_a_newer_exporter(tmp_path: Path, util: str, alarms: int) -> None:
    labels = {"hostname": "a", "gpu": "0", "uuid": "GPU-1"}
    inner = ",".join(f'{name}="{text}"' for name, text in labels.items())
    expected = {
        "exp_labels": {**labels, "severity": "info"},
        "exp_annotations": {"summary": "GPU 0 of a holds memory and has not worked for 40 minutes"},
    }
    case = {
        "interval": "1m",
        "input_series": [
            {"series": f"DCGM_FI_DEV_GPU_UTIL_RATIO{{{inner}}}", "values": util},
            {"series": f"DCGM_FI_DEV_FB_USED_BYTES{{{inner}}}", "values": f"{40 * 2**30}x60"},
        ],
        "alert_rule_test": [
            {"eval_time": "45m", "alertname": "GpuHeldIdle", "exp_alerts": [expected] * alarms}
        ],
    }
    judged(tmp_path, RULE_FOLDER / "gpu.yml", case)


def judged(folder: Path, rules: Path, case: dict[str, Any]) -> None:
    """Let promtool run a case."""
    file = folder / "test.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [case]})
    )
    promtool = program("promtool")
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

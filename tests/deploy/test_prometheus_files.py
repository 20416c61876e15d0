"""Prometheus' configuration and rules, judged by promtool."""

from pathlib import Path

import pytest
import yaml

from tests.support.deploy.compose_file import services
from tests.support.deploy.manifests import ROOT
from tests.support.deploy.promtool import RULE_FOLDER, Series, alerts, answers, firing, judge, series
from tests.support.servers.prometheus import check

FOLDER = ROOT / "deploy/prometheus"

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


def ours(name: str, values: str, **labels: str) -> Series:
    return series(f"dutycycle_{name}", values, **labels)


PIPELINE = {
    "waits": ("DutycycleNotReady", [ours("ready", "0x20", job="dutycycle-stream")], 10, 1),
    "waited": ("DutycycleNotReady", [ours("ready", "0x3 1x16", job="dutycycle-stream")], 10, 0),
    "behind": ("DutycycleLagGrows", [ours("consumer_lag_max_records", "0+100x60", topic="pods")], 45, 1),
    "catches up": ("DutycycleLagGrows", [ours("consumer_lag_max_records", "9000-100x60", topic="x")], 45, 0),
    "no commits": ("DutycycleCommitsStand", [ours("snapshot_age_seconds", "0+60x20")], 10, 1),
    "no database": ("DutycycleSinkAway", [ours("sink_up", "1x2 0x20", sink="records")], 15, 1),
    "no source": ("DutycycleSourceDown", [ours("source_up", "0x20", collector="nvml")], 10, 1),
    "lost": ("DutycycleRecordsLost", [ours("spool_dropped_total", "0x5 8x20")], 8, 1),
    "samples lost": (
        "DutycycleRecordsLost", [ours("samples_dropped_total", "0x5 8x20", reason="full")], 8, 1,
    ),
    "nothing lost": ("DutycycleRecordsLost", [ours("spool_dropped_total", "0x20")], 8, 0),
    "nobody reads": (
        "DutycyclePartitionsUnread", [ours("unassigned_partitions", "0x5 4x20", topic="pods")], 8, 1,
    ),
    "all is read": (
        "DutycyclePartitionsUnread", [ours("unassigned_partitions", "4 0x20", topic="pods")], 8, 0,
    ),
    "a clock set back": (
        "DutycycleClockWrong", [ours("clock_set_back_total", "0x5 1x20", topic="nvml-samples")], 8, 1,
    ),
    "a clock ahead": (
        "DutycycleClockWrong", [ours("clock_jump_total", "0x5 9x20", topic="nvml-samples")], 8, 1,
    ),
    "clocks are right": (
        "DutycycleClockWrong", [ours("clock_set_back_total", "3x30", topic="nvml-samples")], 8, 0,
    ),
    "two collectors": (
        "DutycycleTwoCollectors", [ours("duplicate_producer_total", "0+60x60", topic="nvml-samples")], 31, 1,
    ),
    "a new collector": (
        "DutycycleTwoCollectors", [ours("duplicate_producer_total", "0x5 1x60", topic="nvml-samples")], 31, 0,
    ),
    "dead letters": (
        "DutycycleDeadLetters", [ours("dead_letter_total", "0x5 1x20", topic="pods", reason="decode")], 8, 1,
    ),
    "a spool fills by its own limit": (
        "DutycycleSpoolFills",
        [ours("spool_bytes", "60000000x20"), ours("spool_limit_bytes", "64000000x20")], 10, 1,
    ),
    "a spool that is larger does not": (
        "DutycycleSpoolFills",
        [ours("spool_bytes", "60000000x20"), ours("spool_limit_bytes", "300000000x20")], 10, 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PIPELINE.values(), ids=PIPELINE.keys())
def test_alerts_of_the_pipeline(case: tuple[str, list[Series], int, int], tmp_path: Path) -> None:
    alert, given, minute, count = case
    judge(tmp_path, "pipeline.yml", given, firing(alert, minute, count))


@pytest.mark.parametrize("job", ["dutycycle-sink", "monitoring/gpus", "kubernetes-pods"])
def test_a_process_that_begins_again_and_again_is_known_by_its_series_whatever_its_job(
    tmp_path: Path, job: str
) -> None:
    """The Operator calls a job by the PodMonitor's namespace and name."""
    where, other = ({"job": job, "instance": at} for at in ("10.0.0.1:19470", "10.0.0.2:8080"))
    given = [
        ours("ready", "0 _ _ 0 _ _ _ 0 _ _ _ _", **where),
        *(series("process_start_time_seconds", "0+1x20", **one) for one in (where, other)),
    ]
    fires = 'count by (instance) (ALERTS{alertname="DutycycleRestarts",alertstate="firing"})'
    judge(tmp_path, "pipeline.yml", given, answers(fires, 10, {'{instance="10.0.0.1:19470"}': 1}))


@pytest.mark.parametrize(
    ("job", "served", "count"),
    [
        ("monitoring/gpus", True, 1),
        ("monitoring/database", False, 0),  # somebody else's, which other alerts are about
        ("dutycycle-stream", False, 1),  # it was never up
        ("exporters", False, 1),
    ],
)
def test_a_target_that_is_down_is_told_if_it_is_ours(
    tmp_path: Path, job: str, served: bool, count: int
) -> None:
    where = {"job": job, "instance": "10.0.0.1:19470"}
    given = [series("up", ("1" if served else "0") + " 0x20", **where)]
    given += [ours("ready", "1 _x20", **where)] if served else []
    judge(tmp_path, "gpu.yml", given, firing("TargetDown", 15, count))


OLD = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", ("Hostname", "gpu", "UUID"))
NEW = ("DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_FB_USED_BYTES", ("hostname", "gpu", "uuid"))
"""What older and newer exporters call a GPU's utilization, its memory, and the GPU."""


@pytest.mark.parametrize(
    ("exporter", "util", "held", "minute", "count"),
    [
        (OLD, "0x60", "40000x60", 45, 1),  # idle and full for 45 minutes
        (OLD, "0x60", "40000x60", 20, 0),  # not long enough
        (OLD, "0x30 90 0x29", "40000x60", 45, 0),  # one burst is work
        (OLD, "0x60", "3x60", 45, 0),  # 3 MiB is the driver's own
        (OLD, "_x60", "40000x60", 45, 0),  # not measured is not idle
        (NEW, "0x60", f"{40 * 2**30}x60", 45, 1),
        (NEW, "0x30 0.9 0x29", f"{40 * 2**30}x60", 45, 0),
        (NEW, "0x30 90 0x29", f"{40 * 2**30}x60", 45, 0),
    ],
)
def test_a_gpu_that_is_held_and_idle(
    tmp_path: Path, exporter: tuple[str, str, tuple[str, ...]], util: str, held: str, minute: int, count: int
) -> None:
    of_util, of_held, names = exporter
    labels = dict(zip(names, ("a", "0", "GPU-1"), strict=True))
    expected = {
        "exp_labels": {**labels, "severity": "info"},
        "exp_annotations": {"summary": "GPU 0 of a holds memory and has not worked for 40 minutes"},
    }
    given = [series(of_util, util, **labels), series(of_held, held, **labels)]
    judge(tmp_path, "gpu.yml", given, alerts("GpuHeldIdle", minute, *[expected] * count))

"""What nodes needed by day, on both databases: the larger statement stays, and both sources are one row."""

from itertools import permutations
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.cli.main import main
from dutycycle.contract.codec import encode
from dutycycle.contract.records.derived import NodePeaks
from dutycycle.contract.records.hours import GpuHour, UsageHour
from sinks.records.query import Which, node_peaks
from sinks.records.rollup import Retention
from sinks.records.store import RecordsStore
from sinks.records.writer import RecordsWriter
from tests.support.sinks import made
from tests.support.sinks.recording import read_rows, write_records

DAY_MS = 86_400_000
DAY = 19_676 * DAY_MS  # 2023-11-15
GPUS = NodePeaks(
    node="a", source="nvml", day_ms=DAY, first_ms=DAY, last_ms=DAY + 60_000, samples=60,
    metrics={"gpu_util_pct": made.peak(97, p95=90), "gpu_power_w": made.peak(500.5, p95=432)},
    gpus={"a/0": {"gpu_util_pct": made.peak(97)}},
)  # fmt: skip
HOST = NodePeaks(
    node="a", source="cgroup", day_ms=DAY, first_ms=DAY + 1, last_ms=DAY + 61_000, samples=60,
    metrics={"cpu_util_pct": made.peak(310.5, p95=256)},
)  # fmt: skip
NEXT = replace(GPUS, day_ms=DAY + DAY_MS, metrics={"gpu_util_pct": made.peak(30, p95=20)})
OTHER = replace(HOST, node="b")
FEWER = replace(GPUS, samples=59, metrics={"gpu_util_pct": made.peak(99, p95=99)})
USED = UsageHour(
    node="a", source="nvml", hour_ms=DAY + 3_600_000, ts_ms=DAY + 3_700_000,
    gpus=(GpuHour(gpu="GPU-0", gpu_s=100, known_s=100, busy_s=40),),
)  # fmt: skip


def written(url: str, *records: NodePeaks | UsageHour) -> str:
    for one in records:  # each in a transaction of its own
        write_records(url, one)
    return url


def test_a_node_and_day_are_one_row_with_what_was_used(records_url: str) -> None:
    written(records_url, GPUS, HOST, NEXT, OTHER, USED)
    days = (
        "SELECT node, gpus, max_gpu_util_pct, p95_gpu_util_pct, max_gpu_power_w, p95_cpu_util_pct, gpu_s, "
        "gpu_busy_s FROM node_days ORDER BY node, day"
    )
    assert read_rows(records_url, days) == [
        ("a", 1, 97, 90, 500.5, 256, 100, 40), ("a", 1, 30, 20, None, None, None, None),
        ("b", 0, None, None, None, 256, None, None),
    ]  # fmt: skip
    nodes = "SELECT node, gpu_s, max_gpu_util_pct, max_cpu_util_pct FROM nodes"
    assert read_rows(records_url, nodes) == [("a", 100, 97, 310.5)]
    assert node_peaks(records_url) == [HOST, GPUS, NEXT, OTHER]
    assert node_peaks(records_url, Which(node="b")) == [OTHER]


@pytest.mark.parametrize("order", [*permutations([GPUS, FEWER, replace(GPUS, samples=61)])])
def test_the_statement_with_the_most_samples_stays(order: list[NodePeaks], tmp_path: Any) -> None:
    (found,) = node_peaks(written(f"sqlite:///{tmp_path}/records.db", *order))
    assert found.samples == 61


def test_the_same_in_postgresql_and_within_a_batch(records_url: str) -> None:
    with RecordsWriter(records_url) as writer:
        for one in (GPUS, FEWER, HOST):
            writer.write("node-peaks", encode(one))
    written(records_url, FEWER, GPUS)
    assert node_peaks(records_url) == [HOST, GPUS]


def test_the_command_shows_a_line_for_each_day(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    url = written(f"sqlite:///{tmp_path}/records.db", GPUS, HOST, NEXT, OTHER)
    assert main(["peaks", "--nodes", "--records", url]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [line[:2] for line in lines[1:]] == [["a", "2023-11-15"], ["a", "2023-11-16"], ["b", "2023-11-15"]]
    assert {"97.0", "90.0", "500", "310", "256"} <= set(lines[1])
    main(["peaks", "--nodes", "--node", "a", "--format", "json", "--records", url])
    assert orjson.loads(capsys.readouterr().out)[0] == orjson.loads(encode(HOST))
    main(["peaks", "--nodes", "--node", "nope", "--records", url])
    main(["peaks", "--job", "nope", "--records", url])
    assert capsys.readouterr().out == "no record is of what was asked for\n" * 2  # there are others
    main(["peaks", "--nodes", "--format", "csv", "--records", url])
    assert "2023-11-15,a,nvml,a/0,gpu_util_pct,97,48.5,,5" in capsys.readouterr().out.splitlines()
    assert main(["peaks", "--nodes", "--namespace", "ml", "--records", url]) != 0
    assert "--namespace is of pods and jobs: with --nodes choose by --node" in capsys.readouterr().err


def test_old_days_of_nodes_are_forgotten_with_those_of_usage(records_url: str) -> None:
    """What is old is seen from the newest hour of usage."""
    later = replace(USED, hour_ms=DAY + 4 * DAY_MS, ts_ms=DAY + 4 * DAY_MS + 60_000)
    written(records_url, GPUS, HOST, OTHER, NEXT, later)
    store = RecordsStore(records_url, retention=Retention(hours_s=86_400, days_s=3 * 86_400))
    assert store.roll_up() == 3
    store.close()
    assert read_rows(records_url, "SELECT node, source FROM node_peaks") == [("a", "nvml")]


def test_who_has_gpus_and_no_pods_is_told_where_they_are(
    records_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    written(records_url, GPUS, HOST)
    said = "no pod had a GPU; what each node's GPUs did: dutycycle peaks --nodes"
    assert main(["peaks", "--records", records_url]) == 0
    assert said in capsys.readouterr().err
    assert main(["peaks", "--records", records_url, "--nodes"]) == 0
    assert said not in capsys.readouterr().err
    write_records(records_url, made.pod_peaks(gpus={"a/0": {"gpu_util_pct": made.peak(97)}}))
    assert main(["peaks", "--records", records_url]) == 0
    assert said not in capsys.readouterr().err

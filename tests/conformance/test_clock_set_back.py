"""A node whose clock was an hour ahead and is corrected: everything that is made of its samples goes on."""

from itertools import pairwise
from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import WindowAggregate
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.settings.groups import Settings
from dutycycle.live.model.state import LiveState
from sinks.adapter.figures import Figures
from sinks.prometheus.view import MetricsView
from streams.local import LocalPipeline
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.topology import stages
from tests.support.data.samples import cgroup, gpu, nvml, record
from tests.support.streams.emitted import plain_of

BEGIN = 1_770_000_000
AHEAD_S, SECONDS = 300, 900
JOB = {"api_version": "batch/v1", "kind": "Job", "name": "bert", "uid": "j"}
POD = {"v": 1, "uid": "p", "name": "bert-0", "namespace": "ml", "node": "a", "phase": "Running", "job": JOB}


def second_of(tick: int) -> int:
    return BEGIN + tick + (3600 if tick < AHEAD_S else 0)


def samples(tick: int) -> dict[str, dict[str, Any]]:
    busy = tick % 8 < 5
    device = gpu(0, gpu_util_pct=95 if busy else 3, power_w=500 if busy else 100, mem_used_bytes=10**9,
                 mem_total_bytes=8 * 10**10,
                 processes=[{"pid": 1, "pod_uid": "p", "gpu_util_pct": 95 if busy else 3}])  # fmt: skip
    container = {"id": "c", "cpu_util_pct": 20 if busy else 90, "mem_used_bytes": 10**9}
    at_ms = 1000 * second_of(tick)
    return {
        "nvml-samples": nvml(tick, [device], ts_ms=at_ms),
        "cgroup-samples": cgroup(
            tick, {"cpu_util_pct": 100, "cpu_count": 8, "mem_used_bytes": 10**10},
            [{"uid": "p", "containers": [container]}], ts_ms=at_ms,
        ),
    }  # fmt: skip


@pytest.fixture(scope="module")
def outs() -> list[ProducerRecord]:
    """All that the stages send."""
    pipeline = LocalPipeline(stages(Settings()))
    found = pipeline.feed(record("pods", "p", POD))
    for tick in range(SECONDS):
        for topic, plain in samples(tick).items():
            found += pipeline.feed(record(topic, "a", plain, tick))
    return found + pipeline.close()


def last(outs: list[ProducerRecord], topic: str, key: str) -> Any:
    return orjson.loads([one.value for one in outs if one.topic == topic and one.key == key][-1] or b"")


CORRECTED_MS, END_MS = 1000 * second_of(AHEAD_S), 1000 * second_of(SECONDS - 1)


@pytest.mark.parametrize(
    ("topic", "key"),
    [
        ("insights", "pod/p"),
        ("cycles", "pod/p/nvml"),
        ("trends", "pod/p/nvml"),
        ("trends", "gpu/a/GPU-0/nvml"),
    ],
)
def test_what_is_found_is_of_the_new_time(outs: list[ProducerRecord], topic: str, key: str) -> None:
    assert CORRECTED_MS < last(outs, topic, key)["ts_ms"] <= END_MS


def test_the_jobs_part_follows(outs: list[ProducerRecord]) -> None:
    part = last(outs, "job-insight-parts", "j")
    assert (CORRECTED_MS < part["ts_ms"] <= END_MS + 1000, part["epoch"]) == (True, 1)
    assert last(outs, "job-insights", "j")["insight"]["kind"] == part["kind"] != "unknown"


def test_every_second_of_both_sources_is_in_the_ledger(outs: list[ProducerRecord]) -> None:
    gpus: dict[Any, float] = {}
    pods: dict[Any, float] = {}
    for hour in plain_of(outs, "usage"):
        gpus |= {(hour["hour_ms"], row.get("pod_uid")): row["gpu_s"] for row in hour.get("gpus", ())}
        pods |= {(hour["hour_ms"], row.get("pod_uid")): row["seconds"] for row in hour.get("pods", ())}
    assert sum(seconds for (_, uid), seconds in gpus.items() if uid == "p") == SECONDS
    assert sum(seconds for (_, uid), seconds in pods.items() if uid == "p") == SECONDS


def test_sinks_show_the_newest_and_not_the_latest(outs: list[ProducerRecord]) -> None:
    view, figures, screen = MetricsView(10_000), Figures(10.0), LiveState()
    for one in outs:
        if one.topic == "window-aggregates":
            window = decode(WindowAggregate, one.value or b"", one.topic)
            view.hear(one.topic, one.key, window)
            figures.take(one.topic, one.key, window)
        elif one.topic == "node-parts":
            view.hear(one.topic, one.key, decode(NodePart, one.value or b"", one.topic))
    for tick in range(SECONDS):
        plain = samples(tick)["nvml-samples"]
        screen.feed("nvml-samples", "a", orjson.dumps(plain), plain["ts_ms"])
    assert END_MS - 20_000 < view.windows["pod/p"].end_ms <= END_MS + 10_000
    assert {one.end_ms for one in figures._windows.values() if one.key == "pod/p/nvml"} <= {
        *range(END_MS - 60_000, END_MS + 60_001)
    }
    history = screen.rows["gpu/a/GPU-0"].history  # type: ignore[union-attr]
    assert list(history.times())[-1] == END_MS
    assert min(history.times()) >= CORRECTED_MS
    counted = view.parts["a"]
    assert END_MS - 20_000 < counted.ts_ms <= END_MS + 10_000
    busy_s = SECONDS * (5 * 95 + 3 * 3) / 800
    assert counted.totals["GPU-0"]["gpu_busy_s"] == pytest.approx(busy_s, rel=0.01)
    assert counted.pods[0].totals["gpu_busy_s"] == pytest.approx(busy_s, rel=0.01)


@pytest.mark.slow
def test_counters_never_go_down_when_a_clock_that_was_ahead_is_put_right() -> None:
    """Two hours ahead for a quarter of one, then back in the hour that was left."""
    operator = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))
    told: list[dict[str, float]] = []
    began_s = 1_770_001_200 - 1_770_001_200 % 3600 + 600
    for second in range(2400):
        ahead_s = 7200 if 600 <= second < 1500 else 0
        process = {"pid": 1, "pod_uid": "p", "gpu_util_pct": 100}
        figures = {
            "gpu_util_pct": 100,
            "power_w": 500,
            "energy_j": 1e9 + 500 * second,
            "processes": [process],
        }
        sample = nvml(second, [gpu(0, **figures)], ts_ms=1000 * (began_s + second + ahead_s))
        outs = operator.update(record("nvml-samples", "a", sample, second))
        outs += operator.flush() if second % 5 == 0 else []
        for out in outs:
            if isinstance(out, ProducerRecord) and out.topic == "node-parts":
                part = decode(NodePart, out.value or b"", "node-parts")
                told.append(dict(part.totals["GPU-0"]))
    assert len(told) > 100
    for before, after in pairwise(told):
        assert all(after[name] >= before[name] for name in before)
    assert told[-1]["gpu_busy_s"] > 2300

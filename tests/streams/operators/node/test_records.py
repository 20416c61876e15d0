"""Trends and cycles as records: of each subject and source one, with all its metrics as they are now."""

from typing import Any

import numpy as np
import orjson
import pytest

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import CycleMetric, OtherCycle, Trend
from dutycycle.contract.topics import TOPICS
from streams.operators.base import Emission
from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.series import Series
from streams.operators.cycles.result import NO_CYCLE
from streams.operators.node.analysis import Evaluation
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.node.records import analysis_records, trends_of
from streams.operators.trends.bank import TrendForecast
from tests.support.data.samples import cgroup, gpu, nvml, record

COMPACTED = ("trends", "cycles")
SERIES = [
    Series("gpu", "GPU-0", "gpu_util_pct"),
    Series("pod", "p", "gpu_util_pct"),
    Series("gpu", "GPU-0", "power_w"),
]
CYCLIC = CycleMetric(
    cyclic=True, period_s=8.5, confidence=0.9, since_ms=5, others=(OtherCycle(period_s=2.5, confidence=0.5),)
)


def forecast() -> TrendForecast:
    """Of three series: the second too young for the second horizon, the third runs out."""
    value = np.array([[1.0, 2.0, 3.0], [4.0, np.nan, 6.5]])
    return TrendForecast(
        horizons_s=(10.0, 30.0), level=np.array([0.5, 1.5, 2.0]), slope_per_s=np.array([0.0, 0.25, -1.0]),
        value=value, p05=value - 1, p95=value + 1,
        method=np.array([[0, 0, 0], [1, 0, 2]]), exhausts_in_s=np.array([np.nan, np.nan, 99.5]),
    )  # fmt: skip


def of(emissions: list[Emission], topic: str) -> list[ProducerRecord]:
    return [one for one in emissions if isinstance(one, ProducerRecord) and one.topic == topic]


def test_a_record_says_the_figures_of_all_metrics() -> None:
    found = Evaluation(
        7000, SERIES, forecast(), [(SERIES[0], CYCLIC), (SERIES[1], CYCLIC), (SERIES[2], NO_CYCLE)]
    )
    emissions = analysis_records("a", "nvml", found, trends_of(found))
    keys = ["gpu/a/GPU-0/nvml", "pod/p/nvml"]
    assert [one.key for topic in COMPACTED for one in of(emissions, topic)] == 2 * keys
    gpu_trend, pod_trend = (decode(Trend, one.value or b"", "trends") for one in of(emissions, "trends"))
    assert (gpu_trend.source, gpu_trend.ts_ms, gpu_trend.subject.gpu) == ("nvml", 7000, "GPU-0")
    assert {name: one.level for name, one in gpu_trend.metrics.items()} == {"gpu_util_pct": 0.5, "power_w": 2}
    power, of_pod = gpu_trend.metrics["power_w"], pod_trend.metrics["gpu_util_pct"]
    assert [(one.horizon_s, one.p05, one.value, one.p95) for one in power.forecast] == [
        (10, 2, 3, 4), (30, 5.5, 6.5, 7.5),
    ]  # fmt: skip
    assert (power.slope_per_s, power.exhausts_in_s) == (-1, 99.5)
    assert ([one.horizon_s for one in of_pod.forecast], of_pod.exhausts_in_s) == ([10], None)
    gpu_cycle, pod_cycle = (orjson.loads(one.value or b"")["metrics"] for one in of(emissions, "cycles"))
    said = {"cyclic": True, "period_s": 8.5, "confidence": 0.9, "since_ms": 5,
            "others": [{"period_s": 2.5, "confidence": 0.5}]}  # fmt: skip
    assert gpu_cycle == {"gpu_util_pct": said, "power_w": {"cyclic": False}}
    assert pod_cycle == {"gpu_util_pct": said}


def test_they_are_written_as_their_classes_would_be() -> None:
    found = Evaluation(7000, SERIES, forecast(), [(SERIES[1], CYCLIC)])
    for out in (
        one
        for one in analysis_records("a", "nvml", found, trends_of(found))
        if isinstance(one, ProducerRecord)
    ):
        written = encode(decode(TOPICS[out.topic].record, out.value or b"", out.topic))
        assert orjson.loads(written) == orjson.loads(out.value or b"")
        assert list(orjson.loads(written)) == list(orjson.loads(out.value or b"")), "in the same order"


def nvml_sample(second: int) -> dict[str, Any]:
    """Utilization and power swing every 8 and every 20 s; memory climbs; the pod comes later than its GPU."""
    process = {"pid": 7, "pod_uid": "p", "gpu_util_pct": 90 if second % 8 < 4 else 5, "mem_used_bytes": 1000}
    one = gpu(0, gpu_util_pct=95 if second % 8 < 4 else 2, power_w=600 if second % 20 < 8 else 90,
              mem_used_bytes=5000 + second, processes=[process] if second > 25 else [])  # fmt: skip
    return nvml(second, [one])


def cgroup_sample(second: int) -> dict[str, Any]:
    container = {"id": "c", "cpu_util_pct": 100 if second % 8 < 4 else 10, "mem_used_bytes": 7000 + second}
    return cgroup(second, {}, [{"uid": "p", "containers": [container]}])


def both_sources(seconds: int) -> list[ProducerRecord]:
    """What the two operators of a node send to the compacted topics."""
    nodes = {
        "nvml": (
            NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a")),
            nvml_sample,
        ),
        "cgroup": (
            NodeOperator(NodeConfig(topic="cgroup-samples", source="cgroup"), "a", CgroupReader()),
            cgroup_sample,
        ),
    }
    emissions: list[Emission] = []
    for second in range(seconds):
        for source, (node, sample) in nodes.items():
            emissions += node.update(record(f"{source}-samples", "a", sample(second), second))
    return [one for topic in COMPACTED for one in of(emissions, topic)]


@pytest.mark.parametrize("topic", COMPACTED)
def test_the_newest_record_of_a_key_has_all_that_was_said_under_it(topic: str) -> None:
    """What compaction drops is superseded: in each moment, metric by metric, of both sources of a pod."""
    said: dict[tuple[str, str], set[str]] = {}
    newest: dict[str, dict[str, Any]] = {}
    for out in (one for one in both_sources(300) if one.topic == topic):
        plain = orjson.loads(out.value or b"")
        assert plain["ts_ms"] == out.ts_ms
        newest[out.key or ""] = plain
        subject, source = (out.key or "").rsplit("/", 1)
        assert plain["source"] == source
        said.setdefault((subject, source), set()).update(plain["metrics"])
        assert plain["metrics"].keys() == said[subject, source]
    assert {("pod/p", "nvml"), ("pod/p", "cgroup"), ("gpu/a/GPU-0", "nvml")} <= said.keys()
    assert len(newest["gpu/a/GPU-0/nvml"]["metrics"]) > 1


def test_a_cycle_that_did_not_change_says_what_it_said() -> None:
    """The utilization's cycle is found before the power's, and is said again with it."""
    of_gpu = [
        orjson.loads(one.value or b"")["metrics"]
        for one in both_sources(300)
        if (one.topic, one.key) == ("cycles", "gpu/a/GPU-0/nvml")
    ]
    alone, both = of_gpu[0], next(one for one in of_gpu if len(one) == 2)
    assert alone.keys() == {"gpu_util_pct"}
    assert both["gpu_util_pct"] == alone["gpu_util_pct"]
    assert both["power_w"]["period_s"] == pytest.approx(20, rel=0.02)
    assert len({orjson.dumps(one) for one in of_gpu}) == len(of_gpu), "each record says something new"


def test_a_trend_is_no_older_than_its_record() -> None:
    """Memory climbs by a byte a second: its level in each record is that of the record's moment."""
    trends = [
        orjson.loads(one.value or b"")
        for one in both_sources(300)
        if (one.topic, one.key) == ("trends", "gpu/a/GPU-0/nvml")
    ]
    assert len(trends) > 3
    for one in trends:
        assert one["metrics"]["mem_used_bytes"]["level"] == pytest.approx(5000 + one["ts_ms"] / 1000, abs=1.5)

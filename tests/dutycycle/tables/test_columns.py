"""Goal: a record gives the rows that an analyst wants, each value of the type of its column."""

from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.topics import TOPICS
from dutycycle.tables.columns import Row, table

T = 1_700_000_000_000
TICK = {"v": 1, "node": "a", "collector": "c", "seq": 1, "ts_ms": T, "interval_ms": 1000}
GPU = {"kind": "gpu", "node": "a", "gpu": "G"}
PEAK = {"max": 9, "mean": 3.5, "at_ms": T}
POD = {"v": 1, "uid": "u", "name": "p", "node": "a", "phase": "Running"}
JOB = {"api_version": "v1", "kind": "Job", "name": "j", "uid": "ju"}
SPAN = {"v": 1, "first_ms": T, "last_ms": T + 1, "final": True}


def rows(topic: str, record: Any) -> list[Row]:
    return list(table(topic).rows(decode(TOPICS[topic].record, orjson.dumps(record), topic), T))


CASES: list[tuple[str, dict[str, Any], tuple[str, ...], list[tuple[Any, ...]]]] = [
    (
        "nvml-samples",
        TICK | {"gpus": [{"uuid": "G", "index": 0, "power_w": 7}, {"uuid": "H", "index": 1}]},
        ("record_ts", "ts", "node", "uuid", "index", "power_w"),
        [(T, T, "a", "G", 0, 7.0), (T, T, "a", "H", 1, None)],
    ),
    ("nvml-samples", TICK | {"gpus": []}, ("node", "uuid"), [("a", None)]),
    (
        "insight-parts", {"v": 1, "uid": "u", "source": "nvml", "gpu_means": {"a/0": [7, None, 40.5, None]}},
        ("uid", "gpu_means"), [("u", {"a/0": [7.0, None, 40.5, None]})],
    ),
    (
        "cgroup-samples",
        TICK | {"host": {"cpu_count": 8}, "pods": [
            {"uid": "u", "containers": [{"id": "x", "cpu_util_pct": 5}, {"id": "y"}]},
            {"uid": "w", "net_rx_bytes_per_s": 1, "containers": []},
        ]},
        ("host_cpu_count", "pod_uid", "pod_net_rx_bytes_per_s", "container_id", "container_cpu_util_pct"),
        [(8, "u", None, "x", 5.0), (8, "u", None, "y", None), (8, "w", 1.0, None, None)],
    ),
    (
        "cgroup-samples", TICK | {"host": {"cpu_util_pct": 1}, "pods": []},
        ("host_cpu_util_pct", "pod_uid"), [(1.0, None)],
    ),
    (
        "usage",
        {"v": 1, "node": "a", "source": "nvml", "hour_ms": T, "ts_ms": T + 60_000, "gpus": [
            {"pod_uid": "u", "gpu": "G", "gpu_s": 60, "known_s": 50, "busy_s": 20},
            {"gpu": "H", "gpu_s": 60, "known_s": 60, "busy_s": 0, "energy_j": 9},
        ]},
        ("hour_ts", "source", "pod_uid", "gpu", "gpu_s", "known_s", "busy_s", "energy_j", "cpu_s"),
        [(T, "nvml", "u", "G", 60.0, 50.0, 20.0, None, None),
         (T, "nvml", None, "H", 60.0, 60.0, 0.0, 9.0, None)],
    ),
    (
        "usage",
        {"v": 1, "node": "a", "source": "cgroup", "hour_ms": T, "ts_ms": T,
         "pods": [{"pod_uid": "u", "seconds": 60, "cpu_s": 7}]},
        ("source", "pod_uid", "gpu", "seconds", "cpu_s"), [("cgroup", "u", None, 60.0, 7.0)],
    ),
    (
        "usage", {"v": 1, "node": "a", "source": "nvml", "hour_ms": T, "ts_ms": T},
        ("node", "pod_uid"), [("a", None)],
    ),
    (
        "window-aggregates",
        {"v": 1, "subject": GPU, "source": "nvml", "size_ms": 10_000, "start_ms": T, "end_ms": T + 10_000,
         "metrics": {"power_w": {"count": 2, "mean": 3, "p99": 4.5},
                     "energy_j": {"count": 1, "increase": 9}}},
        ("subject", "subject_kind", "size_ms", "start_ts", "metric", "count", "mean", "p99", "increase"),
        [("gpu/a/G", "gpu", 10_000, T, "power_w", 2, 3.0, 4.5, None),
         ("gpu/a/G", "gpu", 10_000, T, "energy_j", 1, None, None, 9.0)],
    ),
    (
        "trends",
        {"v": 1, "subject": GPU, "source": "nvml", "ts_ms": T, "metrics": {"power_w": {
            "level": 1, "slope_per_s": 0, "forecast": [{"horizon_s": 10, "value": 2, "p05": 1, "p95": 3}]}}},
        ("metric", "level", "forecast"),
        [("power_w", 1.0, [{"horizon_s": 10.0, "value": 2.0, "p05": 1.0, "p95": 3.0}])],
    ),
    (
        "cycles",
        {"v": 1, "subject": GPU, "source": "nvml", "ts_ms": T,
         "metrics": {"power_w": {"cyclic": True, "period_s": 12, "since_ms": T},
                     "temp_c": {"cyclic": False}}},
        ("metric", "cyclic", "period_s", "since_ts", "others"),
        [("power_w", True, 12.0, T, None), ("temp_c", False, None, None, None)],
    ),
    (
        "pod-peaks",
        SPAN | {"pod": POD, "samples": 3, "metrics": {"power_w": PEAK}, "attribution": {"a/0": "measured"},
                "gpus": {"a/0": {"power_w": PEAK, "temp_c": PEAK}},
                "processes": {"a/0/7": {"power_w": PEAK}}},
        ("pod_uid", "attribution", "gpu", "process", "metric", "max", "mean", "at_ts"),
        [("u", {"a/0": "measured"}, gpu, process, metric, 9.0, 3.5, T)
         for gpu, process, metric in (
             (None, None, "power_w"), ("a/0", None, "power_w"), ("a/0", None, "temp_c"),
             (None, "a/0/7", "power_w")
         )],
    ),
    (
        "job-peaks",
        SPAN | {"job": JOB, "metrics": {"power_w": PEAK}, "pods": {
            "p": {"node": "a", "metrics": {"temp_c": PEAK}, "gpus": {"a/0": {"power_w": PEAK}}}}},
        ("job_uid", "pod", "pod_node", "gpu", "metric", "max"),
        [("ju", None, None, None, "power_w", 9.0), ("ju", "p", "a", None, "temp_c", 9.0),
         ("ju", "p", "a", "a/0", "power_w", 9.0)],
    ),
    ("pods", POD | {"job": JOB, "gpu_uuids": ["G"]}, ("uid", "job_name", "gpu_uuids"), [("u", "j", ["G"])]),
]  # fmt: skip


@pytest.mark.parametrize(("topic", "record", "names", "expected"), CASES, ids=[one[0] for one in CASES])
def test_rows(
    topic: str, record: dict[str, Any], names: tuple[str, ...], expected: list[tuple[Any, ...]]
) -> None:
    found = [tuple(row.get(name) for name in names) for row in rows(topic, record)]
    assert found == expected
    assert [[type(one) for one in row] for row in found] == [[type(one) for one in row] for row in expected]


@pytest.mark.parametrize("topic", TOPICS)
def test_every_topic_has_a_table(topic: str) -> None:
    columns = table(topic).columns
    assert next(iter(columns)) == "record_ts"
    assert all(kind.word == "timestamp" for name, kind in columns.items() if name.endswith("_ts"))
    # Milliseconds that are left are durations.
    assert {name for name in columns if name.endswith("_ms")} <= {"interval_ms", "size_ms"}

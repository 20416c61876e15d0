"""Goal: each query of each panel finds what it should, in a Prometheus that scraped our sink behind Kafka."""

import asyncio
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle.contract.codec import encode, from_plain
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, NvmlSample
from dutycycle.contract.topics import ALIKE_TOPICS, TOPICS, full_name
from dutycycle.contract.trace import TraceRecord, TraceWriter
from tests.e2e.test_sink_metrics import publish
from tests.support.deploy.compose_file import ROOT
from tests.support.deploy.generate_dashboards import DASHBOARDS, Panel
from tests.support.kafka import make_topics, settings_of
from tests.support.processes.commands import dutycycle, environ, running
from tests.support.processes.figures import Process
from tests.support.servers.exposition import serve_metrics
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.prometheus import Prometheus, scrape
from tests.support.waiting import wait_until

GIB = 1024**3
PERIOD_S = 20
"""Two of the ledger's slices of ten seconds, so that a period of its counters is a whole one of the load."""
NODES = ("a", "b", "c")
PODS = {"train-0": "a", "train-1": "b", "serve-0": "b", "lazy-0": "c"}
POWER_W = {True: 600, False: 200}
PROMETHEUS_PAGE = """\
# HELP DCGM_FI_PROF_PIPE_TENSOR_ACTIVE Ratio of cycles the tensor (HMMA) pipe is active.
# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a0",modelName="NVIDIA H200",Hostname="a"} 0.4
"""
"""Of a dcgm-exporter, for the only figure that is its alone."""


def pods() -> Iterator[Pod]:
    """Who they are."""
    for name, node in PODS.items():
        kind, job = ("PyTorchJob", "bert") if name.startswith("train") else ("Deployment", name[:-2])
        yield from_plain(
            Pod,
            {
                "v": 1, "uid": f"uid-{name}", "namespace": "ml", "name": name, "node": node,
                "phase": "Running", "gpu_request": 1,
                "job": {"api_version": "v1", "kind": kind, "name": job, "uid": f"job-{job}"},
            },
            "pods",
        )  # fmt: skip


def tick(node: str, number: int, ts_ms: int) -> tuple[NvmlSample, CgroupSample]:
    """Tick ``number`` of a node, one a second.

    ``a``: two GPUs of ``train-0``, whose memory runs out, one of them at its power limit. ``b``: a GPU of
    ``train-1``, which has less to do in each step, and one with a MIG slice of ``serve-0``. ``c``: a GPU that
    ``lazy-0`` holds and does not use.
    """
    head = {"v": 1, "node": node, "collector": node, "seq": number, "ts_ms": ts_ms, "interval_ms": 1000}
    nvml = head | {"gpus": _GPUS[node](number)}
    cgroup = head | {
        "host": {
            "cpu_util_pct": 500,
            "cpu_count": 64,
            "mem_used_bytes": 80 * GIB,
            "mem_total_bytes": 999 * GIB,
        },
        "pods": [_pod(name, number) for name, its in PODS.items() if its == node],
    }
    return from_plain(NvmlSample, nvml, "nvml-samples"), from_plain(CgroupSample, cgroup, "cgroup-samples")


def is_busy(number: int, duty: float) -> bool:
    """Whether a training that is busy for ``duty`` of each step is busy at this tick."""
    return number % PERIOD_S < duty * PERIOD_S


def energy_j(number: int, duty: float) -> float:
    """Of a GPU since tick 0."""
    return float(sum(POWER_W[is_busy(n, duty)] for n in range(number % PERIOD_S + 1)) + (
        number // PERIOD_S * sum(POWER_W[is_busy(n, duty)] for n in range(PERIOD_S))
    ))  # fmt: skip


def _gpu(node: str, index: int, number: int, duty: float, **more: Any) -> dict[str, Any]:
    busy = is_busy(number, duty)
    util = 97 + number % 3 if busy else 1 + number % 2
    return {
        "uuid": f"GPU-{node}{index}", "index": index, "model": "NVIDIA H200", "gpu_util_pct": util,
        "mem_copy_util_pct": util // 2, "mem_total_bytes": 141 * GIB, "mem_used_bytes": 40 * GIB,
        "power_w": POWER_W[busy], "power_limit_w": 700, "energy_j": energy_j(number, duty), "temp_c": 60,
        "mem_temp_c": 74,
        "sm_clock_mhz": 1980, "mem_clock_mhz": 3201, "pcie_rx_bytes_per_s": 10**8,
        "pcie_tx_bytes_per_s": 10**7, "throttle": [], "sw_power_cap_pct": 12, "sw_thermal_pct": 0,
        "hw_thermal_pct": 0, "power_brake_pct": 0, "thermal_pct": 0, "sync_boost_pct": 0,
        "board_limit_pct": 0, "low_util_pct": 0, "reliability_pct": 0, "nvlink_bytes_per_s": 2 * 10**9,
        "sm_active_pct": util, "sm_occupancy_pct": util // 2,
        "tensor_active_pct": util // 2, "dram_active_pct": util // 3, "fp64_active_pct": 0,
        "fp32_active_pct": 8, "fp16_active_pct": 1, "int_active_pct": 9, "tensor_hmma_active_pct": util // 2,
        "tensor_imma_active_pct": 0, "tensor_dfma_active_pct": 0, "jpeg_util_pct": 0, "ofa_util_pct": 0,
        "enc_util_pct": 0, "dec_util_pct": 12,
        "nvlink_rx_bytes_per_s": 10**9,
        "nvlink_tx_bytes_per_s": 10**9, **more,
    }  # fmt: skip


def _training(node: str, index: int, number: int, pod: str, duty: float, **more: Any) -> dict[str, Any]:
    gpu = _gpu(node, index, number, duty, **more)
    used = gpu["mem_used_bytes"]
    process = {
        "pid": 100 + index,
        "pod_uid": f"uid-{pod}",
        "gpu_util_pct": gpu["gpu_util_pct"],
        "mem_used_bytes": used,
    }
    return gpu | {"processes": [process]}


def _of_a(number: int) -> list[dict[str, Any]]:
    leak = (40 + number / 12) * GIB  # full after twenty minutes
    return [
        _training("a", 0, number, "train-0", 0.75, mem_used_bytes=round(leak), throttle=["sw_power_cap"]),
        _training("a", 1, number, "train-0", 0.75, mem_used_bytes=round(leak)),
    ]


def _of_b(number: int) -> list[dict[str, Any]]:
    util = round(50 + 20 * math.sin(number / 40))
    slices = [
        {"uuid": "MIG-b10", "profile": "3g.71gb", "gpu_util_pct": util, "mem_used_bytes": 9 * GIB,
         "mem_total_bytes": 70 * GIB},
        {"uuid": "MIG-b11", "profile": "3g.71gb", "gpu_util_pct": 0, "mem_used_bytes": 0,
         "mem_total_bytes": 70 * GIB},
    ]  # fmt: skip
    given = [
        {"pod_uid": "uid-serve-0", "namespace": "ml", "pod": "serve-0", "container": "c", "mig": "MIG-b10"}
    ]
    sliced = _gpu("b", 1, number, 0.0, mig=slices, allocated=given)
    del sliced["gpu_util_pct"]  # as the driver of a partitioned GPU
    return [_training("b", 0, number, "train-1", 0.3), sliced]


def _of_c(number: int) -> list[dict[str, Any]]:
    gpu = _gpu("c", 0, number, 0.0, gpu_util_pct=0, mem_copy_util_pct=0, dec_util_pct=0)
    process = {"pid": 7, "pod_uid": "uid-lazy-0", "gpu_util_pct": 0, "mem_used_bytes": 40 * GIB}
    return [gpu | {"processes": [process]}]


_GPUS = {"a": _of_a, "b": _of_b, "c": _of_c}


def _pod(name: str, number: int) -> dict[str, Any]:
    training = name.startswith("train")
    container = {"id": name, "cpu_util_pct": (150 if is_busy(number, 0.75) else 90) if training else 5,
                 "cpu_throttled_pct": 0, "mem_used_bytes": 20 * GIB, "mem_limit_bytes": 200 * GIB,
                 "io_read_bytes_per_s": 10**6, "io_write_bytes_per_s": 0}  # fmt: skip
    return {
        "uid": f"uid-{name}",
        "net_rx_bytes_per_s": 1000,
        "net_tx_bytes_per_s": 1000,
        "containers": [container],
    }


PAST_S = 800
VARIABLES = {"node": "a|b|c", "namespace": "ml", "job": "bert", "pod": "train-0|serve-0|lazy-0"}
Env = dict[str, str]
Rows = list[dict[str, Any]]


def _record(prefix: str, topic: str, key: str, record: Any, ts_ms: int) -> TraceRecord:
    return TraceRecord(topic=full_name(prefix, topic), key=key, payload=encode(record), ts_ms=ts_ms)


@contextmanager
def going_on(env: Env, begin_ms: int) -> Iterator[None]:
    """From where the trace ends: a tick when its second has come."""
    stop = threading.Event()

    def live() -> None:
        number = PAST_S
        while not stop.is_set():
            due = (time.time() * 1000 - begin_ms) // 1000
            records = []
            while number <= due:
                for node in NODES:
                    pair = tick(node, number, begin_ms + 1000 * number)
                    records += [(topic, node, one) for topic, one in zip(ALIKE_TOPICS[:2], pair, strict=True)]
                number += 1
            publish(env, records)
            stop.wait(1)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def configuration(target: str, exporter: str) -> dict[str, Any]:
    """As deploy/prometheus/prometheus.yml, on this machine and every second."""
    shipped = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    jobs = {one["job_name"]: one for one in shipped["scrape_configs"]}
    config = scrape([])
    config["global"]["evaluation_interval"] = "1s"
    config["rule_files"] = [str(ROOT / "deploy/helm/dutycycle/files/rules/*.yml")]
    config["scrape_configs"] = [
        jobs["dutycycle-metrics"] | {"static_configs": [{"targets": [target]}]},
        {"job_name": "exporters", "honor_labels": True, "static_configs": [{"targets": [exporter]}]},
    ]
    return config


def filled(expr: str) -> str:
    """With every variable at all of its values."""
    for name, value in VARIABLES.items():
        expr = expr.replace(f"${name}", value)
    assert "$" not in expr
    return expr


def one(rows: Rows, **labels: str) -> float:
    """The only value with these labels."""
    (found,) = [row for row in rows if labels.items() <= row["metric"].items()]
    return float(found["value"][1])


def about(value: float, rel: float = 0.05) -> Any:
    return pytest.approx(value, rel=rel)


EXPECTED: dict[tuple[str, str], Callable[[list[Rows]], bool]] = {
    ("fleet", "GPUs"): lambda found: one(found[0]) == 5,
    ("fleet", "Idle pods"): lambda found: one(found[0]) == 1,
    ("fleet", "Throttled GPUs"): lambda found: one(found[0]) == 1,
    ("fleet", "Cost of idleness"): lambda found: 0 < one(found[0]) < 2,
    ("fleet", "Temperature"): lambda found: {one(found[0], node=node) for node in NODES} == {60},
    ("fleet", "Jobs"): lambda found: (
        one(found[0], job_name="bert") == 3 and one(found[0], job_name="lazy") == 1
    ),
    ("fleet", "Who is idle"): lambda found: one(found[0], pod="lazy-0") > 300,
    ("node", "GPUs"): lambda found: one(found[0], uuid="GPU-c0", model="NVIDIA H200") == 1,
    ("node", "SM clock"): lambda found: one(found[0], uuid="GPU-a0") == 1.98e9,
    ("node", "Throttled"): lambda found: one(found[0], uuid="GPU-a0", reason="power") == 1,
    ("node", "Tensor cores"): lambda found: one(found[0]) == 0.4,
    ("node", "MIG slices"): lambda found: one(found[0], slice="MIG-b11") == 0,
    ("node", "Memory is full in"): lambda found: 0 < one(found[0], uuid="GPU-a0") < 600,
    ("node", "Cycles"): lambda found: one(found[0], uuid="GPU-a0") == about(PERIOD_S),
    ("job", "Pods"): lambda found: one(found[0]) == 2,
    ("job", "GPUs"): lambda found: one(found[0]) == 3,
    ("job", "Utilization"): lambda found: one(found[0]) == about((2 * 0.74 + 0.3) / 3, 0.1),
    ("job", "Highest utilization"): lambda found: one(found[0]) == about(0.99, 0.02),
    ("job", "Step time by pod"): lambda found: one(found[0], pod="train-1") == about(PERIOD_S),
    ("job", "Kind and bottleneck"): lambda found: one(found[0], kind="training", bottleneck="imbalance") == 1,
    ("job", "Gap between ranks"): lambda found: one(found[0]) == about(0.4, 0.3),
    ("pod", "GPUs"): lambda found: one(found[0]) == 4,
    ("pod", "Memory is full in"): lambda found: 0 < one(found[0]) < 600,
    ("pod", "Cycle"): lambda found: one(found[0], pod="train-0", metric="gpu_util_pct") == 1,
    ("pod", "Power"): lambda found: one(found[0], pod="lazy-0") == 200,
    ("pod", "Kind and bottleneck"): lambda found: one(found[0], pod="lazy-0", kind="idle") == 1,
}
"""What some panels show, by their queries in order; of all the others, that they show anything."""
EMPTY = {("fleet", "Held and untouched")}
"""Each pod of the fleet that holds a GPU has a process on it."""
# What a training of three GPUs uses, whose ticks are whole seconds: train-1 is busy in 6 of 20.
BUSY_GPUS = 2 * 0.75 + 6 / 20
WATTS = sum(POWER_W[is_busy(n, duty)] for duty in (0.75, 0.75, 0.3) for n in range(PERIOD_S)) / PERIOD_S
COUNTED = {"busy_seconds": about(BUSY_GPUS, 0.03), "energy_joules": about(WATTS, 0.03)}


def counted_per_s(server: Prometheus, what: str) -> float:
    """How much faster than time a counter of the training grows, over a step; 0 while it is too young."""
    name = f'dutycycle_pod_gpu_{what}_total{{job_name="bert"}}'
    found = server.query(f"sum({name} - {name} offset {PERIOD_S}s) / {PERIOD_S}")
    return one(found) if found else 0.0


def unlike(server: Prometheus) -> dict[str, str]:
    """The panels that do not show what they should, and what they show."""
    wrong = {}
    for name, dashboard in DASHBOARDS.items():
        for panel in dashboard.panels:
            found = [server.query(filled(query.expr)) for query in panel.queries]
            if reason := _wrong(name, panel, found):
                wrong[f"{name}: {panel.title}"] = f"{reason}: {str(found)[:600]}"
    return wrong


def _wrong(name: str, panel: Panel, found: list[Rows]) -> str:
    if (name, panel.title) in EMPTY:
        return "something" if any(found) else ""
    if not all(found):
        return "nothing"
    is_right = EXPECTED.get((name, panel.title))
    try:
        if is_right is not None and not is_right(found):
            return "something else"
    except ValueError:
        return "other labels"
    for query, rows in zip(panel.queries, found, strict=True):
        # Exporters of other versions spell a label otherwise: a legend has both, and one of them is there.
        labels = {name.lower() for name in re.findall(r"\{\{(\w+)\}\}", query.legend)}
        if panel.link is not None:
            labels |= {variable.rpartition(":")[2] for variable in panel.link[1]}
        if not all(labels <= {name.lower() for name in row["metric"]} for row in rows):
            return f"without the labels {labels}"
    return ""


def test_expectations_are_of_panels_that_there_are() -> None:
    titles = [(name, panel.title) for name, one in DASHBOARDS.items() for panel in one.panels]
    assert len(titles) == len(set(titles))
    assert EXPECTED.keys() <= set(titles)


def test_every_panel_shows_what_it_should(
    kafka: RunningBroker,
    topic_prefix: str,
    prometheus: Callable[[dict[str, Any]], Prometheus],
    tmp_path: Path,
) -> None:
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, partitions="2", snapshot_interval="2s",
        price_gpu_hour="4", metrics_stale="120s",
    )  # fmt: skip
    settings = settings_of(env)
    asyncio.run(
        make_topics(settings, ALIKE_TOPICS, outputs=[one for one in TOPICS if one not in ALIKE_TOPICS])
    )
    begin_ms = round(time.time() * 1000) - 1000 * PAST_S
    trace = tmp_path / "fleet.jsonl.zst"
    with TraceWriter(str(trace)) as writer:
        for pod in pods():
            writer.write(_record(topic_prefix, "pods", pod.uid, pod, begin_ms))
        for number in range(PAST_S):
            at_ms = begin_ms + 1000 * number
            for node in NODES:
                for topic, sample in zip(ALIKE_TOPICS[:2], tick(node, number, at_ms), strict=True):
                    writer.write(_record(topic_prefix, topic, node, sample, at_ms))
    log = tmp_path / "metrics.log"
    with (
        running("stream", env=env, log=tmp_path / "stream.log"),
        running("sink", "--metrics", env=env, log=log),
        serve_metrics(PROMETHEUS_PAGE) as exporter,
    ):
        dutycycle("replay", trace, "--broker", kafka.url, env=env)
        with going_on(env, begin_ms):
            server = prometheus(configuration(str(Process(log).address), exporter.target))
            wait_until(lambda: not unlike(server), lambda: str(unlike(server)))
            wait_until(
                lambda: all(counted_per_s(server, what) == rate for what, rate in COUNTED.items()),
                lambda: str({what: counted_per_s(server, what) for what in COUNTED}),
            )

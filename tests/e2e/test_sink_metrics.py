"""Goal: `dutycycle sink --metrics` on the real Kafka: counters are exact, also after kills and in two."""

import asyncio
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from dutycycle.contract.codec import decode, from_plain
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.topics import ALIKE_TOPICS, TOPICS
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import gpu, nvml, record
from tests.support.kafka import make_topics, send, settings_of
from tests.support.processes.commands import environ, mortal, running
from tests.support.processes.figures import read_page
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.prometheus import check
from tests.support.waiting import wait_until

NODES = ("a", "b", "c")
CONFIG = NodeConfig(topic="nvml-samples", source="nvml", sizes_ms=(1000,), lateness_ms=0)
"""A window ends with each tick, and the ledger is told with it."""
Env = dict[str, str]


def publish(env: Env, records: Iterable[tuple[str, str, Any]]) -> None:
    """Put records on their topics, each at its own time."""
    timed = [(topic, key, record, getattr(record, "ts_ms", None)) for topic, key, record in records]
    asyncio.run(send(settings_of(env), timed))


class Feed:
    """Ticks of three nodes in real time, one a second, that end now, and what the ledger has of them."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._seq = 0
        self._nodes = {node: NodeOperator(CONFIG, node, NvmlReader(node)) for node in NODES}
        self._parts: dict[str, NodePart] = {}

    def send(self, ticks: int) -> None:
        """So many ticks more; the last one is of this moment."""
        begin_ms = round(time.time() * 1000) - 1000 * ticks
        records: list[tuple[str, str, Any]] = []
        for tick in range(ticks):
            for node, operator in self._nodes.items():
                ts_ms = begin_ms + 1000 * (tick + 1)
                n = self._seq
                processes = [{"pid": 1, "pod_uid": f"pod-{node}", "gpu_util_pct": n * 7 % 100}]
                one = gpu(0, gpu_util_pct=n * 7 % 100, energy_j=1000 + 0.37 * n, processes=processes)
                plain = nvml(n, [one], ts_ms=ts_ms, node=node, collector=node)
                records.append(("nvml-samples", node, from_plain(NvmlSample, plain, "nvml-samples")))
                operator.update(record("nvml-samples", node, plain, self._seq))
                for out in operator.flush():
                    if isinstance(out, ProducerRecord) and out.topic == "node-parts":
                        self._parts[node] = decode(NodePart, out.value or b"", out.topic)
                        records.append((out.topic, node, self._parts[node]))
            self._seq += 1
        publish(self._env, records)

    @property
    def expected(self) -> dict[tuple[str, str], float]:
        """The pods' counters, by metric and node."""
        found = {}
        for node, part in self._parts.items():
            (on_gpu,) = part.pods
            found["busy_seconds", node] = on_gpu.totals["gpu_busy_s"]
            found["energy_joules", node] = on_gpu.totals["energy_j"]
        return found


def counters(text: str) -> dict[tuple[str, str], float]:
    """The pods' counters on a page."""
    found = {}
    for metric, labels, value in re.findall(
        r"^dutycycle_pod_gpu_(\w+)_total\{(.*)\} (\S+)$", text, re.MULTILINE
    ):
        node = re.search(r'node="(\w+)"', labels)
        assert node
        found[metric, node[1]] = float(value)
    return found


@pytest.fixture
def env(kafka: RunningBroker, topic_prefix: str) -> Env:
    return environ(
        broker=kafka.url, topic_prefix=topic_prefix, partitions="2", snapshot_interval="0.5s",
        pod_labels="team",
    )  # fmt: skip


def create_topics(env: Env) -> None:
    settings = settings_of(env)
    asyncio.run(
        make_topics(settings, ALIKE_TOPICS, outputs=[name for name in TOPICS if name not in ALIKE_TOPICS])
    )


def pod(node: str) -> Pod:
    known: dict[str, Any] = {
        "v": 1, "uid": f"pod-{node}", "namespace": "ml", "name": f"bert-{node}", "node": node,
        "phase": "Running", "labels": {"team": "blue"},
    }  # fmt: skip
    return from_plain(Pod, known, "pods")


def test_counters_survive_kills_and_never_go_down(env: Env, tmp_path: Path) -> None:
    create_topics(env)
    publish(env, [("pods", f"pod-{node}", pod(node)) for node in NODES])
    feed = Feed(env)
    feed.send(20)
    shown: dict[tuple[str, str], float] = {}

    def exact(log: Path) -> bool:
        """Look once; whether all that was fed is shown."""
        found = counters(read_page(log))
        for key, value in found.items():
            assert value >= shown.get(key, 0), f"{key} went down"
        shown.update(found)
        return found == feed.expected

    for run in range(3):
        log = tmp_path / f"{run}.log"
        with mortal("sink", "--metrics", env=env, log=log):
            wait_until(lambda log=log: exact(log), lambda: f"{shown}, {feed.expected}")  # type: ignore[misc]
            feed.send(5)
            if run != 1:  # in one of them right after the samples came, before anything is saved
                wait_until(lambda log=log: exact(log), lambda: f"{shown}, {feed.expected}")  # type: ignore[misc]
        feed.send(5)
    with running("sink", "--metrics", env=env, log=tmp_path / "a.log"):
        wait_until(lambda: exact(tmp_path / "a.log"), lambda: f"{shown}, {feed.expected}")
        with running("sink", "--metrics", env=env, log=tmp_path / "b.log"):
            wait_until(lambda: exact(tmp_path / "b.log"), lambda: "the other process")
            text = read_page(tmp_path / "b.log")
            assert counters(text) == counters(read_page(tmp_path / "a.log"))
    assert 'pod="bert-a"' in text
    assert 'label_team="blue"' in text
    file = tmp_path / "metrics"
    file.write_text(text)
    check("metrics", file)


def test_a_source_that_stalls_has_no_series(env: Env, tmp_path: Path) -> None:
    create_topics(env)
    log = tmp_path / "sink.log"
    feed = Feed(env)
    with running("sink", "--metrics", env=env | {"DUTYCYCLE_METRICS_STALE": "5s"}, log=log):
        wait_until(lambda: "dutycycle_ready 1.0" in read_page(log), log.read_text)
        feed.send(3)
        wait_until(lambda: "dutycycle_gpu_utilization_ratio{" in read_page(log), log.read_text)
        wait_until(
            lambda: "dutycycle_ready" in (page := read_page(log)) and "dutycycle_gpu" not in page,
            log.read_text,
        )
        feed.send(1)
        wait_until(lambda: "dutycycle_gpu_utilization_ratio{" in read_page(log), log.read_text)

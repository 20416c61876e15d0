"""Goal: dcgm-exporter and a Prometheus are enough: pods, jobs and the live view have their names.

The page is what dcgm-exporter 3.3 serves; a real Prometheus scrapes it, the collector reads it from there,
and the streams run in process.
"""

import time
from collections.abc import Iterator
from itertools import count
from typing import Any

import orjson
import pytest

from collectors.base import Tick
from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.collector import PrometheusCollector
from collectors.prometheus.query import Prometheus as PrometheusSource
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import PrometheusSettings
from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.telemetry.events import Telemetry
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.prometheus_ticks import SCRAPE_S, Start
from tests.support.servers.exposition import MetricsPage, serve_metrics
from tests.support.servers.prometheus import scrape
from tests.support.waiting import wait_until

UID = "11111111-2222-3333-4444-555555555555"
EXPORTER = {
    "namespace": "gpu-operator",
    "pod": "nvidia-dcgm-exporter-x7",
    "container": "nvidia-dcgm-exporter",
}
FIELDS = {
    "DCGM_FI_DEV_SM_CLOCK": "SM clock frequency (in MHz).",
    "DCGM_FI_DEV_GPU_TEMP": "GPU temperature (in C).",
    "DCGM_FI_DEV_POWER_USAGE": "Power draw (in W).",
    "DCGM_FI_DEV_GPU_UTIL": "GPU utilization (in %).",
    "DCGM_FI_DEV_MEM_COPY_UTIL": "Memory utilization (in %).",
    "DCGM_FI_DEV_FB_FREE": "Framebuffer memory free (in MiB).",
    "DCGM_FI_DEV_FB_USED": "Framebuffer memory used (in MiB).",
}


def exported(**util_by_pod: tuple[float, ...]) -> str:
    """The page of a node whose GPUs were given to pods of the namespace ``team``: of each pod the utilization
    of its GPUs. The last GPU is free."""
    given = [(pod, util) for pod, utils in util_by_pod.items() for util in utils]
    gpus = [
        (index, f',container="main",namespace="team",pod="{pod.replace("_", "-")}"', util)
        for index, (pod, util) in enumerate(given)
    ]
    gpus.append((len(given), ',container="",namespace="",pod=""', 0))
    lines = []
    for name, text in FIELDS.items():
        lines += [f"# HELP {name} {text}", f"# TYPE {name} gauge"]
        for index, labels, util in gpus:
            value = {"DCGM_FI_DEV_GPU_UTIL": util, "DCGM_FI_DEV_FB_USED": 4096}.get(name, 40)
            lines.append(
                f'{name}{{gpu="{index}",UUID="GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e5{index}",'
                f'device="nvidia{index}",modelName="NVIDIA A100-SXM4-40GB",Hostname="gpu-a",'
                f'DCGM_FI_DRIVER_VERSION="535.104.05"{labels}}} {value}'
            )
    return "\n".join(lines) + "\n"


def kube_state(pod: str, owner: str, uid: str = UID) -> str:
    """What kube-state-metrics shows of a pod of a Deployment."""
    return (
        f'kube_pod_info{{namespace="team",pod="{pod}",uid="{uid}",node="gpu-a",host_network="false",'
        f'created_by_kind="ReplicaSet",created_by_name="{owner}-7d4"}} 1\n'
        f'kube_replicaset_owner{{namespace="team",replicaset="{owner}-7d4",owner_kind="Deployment",'
        f'owner_name="{owner}",owner_is_controller="true"}} 1\n'
    )


class Field:
    """The collector, and behind it the streams and the live view."""

    def __init__(self, url: str) -> None:
        self._collector = PrometheusCollector(
            PrometheusSource(PrometheusSettings(prometheus=url)), Telemetry("test"), AnswerReader(),
            uid_of=None, retire_s=600,
        )  # fmt: skip
        self._pipeline = LocalPipeline(stages(load({}, {})))
        self.live = LiveState()
        self.newest: dict[str, dict[str, Any]] = {"pod-peaks": {}, "job-peaks": {}}
        self._seq = count()

    def tick(self) -> None:
        """Collect once, and send everything that is coalesced."""
        seq = next(self._seq)
        tick = Tick(
            node="me", collector="c", seq=seq, ts_ms=round(time.time() * 1000), interval_ms=250,
            monotonic_s=time.monotonic(),
        )  # fmt: skip
        for one in self._collector.collect(tick):
            self.live.feed(one.topic, one.key, one.value, one.ts_ms)
            self._take(self._pipeline.feed(ConsumerRecord(one.topic, 0, seq, one.key, one.value, one.ts_ms)))
        self._take(self._pipeline.flush())

    def _take(self, outs: list[ProducerRecord]) -> None:
        for out in outs:
            if out.topic in self.newest:
                self.newest[out.topic][out.key] = orjson.loads(out.value or b"")

    def until_samples(self, most: int) -> None:
        wait_until(
            lambda: any(peaks["samples"] >= most for peaks in self.newest["pod-peaks"].values()),
            pause_s=0.05, meanwhile=self.tick,
        )  # fmt: skip


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    with serve_metrics("") as found:
        yield found


@pytest.mark.parametrize("honor_labels", [True, False])
def test_with_dcgm_exporter_alone(prometheus: Start, page: MetricsPage, honor_labels: bool) -> None:
    page.text = exported(bert_0=(0, 99), web=(30,))
    config = scrape([page.target], SCRAPE_S)
    (job,) = config["scrape_configs"]
    job["honor_labels"] = honor_labels
    job["static_configs"][0]["labels"] = EXPORTER
    field = Field(prometheus(config).url)
    field.until_samples(3)
    pods, jobs = field.newest["pod-peaks"], field.newest["job-peaks"]
    assert pods.keys() == {"name:team/bert-0", "name:team/web"}
    bert = pods["name:team/bert-0"]
    assert (bert["pod"]["namespace"], bert["pod"]["name"], bert["pod"]["node"]) == ("team", "bert-0", "gpu-a")
    assert bert["gpus"].keys() == bert["attribution"].keys() == {"gpu-a/0", "gpu-a/1"}
    assert set(bert["attribution"].values()) == {"allocated"}
    util = bert["metrics"]["gpu_util_pct"]
    assert (util["max"], util["mean"]) == (99, 49.5)
    assert bert["metrics"]["gpu_mem_used_bytes"]["max"] == 2 * 4096 * 2**20
    assert {key: (one["job"]["kind"], one["job"]["name"]) for key, one in jobs.items()} == {
        "name:team/bert-0": ("Pod", "bert-0"), "name:team/web": ("Pod", "web"),
    }  # fmt: skip
    assert jobs["name:team/bert-0"]["metrics"]["gpu_util_pct"]["mean"] == 49.5
    shown = {row.title: (row.gpu_util, row.gpu_util_max) for row in field.live.pods()}
    assert shown == {"team/bert-0": (49.5, 99), "team/web": (30, 30)}


def test_with_kube_state_metrics_there_are_uids_names_and_jobs(prometheus: Start, page: MetricsPage) -> None:
    other = "99999999-2222-3333-4444-555555555555"
    page.text = (
        exported(web_7d4_a=(10,), web_7d4_b=(80, 90))
        + kube_state("web-7d4-a", "web")
        + kube_state("web-7d4-b", "web", other).partition("\n")[0]
        + "\n"
    )
    config = scrape([page.target], SCRAPE_S)
    config["scrape_configs"][0]["honor_labels"] = True
    server = prometheus(config)
    server.wait_for("kube_replicaset_owner")
    field = Field(server.url)
    field.until_samples(3)
    named = {key: one["pod"]["name"] for key, one in field.newest["pod-peaks"].items()}
    assert named == {UID: "web-7d4-a", other: "web-7d4-b"}
    (job,) = field.newest["job-peaks"].values()
    assert (job["job"]["kind"], job["job"]["name"], job["namespace"]) == ("Deployment", "web", "team")
    assert job["metrics"]["gpu_util_pct"]["mean"] == 60
    assert job["pods"].keys() == {"web-7d4-a", "web-7d4-b"}

"""Goal: whose a GPU is, and which of several exporters says it, follows from the series, not from a name."""

from typing import Any

import pytest

from collectors.prometheus.answers import AnswerReader
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.dcgm.merge import merge_exporters
from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Workload
from collectors.prometheus.series import ScrapedSeries
from tests.support.data.prometheus_samples import CID, SLICE, pod_info

GPU = {"gpu": "0", "UUID": "GPU-1", "Hostname": "gpu-a"}
USER = {"namespace": "team", "pod": "bert-0", "container": "main"}
OWN = {"namespace": "monitoring", "pod": "gpu-metrics-x", "container": "exporter"}
TARGET = {"job": "gpu-metrics", "instance": "10.0.0.5:9400"}
BERT, EXPORTER = Workload("team", "bert-0", "main"), Workload("monitoring", "gpu-metrics-x", "exporter")
EXPORTED = {f"exported_{name}": text for name, text in USER.items()}


def series(metric: str, points: dict[int, float], **labels: str) -> ScrapedSeries:
    return ScrapedSeries({"__name__": metric, **GPU, **labels}, tuple(points.items()))


def requests(pod: str, namespace: str, resource: str) -> ScrapedSeries:
    labels = {"namespace": namespace, "pod": pod, "container": "main", "resource": resource}
    return ScrapedSeries({"__name__": "kube_pod_container_resource_requests", **labels}, ((0, 1.0),))


INFO = {"namespace": "monitoring", "node": "gpu-a"}
DAEMON = pod_info("gpu-metrics-x", "u1", **INFO, created_by_kind="DaemonSet")


@pytest.mark.parametrize(
    ("labels", "others", "kube", "holder"),
    [
        (USER, [], [], BERT),
        ({"namespace": "team", "pod": "burn-in", "container": "dcgmproftester2"}, [], [],
         Workload("team", "burn-in", "dcgmproftester2")),
        (EXPORTED | OWN | TARGET, [], [], BERT),
        (OWN | TARGET, [], [], EXPORTER),
        (OWN | TARGET, [EXPORTED | OWN | TARGET], [], None),
        (OWN | TARGET | {"instance": "10.0.0.6:9400"}, [EXPORTED | OWN | TARGET], [], None),
        (OWN | TARGET, [EXPORTED | OWN | TARGET | {"job": "another"}], [], EXPORTER),
        (OWN | TARGET, [], [pod_info("gpu-metrics-x", "u1", **INFO, pod_ip="10.0.0.5")], None),
        (OWN | TARGET, [], [pod_info("gpu-metrics-x", "u1", **INFO, pod_ip="10.0.0.7")], EXPORTER),
        (OWN | TARGET, [], [DAEMON, requests("bert-0", "team", "nvidia_com_gpu")], None),
        (OWN | TARGET, [], [DAEMON, requests("gpu-metrics-x", "monitoring", "nvidia_com_gpu")], EXPORTER),
        (OWN | TARGET, [], [DAEMON, requests("gpu-metrics-x", "monitoring", "nvidia_com_gpu_a100")],
         EXPORTER),
        (OWN | TARGET, [], [DAEMON, requests("gpu-metrics-x", "monitoring", "nvidia_com_hostdev")], None),
        (OWN | {"Hostname": "gpu-metrics-x"}, [], [], None),
        ({"pod": "nvidia-dcgm-exporter-x", "namespace": "gpu-operator"}, [], [], None),
        ({"pod": "nvidia-dcgm-exporter-x", "namespace": "gpu-operator"}, [],
         [pod_info("nvidia-dcgm-exporter-x", "u1", namespace="gpu-operator", created_by_kind="DaemonSet")],
         None),
        ({"pod": "dcgm-exporter-test", "namespace": "team"}, [],
         [pod_info("dcgm-exporter-test", "u1", node="gpu-a", created_by_kind="Job")],
         Workload("team", "dcgm-exporter-test")),
        ({"pod": "dcgm-exporter-test", "namespace": "team"}, [],
         [requests("dcgm-exporter-test", "team", "nvidia_com_gpu")], Workload("team", "dcgm-exporter-test")),
        ({"pod": "", "namespace": "", "container": ""}, [], [], None),
    ],
)  # fmt: skip
def test_who_holds_a_gpu(
    labels: dict[str, str], others: list[dict[str, str]], kube: list[ScrapedSeries], holder: Workload | None
) -> None:
    exporters = Exporters()
    every = [series("DCGM_FI_DEV_GPU_UTIL", {0: 1}, **of) for of in (labels, *others)]
    exporters.learn(every)
    exporters.learn_pods(kube)
    assert exporters.holder_of(every[0].labels) == holder
    again = Exporters()
    again.renaming = exporters.renaming
    again.learn_pods(kube)
    assert again.holder_of(every[0].labels) == holder


UTIL, POWER = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_POWER_USAGE"
FIRST, SECOND = {"job": "operator", "instance": "a:9400"}, {"job": "node", "instance": "a:9401"}
EVERY_15 = dict.fromkeys(range(0, 60001, 15000), 50.0)
SEVEN_LATER = {ts_ms + 7000: 60.0 for ts_ms in EVERY_15}


def merged(*of: ScrapedSeries) -> dict[tuple[str, str], dict[int, float]]:
    """By metric and job."""
    found = merge_exporters(of, Vocabulary(), Exporters())
    return {(one.labels["__name__"], one.labels["job"]): dict(one.points) for one in found}


@pytest.mark.parametrize(("named", "other"), [(FIRST, SECOND), (SECOND, FIRST)])
def test_the_exporter_that_names_pods_speaks_and_the_other_adds_what_it_lacks(
    named: dict[str, str], other: dict[str, str]
) -> None:
    found = merged(
        series(UTIL, SEVEN_LATER, **other),
        series(POWER, SEVEN_LATER, **other),
        series("DCGM_FI_DEV_GPU_UTIL_RATIO", SEVEN_LATER, **other),
        series(UTIL, EVERY_15, **named, **USER),
    )
    at_its_moments = {ts_ms: 60.0 for ts_ms in EVERY_15 if ts_ms}
    assert found == {(UTIL, named["job"]): EVERY_15, (POWER, other["job"]): at_its_moments}


def test_while_the_first_exporter_is_away_the_other_speaks() -> None:
    present = {ts_ms: value for ts_ms, value in EVERY_15.items() if ts_ms <= 15_000}
    found = merged(series(UTIL, present, **FIRST, **USER), series(UTIL, SEVEN_LATER, **SECOND))
    late = {ts_ms: value for ts_ms, value in SEVEN_LATER.items() if ts_ms > 15_000 + 22_500}
    assert found == {(UTIL, "operator"): present, (UTIL, "node"): late}


def test_gpus_of_one_exporter_each_stay_as_they_are() -> None:
    one, two = series(UTIL, EVERY_15, **FIRST), series(UTIL, SEVEN_LATER, **SECOND, UUID="GPU-2")
    assert merge_exporters([one, two], Vocabulary(), Exporters()) == [one, two]


def test_a_container_that_two_jobs_scrape_is_there_once() -> None:
    def cpu(points: dict[int, float], **labels: str) -> ScrapedSeries:
        name = "container_cpu_usage_seconds_total"
        return ScrapedSeries({"__name__": name, "node": "a", **USER, **labels}, tuple(points.items()))

    kubelet = cpu(EVERY_15, job="kubelet", instance="a:10250", metrics_path="/metrics/cadvisor")
    own = cpu(SEVEN_LATER, job="cadvisor", instance="a:8080")
    apart = cpu(SEVEN_LATER, job="cadvisor", instance="a:8080", container="side")
    found = AnswerReader().read({"containers": [own, kubelet, apart]})["containers"]
    assert [dict(one.points) for one in found] == [EVERY_15, SEVEN_LATER]
    assert [one.labels["job"] for one in found] == ["kubelet", "cadvisor"]


@pytest.mark.parametrize(
    "second",
    [
        {"job": "annotated", "instance": "10.0.0.5:9100", "app": "node-exporter"},
        {"job": "node-exporter", "instance": "10.0.0.5:9101"},
        {"job": "node-exporter", "instance": "10.0.0.5:9100", "prometheus": "monitoring/other"},
    ],
)
def test_a_node_that_two_scrapes_measure_counts_once(second: dict[str, str]) -> None:
    def scraped(labels: dict[str, str]) -> list[ScrapedSeries]:
        values = {
            ("node_network_receive_bytes_total", "eth0", ""): EVERY_15,
            ("node_cpu_seconds_total", "", "0"): EVERY_15,
            ("node_uname_info", "", ""): dict.fromkeys(EVERY_15, 1.0),
        }
        return [
            ScrapedSeries(
                {"__name__": name, "device": device, "cpu": cpu, "nodename": "gpu-a", **labels},
                tuple(points.items()),
            )
            for (name, device, cpu), points in values.items()
        ]

    first = {"job": "node-exporter", "instance": "10.0.0.5:9100", "pod": "node-exporter-x"}
    hosts = AnswerReader().read({"hosts": [*scraped(second), *scraped(first)]})["hosts"]
    assert sorted(one.labels["__name__"] for one in hosts) == [
        "node_cpu_seconds_total", "node_network_receive_bytes_total", "node_uname_info"
    ]  # fmt: skip


def test_a_gpu_that_two_servers_scrape_has_each_moment_once() -> None:
    one = series(UTIL, EVERY_15, **FIRST, **USER, prometheus="monitoring/k8s")
    two = series(UTIL, SEVEN_LATER, **FIRST, **USER, prometheus="gpus/k8s")
    gpus = AnswerReader().read({"gpus": [one, two]})["gpus"]
    assert [dict(found.points) for found in gpus] in ([EVERY_15], [SEVEN_LATER])


@pytest.mark.parametrize("path", [{}, {"id": f"{SLICE}/cri-containerd-{CID}.scope"}])
def test_a_container_counts_once_whatever_labels_a_scrape_adds(path: dict[str, str]) -> None:
    name, of = "container_cpu_usage_seconds_total", {"node": "gpu-a", **USER, **path}
    kubelet = {"job": "kubelet", "instance": "10.0.0.5:10250", "endpoint": "https-metrics", "cpu": "total"}
    mapped = {"job": "kubernetes-nodes-cadvisor", "instance": "gpu-a", "kubernetes_io_arch": "amd64"}
    every = [
        ScrapedSeries({"__name__": name, **of, **more}, tuple(EVERY_15.items())) for more in (kubelet, mapped)
    ]
    assert len(AnswerReader().read({"containers": every})["containers"]) == 1


def test_an_answer_without_gpus_has_none() -> None:
    answers: dict[str, Any] = {"hosts": []}
    assert AnswerReader().read(answers) == {"hosts": []}

"""Goal: phase, times and requests of a pod, from kube-state-metrics; what it does not tell is absent."""

from typing import Any

import pytest
from msgspec.structs import replace

from collectors.prometheus.kube_state import KubeState
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.records.pods import Pod

POD = Pod(uid="u", namespace="team", name="bert-0", node="gpu-a", phase="Running")
REQUEST, LIMIT = "kube_pod_container_resource_requests", "kube_pod_container_resource_limits"
INFO = "kube_pod_container_info"


def one(metric: str, value: float, **labels: str) -> ScrapedSeries:
    return ScrapedSeries({"__name__": metric, "namespace": "team", "pod": "bert-0", **labels}, ((0, value),))


def asked(metric: str, resource: str, value: float, container: str = "main") -> ScrapedSeries:
    return one(metric, value, resource=resource, container=container)


def known(*series: ScrapedSeries) -> Pod:
    kube = KubeState()
    kube.learn(series)
    return kube.known_of(POD)


@pytest.mark.parametrize(
    ("series", "fields"),
    [
        ([one("kube_pod_status_phase", 1, phase="Succeeded")], {"phase": "Succeeded"}),
        ([one("kube_pod_status_phase", 0, phase="Failed")], {}),
        ([one("kube_pod_created", 1700000000)], {"created_ms": 1_700_000_000_000}),
        ([one("kube_pod_start_time", 1700000003.5)], {"started_ms": 1_700_000_003_500}),
        ([one("kube_pod_completion_time", 1700000009)], {"finished_ms": 1_700_000_009_000}),
        ([asked(REQUEST, "cpu", 0.5), asked(REQUEST, "cpu", 2, "side")], {"cpu_request": 2.5}),
        ([asked(REQUEST, "memory", 2**30)], {"mem_request_bytes": 2**30}),
        ([one(INFO, 1, container="main"), asked(REQUEST, "nvidia_com_gpu", 2)], {"gpu_request": 2}),
        ([one(INFO, 1, container="main"), asked(REQUEST, "nvidia_com_mig_1g_5gb", 3)], {"gpu_request": 3}),
        ([one(INFO, 1, container="main"), asked(REQUEST, "nvidia_com_a100", 2)], {"gpu_request": 2}),
        ([one(INFO, 1, container="main"), asked(REQUEST, "ephemeral_storage", 3)], {"gpu_request": 0}),
        ([one(INFO, 1, container="main"), asked(REQUEST, "aliyun_com_gpu_mem", 8)], {}),
        (
            [
                one(INFO, 1, container="main"),
                asked(REQUEST, "gpu_intel_com_xe", 1),
                asked(REQUEST, "gpu_intel_com_millicores", 500),
            ],
            {"gpu_request": 1},
        ),
        ([asked(LIMIT, "cpu", 4)], {"cpu_limit": 4}),
        (
            [one(INFO, 1, container=name) for name in ("main", "side")] + [asked(LIMIT, "cpu", 4)],
            {"gpu_request": 0},
        ),
        ([one("kube_pod_created", -1)], {}),
        ([one("kube_pod_start_time", 1.8e19)], {}),
        ([asked(REQUEST, "cpu", 1e25)], {}),
    ],
)
def test_a_fact(series: list[ScrapedSeries], fields: dict[str, Any]) -> None:
    assert known(*series) == replace(POD, **fields)


def test_a_fact_of_another_pod_is_none_of_this() -> None:
    other = ScrapedSeries(
        {"__name__": "kube_pod_status_phase", "namespace": "a", "pod": "bert-0", "phase": "Failed"}, ((0, 1),)
    )
    assert known(other) == POD


def test_a_scrape_without_honor_labels() -> None:
    labels = {"namespace": "monitoring", "pod": "kube-state-metrics-x", "container": "kube-state-metrics"}
    of_pod = {"exported_namespace": "team", "exported_pod": "bert-0", "exported_container": "main"}
    series = ScrapedSeries({"__name__": REQUEST, "resource": "cpu", **labels, **of_pod}, ((0, 3),))
    assert known(series) == replace(POD, cpu_request=3)

"""What the plugin reads out of annotations, and how it prints that: tables of calls."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from dutycycle.contract.catalogue import P95_METRICS
from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.derived import JobPeaks, Peak, PodOfJob, PodPeaks
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.kube.discovery import POD, Kind
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    MaxUsage,
    attribution,
    insights,
    of_job,
    of_node,
    of_pod,
    of_whole_job,
    omitted,
    ours,
)
from dutycycle.kubectl.complete import candidates
from dutycycle.kubectl.jobs import OWNERS, job_and_word, named
from dutycycle.kubectl.top import all_gpus_named, descending, most_is_allocated
from dutycycle.words import aligned
from sinks.annotations.core.job import job_summary, job_values
from sinks.annotations.core.values import pod_values, text


def annotations(values: dict[str, Any], prefix: str = "dutycycle.io") -> dict[str, str]:
    """As the sink writes them."""
    return {f"{prefix}/{name}": text(value) for name, value in values.items()}


def peaks(**metrics: float) -> dict[str, Peak]:
    def p95(name: str, value: float) -> float | None:
        return 0.75 * value if name in P95_METRICS else None

    return {
        name: Peak(max=value, mean=value / 2, at_ms=1, p95=p95(name, value))
        for name, value in metrics.items()
    }


def test_what_the_sink_writes_on_a_pod_is_read() -> None:
    record = PodPeaks(
        pod=Pod(uid="u", namespace="ns", name="p", node="n", phase="Running"),
        first_ms=1, last_ms=1_700_000_000_000, samples=1, final=False,
        metrics=peaks(
            cpu_util_pct=272, mem_used_bytes=2.4e9, net_rx_bytes_per_s=7.8e6, io_read_bytes_per_s=0.0
        ),
        gpus={},
        processes={"n/0/7": peaks(gpu_util_pct=97, mem_copy_util_pct=41), "n/1/8": peaks(gpu_util_pct=0)},
    )  # fmt: skip
    found = ours(annotations(pod_values(record)), "dutycycle.io")
    assert of_pod(found) == MaxUsage(
        gpus=2, gpu_pct=97, gpu_mem_bus_pct=41, cpu_pct=272, cpu_p95_pct=204, mem_mb=2400, net_mbps=62.4,
        disk=0,
    )  # fmt: skip
    assert found["updated"] == "2023-11-14T22:13:20Z"


def test_what_the_sink_writes_on_a_job_is_read() -> None:
    gpus = {"a-gpu-9/0": peaks(gpu_util_pct=100, mem_used_bytes=11.669e9), "a-gpu-9/1": peaks(gpu_util_pct=3)}
    pods = {
        f"bert-worker-{number}": PodOfJob(node="a-gpu-9", metrics=peaks(cpu_util_pct=number), gpus=gpus)
        for number in (10, 2)
    }
    job = JobRef(api_version="batch/v1", kind="Job", name="bert", uid="u")
    record = JobPeaks(job=job, first_ms=1, last_ms=2, final=True, metrics={}, pods=pods)
    found = ours(annotations(job_values(record)), "dutycycle.io")
    first, second = of_job(found)
    assert (first.pod, second.pod) == ("bert-worker-2", "bert-worker-10")  # as people count
    assert first.gpus == {("a-gpu-9", 0): (100, 11669), ("a-gpu-9", 1): (3, None)}
    assert of_whole_job(found) == MaxUsage(gpus=4, gpu_pct=100, gpu_mem_mb=11669, cpu_pct=10, cpu_p95_pct=7.5)


def test_of_a_large_job_the_summary_counts() -> None:
    found = {
        "w-0": {"cpu_util": 5, "cpu_util_p95": 4, "cpu_mem_mb": 1},
        "pods_omitted": 999,
        "pods_summary": {"pods": 1000, "max_gpu_util": 99, "max_gpu_mem_mb": 70000, "max_cpu_util": 7},
    }
    assert [worker.pod for worker in of_job(found)] == ["w-0"]
    assert omitted(found) == 999
    assert of_whole_job(found) == MaxUsage(gpu_pct=99, gpu_mem_mb=70000, cpu_pct=7, mem_mb=1)


BOTH = {"gpu_0": "measured", "gpu_1": "allocated"}


@pytest.mark.parametrize(
    ("utils", "words", "gpus", "allocated"),
    [
        ({"gpu_0_7": 97, "gpu_1": 40}, BOTH, 2, False),
        ({"gpu_0_7": 40, "gpu_1": 97}, BOTH, 2, True),
        ({"gpu_0_7": 97, "gpu_1": 97}, BOTH, 2, False),
        ({}, {"gpu_0": "unknown", "gpu_3": "unknown"}, 2, False),
        ({"gpu_0_7": 97}, {}, 1, False),
        ({"gpu_0": 97}, {"gpu_0": ["spoilt"], "nonsense": "measured"}, 1, False),
    ],
)
def test_where_the_figures_of_gpus_come_from(
    utils: dict[str, int], words: dict[str, Any], gpus: int, allocated: bool
) -> None:
    found = {"gpu_util": utils, "gpu_attribution": words}
    assert of_pod(found).gpus == gpus
    assert most_is_allocated(found) is allocated


def test_unknown_gpus_are_counted_and_named() -> None:
    record = PodPeaks(
        pod=Pod(uid="u", namespace="ns", name="p", node="n", phase="Running"),
        first_ms=1, last_ms=2, samples=1, final=False, metrics={},
        gpus={"n/1": peaks(gpu_util_pct=7)}, processes={"n/0/7": peaks(gpu_util_pct=9)},
        attribution={"n/10": "unknown", "n/1": "allocated", "n/0": "measured"},
    )  # fmt: skip
    found = ours(annotations(pod_values(record)), "dutycycle.io")
    assert list(attribution(found).items()) == [(0, "measured"), (1, "allocated"), (10, "unknown")]
    assert of_pod(found).gpus == 3


def test_pods_of_a_large_job_have_figures_without_their_gpus() -> None:
    # What the sink writes on a job whose record has no GPU of its own for any pod.
    metrics = peaks(gpu_util_pct=90, gpu_mem_used_bytes=1e9, cpu_util_pct=5)
    job = JobRef(api_version="batch/v1", kind="Job", name="bert", uid="u")
    every = {f"w-{number}": PodOfJob(node="a", metrics=metrics, gpus={}) for number in range(2)}
    record = JobPeaks(job=job, first_ms=1, last_ms=2, final=False, metrics=metrics, pods=every)
    value = annotations(job_values(record) | {"pods_omitted": 0, "pods_summary": job_summary(record)})
    found = ours(value, "dutycycle.io")
    first, _ = of_job(found)
    assert first.usage == MaxUsage(gpu_pct=90, gpu_mem_mb=1000, cpu_pct=5, cpu_p95_pct=3.75)
    assert first.gpus == {}
    assert of_whole_job(found) == MaxUsage(gpu_pct=90, gpu_mem_mb=1000, cpu_pct=5)  # of the job no p95
    (alone,) = of_job({"w-0": {"gpu_util": 90, "gpu_mem_mb": 1000}})
    assert alone.usage == MaxUsage(gpu_pct=90, gpu_mem_mb=1000)


@pytest.mark.parametrize(
    ("found", "complete"),
    [
        ({"w-0": {"n-gpu-0_util": 7}}, True),
        ({"w-0": {"cpu_util": 7}}, True),
        ({"w-0": {"n-gpu-0_util": 7}, "pods_omitted": 1}, False),
        ({"w-0": {"n-gpu-0_util": 7}, "w-1": {"gpu_util": 7}}, False),
    ],
)
def test_whether_all_gpus_of_a_job_are_named(found: dict[str, Any], complete: bool) -> None:
    assert all_gpus_named(found) is complete


def test_what_is_not_known_comes_last() -> None:
    usages = [MaxUsage(cpu_pct=value) for value in (None, 0, 7, None, 0.5)]
    ordered = sorted(usages, key=lambda usage: descending(usage.cpu_pct))
    assert [usage.cpu_pct for usage in ordered] == [7, 0.5, 0, None, None]


def test_a_name_that_was_cut_is_shown_whole() -> None:
    (worker,) = of_job({"cut-12345678": {"pod": "the-whole-name", "cpu_util": 1}})
    assert worker.pod == "the-whole-name"


@pytest.mark.parametrize(
    "spoilt", ["", "{", "[1]", "null", '"text"', '{"gpu_0_7":"97"}', '{"gpu_x":97}', '{"gpu_0_7":true}']
)
def test_what_somebody_has_spoilt_is_as_if_it_were_not_there(spoilt: str) -> None:
    names = (
        "gpu_util", "max_cpu_util", "gpu-static", "gpu-0", "bert-worker-0", "pods_omitted", "pods_summary",
    )  # fmt: skip
    found = ours(
        {f"dutycycle.io/{name}": spoilt for name in names} | {"x.io/gpu_util": '{"gpu_0":1}'}, "dutycycle.io"
    )
    assert of_pod(found).gpu_pct is None
    assert of_pod(found).cpu_pct is None
    assert (of_job(found), omitted(found), of_whole_job(found)) == ([], 0, MaxUsage())
    static, gpus = of_node(found)
    assert all(gpu.number("max_gpu_util") is None and gpu.period is None for gpu in gpus)
    assert static.get("count") is None


def test_idle_is_zero_and_unknown_is_a_dash() -> None:
    assert [output.format_percent(value) for value in (0, None, 99.6)] == ["0%", "-", "100%"]
    assert [output.format_megabytes(value) for value in (0, None, 245.7, 999.6, 9500, 10000, 11669)] == [
        "0MB", "-", "246MB", "1GB", "9.5GB", "10GB", "11.7GB",
    ]  # fmt: skip
    assert [output.format_number(value) for value in (0, None, 62.4, 12345.0)] == ["0", "-", "62.4", "12345"]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "-"), (-3, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (3599, "59m"), (3600, "1h"),
        (90_000, "1d"),
    ],
)  # fmt: skip
def test_ages_are_as_kubectl_shows_them(seconds: float | None, shown: str) -> None:
    assert output.format_age(seconds) == shown


def test_columns_are_aligned() -> None:
    rows = [["a-long-name", "7%"], ["b", "100%"]]
    lines = ["NAME           CPU\n", "a-long-name     7%\n", "b             100%\n"]
    assert aligned(["NAME", "CPU>"], rows) == "".join(lines)
    assert aligned(["NAME", "CPU>"], rows, headers=False) == "".join(lines[1:])


@pytest.mark.parametrize(
    "cycle", [({"cyclic": True, "period_s": 13.2}, "13.2s"), ({"cyclic": False}, "no"), ({}, None)]
)
def test_a_cycle_is_a_period_or_none_or_not_known(cycle: tuple[dict[str, Any], str | None]) -> None:
    _, (gpu,) = of_node({"gpu-0": cycle[0]})
    assert gpu.period == cycle[1]


def test_insights_appear_once_somebody_writes_them() -> None:
    found = ours(
        annotations({"kind": "training", "advice": ["more loader workers", "less memory"]}), "dutycycle.io"
    )
    assert insights(found) == {"kind": "training", "advice": "more loader workers; less memory"}
    assert insights({"max_cpu_util": 3}) == {}


GROUPS = ("batch", "kubeflow.org", "batch.volcano.sh", "apps")
SHORT = {"Deployment": {"deploy"}, "CronJob": {"cj"}, "ReplicaSet": {"rs"}}
EXPERIMENT = Kind("example.com/v1", "Experiment", "experiments", short_names=frozenset({"exp", "deploy"}))
NEWER = [
    replace(kind, api_version=f"{kind.group}/v2", short_names=frozenset(SHORT.get(kind.name, ())))
    for kind in OWNERS
    if kind.group in GROUPS
]
THERE = [*NEWER, EXPERIMENT, OWNERS[-1], POD]


@pytest.mark.parametrize(
    ("text", "plurals"),
    [
        ("mpijob/bert", ["mpijobs"]),
        ("MPIJob/bert", ["mpijobs"]),
        ("mpijobs.kubeflow.org/bert", ["mpijobs"]),
        ("job/bert", ["jobs", "jobs"]),
        ("jobs.batch/bert", ["jobs"]),
        ("rayjob/bert", []),  # known, and not installed
        ("deploy/bert", ["deployments"]),
        ("Deploy/bert", ["deployments"]),
        ("deployments.apps/bert", ["deployments"]),
        ("cj/bert", ["cronjobs"]),
        ("rs/bert", ["replicasets"]),
        ("experiment/bert", ["experiments"]),
        ("exp/bert", ["experiments"]),
        ("experiments.example.com/bert", ["experiments"]),
        ("replicationcontroller/bert", ["replicationcontrollers"]),
        ("bert", [kind.plural for kind in [*NEWER, OWNERS[-1]]]),
    ],
)
def test_jobs_are_named_as_with_kubectl(text: str, plurals: list[str]) -> None:
    name, word = job_and_word(text)
    found = named(word, THERE)
    assert (name, sorted(kind.plural for kind in found)) == ("bert", sorted(plurals))
    assert all(kind.api_version.endswith("/v2") == (kind in NEWER) for kind in found)


@pytest.mark.parametrize("text", ["foo/bert", "job/", "/bert", ""])
def test_a_job_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="expected"):
        named(job_and_word(text)[1], THERE)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([""], ["health", "peaks", "top", "why"]),
        (["t"], ["top"]),
        (["he"], ["health"]),
        (["health", "--al"], ["--all"]),
        (["health", ""], []),
        (["top", ""], ["jobs", "nodes", "pods"]),
        (["top", "-n", "x", "p"], ["pods"]),
        (["top", "pods", "--sort-by", ""], ["cpu", "disk", "gpu", "memory", "name", "network"]),
        (["top", "pods", "-o", ""], ["json", "table", "wide", "yaml"]),
        (["top", "pods", "--as", "j"], []),
        (["top", "pods", "--as"], ["--as", "--as-group"]),
        (["top", "pods", "--sel"], ["--selector"]),
        (["top", "pods", "--kubeconfig", "/nowhere", ""], []),
        (["top", "pods", "busy", ""], []),
        (["-n", ""], []),
        (["why", "-n", "x", "--kubeconfig", "/nowhere", ""], []),
        (["nonsense", ""], []),
    ],
)
def test_completion(words: list[str], expected: list[str]) -> None:
    assert candidates(words) == expected


def test_the_example_of_the_contract_is_read() -> None:
    value = (
        '{"mem_used":"11.2GB","mem_free":"0.8GB","process_cnt":1,"pid_mem":[[18477,"11094MB"]],"cyclic":true,'
        '"period_s":13.2,"max_gpu_util":100,"max_mem_util":66,"trend_pct_per_h":-0.4}'
    )
    _, (gpu,) = of_node({"gpu-0": orjson.loads(value)})
    assert (gpu.megabytes("mem_used"), gpu.megabytes("mem_free"), gpu.number("max_gpu_util")) == (
        11200,
        800,
        100,
    )

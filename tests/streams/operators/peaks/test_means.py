"""Goal: the mean of a pod or job is over all its GPUs, for as long as it held each; its maximum is of any of
them. Whatever is merged in whatever order, the same bits come out."""

from fractions import Fraction
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import PodPart
from dutycycle.contract.records.pods import JobRef, Pod
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.pod import PodOperator
from tests.support.data.samples import gpu, nvml, record

CONFIG = NodeConfig(topic="nvml-samples", source="nvml")
JOB = JobRef(api_version="batch/v1", kind="Job", name="train", uid="j")
Gpus = list[dict[str, Any]]


def given_to(*pods: str, mig: str | None = None) -> Gpus:
    where = {} if mig is None else {"mig": mig}
    return [{"pod_uid": pod, "namespace": "team", "pod": f"name-of-{pod}", **where} for pod in pods]


def held(index: int, util: float, pod: str = "p") -> dict[str, Any]:
    """A GPU that the pod was given, as busy as that."""
    return gpu(index, gpu_util_pct=util, mem_copy_util_pct=util / 2, allocated=given_to(pod))


def used(index: int, **util_by_pod: float) -> dict[str, Any]:
    """A GPU that pods share: only their processes tell what each of them does."""
    processes = [
        {"pid": pid, "pod_uid": pod, "gpu_util_pct": util}
        for pid, (pod, util) in enumerate(util_by_pod.items())
    ]
    return gpu(index, gpu_util_pct=min(sum(util_by_pod.values()), 100), processes=processes)


SLICES = [{"uuid": "MIG-1", "gpu_util_pct": 0}, {"uuid": "MIG-2", "gpu_util_pct": 99}]
OF_BOTH = [*given_to("p", mig="MIG-1"), *given_to("p", mig="MIG-2")]
BURST = [[-500, 97]]

CASES: list[tuple[str, list[Gpus], tuple[float, float]]] = [
    ("one of two GPUs does nothing", [[held(0, 0), held(1, 99)]] * 3, (99, 49.5)),
    ("one after the other", [[held(0, 0), held(1, 99)], [held(0, 99), held(1, 0)]], (99, 49.5)),
    ("one GPU", [[held(0, 10)], [held(0, 30)]], (30, 20)),
    ("GPUs that join late count for as long as they are held",
     [[held(0, 100)], [held(0, 100)], [held(0, 0), held(1, 0)], [held(0, 0), held(1, 0)]],
     (100, 200 / 6)),
    ("a GPU that leaves keeps what it did", [[held(0, 60), held(1, 0)], [held(0, 60)]], (60, 40)),
    ("shared GPUs count by what the pod's own processes do",
     [[used(0, p=20, q=70), held(1, 80)]], (80, 50)),
    ("a GPU of which nothing is known is no idle one",
     [[held(0, 80), gpu(1, gpu_util_pct=50, allocated=given_to("p", "q"))]], (80, 80)),
    ("slices of one GPU", [[gpu(0, mig=SLICES, allocated=OF_BOTH)]], (99, 49.5)),
    ("a burst lifts the maximum, and its mean counts",
     [[held(0, 0), held(1, 50) | {"util_burst": BURST}]], (97, 48.5)),
]  # fmt: skip


def outputs(ticks: list[Gpus]) -> list[ProducerRecord]:
    """Everything that the node sent, its input at an end."""
    node = NodeOperator(CONFIG, "a", NvmlReader("a"))
    for seq, gpus in enumerate(ticks):
        node.update(record("nvml-samples", "a", nvml(seq, gpus)))
    return [out for out in node.close() if isinstance(out, ProducerRecord)]


def part_of(ticks: list[Gpus], pod: str = "p") -> PodPart:
    parts = [out for out in outputs(ticks) if (out.topic, out.key) == ("pod-parts", pod)]
    return decode(PodPart, parts[-1].value or b"", "pod-parts")


def merged(parts: list[PodPart], uid: str = "p", name: str = "w-0") -> tuple[dict[str, Any], ConsumerRecord]:
    """The pod's peaks after ``parts``, and its part of the job."""
    operator = PodOperator(uid)
    identity = PodPart(
        uid=uid, source="pods", pod=Pod(uid=uid, name=name, node="a", phase="Running", job=JOB)
    )
    for offset, one in enumerate([*parts, identity]):
        operator.update(ConsumerRecord("pod-parts", 0, offset, uid, encode(one), 0))
    peaks, part = (out for out in operator.flush() if isinstance(out, ProducerRecord))
    return orjson.loads(peaks.value or b""), ConsumerRecord("job-parts", 0, 0, "j", part.value, 0)


def job_of(parts: list[ConsumerRecord]) -> bytes:
    operator = JobOperator("j")
    for one in parts:
        operator.update(one)
    (out,) = operator.flush()
    assert isinstance(out, ProducerRecord)
    return out.value or b""


@pytest.mark.parametrize(("goal", "ticks", "expected"), CASES, ids=[row[0] for row in CASES])
def test_the_mean_is_over_gpus(goal: str, ticks: list[Gpus], expected: tuple[float, float]) -> None:
    peaks, part = merged([part_of(ticks)])
    job = orjson.loads(job_of([part]))
    for found in (peaks, job, job["pods"]["w-0"]):
        util = found["metrics"]["gpu_util_pct"]
        assert (util["max"], util["mean"]) == (expected[0], pytest.approx(expected[1])), goal


def test_a_window_has_the_mean_and_the_busiest_by_their_names() -> None:
    (window,) = (
        plain["metrics"]
        for out in outputs([[held(0, 0), held(1, 99)]] * 5)
        if out.topic == "window-aggregates"
        and (plain := orjson.loads(out.value or b""))["subject"]["kind"] == "pod"
        and plain["size_ms"] == 60_000
    )
    found = {metric: (of["mean"], of["max"]) for metric, of in window.items()}
    assert found == {
        "gpu_util_pct": (49.5, 49.5), "busiest_gpu_util_pct": (99, 99), "mem_copy_util_pct": (24.75, 24.75)
    }  # fmt: skip


def test_the_mean_of_a_job_counts_gpus_and_not_pods() -> None:
    """A launcher with one idle GPU beside a worker with three busy ones."""
    launcher = merged([part_of([[held(0, 0, "l")]], "l")], "l", "launcher")[1]
    worker = merged([part_of([[held(index, 80, "w") for index in range(3)]], "w")], "w", "worker")[1]
    found = orjson.loads(job_of([launcher, worker]))["metrics"]["gpu_util_pct"]
    assert (found["max"], found["mean"]) == (80, 60)


UTILS = st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), min_size=1, max_size=5)


@pytest.mark.slow
@given(st.lists(UTILS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_bits_and_the_true_mean(lives: list[list[list[int]]], random: Any) -> None:
    """``lives``: accumulations of one pod, ticks in each, GPUs at each tick."""
    parts = [
        part_of([[held(index, util) for index, util in enumerate(tick)] for tick in ticks]) for ticks in lives
    ]
    parts = [replace(part, opened_ms=number) for number, part in enumerate(parts)]
    peaks, of_job = merged(parts)
    random.shuffle(parts)
    assert merged(parts) == (peaks, of_job)
    values = [util for ticks in lives for tick in ticks for util in tick]
    util = peaks["metrics"]["gpu_util_pct"]
    assert util["max"] == max(values)
    assert util["mean"] == pytest.approx(float(Fraction(sum(values), len(values))), rel=1e-12)
    assert util["p95"] == np.percentile(values, 95, method="inverted_cdf"), "whole percents are exact"
    assert orjson.loads(job_of([of_job]))["metrics"]["gpu_util_pct"] == util

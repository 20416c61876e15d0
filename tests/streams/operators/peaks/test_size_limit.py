"""A job of any size has its record: what is left out, in which order, and how it is counted."""

from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import JobPeaks, Peak, PodOfJob
from dutycycle.contract.records.parts import JobPart, Tally
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.topics import TOPICS
from streams.operators.peaks.job import JobOperator, encode_within

MOST = TOPICS["job-peaks"].max_bytes
METRICS = tuple(f"metric_{i}_pct" for i in range(9))
JOB = JobRef(api_version="v1", kind="Job", name="big", uid="j")


def figures(seed: int) -> dict[str, Peak]:
    return {
        metric: Peak(max=float(seed % 100), mean=seed / (3.0 + i), at_ms=1_700_000_000_000 + seed)
        for i, metric in enumerate(METRICS)
    }


def job(pods: int, gpus: int) -> JobPeaks:
    each = {
        f"worker-{i:05d}": PodOfJob(
            node=f"n{i}", metrics=figures(i), gpus={f"n{i}/{g}": figures(i * 8 + g) for g in range(gpus)}
        )
        for i in range(pods)
    }
    return JobPeaks(job=JOB, first_ms=1, last_ms=2, final=False, metrics=figures(99), pods=each)


SIZES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "fits": (50, 8, {}),
    "without the GPUs": (1_000, 8, {"gpus_omitted": 1_000}),
    "without the GPUs of those that have some": (200, 8, {"gpus_omitted": 200}),
    "without some pods": (3_000, 8, {"gpus_omitted": 3_000}),
    "without some pods, and no GPUs to leave out": (3_000, 0, {}),
}


@pytest.mark.parametrize(("pods", "gpus", "omitted"), SIZES.values(), ids=SIZES.keys())
def test_what_is_left_out_is_counted(pods: int, gpus: int, omitted: dict[str, Any]) -> None:
    whole = job(pods, gpus)
    text = encode_within(whole, MOST)
    found = decode(JobPeaks, text, "job-peaks")
    assert len(text) <= MOST
    assert (found.metrics, found.final, found.gpus_omitted) == (
        whole.metrics,
        False,
        omitted.get("gpus_omitted"),
    )
    assert len(found.pods) + (found.pods_omitted or 0) == pods
    assert list(found.pods) == list(whole.pods)[: len(found.pods)]
    for name, pod in found.pods.items():
        assert pod.metrics == whole.pods[name].metrics
        assert pod.gpus == ({} if omitted else whole.pods[name].gpus)


def test_the_bound_is_used_to_the_last_pod() -> None:
    whole = job(40, 2)
    size = len(encode(whole))
    assert encode_within(whole, size) == encode(whole)
    assert decode(JobPeaks, encode_within(whole, size - 1), "job-peaks").gpus_omitted == 40
    for most in range(3_000, 30_000, 991):
        text = encode_within(whole, most)
        found = decode(JobPeaks, text, "job-peaks")
        assert len(text) <= most
        assert not found.pods_omitted or most - len(text) < 1_200, "one more pod would have fitted"


def test_the_operator_of_a_large_job_always_says_something() -> None:
    operator = JobOperator("j")
    tallies = {metric: Tally(max=50.5, at_ms=1_700_000_000_000, sum=1234.5, count=77) for metric in METRICS}
    for i in range(1_000):
        part = JobPart(
            job=JOB, pod_uid=f"u{i}", pod_name=f"worker-{i:05d}", node="n", first_ms=1, last_ms=2 + i,
            samples=3, final=True, metrics=tallies, gpus={f"n/{g}": figures(g) for g in range(8)},
        )  # fmt: skip
        operator.update(ConsumerRecord("job-parts", 0, i, "j", encode(part), 1))
    (out,) = operator.flush()
    assert isinstance(out, ProducerRecord)
    found = decode(JobPeaks, out.value or b"", "job-peaks")
    assert (len(found.pods), found.gpus_omitted, found.final) == (1_000, 1_000, True)
    assert found.metrics["metric_0_pct"] == Peak(max=50.5, mean=1234.5 / 77, at_ms=1_700_000_000_000)


def test_pods_that_left_the_job_are_counted_with_those_left_out() -> None:
    whole = replace(job(1_000, 1), pods_omitted=4_000, gpus_omitted=77)
    assert encode_within(whole, 10**7) == encode(whole)
    for most in range(100_000, 900_000, 99_991):
        text = encode_within(whole, most)
        found = decode(JobPeaks, text, "job-peaks")
        assert len(text) <= most
        assert len(found.pods) + (found.pods_omitted or 0) == 5_000
        assert found.gpus_omitted == 1_077
        assert len(found.pods) == 1_000 or most - len(text) < 1_200, "one more pod would have fitted"

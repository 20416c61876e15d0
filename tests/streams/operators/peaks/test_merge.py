"""Peaks of pods and jobs: a merge that does not care for order, repeats, or which source came first."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dutycycle.contract.codec import DecodeError, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import PodPart, Tally
from dutycycle.contract.records.pods import JobRef, Pod
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.pod import PodOperator
from streams.state.codec import from_bytes, to_bytes

JOB = JobRef(api_version="batch/v1", kind="Job", name="train", uid="j", role="worker", replica=1)


def part(source: str, samples: int, most: float, **fields: Any) -> PodPart:
    tally = Tally(max=most, at_ms=samples * 1000, sum=most * samples / 2, count=samples)
    metric = {"nvml": "gpu_util_pct", "cgroup": "cpu_util_pct"}[source]
    base = {"node": "a", "opened_ms": 5, "first_ms": 5, "last_ms": samples * 1000, "samples": samples}
    return PodPart(uid="p", source=source, **{"metrics": {metric: tally}, **base, **fields})


def identity(phase: str = "Running", job: JobRef | None = JOB, name: str = "w-0") -> PodPart:
    return PodPart(uid="p", source="pods", pod=Pod(uid="p", name=name, node="a", phase=phase, job=job))


def record(one: Any, offset: int = 0, key: str = "p", topic: str = "pod-parts") -> ConsumerRecord:
    return ConsumerRecord(topic, 0, offset, key, encode(one), 0)


def settled(parts: list[PodPart]) -> tuple[dict[str, Any], list[ProducerRecord]]:
    """The pod's peaks after ``parts``, and everything that was sent."""
    pod = PodOperator("p")
    for offset, one in enumerate(parts):
        assert pod.update(record(one, offset)) == []
    outs = [out for out in pod.flush() if isinstance(out, ProducerRecord)]
    return orjson.loads(outs[0].value or b""), outs


PARTS = [part("nvml", 10, 50.0), part("nvml", 20, 90.0), part("cgroup", 15, 250.0),
         part("cgroup", 3, 40.0, opened_ms=99_000, node="a"), identity()]  # fmt: skip


@given(st.permutations(PARTS))
def test_the_order_between_sources_does_not_matter(parts: list[PodPart]) -> None:
    nvml = iter(sorted((p for p in parts if p.source == "nvml"), key=lambda p: p.samples))
    assert settled([next(nvml) if one.source == "nvml" else one for one in parts]) == settled(PARTS)


@given(st.lists(st.sampled_from(PARTS), max_size=6))
def test_repeats_change_nothing(again: list[PodPart]) -> None:
    assert settled([*PARTS, *again])[0] == settled(PARTS)[0]


def test_the_newest_of_an_accumulation_counts_and_accumulations_add() -> None:
    peaks, _ = settled(PARTS)
    assert peaks["metrics"]["gpu_util_pct"] == {"max": 90, "mean": 45, "at_ms": 20_000}
    assert peaks["metrics"]["cpu_util_pct"]["max"] == 250
    assert peaks["metrics"]["cpu_util_pct"]["mean"] == (250 * 15 / 2 + 40 * 3 / 2) / 18
    assert peaks["samples"] == 20
    assert peaks["pod"]["name"] == "w-0"


FINAL = [("running", [identity()], False), ("succeeded", [identity("Succeeded")], True),
         ("failed", [identity("Failed")], True),
         ("deleted", [identity(), PodPart(uid="p", source="pods", gone=True)], True)]  # fmt: skip


@pytest.mark.parametrize(("goal", "identities", "final"), FINAL, ids=[row[0] for row in FINAL])
def test_final_once_the_pod_has_ended(goal: str, identities: list[PodPart], final: bool) -> None:
    peaks, _ = settled([PARTS[0], *identities])
    assert peaks["final"] is final, goal
    assert peaks["pod"]["name"] == "w-0", "a deleted pod keeps its name"


def test_an_unnamed_pod_is_shown_by_its_uid() -> None:
    peaks, outs = settled([PARTS[0]])
    assert (peaks["pod"]["name"], peaks["pod"]["node"], peaks["pod"]["phase"]) == ("p", "a", "Unknown")
    assert [out.topic for out in outs] == ["pod-peaks"]


def test_nothing_new_says_nothing() -> None:
    pod = PodOperator("p")
    pod.update(record(PARTS[0]))
    assert pod.flush()
    assert pod.flush() == []


def job_parts(uid: str, name: str, most: float, phase: str = "Running", first_ms: int = 5) -> ProducerRecord:
    pod = PodOperator(uid)
    fields = {"uid": uid, "opened_ms": first_ms, "first_ms": first_ms}
    pod.update(record(PodPart(**{**structs.asdict(part("cgroup", 10, most)), **fields})))
    named = Pod(uid=uid, name=name, node=f"node-of-{uid}", phase=phase, job=JOB, namespace="ns")
    pod.update(record(PodPart(uid=uid, source="pods", pod=named)))
    return next(out for out in pod.flush() if isinstance(out, ProducerRecord) and out.topic == "job-parts")


def job_after(outs: list[ProducerRecord]) -> dict[str, Any]:
    job = JobOperator("j")
    for offset, out in enumerate(outs):
        job.update(ConsumerRecord("job-parts", 0, offset, "j", out.value, out.ts_ms))
    (settled_out,) = job.flush()
    assert isinstance(settled_out, ProducerRecord)
    plain: dict[str, Any] = orjson.loads(settled_out.value or b"")
    return plain


WORKERS = [job_parts("u0", "w-0", 100.0), job_parts("u1", "w-1", 300.0), job_parts("u2", "w-2", 200.0)]


@given(st.permutations(WORKERS))
def test_a_job_is_its_pods_whatever_came_first(outs: list[ProducerRecord]) -> None:
    peaks = job_after(outs)
    assert peaks == job_after(WORKERS)
    assert list(peaks["pods"]) == ["w-0", "w-1", "w-2"]
    assert peaks["metrics"]["cpu_util_pct"] == {"max": 300, "mean": 100, "at_ms": 10_000}
    assert "replica" not in peaks["job"]


def test_a_job_is_final_when_all_its_pods_are() -> None:
    done = [job_parts(f"u{n}", f"w-{n}", 1.0, "Succeeded") for n in range(2)]
    assert job_after(done)["final"] is True
    assert job_after([*done, WORKERS[2]])["final"] is False


def test_a_name_used_again_is_a_pod_of_its_own() -> None:
    peaks = job_after([job_parts("u0", "w-0", 5.0), job_parts("u9", "w-0", 7.0, first_ms=77)])
    assert {name: pod["metrics"]["cpu_util_pct"]["max"] for name, pod in peaks["pods"].items()} == {
        "w-0": 5, "w-0@77": 7,
    }  # fmt: skip


@given(st.permutations(PARTS), st.integers(0, 5))
def test_restart_equals_no_restart(parts: list[PodPart], cut: int) -> None:
    pod = PodOperator("p")
    for offset, one in enumerate(parts):
        if offset == cut:
            plain = from_bytes(to_bytes(pod.snapshot()))
            pod = PodOperator("p")
            pod.restore(plain)
        pod.update(record(one, offset))
    whole = PodOperator("p")
    for offset, one in enumerate(parts):
        whole.update(record(one, offset))
    assert pod.flush() == whole.flush()


@pytest.mark.parametrize("operator", [PodOperator("p"), JobOperator("j")])
@pytest.mark.parametrize("value", [b"", b"garbage", b"[]", b'{"v":1}', b'{"v":9}'])
def test_a_bad_part_changes_nothing(operator: PodOperator | JobOperator, value: bytes) -> None:
    with pytest.raises(DecodeError):
        operator.update(ConsumerRecord("x", 0, 0, "p", value, 0))
    assert operator.flush() == []

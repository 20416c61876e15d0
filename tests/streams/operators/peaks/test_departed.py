"""A job that begins pods without end: its state and its record stay small, and its figures exact."""

from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import decode, encode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import JobPeaks, Peak
from dutycycle.contract.records.parts import JobPart, Tally
from dutycycle.contract.records.pods import JobRef
from streams.operators.peaks.departed import DEPART_AFTER_MS, MAX_JOB_PODS, MAX_REMEMBERED_PODS, DepartedPods
from streams.operators.peaks.job import JobOperator
from streams.operators.peaks.merge import merge_tallies, to_peaks
from streams.state.codec import from_bytes, to_bytes

JOB = JobRef(api_version="batch/v1", kind="CronJob", name="nightly", uid="j")
START_MS = 1_700_000_000_000
MINUTE_MS = 60_000
METRICS = ("cpu_util_pct", "gpu_mem_used_bytes", "gpu_util_pct")


def tally(random: Random) -> Tally:
    return Tally(
        max=round(random.random() * 1e3, 1), at_ms=START_MS + random.randrange(10**6),
        sum=random.random() * 10 ** random.randrange(-3, 12), count=random.randrange(100),
        histogram=bytes(random.randrange(1, 128) for _ in range(4)),
    )  # fmt: skip


def part(number: int, **fields: Any) -> JobPart:
    """Of one pod a minute, the last part, with figures of its own."""
    random, begin_ms = Random(number), START_MS + number * MINUTE_MS  # noqa: S311 - not a secret
    base = {
        "job": JOB, "namespace": "ns", "pod_uid": f"00000000-0000-4000-8000-{number:012d}",
        "pod_name": f"nightly-{number:05d}", "node": "n", "first_ms": begin_ms, "last_ms": begin_ms + 50_000,
        "samples": 50, "final": True, "metrics": {name: tally(random) for name in METRICS},
    }  # fmt: skip
    return JobPart(**{**base, **fields})


def feed(operator: JobOperator, parts: list[JobPart]) -> None:
    for offset, one in enumerate(parts):
        assert operator.update(ConsumerRecord("job-parts", 0, offset, "j", encode(one), one.last_ms)) == []


def after(parts: list[JobPart]) -> JobOperator:
    operator = JobOperator("j")
    feed(operator, parts)
    return operator


def told(operator: JobOperator) -> bytes:
    """The job's record as bytes."""
    (out,) = operator.flush()
    return out.value or b""  # type: ignore[union-attr]


def record_of(operator: JobOperator) -> JobPeaks:
    return decode(JobPeaks, told(operator), "job-peaks")


def stored(operator: JobOperator) -> bytes:
    return to_bytes(operator.snapshot())


def resumed(operator: JobOperator) -> JobOperator:
    other = JobOperator("j")
    other.restore(from_bytes(stored(operator)))
    return other


def assert_figures(found: JobPeaks, parts: list[JobPart]) -> None:
    """The job's own figures are those of all ``parts``, bit for bit."""
    expected = to_peaks(merge_tallies(one.metrics for one in parts))
    assert orjson.dumps(to_plain(found)["metrics"]) == orjson.dumps(
        {name: to_plain(peak) for name, peak in expected.items()}
    )
    assert found.first_ms == min(one.first_ms for one in parts)
    assert found.last_ms == max(one.last_ms for one in parts)
    assert len(found.pods) + (found.pods_omitted or 0) == len(parts)


@pytest.mark.slow  # two seconds of CPU
def test_twenty_thousand_pods_take_no_more_than_a_few_thousand() -> None:
    parts = [part(number) for number in range(20_000)]
    early = MAX_JOB_PODS + MAX_REMEMBERED_PODS
    operator = after(parts[:early])
    state, record = len(stored(operator)), len(told(operator))
    feed(operator, parts[early:])
    assert len(stored(operator)) < 1.01 * state
    assert len(operator.snapshot()["parts"]) == MAX_JOB_PODS, "so many are merged when it is flushd"
    text = told(operator)
    assert len(text) < 1.01 * record
    found = decode(JobPeaks, text, "job-peaks")
    assert (found.pods_omitted, found.gpus_omitted, found.final) == (20_000 - MAX_JOB_PODS, None, True)
    assert list(found.pods) == [one.pod_name for one in parts[-MAX_JOB_PODS:]]
    assert_figures(found, parts)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_whichever_came_first_the_record_is_the_same(seed: int) -> None:
    parts = [part(number) for number in range(MAX_JOB_PODS + 500)]
    in_order = told(after(parts))
    Random(seed).shuffle(parts)  # noqa: S311 - not a secret
    assert told(after(parts)) == in_order


@pytest.mark.slow
def test_a_restart_changes_nothing() -> None:
    """With parts of pods that run, that repeat and that end later than others."""
    late = [part(number, final=number % 10 > 0) for number in range(MAX_JOB_PODS, MAX_JOB_PODS + 500)]
    late += [part(number, samples=60) for number in range(0, 600, 10)]
    late += Random(3).sample(late, 60)  # noqa: S311 - not a secret
    early = [part(number, final=number % 10 > 0) for number in range(MAX_JOB_PODS)]
    whole, operator = after(early), after(early)
    for number, one in enumerate(late):
        if number in {0, 1, 2, 333, 501, 530, 590}:
            operator = resumed(operator)
        feed(whole, [one])
        feed(operator, [one])
        if number % 100 == 99:
            assert operator.flush() == whole.flush()
    assert stored(operator) == stored(whole)
    assert operator.flush() == whole.flush()
    assert whole.snapshot()["departed"]["pods"] == 500


def test_a_part_of_a_pod_that_left_counts_no_more() -> None:
    parts = [part(number) for number in range(2 * MAX_JOB_PODS)]
    operator = after(parts)
    told(operator)
    state = stored(operator)
    feed(operator, [*parts[:3], part(7, samples=70), part(8, samples=1, final=False)])
    assert operator.flush() == []
    assert stored(operator) == state


def test_an_older_part_of_a_pod_counts_no_more() -> None:
    newest = part(1, samples=60, final=False)
    older = part(1, samples=50, final=False, metrics=part(2).metrics)
    assert told(after([newest, older])) == told(after([newest])) != told(after([older]))


@pytest.mark.slow
def test_the_last_that_left_are_remembered() -> None:
    parts = [part(number) for number in range(MAX_JOB_PODS + MAX_REMEMBERED_PODS + 100)]
    operator = resumed(after(parts))
    state = stored(operator)
    feed(operator, parts[100 : MAX_REMEMBERED_PODS + 100])
    assert stored(operator) == state
    feed(operator, parts[99:100])
    found = operator.snapshot()["departed"]["pods"]
    assert found == MAX_REMEMBERED_PODS + 101, "further back, it is a pod of its own"


def test_of_1500_pods_none_leaves() -> None:
    parts = [part(number, gpus={"n/0": {"power_w": Peak(max=1, mean=1, at_ms=1)}}) for number in range(1_500)]
    operator = after(parts)
    assert operator.snapshot()["departed"] == to_plain(DepartedPods())
    found = record_of(operator)
    assert list(found.pods) == [one.pod_name for one in parts]
    assert (found.pods_omitted, found.gpus_omitted) == (None, None)
    assert_figures(found, parts)


STAY = [
    ("none has ended", {"final": False}, 0),
    ("all ended within the hour", {"last_ms": START_MS + DEPART_AFTER_MS - 1, "first_ms": START_MS}, 0),
    ("an hour ago, all but the newest", {"last_ms": START_MS, "first_ms": START_MS}, 51),
]


@pytest.mark.parametrize(("goal", "fields", "left"), STAY, ids=[row[0] for row in STAY])
def test_only_what_is_long_over_leaves(goal: str, fields: dict[str, Any], left: int) -> None:
    """Of 50 too many, and one that comes an hour after the first moment of the job."""
    parts = [part(number, **fields) for number in range(MAX_JOB_PODS + 50)]
    newest = part(10**6, **fields | {"first_ms": START_MS, "last_ms": START_MS + DEPART_AFTER_MS})
    operator = after([*parts, newest])
    assert operator.snapshot()["departed"]["pods"] == left, goal
    assert_figures(record_of(operator), [*parts, newest])


def test_a_pod_that_runs_stays_and_keeps_the_job_open() -> None:
    parts = [part(0, final=False), *(part(number) for number in range(1, MAX_JOB_PODS + 100))]
    operator = after(parts)
    found = record_of(operator)
    assert (found.final, "nightly-00000" in found.pods, "nightly-00001" in found.pods) == (False, True, False)
    feed(operator, [part(0, samples=99)])
    assert record_of(operator).final is True


def test_gpus_of_pods_that_left_are_counted() -> None:
    gpus = {"n/0": {"power_w": Peak(max=1.5, mean=1, at_ms=1)}}
    parts = [part(number, gpus=gpus if number % 4 == 0 else {}) for number in range(MAX_JOB_PODS + 400)]
    found = record_of(after(parts))
    assert (found.pods_omitted, found.gpus_omitted) == (400, 100)
    assert sum(bool(pod.gpus) for pod in found.pods.values()) == MAX_JOB_PODS // 4


AMOUNT = st.floats(-1e36, 1e36) | st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0.1, 1e16, 5e-324])
TALLY = st.builds(Tally, max=AMOUNT, at_ms=st.integers(0, 9), sum=AMOUNT, count=st.integers(0, 10**6))


@given(st.lists(TALLY, min_size=1, max_size=12), st.lists(TALLY, max_size=3))
def test_a_sum_of_those_that_left_is_exact(left: list[Tally], kept: list[Tally]) -> None:
    gone, again = DepartedPods(), DepartedPods()
    for number, one in enumerate(left):
        gone.add(part(number, metrics={"m": one}))
    for number, one in enumerate(reversed(left)):
        again.add(part(number, metrics={"m": one}))
    of_kept = [{"m": one} for one in kept]
    expected = merge_tallies([*({"m": one} for one in left), *of_kept])
    assert merge_tallies([*gone.tallies(), *of_kept]) == expected
    assert gone.sums == again.sums
    restored = from_plain(DepartedPods, orjson.loads(orjson.dumps(to_plain(gone))), "job-parts")
    assert merge_tallies([*restored.tallies(), *of_kept]) == expected


def test_counts_past_what_json_carries_do_not_stop_the_job() -> None:
    gone = DepartedPods()
    for number in range(3):
        gone.add(part(number, metrics={"m": Tally(max=1, at_ms=1, sum=1, count=2**63 - 1)}))
    assert from_plain(DepartedPods, orjson.loads(orjson.dumps(to_plain(gone))), "job-parts") == gone

"""A job that does not end: its record tells what its current revision or run needed, and the earlier ones."""

from typing import Any

import pytest

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import JobPeaks, Peak
from dutycycle.contract.records.parts import JobPart, Tally
from dutycycle.contract.records.pods import JobRef
from streams.operators.peaks.departed import DEPART_AFTER_MS, MAX_JOB_PODS
from streams.operators.peaks.job import MOST_EARLIER, JobOperator
from streams.state.codec import from_bytes, to_bytes

START_MS = 1_700_000_000_000


def part(name: str, revision: str | None, util: float, begin_s: int = 0, **fields: Any) -> JobPart:
    """Of a pod that used one GPU so much at most; ``final`` and ``gone`` if it has ended."""
    job = JobRef(api_version="apps/v1", kind="Deployment", name="web", uid="j", revision=revision)
    begin_ms = START_MS + begin_s * 1000
    peak = Peak(max=util, mean=util, at_ms=begin_ms)
    base = {
        "job": job, "namespace": "ns", "pod_uid": f"uid-{name}", "pod_name": name, "node": "n",
        "first_ms": begin_ms, "last_ms": begin_ms + 500, "samples": 1, "final": fields.get("gone", False),
        "metrics": {"gpu_util_pct": Tally(max=util, at_ms=begin_ms, sum=util, count=1)},
        "gpus": {f"n/{name[-1]}": {"gpu_util_pct": peak}},
    }  # fmt: skip
    return JobPart(**(base | fields))


def fed(operator: JobOperator, *parts: JobPart) -> JobPeaks:
    for offset, one in enumerate(parts):
        operator.update(ConsumerRecord("job-parts", 0, offset, "j", encode(one), one.last_ms))
    (out,) = operator.flush()
    return decode(JobPeaks, out.value or b"", "job-peaks")  # type: ignore[union-attr]


def maxima(record: JobPeaks) -> tuple[float | None, dict[str, float]]:
    """The most of the current revision, and of each earlier one."""
    current = None if record.current is None else record.current["gpu_util_pct"].max
    return current, {name: peaks["gpu_util_pct"].max for name, peaks in (record.earlier or {}).items()}


def there(record: JobPeaks) -> set[str]:
    return {name for name, pod in record.pods.items() if not pod.former}


def test_pods_that_an_autoscaler_ended_count_for_their_revision_and_are_not_there() -> None:
    pods = [part("a-1", "old", 90, gone=True), part("b-2", "old", 30), part("c-2", "old", 20, 60)]
    record = fed(JobOperator("j"), *pods)
    assert (maxima(record), there(record)) == ((90, {}), {"b-2", "c-2"})
    assert (record.pods_now, record.gpus_now, len(record.pods)) == (2, 1, 3)
    assert record.metrics["gpu_util_pct"].max == 90


def test_a_new_template_does_not_inherit_the_peak_of_the_old_one() -> None:
    operator = JobOperator("j")
    old, new = part("a-1", "old", 90), part("b-1", "new", 30, 60)
    # While both run, both are what it needs.
    assert maxima(fed(operator, old, new)) == (90, {})
    record = fed(operator, part("a-1", "old", 90, gone=True))
    assert (maxima(record), there(record)) == ((30, {"old": 90}), {"b-1"})
    again = JobOperator("j")
    again.restore(from_bytes(to_bytes(operator.snapshot())))
    rolled_back = (part("b-1", "new", 30, 60, gone=True), part("c-1", "old", 10, 120))
    # The old template is current again, with all that it ever needed.
    assert maxima(fed(again, *rolled_back)) == maxima(fed(operator, *rolled_back)) == (90, {"new": 30})


def test_of_runs_the_newest_is_told_when_none_is_running_and_eight_before_it() -> None:
    ended = [part(f"nightly-{n}-0", f"nightly-{n}", n, 60 * n, final=True) for n in range(20)]
    record = fed(JobOperator("j"), *ended)
    assert maxima(record) == (19, {f"nightly-{18 - n}": 18 - n for n in range(MOST_EARLIER)})
    assert (there(record), record.pods_now, record.gpus_now) == ({"nightly-19-0"}, 0, 0)
    assert (
        there(fed(JobOperator("j"), *ended[:-1], part("nightly-19-0", "nightly-19", 19, 60 * 19, gone=True)))
        == set()
    )


@pytest.mark.parametrize("gone", [False, True])
def test_a_job_that_ends_is_one_whole(gone: bool) -> None:
    record = fed(JobOperator("j"), part("a-1", None, 90, gone=gone), part("b-2", None, 30))
    assert (maxima(record), there(record)) == ((None, {}), {"a-1", "b-2"})
    assert (record.pods_now, record.gpus_now) == (1 + (not gone), 1 + (not gone))


def test_what_departed_of_a_revision_that_is_there_still_counts() -> None:
    """An autoscaler's pods of a year: far more than a job keeps one by one."""
    hour_s = DEPART_AFTER_MS // 1000
    first = [part("first-1", "old", 70, gone=True), part("peak-1", "new", 99, 1, gone=True)]
    many = [part(f"p-{n}", "new", 10, 2 + n * hour_s, gone=True) for n in range(MAX_JOB_PODS)]
    operator = JobOperator("j")
    record = fed(operator, *first, *many, part("last-1", "new", 20, 3 * hour_s * MAX_JOB_PODS))
    assert {"first-1", "peak-1"}.isdisjoint(record.pods)
    assert maxima(record) == (99, {})
    again = JobOperator("j")
    again.restore(from_bytes(to_bytes(operator.snapshot())))
    assert maxima(fed(again, part("last-1", "new", 21, 3 * hour_s * MAX_JOB_PODS, samples=2))) == (99, {})

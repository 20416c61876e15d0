"""Records under their key: what belongs to another key is refused with its reason, by each stage of a pod or
job."""

from typing import Any

import pytest

from dutycycle.contract.codec import DecodeError, encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.records.parts import InsightPart, JobInsightPart, JobPart, PodPart
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.settings.load import load
from streams.operators.keyed import decode_under_key
from streams.topology import stages

STAGES = {stage.name: stage for stage in stages(load({}))}
JOB = JobRef(api_version="v1", kind="Job", name="j", uid="u")
POD = Pod(uid="u", name="n", node="a", phase="Running")
OF_JOB = JobPart(job=JOB, pod_uid="p", pod_name="n", node="a", first_ms=1, last_ms=1, samples=1, final=False,
                 metrics={})  # fmt: skip
INSIGHT_OF_JOB = JobInsightPart(
    job=JOB, pod_uid="p", pod_name="n", ts_ms=1, insight_ms=1, since_ms=1, kind="idle", confidence=1,
    bottleneck="idle", bottleneck_confidence=1, gpus=1,
)  # fmt: skip


def test_what_is_of_the_key_is_decoded() -> None:
    assert decode_under_key(Pod, encode(POD), "pods", key="u") == POD
    assert decode_under_key(JobPart, encode(OF_JOB), "job-parts", key="u", field="job.uid") == OF_JOB


def test_a_tombstone_is_no_record() -> None:
    with pytest.raises(DecodeError):
        decode_under_key(PodPart, None, "pod-parts", key="u")


@pytest.mark.parametrize(
    ("stage", "record", "field"),
    [
        ("pods", POD, "uid"),
        ("pod-peaks", PodPart(uid="u", source="pods", pod=POD), "uid"),
        ("insights", InsightPart(uid="u", source="pods", pod=POD), "uid"),
        ("job-peaks", OF_JOB, "job.uid"),
        ("job-insights", INSIGHT_OF_JOB, "job.uid"),
    ],
)
def test_what_is_of_another_key_is_refused(stage: str, record: Any, field: str) -> None:
    payload = encode(record)
    STAGES[stage].build("u", None).update(ConsumerRecord("t", 0, 0, "u", payload, 1))
    other = STAGES[stage].build("other", None)
    before = other.snapshot()
    with pytest.raises(
        DecodeError, match=f"'u' under the key 'other': the key is the record's {field}"
    ) as found:
        other.update(ConsumerRecord("t", 0, 0, "other", payload, 1))
    assert (found.value.reason, found.value.field) == (Reason.KEY, field)
    assert other.snapshot() == before

"""What is worth a Kubernetes Event, when it is due first and again, and that no more is ever written."""

from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.insights import Anomaly
from dutycycle.contract.records.parts import JobInsight, PodInsight, WorkloadState
from dutycycle.contract.records.pods import JobRef
from dutycycle.kube.events import new_event, repetition
from sinks.annotations.core.occurrences import (
    AFTER_MS,
    CYCLE_LOST,
    FRESH_MS,
    GPU_IDLE,
    REPEAT_MS,
    Occurrences,
)
from tests.support.sinks import made

SINCE_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def pod(uid: str = "uid-1", job: JobRef | None = made.JOB, **state: Any) -> PodInsight:
    insight = made.insight("training", "gpu", None)
    return replace(insight, pod=made.pod(uid, job=job), state=WorkloadState(**state))


def job(**state: Any) -> JobInsight:
    return replace(made.job_insight("training", "gpu", None), state=WorkloadState(**state))


def idle(minutes: float, since_ms: int = SINCE_MS, **more: Any) -> PodInsight:
    """A pod seen so long after it used its GPUs last."""
    return pod(seen_ms=since_ms + round(minutes * MINUTE_MS), idle_since_ms=since_ms, **more)


def lost(minutes: float) -> JobInsight:
    return job(seen_ms=SINCE_MS + round(minutes * MINUTE_MS), lost_ms=SINCE_MS)


class Sink:
    """Writes all that is due, at the moment of each record."""

    def __init__(self, most: int = 100) -> None:
        self.occurrences = Occurrences(most)

    def writes(self, record: PodInsight | JobInsight) -> list[tuple[str, str, int, int]]:
        """Reason, name, count, and minutes since the beginning."""
        assert record.state is not None
        self.occurrences.take(record)
        found = self.occurrences.due(record.state.seen_ms)
        for one in found:
            self.occurrences.done(one)
        return [
            (one.occurrence.reason, one.occurrence.name, one.count, (one.at_ms - SINCE_MS) // MINUTE_MS)
            for one in found
        ]


@pytest.mark.parametrize(
    ("records", "reason", "first"), [(idle, GPU_IDLE, 30), (lost, CYCLE_LOST, 10)], ids=["idle", "lost"]
)
def test_it_is_written_once_it_holds_for_long_and_repeated_each_half_hour(
    records: Any, reason: str, first: int
) -> None:
    sink = Sink()
    found = [write for half in range(2 * 100) for write in sink.writes(records(half / 2))]
    ((_, name, _, _), *_) = found
    assert found == [(reason, name, n + 1, first + 30 * n) for n in range(len(found))]
    assert len(found) == 3


def test_another_sink_writes_the_same_again_and_nothing_else() -> None:
    one = Sink()
    (first,) = one.writes(idle(31))
    assert Sink().writes(idle(45)) == [first]
    (second,) = one.writes(idle(60))
    assert Sink().writes(idle(75)) == [second]
    assert second[1:3] == (first[1], 2)
    again = {**new_event(first_of(idle(45)), 1)}
    assert again == {**new_event(first_of(idle(31)), 1)}


def first_of(record: PodInsight) -> Any:
    occurrences = Occurrences()
    occurrences.take(record)
    assert record.state is not None
    return occurrences.due(record.state.seen_ms)[0].occurrence


def test_an_object_has_one_event_in_half_an_hour_whatever_comes_and_goes() -> None:
    """A training that loses its cycle every quarter of an hour."""
    sink, found = Sink(), []
    for minute in range(4 * 60):
        since_ms = SINCE_MS + minute // 15 * 15 * MINUTE_MS
        found += sink.writes(job(seen_ms=SINCE_MS + minute * MINUTE_MS, lost_ms=since_ms))
    assert [write[3] for write in found] == [10, 40, 70, 100, 130, 160, 190, 220]
    assert len({write[1] for write in found}) == len(found), "each is another loss"


NOTHING: dict[str, PodInsight | JobInsight] = {
    "no state": replace(idle(40), state=None),
    "not for long enough": idle(29.9),
    "busy": pod(seen_ms=SINCE_MS),
    "outside Kubernetes": replace(idle(40), pod=made.pod("uid-1", namespace=None)),
    "lost too long ago": lost(6 * 60 + 1),
    "its job says it": pod(seen_ms=SINCE_MS + 20 * MINUTE_MS, lost_ms=SINCE_MS),
}


@pytest.mark.parametrize("record", NOTHING.values(), ids=NOTHING.keys())
def test_what_is_worth_none(record: PodInsight | JobInsight) -> None:
    occurrences = Occurrences()
    occurrences.take(record)
    assert occurrences.due(SINCE_MS) == []


def test_a_pod_that_nothing_owns_says_itself_that_it_lost_its_cycle() -> None:
    (write,) = Sink().writes(pod(job=None, seen_ms=SINCE_MS + 20 * MINUTE_MS, lost_ms=SINCE_MS))
    assert write[0] == CYCLE_LOST


def test_what_is_over_is_not_said_any_more() -> None:
    sink = Sink()
    assert sink.writes(idle(31))
    assert sink.writes(pod(seen_ms=SINCE_MS + 70 * MINUTE_MS)) == []
    assert sink.writes(idle(20, since_ms=SINCE_MS + 80 * MINUTE_MS)) == []


def test_what_a_sink_that_is_behind_reads_of_the_past_is_not_said() -> None:
    occurrences = Occurrences()
    record = idle(45)
    assert record.state is not None
    for late_ms, count in ((FRESH_MS, 1), (FRESH_MS + 1, 0)):
        occurrences.take(record)
        assert len(occurrences.due(record.state.seen_ms + late_ms)) == count
    assert len(occurrences) == 0


def test_it_never_holds_more_than_so_many() -> None:
    occurrences = Occurrences(most=10)
    for n in range(100):
        occurrences.take(idle(45, job=None) if n == 0 else replace(idle(45), pod=made.pod(f"uid-{n}")))
    assert len(occurrences) == 10


def test_what_is_in_an_event() -> None:
    one = first_of(idle(45))
    event = new_event(one, SINCE_MS)
    assert event["note"] == "It holds GPUs and has used none of them since 2023-11-14T22:13:20Z"
    assert event["eventTime"] == "2023-11-14T22:13:20.000000Z"
    assert event["regarding"]["uid"] == "uid-1"
    assert repetition(2, SINCE_MS + AFTER_MS[GPU_IDLE] + REPEAT_MS) == {
        "series": {"count": 2, "lastObservedTime": "2023-11-14T23:13:20.000000Z"}
    }


def test_a_long_name_makes_a_name_that_kubernetes_allows() -> None:
    long = replace(idle(45), pod=made.pod("uid-1", name="a" * 199 + "-b" * 27))
    name = first_of(long).name
    assert len(name) <= 253
    assert name.startswith("a" * 199 + ".")


def test_an_anomaly_is_an_event_once_it_is_found_and_again_while_it_holds() -> None:
    sink, hot = Sink(), Anomaly(kind="hot_gpu", since_ms=SINCE_MS, advice="gpu-a/3 is hotter")
    others = (hot, replace(hot, gpu="gpu-a/5"), Anomaly(kind="of a later version", since_ms=SINCE_MS))

    def seen(minutes: int, *anomalies: Anomaly) -> list[tuple[str, int, int]]:
        one = job(seen_ms=SINCE_MS + minutes * MINUTE_MS)
        written = sink.writes(replace(one, insight=replace(one.insight, anomalies=anomalies)))
        return [(reason, count, minute) for reason, _, count, minute in written]

    assert seen(5) == []
    assert seen(6, *others) == [("GpuHotter", 1, 0)]
    assert seen(29, *others) == []
    assert seen(36, *others) == [("GpuHotter", 2, 30)]
    assert seen(90) == []


def test_an_event_of_an_anomaly_says_since_when_and_what() -> None:
    sink, hot = Occurrences(), Anomaly(kind="slow_gpu", since_ms=SINCE_MS, advice="gpu-a/3 is slower")
    one = job(seen_ms=SINCE_MS + MINUTE_MS)
    sink.take(replace(one, insight=replace(one.insight, anomalies=(hot,))))
    (due,) = sink.due(SINCE_MS + MINUTE_MS)
    assert due.occurrence.note == "Since 2023-11-14T22:13:20Z: gpu-a/3 is slower"
    assert due.occurrence.type == "Warning"

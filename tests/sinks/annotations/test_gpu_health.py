"""What a Node says of its broken GPUs, and the Event below it; of GPUs in order no more than that."""

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.contract.records.health import GpuEvent, GpuHealth, HealthFinding, HitPod, NodeHealth
from dutycycle.contract.records.samples import Gpu
from dutycycle.kube.events import new_event
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import Present
from sinks.annotations.core.occurrences import FRESH_MS, REPEAT_MS, Occurrences
from sinks.annotations.core.targets import node_target
from tests.support.data.gpu_events import made_event
from tests.support.sinks import made

P = "dutycycle.io"
T = 1_700_000_000_000
TARGET = node_target("gpu-a")
FOUND = HealthFinding(
    kind="xid", code=79, level="reset", reason="Xid 79: gone", action="restart", since_ms=T, last_ms=T
)
GOOD = GpuHealth(gpu="GPU-a", index=0, level="healthy", since_ms=T, seen_ms=T)
LOST = replace(
    GOOD, gpu="GPU-b", index=3, level="reset", reason=FOUND.reason, action=FOUND.action, findings=(FOUND,)
)
WATCHED = replace(GOOD, level="watch", reason="a row waits", action="reset when convenient")


def health(*gpus: GpuHealth, ts_ms: int = T) -> NodeHealth:
    return NodeHealth(node="gpu-a", ts_ms=ts_ms, gpus=gpus)


def wanted(*records: object, ours: dict[str, str] | None = None) -> dict[str, str]:
    state = Annotations(P)
    for record in records:
        assert state.take(record) == TARGET  # type: ignore[arg-type]
    assert TARGET is not None
    assert state.knows_gpus_of(TARGET.name)
    return dict(state.wanted(TARGET, Present(ours or {})).texts)


@pytest.mark.parametrize(
    ("gpus", "level", "reason"),
    [
        ((GOOD,), "healthy", None),
        ((GOOD, WATCHED), "watch",
         "gpu 0: watch: a row waits, since 2023-11-14 22:13 UTC; reset when convenient"),
        (
            (WATCHED, LOST), "reset",
            "gpu 3: reset: Xid 79: gone, since 2023-11-14 22:13 UTC; restart\n"
            "gpu 0: watch: a row waits, since 2023-11-14 22:13 UTC; reset when convenient",
        ),
        ((replace(LOST, level="level_of_tomorrow"), GOOD), "level_of_tomorrow",
         "gpu 3: level_of_tomorrow: Xid 79: gone, since 2023-11-14 22:13 UTC; restart"),
    ],
)  # fmt: skip
def test_the_node_says_the_worst_and_why(gpus: tuple[GpuHealth, ...], level: str, reason: str | None) -> None:
    sample = made.sample(Gpu(uuid="GPU-a", index=0))
    found = wanted(replace(sample, node="gpu-a"), health(*gpus))
    assert f"{P}/gpu-0" in found
    assert found[f"{P}/gpu_health"] == level
    assert found.get(f"{P}/gpu_health_reason") == reason


def test_only_another_verdict_is_urgent() -> None:
    state, later = Annotations(P), replace(LOST, seen_ms=T + 1, reason="other words")
    urgent = []
    worse, twice = replace(LOST, level="replace"), replace(LOST, findings=(FOUND, replace(FOUND, code=48)))
    told = (
        (GOOD,), (replace(GOOD, seen_ms=T + 1),), (GOOD, LOST), (GOOD, later), (GOOD, twice), (GOOD, worse),
    )  # fmt: skip
    for record in (health(*gpus) for gpus in (*told, (GOOD,))):
        urgent.append(state.is_judged_anew(record))
        state.take(record)
    assert urgent == [True, False, True, False, True, True, True]


def test_what_was_written_of_gpus_that_all_are_lost_stays() -> None:
    ours = {f"{P}/gpu-static": orjson.dumps({"count": 1}).decode(), f"{P}/gpu_health": "healthy"}
    found = wanted(health(LOST), ours=ours)
    assert found[f"{P}/gpu-static"] == ours[f"{P}/gpu-static"]
    assert found[f"{P}/gpu_health"] == "reset"


def test_a_broken_gpu_is_an_event_of_its_node_and_one_to_watch_is_none() -> None:
    occurrences = Occurrences()
    occurrences.take(health(GOOD, WATCHED))
    assert occurrences.due(T) == []
    occurrences.take(health(WATCHED, LOST))
    (due,) = occurrences.due(T)
    event = new_event(due.occurrence, due.at_ms)
    assert (event["reason"], event["type"], event["metadata"]["namespace"]) == (
        "GpuUnhealthy", "Warning", "default",
    )  # fmt: skip
    assert event["note"] == "gpu 3: reset: Xid 79: gone, since 2023-11-14 22:13 UTC; restart"
    assert event["regarding"] == {"apiVersion": "v1", "kind": "Node", "name": "gpu-a", "uid": "gpu-a"}
    occurrences.done(due)
    occurrences.take(health(WATCHED, LOST, ts_ms=T + FRESH_MS))
    assert occurrences.due(T + FRESH_MS) == []
    occurrences.take(health(WATCHED, LOST, ts_ms=T + REPEAT_MS))
    (again,) = occurrences.due(T + REPEAT_MS)
    assert (again.count, again.occurrence.name) == (2, due.occurrence.name)
    occurrences.take(health(GOOD, ts_ms=T + 2 * REPEAT_MS))
    assert occurrences.due(T + 2 * REPEAT_MS) == []


def test_each_broken_gpu_has_an_event_and_another_one_when_it_gets_worse() -> None:
    occurrences, worse = Occurrences(), replace(LOST, level="replace", since_ms=T + 2000)
    second = replace(LOST, gpu="GPU-c", index=4, since_ms=T + 1000)
    told = []
    for at_ms, gpus in (
        (0, (LOST,)),
        (1000, (LOST, second)),
        (2000, (worse, second)),
        (3000, (worse, second)),
    ):
        occurrences.take(health(*gpus, ts_ms=T + at_ms))
        for due in occurrences.due(T + at_ms):
            occurrences.done(due)
            told.append((at_ms, due.occurrence.note.partition(",")[0], due.count))
    assert told == [
        (0, "gpu 3: reset: Xid 79: gone", 1), (1000, "gpu 4: reset: Xid 79: gone", 1),
        (2000, "gpu 3: replace: Xid 79: gone", 1),
    ]  # fmt: skip


def test_a_note_is_no_longer_than_an_event_may_be() -> None:
    occurrences = Occurrences()
    occurrences.take(health(replace(LOST, reason="why " * 500)))
    (due,) = occurrences.due(T)
    assert len(due.occurrence.note) == 1024


HIT = HitPod(uid="uid-1", namespace="team", name="bert-0")
"""Of a pod that used the GPU, what an event of the GPU says."""


def hit(kind: str, code: int | None = None, at_s: float = 0, **changes: object) -> GpuEvent:
    return made_event(kind, code, ts_ms=T + round(at_s * 1000), index=3, pods=(HIT,), **changes)


def written(occurrences: Occurrences, event: GpuEvent) -> list[tuple[str, str, int]]:
    """The Events that are written once the event was taken: pod, note, count."""
    occurrences.take(event)
    due = occurrences.due(event.ts_ms)
    for one in due:
        occurrences.done(one)
    return [(str(one.target), one.occurrence.note, one.count) for one in due]


@pytest.mark.parametrize(
    ("event", "note"),
    [
        (hit("xid", 79, action="restart the machine"),
         "Xid 79: GPU has fallen off the bus on gpu 3 of node gpu-a; restart the machine"),
        (hit("xid", 79, action="restart the machine", inferred=True),
         "Xid 79: GPU has fallen off the bus on gpu 3 of node gpu-a, as its answers tell; "
         "restart the machine"),
        (hit("xid", 43, count=2, mig="MIG-1", action=None),
         "Xid 43: GPU stopped processing (2 times) on gpu 3 (slice MIG-1) of node gpu-a"),
        (hit("xid", 998, action="look"),
         "Xid 998: Xid that is not in the catalogue on gpu 3 of node gpu-a; look"),
        (hit("ecc_uncorrected", action="reset"), "uncorrectable ECC errors on gpu 3 of node gpu-a; reset"),
    ],
)  # fmt: skip
def test_the_pod_that_was_hit_says_by_what(event: GpuEvent, note: str) -> None:
    occurrences = Occurrences()
    assert written(occurrences, event) == [("Pod team/bert-0", note, 1)]
    occurrences.take(replace(event, ts_ms=T + 1000))
    assert occurrences.due(T + 1000) == [], "it is told already"


@pytest.mark.parametrize(
    "event",
    [
        hit("state"), hit("returned"), hit("nvlink_up"), hit("xid", 45), hit("remap_pending"),
        made_event("xid", 79, ts_ms=T),
        made_event("xid", 79, ts_ms=T, pods=(HitPod(uid="uid-1"),)),
        made_event("xid", 79, ts_ms=T, pods=(replace(HIT, uid="name:team/bert-0"),)),
    ],
)  # fmt: skip
def test_what_hit_no_pod_or_harms_none_is_no_event_of_a_pod(event: GpuEvent) -> None:
    assert written(Occurrences(), event) == []


def test_a_fault_that_goes_on_is_one_event_and_another_fault_is_another() -> None:
    occurrences = Occurrences()
    storm = [write for at_s in range(3600) for write in written(occurrences, hit("xid", 13, at_s))]
    assert [count for _, _, count in storm] == [1, 2]
    others = [
        hit("xid", 31, 3600),
        hit("xid", 13, 3600, gpu="GPU-b"),
        hit("xid", 13, 3600 + FRESH_MS / 1000 + 1),
    ]
    assert [count for event in others for _, _, count in written(occurrences, event)] == [1, 1, 1]


def test_faults_of_one_tick_have_events_with_names_of_their_own() -> None:
    occurrences = Occurrences()
    for event in (hit("xid", 79), hit("xid", 48), hit("xid", 79, gpu="GPU-b")):
        occurrences.take(event)
    assert len({due.occurrence.name for due in occurrences.due(T)}) == 3


def test_a_fault_of_long_ago_is_not_told_by_a_sink_that_comes_late() -> None:
    occurrences = Occurrences()
    occurrences.take(hit("xid", 79))
    assert occurrences.due(T + FRESH_MS + 1) == []


def test_a_fault_that_could_not_be_written_waits_half_an_hour_and_is_counted_then() -> None:
    occurrences = Occurrences()
    occurrences.take(hit("xid", 79))
    assert len(occurrences.due(T)) == 1
    assert len(occurrences.due(T + 20 * 60_000)) == 1, "the API server was away"
    assert (occurrences.due(T + 31 * 60_000), occurrences.given_up) == ([], 1)
    occurrences.take(hit("xid", 79))
    assert occurrences.due(T + 20 * 60_000) == [], "a sink that is behind tells nothing of the past"
    assert occurrences.given_up == 1

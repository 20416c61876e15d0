"""What a Node says of its broken GPUs, and the Event below it; of GPUs in order no more than that."""

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.contract.records.health import Finding, GpuHealth, NodeHealth
from dutycycle.contract.records.samples import Gpu
from dutycycle.kube.events import new_event
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import Present
from sinks.annotations.core.occurrences import FRESH_MS, REPEAT_MS, Occurrences
from sinks.annotations.core.targets import node_target
from tests.support.sinks import made

P = "dutycycle.io"
T = 1_700_000_000_000
TARGET = node_target("gpu-a")
FOUND = Finding(
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
    assert state.is_known(TARGET)
    return state.wanted(TARGET, Present(ours or {}))


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


def test_a_note_of_many_gpus_is_no_longer_than_an_event_may_be() -> None:
    occurrences = Occurrences()
    occurrences.take(health(*(replace(LOST, gpu=f"GPU-{number}", index=number) for number in range(32))))
    (due,) = occurrences.due(T)
    assert len(due.occurrence.note) == 1024

"""Goal: one rule of what is the newest, for all who answer from the topics."""

from typing import Any

import pytest

from dutycycle.contract.metering import SET_BACK_MS
from dutycycle.contract.records.derived import Trend, WindowAggregate, pod_subject
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.pods import Pod
from dutycycle.view.newest import NewestRecords

NOW_MS = 1_770_000_000_000
POD = pod_subject("n", "p")


def newest() -> NewestRecords:
    return NewestRecords(lambda: NOW_MS / 1000)


def window(end_ms: int) -> WindowAggregate:
    return WindowAggregate(
        subject=POD, source="nvml", size_ms=1, start_ms=end_ms - 1, end_ms=end_ms, metrics={}
    )


def trend(ts_ms: int) -> Trend:
    return Trend(subject=POD, source="nvml", ts_ms=ts_ms, metrics={})


def part(ts_ms: int, since_ms: int = 1) -> NodePart:
    return NodePart(node="n", ts_ms=ts_ms, since_ms=since_ms, gpus={}, totals={}, pods=())


def pod(name: str) -> Pod:
    return Pod(uid="p", name=name, node="n", phase="Running")


@pytest.mark.parametrize(
    ("first", "second", "is_newest"),
    [
        pytest.param(window(NOW_MS), window(NOW_MS + 1), True, id="a later moment"),
        pytest.param(window(NOW_MS), window(NOW_MS - 1), False, id="late"),
        pytest.param(window(NOW_MS), window(NOW_MS - SET_BACK_MS), False, id="as late as one may be"),
        pytest.param(window(NOW_MS), window(NOW_MS - SET_BACK_MS - 1), True, id="the clock was set back"),
        pytest.param(trend(NOW_MS), trend(NOW_MS - 1), True, id="the last one of a compacted topic"),
        pytest.param(part(NOW_MS), part(NOW_MS - 2 * SET_BACK_MS), False, id="a counter that is told again"),
        pytest.param(part(NOW_MS), part(NOW_MS - 1, 2), True, id="a counter that began anew"),
        pytest.param(pod("a"), pod("b"), True, id="what has no moment"),
    ],
)
def test_which_of_two_is_the_newest(first: Any, second: Any, is_newest: bool) -> None:
    records = newest()
    assert records.put("k", first)
    assert records.put("k", second) == is_newest
    assert records.of(type(first)) == {"k": second if is_newest else first}


@pytest.mark.parametrize("topic", ["pods", "trends", "insights"])
def test_a_tombstone_takes_away_what_is_known_of_its_key(topic: str) -> None:
    records, record = newest(), pod("a") if topic == "pods" else trend(NOW_MS)
    assert not records.hear(topic, "k", None)
    records.hear("pods" if topic == "pods" else "trends", "k", record)
    assert records.hear(topic, "k", None) == (topic != "insights"), "what is said elsewhere stays"
    assert list(records.of(type(record))) == (["k"] if topic == "insights" else [])


def test_what_is_old_is_forgotten_unless_it_stays_for_another_reason() -> None:
    records = newest()
    for key, ts_ms in (("old", NOW_MS - 10), ("kept", NOW_MS - 10), ("ahead", NOW_MS + 10_000)):
        records.put(key, trend(ts_ms))
    kept = records.of(Trend)["kept"]
    assert records.heard_ms(Trend, "ahead") == NOW_MS, "a clock that is ahead makes nothing younger"
    records.forget([Trend], NOW_MS - 10, lambda record: record is kept)
    assert list(records.of(Trend)) == ["kept", "ahead"]
    records.forget([Trend, Pod], NOW_MS)
    assert not records.of(Trend)

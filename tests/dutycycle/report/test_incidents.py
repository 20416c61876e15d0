"""Which faults of GPUs a report of a job tells of: those that hit it, and none of others."""

from typing import Any

import pytest

from dutycycle.contract.codec import to_plain
from dutycycle.contract.records.health import HitPod
from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import report_of
from dutycycle.report.page import html_of
from dutycycle.run.summary import figures_of
from tests.dutycycle.report.test_view import given, gpus, pod
from tests.support.data.gpu_events import made_event

ACTION = "restart the machine; check power, seating and cooling"
HIT = (HitPod(uid="p1", namespace="ml", name="bert-0"),)
CASES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "it hit a pod of the job": (
        {"pods": HIT, "ts_ms": 9_000},
        [f"Xid 79: GPU has fallen off the bus on gpu 0, used by bert-0: {ACTION}"],
    ),
    "some seconds after its last tick": (
        {"pods": HIT, "ts_ms": 12_000},
        [f"Xid 79: GPU has fallen off the bus on gpu 0, used by bert-0: {ACTION}"],
    ),
    "and the pod ended": (
        {"pods": HIT, "ts_ms": 9_000, "finished_ms": 12_400},
        ["Xid 79: GPU has fallen off the bus on gpu 0, used by bert-0 (ended 3 s later: failed): " + ACTION],
    ),
    "and the pod ended long after": (
        {"pods": HIT, "ts_ms": 9_000, "finished_ms": 300_000},
        [f"Xid 79: GPU has fallen off the bus on gpu 0, used by bert-0: {ACTION}"],
    ),
    "several times": (
        {"pods": HIT, "ts_ms": 9_000, "count": 3},
        [f"Xid 79: GPU has fallen off the bus (3 times) on gpu 0, used by bert-0: {ACTION}"],
    ),
    "whom it hit is not known": (
        {"pods": None, "ts_ms": 9_000}, [f"Xid 79: GPU has fallen off the bus on gpu 0: {ACTION}"],
    ),
    "it hit another job": ({"pods": (HitPod(uid="p3"),), "ts_ms": 9_000}, []),
    "another GPU, not known whom": ({"pods": None, "gpu": "GPU-a-g1", "index": 1, "ts_ms": 9_000}, []),
    "long after": ({"pods": None, "ts_ms": 900_000}, []),
    "no incident": ({"pods": HIT, "ts_ms": 9_000, "kind": "state"}, []),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "expected"), CASES.values(), ids=CASES)
def test_the_report_of_a_job_tells_what_hit_it(changed: dict[str, Any], expected: list[str]) -> None:
    more: dict[str, Any] = {"node": "a", "gpu": "GPU-a-g0", "index": 0} | changed
    finished_ms = more.pop("finished_ms", None)
    topic, first = pod("p1", "bert-0", "a", "bert")
    ended = {} if finished_ms is None else {"phase": "Failed", "finished_ms": finished_ms}
    event = made_event(more.pop("kind", "xid"), 79, **more)
    gathered = given(
        (topic, {**first, **ended}), pod("p3", "other", "a"),
        *(gpus("a", second, g0=["p1"], g1=["p3"]) for second in range(10)),
        ("gpu-events", {"v": 1} | to_plain(event)),
    )  # fmt: skip
    report = report_of(gathered, Settings(), "job.jsonl", job="bert")
    assert [text for _, text in report.facts.incidents] == expected
    page, lines = html_of(report), list(figures_of(report))
    at = f"1970-01-01 00:00:{changed['ts_ms'] // 1000:02d} UTC: "
    for text in expected:
        assert f"<strong>GPU fault</strong> at {at}{text}" in page
        assert any(line.split() == ["GPU", "fault", *(at + text).split()] for line in lines)
    assert expected or "GPU fault" not in page

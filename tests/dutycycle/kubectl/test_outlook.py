"""What annotations say of what comes, and what somebody else has spoilt in them."""

from typing import Any

import pytest

from dutycycle.kubectl.why import outlook, placement

NOW_MS = 1_700_000_000_000
CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
    "a cycle of steps": (
        {"cycle_period_s": 6, "cycle_confidence": 0.9, "cycle_steps": 20},
        {"cycle": "6s, 90% sure, 20 steps"},
    ),
    "a step that is reported": (
        {"cycle_period_s": 2, "cycle_confidence": 0.99, "cycle_source": "reported", "cycle_steps": 1},
        {"cycle": "2s, 99% sure, as the training reports"},
    ),
    "a cycle": ({"cycle_period_s": 12.5, "cycle_confidence": 0.876}, {"cycle": "12.5s, 88% sure"}),
    "a cycle alone": ({"cycle_period_s": 300}, {"cycle": "300s"}),
    "the farthest level": (
        {"level_forecast": {"gpu_mem_used_mb": {"10s": 1, "300s": 81_234}, "gpu_util_pct": {"300s": 71}}},
        {"forecast": "GPU 71% in 300s, GPU memory 81.2GB in 300s"},
    ),
    "memory": (
        {"mem_full_at": "2023-11-14T22:43:20Z", "gpu_mem_full_at": "2023-11-14T22:14:20Z"},
        {"full": "GPU memory in 60s, memory in 30m"},
    ),
    "spoilt": (
        {"cycle_period_s": "12", "level_forecast": {"gpu_util_pct": 3}, "mem_full_at": "soon"}, {},
    ),
    "spoilt further in": ({"level_forecast": {"gpu_util_pct": {"300s": "x"}, "mem_used_mb": {}}}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("found", "lines"), CASES.values(), ids=CASES.keys())
def test_what_is_said(found: dict[str, Any], lines: dict[str, str]) -> None:
    assert outlook(found, NOW_MS) == lines


PLACEMENT: dict[str, Any] = {
    "at": "2026-11-23T08:00:00Z", "considered": 40, "left_out": 2, "expected": "takes 9.0 min; 3 ended pods",
    "nodes": [
        {"node": "a", "score": 9, "why": "leaves 0 of 8 GPUs free"}, {"node": "b", "score": 5, "why": "x"},
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("found", "node", "lines"),
    [
        pytest.param({"gpu_util": {"gpu_0": 7}}, "a", [], id="nothing"),
        pytest.param(
            {"placement": PLACEMENT},
            "b",
            [
                "expected: takes 9.0 min; 3 ended pods",
                "nodes: the best 2 of 40, scores of 10, 2 left out for want of GPU memory",
                ": 9 a: leaves 0 of 8 GPUs free",
                ": 5 b (it is here): x",
            ],
            id="all",
        ),
        pytest.param(
            {"placement": {"considered": 7, "nodes": [{"node": "a", "score": 9, "why": "x"}]}},
            "c",
            [
                "expected: not known: no pod like it has ended",
                "nodes: the best 1 of 7, scores of 10",
                ": 9 a: x",
                ": it is on c: the scheduler weighs more than these scores",
            ],
            id="another node",
        ),
        pytest.param({"placement": {"nodes": [3]}}, None, [
            "expected: not known: no pod like it has ended", "nodes: the best 0 of ?, scores of 10",
        ], id="spoilt"),
        pytest.param({"placement": "x"}, None, [], id="spoilt further"),
    ],
)  # fmt: skip
def test_where_a_pod_is_to_run(found: dict[str, Any], node: str | None, lines: list[str]) -> None:
    assert [f"{name}: {text}" for name, text in placement(found, node)] == lines

"""What annotations say of what comes, and what somebody else has spoilt in them."""

from typing import Any

import pytest

from dutycycle.kubectl.outlook import outlook

NOW_MS = 1_700_000_000_000
CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "nothing": ({}, {}),
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

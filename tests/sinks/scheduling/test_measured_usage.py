"""Who used how much: the newest rows of the ledger, by namespace and team, within the window."""

import pytest

from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from sinks.scheduling.core.measured_usage import MeasuredUsage, owners
from sinks.scheduling.core.predicted_usage import excesses
from tests.support.sinks.scheduling import pod

HOUR_S = HOUR_MS / 1000
NOW_H = 500_000


def hour(at_h: int, node: str = "n", **used: float) -> UsageHour:
    rows = (
        GpuHour(pod_uid=uid or None, gpu="g", gpu_s=gpu_s, known_s=0.0, busy_s=0.0)
        for uid, gpu_s in used.items()
    )
    return UsageHour(node=node, source="nvml", hour_ms=at_h * HOUR_MS, ts_ms=0, gpus=tuple(rows))


def measured_usage(window_h: float = 24) -> MeasuredUsage:
    made = MeasuredUsage(window_h * HOUR_S, "team")
    labels = {"team": "vision"}
    made.hear("pods", "a", pod("a", labels=labels))
    made.hear("pods", "b", pod("b"))
    made.hear("pods", "c", pod("c", namespace="web", labels=labels, phase="Succeeded"))
    return made


def test_a_newer_row_replaces_the_one_before_and_a_repeat_changes_nothing() -> None:
    one = measured_usage()
    for record in (hour(NOW_H, a=60.0), hour(NOW_H, a=120.0), hour(NOW_H, a=120.0), hour(NOW_H, "m", a=30.0)):
        one.hear("usage", "n", record)
    assert one.used(NOW_H * HOUR_S + 600) == {"namespace ml": 150.0, "team vision": 150.0}


def test_use_is_summed_by_namespace_and_team_and_what_nobody_had_counts_for_none() -> None:
    one = measured_usage()
    unowned = GpuHour(gpu="g", gpu_s=3000.0, known_s=0.0, busy_s=0.0)
    one.hear(
        "usage", "n", UsageHour(node="x", source="nvml", hour_ms=NOW_H * HOUR_MS, ts_ms=0, gpus=(unowned,))
    )
    one.hear("usage", "n", hour(NOW_H, a=100.0, b=10.0, c=1.0, unknown=7.0))
    used = one.used(NOW_H * HOUR_S + 600)
    assert used == {"namespace ml": 110.0, "namespace web": 1.0, "team vision": 101.0}
    assert excesses(owners("web", "vision"), used, {}) == pytest.approx(
        {"namespace web": 2 / 111, "team vision": 1.0}
    )
    assert excesses(["namespace ml"], used, {"namespace ml": 3.0})["namespace ml"] == pytest.approx(
        110 / 111 / 0.75
    )


def test_what_is_older_than_the_window_leaves_it_by_and_by() -> None:
    one = measured_usage(window_h=2)
    one.hear("usage", "n", hour(NOW_H, a=3600.0))
    at_s = NOW_H * HOUR_S
    assert one.used(at_s + 2 * HOUR_S)["team vision"] == 3600.0
    assert one.used(at_s + 2.5 * HOUR_S)["team vision"] == pytest.approx(1800.0)
    assert one.used(at_s + 3 * HOUR_S) == {}


def test_an_owner_is_known_as_long_as_its_use_counts() -> None:
    one = measured_usage(window_h=2)
    one.hear("usage", "n", hour(NOW_H, a=10.0, b=10.0, c=10.0))
    one.hear("pods", "a", None)
    at_s = NOW_H * HOUR_S
    assert one.used(at_s + HOUR_S)["team vision"] == 20.0  # c has ended, and a is gone
    one.used(at_s + 4 * HOUR_S)
    one.hear("usage", "n", hour(NOW_H + 4, a=1.0, b=1.0, c=1.0))
    assert one.used(at_s + 5 * HOUR_S) == {"namespace ml": 1.0}  # b runs on

"""Which cycles a run had: also those that had ended before it did."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.report.build import gather
from dutycycle.report.charts.choice import charts_of
from dutycycle.report.charts.cycles import cycles_of, shown_cycle
from dutycycle.report.gather import Gathered
from dutycycle.report.view import view_of
from tests.support.data.traces import write_trace
from tests.support.data.training_job import CHECKPOINT_EVERY_S, LOADING_S, START_MS, UID, training_job


def told(
    second: int, period_s: float | None = None, since: int | None = None, *others: float
) -> dict[str, Any]:
    cycle: dict[str, Any] = {"cyclic": period_s is not None}
    if period_s is not None:
        cycle |= {"period_s": period_s, "confidence": 0.9}
    if since is not None:
        cycle["since_ms"] = START_MS + 1000 * since
    if others:
        cycle["others"] = [{"period_s": one, "confidence": 0.8} for one in others]
    return {"ts_ms": START_MS + 1000 * second, "metrics": {"gpu_util_pct": cycle}}


@pytest.mark.slow
def test_steps_are_a_cycle_of_a_run_that_ends_idle(tmp_path: Path) -> None:
    """They went on after the first checkpoint, so they are told through the second, and for four periods
    after the end: a node evaluates at moments of its own, so the run is idle for longer than that."""
    works_s, idle_s = 680, 120
    path = write_trace(tmp_path / "job.jsonl.zst", training_job(works_s + idle_s, idle_s=idle_s))
    gathered = gather([str(path)], Settings())
    (cycle, *_) = cycles_of(gathered, view_of(gathered, job="bert"), "gpu_util_pct")
    (steps,) = cycle.periods
    assert steps.period_s == pytest.approx(12, rel=0.01)
    assert abs(steps.first_ms - START_MS - 1000 * LOADING_S) <= 6000  # half a period
    assert steps.last_ms < START_MS + 1000 * (works_s + idle_s)
    assert 1.7 * CHECKPOINT_EVERY_S < steps.seconds < 2 * CHECKPOINT_EVERY_S + 80


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([told(100, 12.0, 60)], [(12, 60, 719, 659)]),
        ([told(100, 12.0, 60), told(160)], [(12, 60, 160, 100)]),
        ([told(100, 12.0, 60), told(160), told(220, 12.1, 200), told(300)], [(12, 60, 300, 200)]),
        (
            [told(100, 12.0, 60), told(200, 12.0, 60, 300.0), told(260, 300.0, 60), told(300)],
            [(300, 60, 300, 240), (12, 60, 260, 200)],
        ),
        ([told(100, 12.0, -50)], [(12, 0, 719, 719)]),  # no earlier than the report
        ([told(800, 12.0, 790)], []),  # later than it
        ([told(100)], []),
    ],
)
def test_each_period_counts_for_as_long_as_it_was_there(
    gathered: Gathered, records: list[dict[str, Any]], expected: list[tuple[float, ...]]
) -> None:
    known = replace(gathered, cycles={f"pod/{UID}/nvml": records})
    found = cycles_of(known, view_of(known, job="bert"), "gpu_util_pct")
    assert [
        (round(one.period_s), (one.first_ms - START_MS) / 1000, (one.last_ms - START_MS) / 1000, one.seconds)
        for cycle in found
        for one in cycle.periods
    ] == expected


def test_a_long_cycle_that_was_just_told_is_folded_whole(gathered: Gathered) -> None:
    """Of the longer of two cycles it is not said since when it is there: it was told after two periods."""
    known = replace(
        gathered, cycles={f"pod/{UID}/nvml": [told(600, 1.3, 20, 200.0), told(640, 1.3, 20, 200.0)]}
    )
    view = view_of(known, job="bert")
    shown = shown_cycle(known, view)
    assert shown is not None
    assert (shown.period_s, shown.to_ms - shown.from_ms) == (200, 400_000)
    (chart,) = [chart for chart in charts_of(known, view) if chart.id == "cycle"]
    (line,) = chart.lines
    assert np.isfinite(line.points.mean).all()


def test_a_cycle_of_which_there_is_no_whole_period_is_not_drawn(gathered: Gathered) -> None:
    known = replace(gathered, cycles={f"pod/{UID}/nvml": [told(600, 800.0)]})
    assert shown_cycle(known, view_of(known, job="bert")) is None


def test_a_chart_marks_cycles_of_what_it_shows(gathered: Gathered) -> None:
    """Memory of a GPU and of a host have one name of a metric, and are two charts."""
    uuid = next(iter(gathered.gpus.values())).uuid
    told_of_gpu = {"ts_ms": START_MS + 100_000, "metrics": {
        "mem_used_bytes": {"cyclic": True, "period_s": 60.0, "confidence": 0.9},
    }}  # fmt: skip
    for key, marked in ((f"gpu/gpu-a/{uuid}/nvml", "gpu-memory"), (f"pod/{UID}/cgroup", "memory")):
        known = replace(gathered, cycles={key: [told_of_gpu]})
        charts = {one.id: one for one in charts_of(known, view_of(known, job="bert"))}
        assert {name for name in ("gpu-memory", "memory") if charts[name].cycle is not None} == {marked}

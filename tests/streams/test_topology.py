"""The stages that a worker and a replay run, and the settings that they are refused with."""

from typing import Any

import orjson
import pytest

from bench.cluster_trace import Shape, records
from dutycycle.cli.commands.topics import planned
from dutycycle.contract.analyses import ANALYSES
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.load import load
from streams.app import changelog_topics
from streams.local import LocalPipeline
from streams.names import changelogs
from streams.topology import stages
from tests.support.data.traces import consumed

HOUR_MS = 3_600_000
SAMPLES = list(consumed(records(Shape(nodes=1, gpus=2, seconds=90))))


def test_how_long_keys_stay() -> None:
    found = {stage.name: stage.evict_ms for stage in stages(load({}))}
    assert found == {"nvml": 24 * HOUR_MS, "cgroup": 24 * HOUR_MS, "cuda": 24 * HOUR_MS, "pods": None,
                     "processes": None, "health": 24 * HOUR_MS,
                     "pod-peaks": 72 * HOUR_MS, "job-peaks": 168 * HOUR_MS,
                     "insights": 72 * HOUR_MS, "job-insights": 168 * HOUR_MS}  # fmt: skip


def test_a_stage_without_state_has_no_changelog() -> None:
    settings = load({})
    assert set(changelog_topics(settings, stages(settings))) == {
        f"dutycycle.state-{name}"
        for name in ("nvml", "cgroup", "cuda", "health", "pod-peaks", "job-peaks", "insights", "job-insights")
    }


@pytest.mark.parametrize(
    ("analyses", "names"),
    [
        ("windows", {"nvml", "cgroup", "cuda", "health"}),
        ("usage", {"nvml", "cgroup", "health"}),
        ("peaks", {"nvml", "cgroup", "cuda", "pods", "health", "pod-peaks", "job-peaks"}),
        (
            "trends,cycles,insights",
            {"nvml", "cgroup", "cuda", "pods", "processes", "health", "insights", "job-insights"},
        ),
    ],
)
def test_only_what_the_analyses_need_runs_and_has_topics(analyses: str, names: set[str]) -> None:
    settings = load({"DUTYCYCLE_ANALYSES": analyses})
    every = stages(settings)
    assert {stage.name for stage in every} == names
    assert set(changelog_topics(settings, every)) == set(changelogs(settings))
    made = {topic.name.removeprefix("dutycycle.") for topic in planned(settings)}
    assert made >= {stage.source for stage in every}
    for name, analysis in ANALYSES.items():
        assert made.isdisjoint(analysis.topics) == (name not in settings.analyses or not analysis.topics)


def test_a_state_of_another_choice_is_begun_anew() -> None:
    every, few = (stages(load({}, flags))[0] for flags in ({}, {"analyses": "windows"}))
    with pytest.raises(ValueError, match="made with other DUTYCYCLE_ANALYSES"):
        few.build("node", every.build("node", None).snapshot())


def test_windows_of_some_metrics_are_those_of_all() -> None:
    some = {"gpu_util_pct", "power_w", "energy_j", "cpu_util_pct"}
    found: list[dict[Any, Any]] = []
    for flags in ({}, {"windows_metrics": ",".join(some)}):
        pipeline = LocalPipeline(stages(load({}, flags)))
        windows: dict[Any, Any] = {}
        for record in SAMPLES:
            for out in pipeline.feed(record):
                if out.topic == "window-aggregates":
                    plain = orjson.loads(out.value or b"")
                    windows[out.key, plain["size_ms"], plain["start_ms"]] = plain["metrics"]
        found.append(windows)
    whole = {
        of: kept
        for of, metrics in found[0].items()
        if (kept := {name: figures for name, figures in metrics.items() if name in some})
    }
    assert whole == found[1]
    assert {name for metrics in whole.values() for name in metrics} >= {"gpu_util_pct", "power_w", "energy_j"}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"retire": "20s"}, "DUTYCYCLE_RETIRE=20s: expected at least the longest window"),
        ({"evict": "5m"}, "DUTYCYCLE_EVICT=300s: expected at least DUTYCYCLE_RETIRE, 600s"),
        ({"evict": "4d"}, "DUTYCYCLE_EVICT_PODS=259200s: expected at least DUTYCYCLE_EVICT, 345600s"),
        (
            {"evict_jobs": "2d"},
            "DUTYCYCLE_EVICT_JOBS=172800s: expected at least DUTYCYCLE_EVICT_PODS, 259200s",
        ),
        ({"analyses": ""}, "--analyses='': expected at least one of windows, peaks, usage"),
        ({"analyses": "windows,cycle"}, "--analyses='windows,cycle': expected some of windows, peaks"),
        (
            {"analyses": "windows,trends"},
            "--analyses='windows,trends': trends needs cycles, because a forecast follows the cycle: "
            "add cycles, or leave out trends",
        ),
        ({"analyses": "cycles,insights"}, "--analyses='cycles,insights': insights needs trends, because"),
        (
            {"analyses": "peaks", "windows_metrics": "power_w"},
            "DUTYCYCLE_WINDOWS_METRICS is set, but DUTYCYCLE_ANALYSES has no windows",
        ),
        (
            {"windows_metrics": "powr_w"},
            "DUTYCYCLE_WINDOWS_METRICS: there is no metric powr_w; did you mean power_w?",
        ),
        ({"windows_metrics": "mem_limit_bytes"}, "DUTYCYCLE_WINDOWS_METRICS: mem_limit_bytes has no windows"),
        ({"windows_metrics": "energy_j"}, "DUTYCYCLE_WINDOWS_METRICS: energy_j needs power_w, which tells"),
    ],
)
def test_limits_that_do_not_go_together(flags: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as caught:
        stages(load({}, flags))
    assert str(caught.value).startswith(message)

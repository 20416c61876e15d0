"""Runs that are equal up to noise have no difference; a known one is found, and no other beside it."""

import re
from dataclasses import replace

import orjson
import pytest

from dutycycle.compare.comparison import NamedRun, best, change_of, figures_in, lines_of, plain_of, verdicts
from dutycycle.contract.settings.groups import Settings
from dutycycle.measures.figures import FIGURES, measures_of
from dutycycle.measures.steps import step_measures
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.facts import key_figures
from dutycycle.report.gather import Gathered
from tests.dutycycle.compare.conftest import START_MS
from tests.support.data.samples import cgroup, gpu, nvml, record

Runs = dict[str, NamedRun]


def changes(runs: Runs, *names: str) -> dict[str, float]:
    """What changed from the first run to the last, in percent."""
    chosen = [runs[one] for one in names]
    return {
        figure.id: 100 * (found.share or 0)
        for figure in figures_in(chosen)
        if (found := change_of(figure, chosen, len(chosen) - 1)) and found.is_one is not False
    }


@pytest.mark.slow
def test_what_differs_by_chance_is_no_difference(runs: Runs) -> None:
    pair = [runs["once"], runs["again"]]
    assert runs["once"].measures != runs["again"].measures
    assert changes(runs, "once", "again") == {}
    assert {one.id for one in figures_in(pair)} >= {
        "duration_s", "gpu_s", "energy_j", "cost", "cycle_s", "gpu_util_pct", "power_w", "cpu_cores",
        "mem_bytes",
    }  # fmt: skip
    assert list(verdicts(pair)) == [
        f"In {what} there is no difference." for what in ("time", "GPU time", "energy", "cost")
    ]


def test_longer_steps_take_time_energy_and_money(runs: Runs) -> None:
    found = changes(runs, "once", "slow")
    assert found["cycle_s"] == pytest.approx(100 * 1 / 12, abs=1)
    for one in ("duration_s", "gpu_s", "cost"):
        assert found[one] == pytest.approx(7.8, abs=0.2)
    assert found["energy_j"] > 7
    assert found.keys().isdisjoint(
        {"gpu_mem_bytes", "mem_bytes", "cpu_cores", "temp_c", "idle_phase_s", "cycles"}
    )
    assert [one.partition(" (")[0] for one in verdicts([runs["once"], runs["slow"]])] == [
        f"Better in {what}: once" for what in ("time", "GPU time", "energy", "cost")
    ]


def test_more_power_is_no_more_time(runs: Runs) -> None:
    found = changes(runs, "once", "hungry")
    assert found.keys() == {"energy_j", "power_w"}
    assert found["power_w"] == pytest.approx(5, abs=1)
    assert found["energy_j"] == pytest.approx(5, abs=1)


def test_of_several_runs_those_share_the_first_place_that_do_not_differ(runs: Runs) -> None:
    chosen = [runs[one] for one in ("once", "slow", "hungry")]
    by_id = {one.id: one for one in FIGURES}
    assert best(by_id["duration_s"], chosen) == ["once", "hungry"]
    assert best(by_id["energy_j"], chosen) == ["once"]
    assert best(by_id["gpu_util_pct"], chosen) == []  # more of it is not better as such
    assert changes(runs, "slow", "hungry", "slow") == {}


def test_runs_of_different_work_are_said_to_be_that(runs: Runs) -> None:
    first, *_ = verdicts([runs["once"], runs["half"]])
    assert first == "The runs did not do the same work: about 70, 35 cycles."


@pytest.mark.slow
def test_trainings_that_report_their_steps_are_compared_by_them(runs: Runs) -> None:
    """The run that was ended first is not the better one. Steps count by their time, not by the median."""
    chosen = [runs["even"], runs["uneven"]]
    even, uneven = ({id_: measure.value for id_, measure in run.measures.items()} for run in chosen)
    rates = {"steps_per_min": (60 / 0.9, 60), "samples_per_s": (8 / 0.9, 8), "gpu_s_per_step": (1.8, 2)}
    for id_, values in rates.items():
        assert (even[id_], uneven[id_]) == pytest.approx(values, rel=0.01)
    assert even["energy_j_per_step"] == pytest.approx(0.9 * uneven["energy_j_per_step"], rel=0.02)
    assert [one.partition(" (")[0] for one in verdicts(chosen)] == [
        "The runs did not do the same work: 840, 420 steps.", "Better in time a step: even",
        "Better in GPU time a step: even", "Better in energy a step: even",
    ]  # fmt: skip
    assert re.search(r"up to (9\.[5-9]|10\.[0-5]) % less", list(verdicts(chosen))[1])


def test_where_others_have_gpus_too_a_step_has_no_cost(runs: Runs) -> None:
    report = runs["even"].report
    beside_others = replace(report, view=replace(report.view, is_of_one=False))
    alone, beside = (dict(step_measures(it, None)).keys() for it in (report, beside_others))
    assert alone - beside == {"gpu_s_per_step", "energy_j_per_step"}
    assert "steps_per_min" in beside


def test_as_many_steps_are_the_same_work(runs: Runs) -> None:
    found = list(verdicts([runs["even"], runs["as-even"]]))
    assert found == [
        f"In {what} there is no difference."
        for what in ("time a step", "GPU time a step", "energy a step", "time", "GPU time", "energy", "cost")
    ]
    assert "steps" not in runs["once"].measures
    assert not [one for one in verdicts([runs["once"], runs["even"]]) if "a step" in one]


def test_without_cycles_the_same_work_is_an_assumption_and_what_is_too_short_is_not_judged(
    runs: Runs,
) -> None:
    unknown = replace(runs["once"].measures["duration_s"], error=None)
    short = NamedRun("short", runs["once"].report, {"duration_s": unknown})
    found = list(verdicts([runs["slow"], short]))
    assert found == [
        "The runs are taken to have done the same work.",
        "In time it cannot be told: the noise of a run is not known.",
    ]


def test_the_table_and_the_json_say_the_same(runs: Runs) -> None:
    chosen = [runs["once"], runs["slow"]]
    lines = list(lines_of(chosen))
    plain = orjson.loads(orjson.dumps(plain_of(chosen)))
    assert lines[: len(plain["verdicts"])] == plain["verdicts"]
    by_figure = {one["figure"]: one for one in plain["changes"]}
    for figure in figures_in(chosen):
        (line,) = (one for one in lines if one.startswith(figure.title + "  "))
        assert ("no difference" in line) == (by_figure[figure.id]["changed"] is False)
        assert plain["runs"][0]["figures"][figure.id]["value"] == by_figure[figure.id]["before"]
    (duration,) = (one for one in lines if one.startswith("Duration"))
    assert "15m *" in duration
    assert "+7.8 % (noise " in duration


def test_what_a_job_moved_that_began_anew_is_not_that_of_the_time_between() -> None:
    """A week lies between its pods, each of which had another GPU."""
    job = {"api_version": "v1", "kind": "Job", "name": "bert", "uid": "u"}
    named = {"v": 1, "namespace": "ml", "node": "a", "phase": "Running", "job": job}
    pods = [record("pods", uid, {**named, "uid": uid, "name": uid}) for uid in ("p0", "p1")]
    gathered = gather_records(pods, Settings())
    for attempt, start in enumerate((0, 600_000)):
        uid = f"p{attempt}"
        for at in range(start, start + 60):
            head = {"ts_ms": START_MS + 1000 * at}
            process = {"pid": 7, "pod_uid": uid}
            used = [gpu(place, gpu_util_pct=90, processes=[process] if place == attempt else [])
                    for place in range(2)]  # fmt: skip
            containers = [{"id": "c", "cpu_util_pct": 100, "io_read_bytes_per_s": 1e6}]
            loop = {"loop": "pytorch", "steps": 2, "seconds": 1.0, "samples": 16}
            steps = {"v": 1, "node": "a", "collector": "c", "seq": at, **head, "interval_ms": 1000,
                     "processes": [{**process, "loop": loop}]}  # fmt: skip
            for topic, sample in (
                ("nvml-samples", nvml(at, used, **head)),
                ("cgroup-samples", cgroup(at, {}, [{"uid": uid, "containers": containers}], **head)),
                ("processes", steps),
            ):
                gathered.sample(record(topic, "a", sample, at))
    report = report_of(gathered, Settings(), "t", job="bert")
    measures = measures_of(report)
    assert measures["read_bytes"].value == 120e6
    assert measures["gpu_s_per_step"].value == pytest.approx(0.5)
    assert measures["samples_per_s"].value == pytest.approx(16)
    assert dict(key_figures(report.facts, report.view))["Samples"] == "16 a second in all"


@pytest.mark.parametrize("gap", [{}, {"cpu_util_pct": 100.0}], ids=["no sample", "no such figure"])
def test_what_is_moved_while_it_is_not_measured_counts_too(gap: dict[str, float]) -> None:
    gathered = Gathered()
    for at in range(60):
        figures = gap if 20 <= at < 50 else {"cpu_util_pct": 100.0, "disk_read_bytes_per_s": 1e6}
        if figures:
            gathered.sample(record("cgroup-samples", "a", cgroup(at, figures, []), at))
    measures = measures_of(report_of(gathered, Settings(), "t"))
    assert measures["read_bytes"].value == pytest.approx(60e6)


def test_energy_and_cost_that_are_not_of_all_gpus_are_not_compared() -> None:
    def measured(**fields: float) -> tuple[dict[str, str], set[str]]:
        gathered = Gathered()
        for at in range(60):
            gpus = [gpu(0, gpu_util_pct=90, power_w=600), gpu(1, gpu_util_pct=90, **fields)]
            gathered.sample(record("nvml-samples", "a", nvml(at, gpus), at))
        report = report_of(gathered, Settings(price_kwh=0.5), "t")
        return dict(key_figures(report.facts, report.view)), set(measures_of(report))

    figures, compared = measured()
    assert figures["GPU energy"] == "36.0 kJ of 60 GPU-s of which that is known"
    assert figures["Cost"] == "≥ 0.01"
    assert not compared & {"energy_j", "cost"}
    figures, compared = measured(power_w=600)
    assert (figures["GPU energy"], figures["Cost"]) == ("72.0 kJ", "0.01")
    assert compared >= {"energy_j", "cost"}

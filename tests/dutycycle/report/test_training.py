"""Goal: what a training reports is on the page beside what was found from outside, and both agree."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from dutycycle.contract.codec import encode
from dutycycle.contract.records.processes import Loop, Package, Process, ProcessSample, Software
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceRecord, decode_line, encode_line
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.facts import key_figures
from dutycycle.report.page import Report, html_of
from dutycycle.run.summary import figures_of
from tests.support.data.traces import consumed
from tests.support.data.training_job import IDLE_S, LOADING_S, START_MS, STEP_S, UID, training_job

SECONDS = 720
SOFTWARE = Software(frameworks=(Package(name="torch", version="2.4.0"),), unreadable=("environ",))


def steps_of(second: int) -> Process:
    """A step of twelve seconds ends; with the first one it is read."""
    loop = Loop(loop="lightning", steps=1, seconds=STEP_S, samples=64, model="Bert", unsent=2)
    return Process(pid=7, pod_uid=UID, loop=loop, software=SOFTWARE if second == LOADING_S + STEP_S else None)


def records() -> Iterator[TraceRecord]:
    """The job, and what its training reports."""
    for one in training_job(SECONDS, 2):
        yield one
        second = ((one.ts_ms or 0) - START_MS) // 1000
        trains = LOADING_S < second < SECONDS - IDLE_S and (second - LOADING_S) % STEP_S == 0
        if one.topic.endswith("nvml-samples") and trains:
            sample = ProcessSample(
                node="gpu-a", collector="c", seq=second, ts_ms=one.ts_ms or 0, interval_ms=1000,
                processes=(steps_of(second),),
            )  # fmt: skip
            yield TraceRecord(
                topic="dutycycle.processes", key="gpu-a", payload=encode(sample), ts_ms=one.ts_ms
            )


@pytest.fixture(scope="module")
def report() -> Report:
    read = (decode_line(encode_line(one)) for one in records())
    return report_of(gather_records(consumed(read), Settings()), Settings(), "a trace", job="bert")


@pytest.mark.slow
def test_a_step_from_inside_is_the_cycle_from_outside(report: Report) -> None:
    found = dict(key_figures(report.facts, report.view))
    steps = int(found["Steps"].partition(",")[0])
    assert steps == (SECONDS - IDLE_S - LOADING_S - 1) // STEP_S
    assert found["Steps"].endswith("5 a minute, as the training reports")
    assert found["Time of a step"] == "12 s in the median"  # the longest is not reported: it is not 0
    assert 0.9 < float(found["Steps in a cycle"].partition(" ")[0]) < 1.1
    assert "GPU utilization" in found["Steps in a cycle"]
    assert found["Software"] == "torch 2.4.0"


def test_steps_are_held_against_no_cycle_of_another_pod(report: Report) -> None:
    """The page of a node has many: the steps of one training say nothing of the cycle of another."""
    ((what, cycle), *_) = report.facts.cycles
    assert cycle.pods == {UID}
    other = replace(cycle, name="other", pods=frozenset({"other"}))
    first = dict(key_figures(replace(report.facts, cycles=[(what, other), (what, cycle)]), report.view))
    assert first["Steps in a cycle"] == dict(key_figures(report.facts, report.view))["Steps in a cycle"]
    alone = dict(key_figures(replace(report.facts, cycles=[(what, other)]), report.view))
    assert "Steps" in alone
    assert "Steps in a cycle" not in alone


def test_a_machine_of_several_models_is_said_to_be_one(report: Report) -> None:
    first, *others = report.facts.gpus
    mixed = [replace(gpu, model="NVIDIA A100-SXM4-80GB") for gpu in (first, *others)]
    mixed[0] = replace(first, model="NVIDIA H100 80GB HBM3")
    found = dict(key_figures(replace(report.facts, gpus=mixed), report.view))
    assert found["GPUs"] == f"1 × NVIDIA H100 80GB HBM3, {len(others)} × NVIDIA A100-SXM4-80GB"


def test_the_page_has_it_and_the_chart(report: Report) -> None:
    page = html_of(report)
    assert "Training loops, from inside" in page
    assert "Processes, from outside" in page
    assert ">environ</td>" in page  # what could not be read is said
    (chart,) = (one for one in report.charts if one.id == "steps")
    assert chart.cycle is not None
    (line,) = chart.lines
    assert line.points.mean[~(line.points.mean != line.points.mean)].tolist()[:3] == [12.0] * 3


def test_the_screen_has_it(report: Report) -> None:
    said = "\n".join(figures_of(report))
    for name in ("Steps", "Time of a step", "Steps in a cycle", "Samples", "Model", "Software"):
        assert f"\n  {name:<22} " in said


def test_a_job_that_reports_nothing_has_none_of_it(report: Report) -> None:
    plain = consumed(training_job(120, 1))
    without = report_of(gather_records(plain, Settings()), Settings(), "a trace", job="bert")
    assert without.facts.processes == []
    assert "Training loops" not in html_of(without)


@pytest.mark.parametrize("seconds", [1, 2, 4])
def test_a_job_that_is_shorter_than_what_phases_are_smoothed_over(seconds: int) -> None:
    short = consumed(training_job(seconds, 1))
    found = report_of(gather_records(short, Settings()), Settings(), "a trace", job="bert")
    assert sum(one.seconds for one in found.phases) <= seconds
    assert found.phases

"""Goal: the best is named only where it is known; noise is no difference; the unknown is absent, never 0."""

from pathlib import Path

import orjson
import pytest

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.records.insights import Trials
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import TraceWriter
from dutycycle.contract.units import unix_ms
from dutycycle.measures.steps import Measure
from dutycycle.report.build import gather, report_of
from dutycycle.trial.leftovers import is_left
from dutycycle.trial.plan import Variant
from dutycycle.trial.results.picture import draw
from dutycycle.trial.results.record import Whose, annotations_of, record_of
from dutycycle.trial.results.text import lines_of, sentence_of
from dutycycle.trial.results.verdict import TrialFigures, TrialOutcome, TrialVerdict, figures_of, verdict_of
from tests.support.data import training_job


def tried(
    gpus: int, rate: float | None, watts: float | None = 500.0, *, error: float | None = 0.002,
    unit: str = "step", idle: int = 0,
) -> TrialOutcome:  # fmt: skip
    """``error``: of rate and power, relative."""

    def measure(value: float) -> Measure:
        return Measure(value, None if error is None else error * value)

    rates = {} if rate is None else {unit: measure(rate)}
    power = None if watts is None else measure(watts)
    return TrialOutcome(Variant(gpus, 1), "ran for 3m", gpus * 3.0, TrialFigures(rates, power, "input", idle))


@pytest.mark.parametrize(
    ("goal", "trials", "best", "ties", "unsure"),
    [
        ("gpu-seconds", [tried(1, 1.0), tried(2, 1.9), tried(4, 2.0)], "1gpu", [], []),
        ("rate", [tried(1, 1.0), tried(2, 1.9), tried(4, 2.5)], "4gpu", [], []),
        ("rate", [tried(1, 1.0), tried(2, 1.99), tried(4, 2.0)], "2gpu", ["4gpu"], []),
        ("joules", [tried(1, 1.0, 500), tried(2, 2.0, 900)], "2gpu", [], []),
        ("gpu-seconds", [tried(1, 1.0), tried(2, 2.2, error=None)], "2gpu", [], ["1gpu"]),
        ("gpu-seconds", [tried(1, None), tried(2, 1.9)], "2gpu", [], []),
        ("joules", [tried(1, 1.0, None)], None, [], []),
        ("rate", [tried(1, None), TrialOutcome(Variant(2, 1), "never started")], None, [], []),
    ],
)
def test_which_is_best(
    goal: str, trials: list[TrialOutcome], best: str | None, ties: list[str], unsure: list[str]
) -> None:
    found = verdict_of(trials, goal)
    assert (found.best.outcome.variant.name if found.best else None) == best
    assert [row.outcome.variant.name for row in found.ties] == ties
    assert [row.outcome.variant.name for row in found.unsure] == unsure


def test_what_all_trials_have_is_counted() -> None:
    reported, seen = tried(1, 1.0), tried(2, 0.3, unit="cycle")
    assert reported.figures is not None
    rates = {**reported.figures.rates, "cycle": Measure(0.2, 0.001)}
    both = TrialOutcome(reported.variant, "", 3.0, TrialFigures(rates, None, None, 0))
    found = verdict_of([both, seen], "rate")
    assert found.unit == "cycle"
    assert [one.rate.value for one in found.rows if one.rate] == [0.2, 0.3]


def verdict() -> TrialVerdict:
    never = TrialOutcome(Variant(9, 1), "no node has 9 GPUs: the largest has 4")
    return verdict_of([tried(1, 1.0), tried(2, 1.998, idle=1), tried(4, 2.0, None), never], "gpu-seconds")


def test_a_table_and_what_follows_from_it() -> None:
    lines = list(lines_of(verdict()))
    assert [line.split()[0] for line in lines[1:5]] == ["1gpu", "2gpu", "4gpu", "9gpu"]
    assert "1 ±0.8 %" in lines[1]
    assert lines[4].split()[2:6] == ["·"] * 4
    text = "\n".join(lines)
    assert "Best by GPU-seconds a step: gpus=1; gpus=2 differs from it by no more than noise" in text
    assert (
        "2gpu: 1 of its 2 GPUs did nothing: does the program take its number of GPUs from $(TRIAL_GPUS)?"
        in text
    )
    nothing = verdict_of([tried(1, None)], "rate")
    assert sentence_of(nothing).startswith(
        "which is best by rate is not known: no steps were reported, and no cycle"
    )


@pytest.mark.slow
def test_the_record_the_annotations_and_the_picture(tmp_path: Path) -> None:
    record = record_of(verdict(), Whose("ml", "train"), "id", 1_700_000_000_000)
    assert decode(Trials, encode(record), "trials") == record
    assert (record.best, record.ties, record.unit) == ("1gpu", ("2gpu",), "step")
    assert (record.trials[3].rate_per_s, record.trials[2].energy_j_per_unit) == (None, None)
    written = dict(annotations_of(verdict(), "dutycycle.io", 1_700_000_000_000))
    figures = orjson.loads(written.pop("dutycycle.io/trial_figures") or "")
    assert figures["gpus=1"] == "1 steps/s, 1 GPU-s a step, 500 J a step, held back by input"
    assert figures["gpus=9"] == "no node has 9 GPUs: the largest has 4"
    assert written == {
        "dutycycle.io/trial_best": "gpus=1", "dutycycle.io/trial_ties": "gpus=2",
        "dutycycle.io/trial_at": "2023-11-14T22:13:20Z",
    }  # fmt: skip
    draw(verdict(), "ml/train", tmp_path / "trials.svg")
    assert (tmp_path / "trials.svg").read_text().count("not known") == 4


def test_figures_of_a_trace_are_of_the_time_in_which_it_worked(tmp_path: Path) -> None:
    """A minute of loading, steps of 12 s, and idle at the end: two GPUs draw 90 W, and 5.4 W a percent."""
    file = tmp_path / "trace.jsonl.zst"
    with TraceWriter(str(file)) as trace:
        for one in training_job.training_job(360):
            trace.write(one)
    report = report_of(gather([str(file)], Settings()), Settings(), "trace", job="bert")
    found = figures_of(report)
    assert found.rates["cycle"].value == pytest.approx(1 / training_job.STEP_S, rel=0.02)
    works, waits = (90 + 5.4 * 96) + (90 + 5.4 * 62), 2 * (90 + 5.4 * 6)
    assert found.power_w is not None
    assert found.power_w.value == pytest.approx(0.75 * works + 0.25 * waits, rel=0.03)
    assert found.idle_gpus == 0


@pytest.mark.parametrize(
    ("alive", "left"),
    [("2026-11-23T08:00:00Z", False), ("2026-11-23T07:58:59Z", True), ("soon", True), (None, True)],
)
def test_what_counts_as_left(alive: str | None, left: bool) -> None:
    annotations = {} if alive is None else {"dutycycle.io/trial-alive": alive}
    meta = {"annotations": annotations, "creationTimestamp": "2026-11-23T07:00:00Z"}
    assert is_left(meta, unix_ms("2026-11-23T08:00:30Z")) is left

"""Tells what changed from the first run to each other one, and which run is better: as lines of text, and as
JSON."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle.measures.change import FigureChange, change
from dutycycle.measures.figures import FIGURES, Figure
from dutycycle.measures.steps import Measure
from dutycycle.report.facts import headline
from dutycycle.report.page import Report
from dutycycle.words import aligned

_DECIDING = {"duration_s": "time", "gpu_s": "GPU time", "energy_j": "energy", "cost": "cost"}
_DECIDING_A_STEP = {
    "steps_per_min": "time a step", "gpu_s_per_step": "GPU time a step", "energy_j_per_step": "energy a step",
}  # fmt: skip
"""Where the trainings report their steps: runs of different lengths can be compared."""
NO_DIFFERENCE = "no difference"


@dataclass(frozen=True, slots=True)
class NamedRun:
    """Holds a run by the name that it has beside the others."""

    name: str
    report: Report
    measures: dict[str, Measure]


def figures_in(runs: Sequence[NamedRun]) -> list[Figure]:
    """Return those that any of the runs has and of which there is something to say."""
    not_zero = {id_ for run in runs for id_, measure in run.measures.items() if measure.value}
    return [figure for figure in FIGURES if figure.id in not_zero]


def change_of(figure: Figure, runs: Sequence[NamedRun], number: int) -> FigureChange | None:
    """Return the change from the first run to the one at ``number``; None where it was not measured in
    both."""
    before, after = (runs[at].measures.get(figure.id) for at in (0, number))
    return None if before is None or after is None else change(before, after)


def best(figure: Figure, runs: Sequence[NamedRun]) -> list[str]:
    """Return runs that are better than another and not worse than any; empty where there is no difference."""
    known = [(run, run.measures[figure.id]) for run in runs if figure.id in run.measures]
    if len(known) < 2 or not figure.better:
        return []
    _, top = (min if figure.better == "less" else max)(known, key=lambda pair: pair[1].value)
    of_top = [run.name for run, measure in known if not change(top, measure).is_one]
    return of_top if len(of_top) < len(known) else []


def verdicts(runs: Sequence[NamedRun]) -> Iterator[str]:
    """Yield whether the runs can be compared, and which is better in time, GPU time, energy and cost.

    By steps where all trainings report them; by the whole runs where these did the same work.
    """
    what = next((id_ for id_ in ("steps", "cycles") if all(id_ in run.measures for run in runs)), None)
    counts = [] if what is None else [run.measures[what] for run in runs]
    by_step = what == "steps"
    same = not any(change(counts[0], count).is_one for count in counts[1:])
    if not counts:
        yield "The runs are taken to have done the same work."
    elif not same:
        several = ", ".join(f"{count.value:.0f}" for count in counts)
        yield f"The runs did not do the same work: {'' if by_step else 'about '}{several} {what}."
    if by_step:
        yield from _decided(runs, _DECIDING_A_STEP)
    if same or not by_step:
        yield from _decided(runs, _DECIDING)


def _decided(runs: Sequence[NamedRun], deciding: Mapping[str, str]) -> Iterator[str]:
    by_id = {figure.id: figure for figure in FIGURES}
    for id_, what in deciding.items():
        known = [run.measures[id_] for run in runs if id_ in run.measures]
        if len(known) < 2:
            continue
        top = best(by_id[id_], runs)
        unclear = any(change(known[0], measure).is_one is None for measure in known[1:])
        if top:
            least, most = min(measure.value for measure in known), max(measure.value for measure in known)
            # A rate in steps a minute is told as what it is: time.
            much = f" (up to {100 * (1 - least / most):.1f} % less)"
            yield f"Better in {what}: {', '.join(top)}{much}."
        elif unclear:
            yield f"In {what} it cannot be told: the noise of a run is not known."
        else:
            yield f"In {what} there is no difference."


def changed(change: FigureChange | None) -> str:
    """Return a change for people: how much, and what is noise."""
    if change is None:
        return ""
    if change.is_one is False:
        return NO_DIFFERENCE
    much = "from 0" if change.share is None else f"{100 * change.share:+.1f} %"
    if change.limit is None:
        return f"{much} ?"
    if change.share is None:
        return much
    return f"{much} (noise {100 * change.limit / abs(change.before):.1f} %)"


def rows_of(runs: Sequence[NamedRun]) -> Iterator[list[str]]:
    """Yield one row a figure: its name, its value in the first run, then value and change in each other
    one."""
    for figure in figures_in(runs):
        row = [figure.title]
        top = best(figure, runs)
        for number, run in enumerate(runs):
            measure = run.measures.get(figure.id)
            star = " *" if run.name in top else ""
            row.append("" if measure is None else figure.shown(measure.value) + star)
            if number:
                row.append(changed(change_of(figure, runs, number)))
        yield row


def heads_of(runs: Sequence[NamedRun]) -> list[str]:
    """Return what stands above the rows."""
    return ["", runs[0].name, *(head for run in runs[1:] for head in (run.name, "change"))]


def kind_of(run: NamedRun) -> str:
    """Return what a run is, and what holds it back."""
    return headline(run.report.facts)[0] or "kind not known"


def lines_of(runs: Sequence[NamedRun]) -> Iterator[str]:
    """Yield the verdicts, and the table below them."""
    yield from verdicts(runs)
    yield ""
    yield from aligned(heads_of(runs), list(rows_of(runs)), gap="  ").splitlines()
    yield ""
    for run in runs:
        yield f"{run.name}: {kind_of(run)}"


def plain_of(runs: Sequence[NamedRun]) -> dict[str, Any]:
    """Return the same for programs. ``changed`` is null where a run is too short to tell."""
    return {
        "runs": [
            {
                "name": run.name,
                "of": run.report.view.title,
                "is": kind_of(run),
                "figures": {
                    figure.id: {"value": measure.value, "error": measure.error}
                    for figure in figures_in(runs)
                    if (measure := run.measures.get(figure.id))
                },
            }
            for run in runs
        ],
        "changes": [
            {
                "figure": figure.id,
                "from": runs[0].name,
                "to": run.name,
                "before": change.before,
                "after": change.after,
                "noise": change.limit,
                "changed": change.is_one,
                "better": best(figure, runs),
            }
            for number, run in enumerate(runs[1:], 1)
            for figure in figures_in(runs)
            if (change := change_of(figure, runs, number))
        ],
        "verdicts": list(verdicts(runs)),
    }

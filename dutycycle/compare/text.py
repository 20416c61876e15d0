"""Writes a comparison as lines of text, and as JSON."""

from collections.abc import Iterator, Sequence
from typing import Any

from dutycycle.compare.comparison import NamedRun, best, change_of, figures_in, verdicts
from dutycycle.measures.change import FigureChange
from dutycycle.report.facts import headline
from dutycycle.words import aligned

NO_DIFFERENCE = "no difference"


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
        for place, run in enumerate(runs):
            measure = run.measures.get(figure.id)
            star = " *" if run.name in top else ""
            row.append("" if measure is None else figure.shown(measure.value) + star)
            if place:
                row.append(changed(change_of(figure, runs, place)))
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
            for place, run in enumerate(runs[1:], 1)
            for figure in figures_in(runs)
            if (change := change_of(figure, runs, place))
        ],
        "verdicts": list(verdicts(runs)),
    }

"""Writes a comparison as one HTML file, in the style of a report."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dutycycle.compare.comparison import NO_DIFFERENCE, NamedRun, heads_of, kind_of, rows_of, verdicts
from dutycycle.measures.change import LEAST, SIGMAS
from dutycycle.measures.figures import TIME_LAYERS
from dutycycle.report.charts.chart import Chart
from dutycycle.report.charts.plot import color_of, figure_of
from dutycycle.report.page import Keyed, ServedPage, document, shown_charts
from dutycycle.traces.frames import mean_of_known
from dutycycle.words import capitalized, moment, short_duration

_OVERLAID = ("gpu-util", "gpu-power", "cpu", "cycle")
_NOTES = (
    "* is better than the others by more than noise.",
    f"“{NO_DIFFERENCE}”: less than {100 * LEAST:g} %, or less than the noise of the two runs. That is "
    f"{SIGMAS:g} standard errors, which are taken from the runs themselves: each is cut into some twenty "
    "blocks of whole cycles, and what differs between neighbouring blocks is noise.",
    "“?”: the noise of a run is not known, as it is too short, or its samples are gone.",
    "The noise of a time is that of the pace of its run, for which the use of its GPUs stands.",
)
_PLANE = "A dot is a part of a run, or of its cycle. To the right memory is the limit, above tensor cores."


def html_of(runs: Sequence[NamedRun], served: ServedPage | None = None) -> str:
    """Return the whole file, or with ``served`` a page of a server."""
    charts = [chart for id_ in _OVERLAID if (chart := _overlaid(runs, id_)) is not None]
    # Tensor cores against memory: the dots of each run in its color, of those where both were measured
    if planes := _charts_of(runs, "gpu-plane"):
        spots = [
            replace(dots, name=run.name, color=number)
            for number, run, chart in planes
            for dots in chart.spots
        ]
        charts.append(replace(planes[0][2], spots=spots, note=_PLANE))
    # Where the time goes, of runs whose GPUs tell: a chart each, as layers cannot be overlaid
    charts += [
        replace(chart, id=f"{chart.id}-{number}", title=f"{chart.title}: {run.name}")
        for number, run, chart in _charts_of(runs, "gpu-time")
        if TIME_LAYERS.keys() & run.measures.keys()
    ]
    # A cell breaks before what stands in brackets, and nowhere else.
    figures_of_runs = [
        [name, *(cell.replace(" ", "\u00a0").replace("\u00a0(", " (") for cell in cells)]
        for name, *cells in rows_of(runs)
    ]
    names = ", ".join(run.name for run in runs)
    rows = []
    for number, run in enumerate(runs):
        view, kind, name = run.report.view, kind_of(run), Keyed(color_of(number), run.name)
        lasted = short_duration(run.report.facts.duration_s)
        rows.append([name, view.title, moment(view.first_ms), lasted, capitalized(kind)])
    return document(
        "comparison.html",
        f"{names} – Dutycycle comparison",
        {chart.id: figure_of(chart, 0, 0) for chart in charts},
        served,
        names=names, verdicts=verdicts(runs), runs=rows, heads=["Figure", *heads_of(runs)[1:]],
        figures_of_runs=figures_of_runs,
        changes=[at for at, head in enumerate(heads_of(runs)) if head == "change"],
        shown=shown_charts(charts), notes=_NOTES,
        cautions=dict.fromkeys(filter(None, (run.report.caution for run in runs))),
    )  # fmt: skip


def _overlaid(runs: Sequence[NamedRun], id_: str) -> Chart | None:
    """Return one line a run: the mean over its GPUs or machines, since its start."""
    of_runs = _charts_of(runs, id_)
    if not of_runs:
        return None
    kind, first = "fold" if id_ == "cycle" else "since", of_runs[0][2]
    lines = []
    for number, run, chart in of_runs:
        # Of the slowest GPUs or machines each value stands until the next.
        finest = min((line.points for line in chart.lines), key=lambda points: points.step_ms)
        mean = mean_of_known(np.stack([line.points.means_at(finest.times) for line in chart.lines]))
        points = replace(finest, mean=mean, low=mean, high=mean, exact=True)
        lines.append(replace(chart.lines[0], points=points, name=run.name, group="", color=number))
    return Chart(id_, first.title, first.unit, lines, kind=kind, most=first.most)


def _charts_of(runs: Sequence[NamedRun], id_: str) -> list[tuple[int, NamedRun, Chart]]:
    return [
        (number, run, chart)
        for number, run in enumerate(runs)
        for chart in run.report.charts
        if chart.id == id_
    ]

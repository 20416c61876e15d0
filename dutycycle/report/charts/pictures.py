"""Draws the charts as PNG files, for slides and papers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dutycycle.report.charts.chart import (
    GREY,
    Chart,
    block_corners,
    cycle_lines_ms,
    drawn_points,
    known_runs,
    stacked,
)
from dutycycle.report.charts.plot import BANDS, color_of, color_of_mark, dash_of
from dutycycle.report.phases import PHASE_COLORS, Phase, seconds_by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DATES_PT = 30.0
"""Height of the dates below a plot, with the day."""
_WIDEST = 0.9
"""Share of the picture's width that a legend may take."""
_METADATA: dict[str, dict[str, Any]] = {".png": {"Software": None}, ".svg": {"Date": None}}
_STYLES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
"""What matplotlib calls the kinds of lines of a page."""


def write_pictures(charts: list[Chart], phases: list[Phase], folder: Path) -> list[Path]:
    """Return one file for each chart, and one for the phases; their paths."""
    written = []
    for chart in charts:
        height = max(2.0, 0.35 * len(chart.lines) + 1) if chart.kind == "heat" else 3.2
        with new_figure(figsize=(9, height), dpi=120) as figure:
            draw(figure.add_subplot(), chart)
            written.append(save(figure, folder / f"{chart.id}.png"))
    if phases:
        with new_figure(figsize=(9, 1.6), dpi=120) as figure:
            from matplotlib.dates import date2num  # here, not above: it takes a second

            axes = figure.add_subplot()

            for name, (seconds, _) in seconds_by_name(phases).items():
                bars = [
                    (date2num(_moments(phase.first_ms)), (phase.last_ms - phase.first_ms) / 86_400_000)
                    for phase in phases
                    if phase.name == name
                ]
                axes.broken_barh(
                    bars, (0, 1), color=PHASE_COLORS.get(name, "#ffffff"), label=f"{name} {seconds:.0f} s"
                )
            axes.set_title("Phases", loc="left", fontsize=11)
            axes.set_yticks([])
            axes.spines[["top", "right", "left"]].set_visible(False)
            axes.xaxis_date()
            _time_axis(axes)
            _legend(axes, 6)
            written.append(save(figure, folder / "phases.png"))
    return written


@contextmanager
def new_figure(**options: Any) -> Iterator["Figure"]:
    """Give a figure of matplotlib, to be drawn and written inside: there a name is a text, and what it has
    between two dollars is no formula."""
    from matplotlib import rc_context  # here, not above: it takes a second
    from matplotlib.figure import Figure

    # A text keeps what was set when it was made, and a figure makes some by itself. Without a salt the names
    # in an SVG are random.
    with rc_context({"text.parse_math": False, "svg.hashsalt": "dutycycle"}):
        yield Figure(**options)


def save(figure: "Figure", path: Path) -> Path:
    """Write a figure, of the format that the name ends with, with nothing of when and by what."""
    width, height = figure.get_size_inches()
    legends = [legend for axes in figure.axes if (legend := axes.get_legend()) is not None]
    below = sum(legend.get_window_extent().height for legend in legends) / figure.dpi
    figure.set_size_inches(width, height + below)  # so long names take nothing from the plot
    figure.tight_layout()
    figure.savefig(path, metadata=_METADATA[path.suffix])
    return path


def _moments(times_ms: Any) -> Any:
    return np.asarray(times_ms, "datetime64[ms]")


def draw(axes: "Axes", chart: Chart) -> None:
    """Draw a chart."""
    axes.set_title(f"{chart.title} ({chart.unit})", loc="left", fontsize=11)
    if chart.kind == "heat":
        from matplotlib.dates import date2num  # here, not above: it takes a second

        points = chart.lines[0].points
        ends = date2num(_moments([points.start_ms, points.start_ms + points.step_ms * len(points.mean)]))
        rows = np.stack([line.points.mean for line in chart.lines])
        extent = (float(ends[0]), float(ends[1]), len(rows) - 0.5, -0.5)
        image = axes.imshow(
            rows, aspect="auto", extent=extent, vmin=0, vmax=100, cmap="Blues", interpolation="nearest"
        )
        axes.set_yticks(range(len(rows)), [line.name for line in chart.lines], fontsize=8)
        axes.xaxis_date()
        _time_axis(axes)
        axes.figure.colorbar(image, ax=axes, label=chart.unit)
        return
    if chart.kind == "stack":
        for line, low, high in stacked(chart.lines):
            times, color = _moments(block_corners(line.points)), color_of(line.color)
            axes.fill_between(
                times,
                np.repeat(low, 2),
                np.repeat(high, 2),
                color=color,
                alpha=0.7,
                linewidth=0,
                label=line.name,
            )
        _finish(axes, chart)
        return
    if chart.kind == "plane":
        for spots in chart.spots:
            axes.plot(spots.x, spots.y, "-", color=color_of(GREY), linewidth=1, zorder=1)
            if spots.color is not None:
                axes.scatter(spots.x, spots.y, color=color_of(spots.color), label=spots.name, zorder=2)
                continue
            axes.scatter(
                spots.x, spots.y, c=np.arange(len(spots.x)), cmap="Blues", vmin=-len(spots.x) / 3, zorder=2
            )
    for line in chart.lines:
        points = drawn_points(chart, line)
        fold = chart.kind == "fold"
        times = points.times / 1000 if fold else _moments(points.times)
        color = color_of(line.color)
        if not points.exact and len(chart.lines) <= BANDS:
            axes.fill_between(times, points.low, points.high, color=color, alpha=0.18, linewidth=0)
        style = _STYLES[dash_of(line.color)]
        axes.plot(times, points.mean, style, color=color, linewidth=1, label=line.name or None)
        alone = [run.start for run in known_runs(points) if run.stop - run.start == 1]
        axes.plot(times[alone], points.mean[alone], ".", markersize=3, color=color)
    _draw_over(axes, chart)
    _finish(axes, chart)


def _draw_over(axes: "Axes", chart: Chart) -> None:
    """Draw moments, limits, marks, forecasts and cycles, over the lines."""
    for dots in chart.dots:
        points, times, color = dots.points, _moments(dots.points.times), color_of(dots.color)
        if not points.exact:
            axes.vlines(times, points.low, points.high, color=color, alpha=0.4)
        axes.plot(times, points.mean, "o", markersize=3, color=color, label=dots.name)
    for name, value in chart.limits:
        axes.axhline(value, color="#8b8b8b", linestyle="--", linewidth=0.8)
        axes.annotate(
            f"{name} {value:.4g} {chart.unit}",
            (0.005, value),
            xycoords=("axes fraction", "data"),
            va="top",
            fontsize=8,
            color="#57606f",
        )
    for name, value in chart.limits_across:
        axes.axvline(value, color="#8b8b8b", linestyle="--", linewidth=0.8)
        axes.annotate(f"{name} {value:.4g} {chart.unit}", (value, 1), fontsize=8, color="#57606f")
    for marks in chart.marks:
        axes.plot(
            _moments(marks.times_ms),
            marks.values,
            "v",
            markersize=4,
            label=f"{marks.name} ({marks.group})",
            color=color_of_mark(marks),
        )
    for number, fan in enumerate(chart.fans):
        label = None if number else "forecast, 90 % interval"
        times = _moments(fan.times_ms)
        axes.fill_between(times, fan.low, fan.high, color=color_of(1), alpha=0.22, linewidth=0)
        axes.plot(times, fan.values, ":", color=color_of(1), label=label)
    for at in cycle_lines_ms(chart):
        axes.axvline(_moments(at), color="#8a6fdf", linestyle=":", linewidth=0.6, alpha=0.6)


def _finish(axes: "Axes", chart: Chart) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#d8dde5", linewidth=0.6)
    if chart.most is not None:
        axes.set_ylim(0, chart.most * 1.04)
    elif chart.unit not in ("MHz", "°C"):
        axes.set_ylim(bottom=0)
    if chart.kind == "fold":
        axes.set_xlabel("seconds of the cycle")
        axes.margins(x=0)
    elif chart.kind == "plane":
        axes.set_xlabel(chart.across)
        axes.set_xlim(0, 104)
    else:
        _time_axis(axes)
    if chart.cycle is not None:
        axes.set_title(chart.cycle[0], loc="right", fontsize=8, color="#57606f")
    if len(axes.get_legend_handles_labels()[0]) > 1:
        _legend(axes, 4)


def _legend(axes: "Axes", most: int) -> None:
    """Put names below the dates, in as many columns, ``most`` at most, as fit into the picture."""
    from matplotlib.transforms import ScaledTranslation

    below = axes.transAxes + ScaledTranslation(0, -_DATES_PT / 72, axes.figure.dpi_scale_trans)
    for columns in range(most, 0, -1):
        legend = axes.legend(
            fontsize=7, ncols=columns, frameon=False, loc="upper left", bbox_to_anchor=(0, 0),
            bbox_transform=below,
        )  # fmt: skip
        if legend.get_window_extent().width <= _WIDEST * axes.figure.bbox.width:
            return


def _time_axis(axes: "Axes") -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))

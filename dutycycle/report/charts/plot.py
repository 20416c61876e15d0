"""Makes a chart a figure of Plotly: plain data and layout. The page's own style sheet has the colors of
text."""

from collections.abc import Iterator
from html import escape
from typing import Any

import numpy as np

from dutycycle.report.charts.chart import (
    Chart,
    Fan,
    Line,
    Marks,
    Spots,
    block_corners,
    cycle_lines_ms,
    drawn_points,
    known_runs,
    stacked,
)
from dutycycle.traces.frames import Buckets

_PALETTE = ("#3b82d6", "#e0712a", "#1f9e76", "#c05299", "#8a6fdf", "#b78a06", "#d6455d", "#2aa3b8")
"""Told apart by people who do not see all colors, and on white as on black."""
_GREY = "#b9c0cb"
BANDS = 4
"""With more lines in a chart their bands would hide one another."""
_HEIGHT, _ROW = 250, 26
_DASHES = ("solid", "dash", "dot", "dashdot")
_SPANS = {"fold": ("seconds of the cycle", 1000), "since": ("minutes since the start", 60_000)}
"""What stands below the charts that begin at 0, and how many milliseconds a unit has."""
Figure = dict[str, Any]


def figure_of(chart: Chart, from_ms: int, to_ms: int) -> Figure:
    """Return ``data`` and ``layout`` of one chart, over the report's time."""
    if chart.kind == "heat":
        points = chart.lines[0].points
        data: list[Figure] = [{
            "type": "heatmap", "x0": points.start_ms, "dx": points.step_ms,
            "y": [_text(line.name) for line in chart.lines],
            "z": [rounded(np.round(line.points.mean)) for line in chart.lines], "zmin": 0, "zmax": 100,
            "colorscale": [[0, "#dfe9f5"], [0.5, "#5b95d1"], [1, "#0b3c6f"]], "ygap": 2,
            "colorbar": {"thickness": 10, "len": 1.1, "tickvals": [0, 100], "ticksuffix": f" {chart.unit}"},
            "hovertemplate": "%{y}: %{z:.0f} %<br>%{x}<extra></extra>",
        }]  # fmt: skip
    elif chart.kind == "stack":
        data = [trace for part in stacked(chart.lines) for trace in _layer(chart, *part)]
    elif chart.kind == "plane":
        data = [_spots(spots, chart) for spots in chart.spots]
    else:
        data = [trace for line in chart.lines for trace in _traces(chart, line)]
        data += [
            {
                "type": "scatter", "mode": "markers", "meta": marks.group,
                "name": _text(f"{marks.name} ({marks.group})"), "x": marks.times_ms, "y": marks.values,
                "hovertemplate": marks.name,
                "marker": {"symbol": "triangle-down", "size": 8, "color": color_of_mark(marks)},
            }
            for marks in chart.marks
        ]  # fmt: skip
        for dots in chart.dots:
            moments, color = dots.points, color_of(dots.color)
            data.append({
                "x": moments.times.tolist(), "type": "scatter", "mode": "markers", "name": _text(dots.name),
                "showlegend": True, "y": rounded(moments.mean), "marker": {"size": 6, "color": color},
                "error_y": {
                    "array": rounded(moments.high - moments.mean),
                    "arrayminus": rounded(moments.mean - moments.low), "width": 0, "color": color,
                    "visible": not moments.exact,
                },
                "hovertemplate": f"%{{y:.4~g}} {chart.unit}",
            })  # fmt: skip
        data += [trace for number, fan in enumerate(chart.fans) for trace in _fan(fan, first=number == 0)]
    return {"data": data, "layout": _layout(chart, from_ms, to_ms)}


def _text(name: str) -> str:
    """Give a name so that Plotly shows it as it is: in its texts there may be tags, entities and formulas."""
    return escape(name, quote=False).replace("$", "&#36;")


def color_of(place: int) -> str:
    """Return the color of a series."""
    return _GREY if place < 0 else _PALETTE[place % len(_PALETTE)]


def color_of_mark(marks: Marks) -> str:
    """Return the color of marks: red for heat."""
    return "#d6455d" if "thermal" in marks.name else "#b78a06"


def dash_of(place: int) -> str:
    """Give the kind of line of a series: lines of one color differ by it."""
    return _DASHES[place // len(_PALETTE) % len(_DASHES)]


def _layout(chart: Chart, from_ms: int, to_ms: int) -> Figure:
    axis: Figure = {"type": "date", "range": [from_ms, to_ms]} if chart.in_time else {"type": "date"}
    if chart.kind in _SPANS:
        axis = {"title": {"text": _SPANS[chart.kind][0]}}
    if chart.kind == "plane":
        axis = {"title": {"text": _text(chart.across)}, "range": [0, 104]}
    below = chart.kind in (*_SPANS, "plane", "heat")
    heat = chart.kind == "heat"
    lines = len(chart.lines)
    ungrouped = [line for line in chart.lines if not line.group]  # the page's own list of GPUs has the others
    vertical: Figure = {}
    if heat:
        vertical = {"autorange": "reversed"}
    elif chart.most is not None:
        vertical = {"range": [0, chart.most * 1.04]}
    elif chart.unit not in ("MHz", "°C"):
        vertical = {"rangemode": "tozero"}
    shapes, labels = ([], []) if heat else _limits_and_cycle(chart)
    return {
        "height": 76 + _ROW * lines if heat else _HEIGHT,
        "margin": {
            "l": 96 if heat else 58,
            "r": 70 if heat else 16,
            "t": 26,
            "b": 46 if below else 30,
        },
        "hovermode": "closest" if heat or chart.kind == "plane" else "x unified",
        "hoverlabel": {"namelength": -1},  # names that differ in their ends alone
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "showlegend": not heat and (len(ungrouped) > 1 or bool(chart.dots or chart.fans or chart.marks)),
        "legend": {
            "orientation": "h",
            "traceorder": "normal",
            "y": 1.02,
            "yanchor": "bottom",
            "x": 1,
            "xanchor": "right",
        },
        "xaxis": {**axis, "showgrid": False, "zeroline": False},
        "yaxis": {
            "fixedrange": True,
            "zeroline": False,
            "automargin": True,
            **vertical,
        },
        "shapes": shapes,
        "annotations": labels,
    }


def _traces(chart: Chart, line: Line) -> Iterator[Figure]:
    points, group = drawn_points(chart, line), {"meta": line.group} if line.group else {}
    color = color_of(line.color)
    if not points.exact and len(chart.lines) <= BANDS:
        yield {**_band(chart, points, color), **group}
    many = chart.unit and not points.exact
    alone = any(run.stop - run.start == 1 for run in known_runs(points))  # no line would go there
    yield {
        "x0": 0 if chart.kind in _SPANS else points.start_ms,
        "dx": points.step_ms / _SPANS[chart.kind][1] if chart.kind in _SPANS else points.step_ms,
        **group,
        "type": "scatter",
        "mode": "lines+markers" if alone else "lines",
        **({"marker": {"size": 3}} if alone else {}),
        "name": _text(line.name or chart.title),
        "y": rounded(points.mean),
        "line": {"width": 1.4, "color": color, "dash": dash_of(line.color)},
        "showlegend": not line.group,
        "hovertemplate": f"%{{y:.4~g}} {chart.unit}" + (" (max %{customdata:.4~g})" if many else ""),
        **({"customdata": rounded(points.high)} if many else {}),
    }


def _band(chart: Chart, points: Buckets, color: str, at: np.ndarray | None = None) -> Figure:
    """Draw the band from the lowest to the highest values: an area of its own for each run without a gap.
    ``at``: where, if not at the times of the points."""
    places = points.times / _SPANS[chart.kind][1] if chart.kind in _SPANS else points.times
    places = places if at is None else at
    x: list[float | None] = []
    y: list[float | None] = []
    for run in known_runs(points):
        there, low, high = places[run].tolist(), points.low[run], points.high[run]
        x += [*there, *reversed(there), None]
        y += [*rounded(high), *reversed(rounded(low)), None]
    return {
        "type": "scatter",
        "mode": "lines",
        "x": x,
        "y": y,
        "fill": "toself",
        "fillcolor": color + "2e",
        "line": {"width": 0, "color": color},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _layer(chart: Chart, line: Line, low: np.ndarray, high: np.ndarray) -> Iterator[Figure]:
    """Yield a layer of a stack: its area, and a line without a stroke that tells its values."""
    points, color = line.points, color_of(line.color)
    blocks = Buckets(
        points.start_ms,
        points.step_ms,
        np.repeat(high, 2),
        np.repeat(low, 2),
        np.repeat(high, 2),
        exact=False,
    )
    area = _band(chart, blocks, color, block_corners(points))
    yield {**area, "name": _text(line.name), "fillcolor": color + "b0", "showlegend": True}
    yield {
        "x0": points.start_ms,
        "dx": points.step_ms,
        "type": "scatter",
        "mode": "lines",
        "name": _text(line.name),
        "y": rounded(high),
        "customdata": rounded(points.mean),
        "line": {"width": 0, "color": color},
        "showlegend": False,
        "hovertemplate": f"%{{customdata:.4~g}} {chart.unit}",
    }


def _spots(spots: Spots, chart: Chart) -> Figure:
    shades: Figure = {"color": list(range(len(spots.x))), "colorscale": [[0, "#b5d2f3"], [1, "#0b3c6f"]]}
    color: Figure = shades if spots.color is None else {"color": color_of(spots.color)}
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _text(spots.name),
        "x": rounded(spots.x),
        "y": rounded(spots.y),
        "line": {"width": 1, "color": _GREY},
        "marker": {"size": 9, **color},
        "showlegend": spots.color is not None,
        "hovertemplate": f"%{{y:.3~g}} {chart.unit}, {chart.across}: %{{x:.3~g}}<extra></extra>",
    }


def rounded(values: np.ndarray) -> list[float | None]:
    """Round to four digits, which are more than a chart shows; None where there is nothing."""
    return [None if value != value else float(f"{value:.4g}") for value in values.tolist()]


def _fan(fan: Fan, *, first: bool) -> Iterator[Figure]:
    color = _PALETTE[1]
    there_and_back = [*fan.high, *reversed(fan.low)]
    yield {
        "type": "scatter",
        "mode": "lines",
        "x": [*fan.times_ms, *reversed(fan.times_ms)],
        "y": rounded(np.array(there_and_back)),
        "fill": "toself",
        "fillcolor": color + "38",
        "line": {"width": 0, "color": color},
        "hoverinfo": "skip",
        "name": "90 % interval",
        "showlegend": first,
    }
    yield {
        "type": "scatter",
        "mode": "lines",
        "x": fan.times_ms,
        "y": rounded(np.array(fan.values)),
        "name": "forecast",
        "line": {"width": 1.4, "color": color, "dash": "dot"},
        "showlegend": first,
        "hovertemplate": "%{y:.4~g}",
    }


def _across(x0: float, x1: float, y0: float, y1: float, **more: Any) -> Figure:
    """Draw a line; ``xref`` or ``yref`` of ``paper``: 0 to 1 is all of the plot."""
    return {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, **more}


def _label(text: str, x: float, y: float, yanchor: str, **refs: str) -> Figure:
    """Put a text to the right of a place."""
    return {
        **refs, "x": x, "y": y, "text": _text(text), "showarrow": False, "xanchor": "left",
        "yanchor": yanchor, "font": {"size": 11},
    }  # fmt: skip


def _limits_and_cycle(chart: Chart) -> tuple[list[Figure], list[Figure]]:
    """Draw the limits, a bar above the time of the cycle, and a line where each of its periods ends; and
    label the limits and the cycle."""
    shapes: list[Figure] = []
    labels: list[Figure] = []
    dashed = {"width": 1, "dash": "dash", "color": "#8b8b8b"}
    for name, value in chart.limits:
        shapes.append(_across(0, 1, value, value, xref="paper", line=dashed))
        labels.append(_label(f"{name} {value:.4g} {chart.unit}", 0, value, "top", xref="paper"))
    for name, value in chart.limits_across:
        shapes.append(_across(value, value, 0, 1, yref="paper", line=dashed))
        labels.append(_label(f"{name} {value:.4g} {chart.unit}", value, 0, "bottom", yref="paper"))
    if chart.cycle is not None:
        title, first_ms, last_ms, _ = chart.cycle
        shapes.append({
            "type": "rect", "yref": "paper", "x0": first_ms, "x1": last_ms, "y0": 1, "y1": 1.025,
            "fillcolor": "#8a6fdf", "line": {"width": 0},
        })  # fmt: skip
        labels.append(_label(title, 0, 1.03, "bottom", xref="paper", yref="paper"))
    dotted = {"width": 1, "dash": "dot", "color": "#8a6fdf80"}
    shapes += [
        _across(at, at, 0, 1, yref="paper", layer="below", line=dotted) for at in cycle_lines_ms(chart)
    ]
    return shapes, labels

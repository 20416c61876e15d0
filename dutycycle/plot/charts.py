"""Makes the charts of a picture, one for each metric with a line for each subject and for each forecaster,
and writes them into one file: a page that can be zoomed, or a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from dutycycle.contract.catalogue import unit_of as unit_of_name
from dutycycle.plot.collected import BOUNDED, CollectedSeries
from dutycycle.report.charts.chart import POINTS, Chart, Dots, Line, scaled, unit_of
from dutycycle.report.charts.cycles import SeriesCycles, periods_of
from dutycycle.traces.frames import Frame, Moments, buckets
from dutycycle.whole_file import PAGES, whole_file

PICTURES = (".png", ".svg")
_INCHES = (9.0, 3.4)
_Span = tuple[int, int]
"""The time of a picture, both ends included, in Unix milliseconds."""


def span_of(collected: CollectedSeries) -> _Span:
    """Return the time from the first that is drawn to the last; forecasts may stand out."""
    windows = [by_size[min(by_size)] for by_size in collected.windows.values()]
    forecasts = [forecast for by_name in collected.forecasts.values() for forecast in by_name.values()]
    frames = [*collected.samples.values()] or windows or forecasts
    times = [frame.between(0, 2**62).times for frame in frames]
    return min(int(of_frame[0]) for of_frame in times), max(int(of_frame[-1]) for of_frame in times)


def charts_of(collected: CollectedSeries, chosen: Mapping[str, Sequence[str]], span: _Span) -> list[Chart]:
    """Return a chart for each metric of ``chosen``, of its subjects, as far as anything was measured in that
    time."""
    charts = []
    for metric, subjects in chosen.items():
        lines: list[Line] = []
        dots: list[Dots] = []
        for subject in subjects:
            series = subject, metric
            whose = f"{collected.label(subject)}: " if len(subjects) > 1 else ""
            # What was measured, by the samples or else by the shortest windows
            windows = collected.windows.get(series)
            if series in collected.samples:
                lines += _line(whose.rstrip(": ") or "measured", collected.samples[series], span)
            elif windows:
                size_ms = min(windows)
                lines += _line(f"{whose}mean of {size_ms / 1000:g} s", windows[size_ms], span)
            # What each forecaster forecast, at the moment that it is about; of very many, some
            for forecaster, frame in collected.forecasts.get(series, {}).items():
                ticks = frame.between(*span)
                count = len(ticks.times)
                if not count:
                    continue
                shown = np.unique(np.linspace(0, count - 1, min(count, POINTS)).round().astype(int))
                some = f" ({len(shown)} of {count})" if len(shown) < count else ""
                name = f"{whose}{forecaster}, {collected.wanted.horizon_s:g} s ahead{some}"
                value, low, high = (ticks[column][shown] for column in BOUNDED)
                dots.append(Dots(name, 0, Moments(ticks.times[shown], value, low, high)))
        if not lines and not dots:
            continue
        highs = [*(line.points.high for line in lines), *(dot.points.high for dot in dots)]
        unit, scale = unit_of(unit_of_name(metric).text, [float(np.nanmax(high)) for high in highs])
        cycles = [
            SeriesCycles(collected.label(subject), periods)
            for subject in subjects
            if (periods := periods_of(collected.cycles.get(subject, ()), metric, *span))
        ]
        title = metric if len(subjects) > 1 else f"{metric} of {collected.label(subjects[0])}"
        colored_lines = [
            replace(line, color=color, points=scaled(line.points, scale)) for color, line in enumerate(lines)
        ]
        colored_dots = [
            replace(dot, color=color, points=scaled(dot.points, scale))
            for color, dot in enumerate(dots, len(lines))
        ]
        mark = cycles[0].mark() if cycles else None
        charts.append(Chart(metric.replace("_", "-"), title, unit, colored_lines, colored_dots, cycle=mark))
    return charts


def _line(name: str, frame: Frame, span: _Span) -> Iterator[Line]:
    ticks = frame.between(*span)
    if not len(ticks.times):
        return
    points = buckets(ticks.times, ticks["value"], *span, POINTS)
    if "low" in ticks.values:
        low, high = (buckets(ticks.times, ticks[end], *span, POINTS) for end in ("low", "high"))
        wide = bool((high.high > low.low).any())
        points = replace(points, low=low.low, high=high.high, exact=points.exact and not wide)
    yield Line(name, "", 0, points)


def write_charts(charts: Sequence[Chart], title: str | None, span: _Span, out: Path) -> None:
    """Write ``charts``, one below the other. ``title``: above them all; a page without one is called after
    its charts. Raises ``DutycycleError``."""
    with whole_file(out) as path:
        if out.suffix in PAGES:
            from dutycycle.report.charts.plot import figure_of
            from dutycycle.report.page import document, shown_charts  # here, not above: only a page needs it

            heading = title or ", ".join(chart.title for chart in charts)
            figures = {chart.id: figure_of(chart, *span) for chart in charts}
            page = document(
                "charts.html", f"{heading} – Dutycycle", figures,
                title=heading, span=span, shown=shown_charts(charts),
            )  # fmt: skip
            path.write_text(page, encoding="utf-8")
        else:
            from dutycycle.report.charts.pictures import draw, new_figure, save

            with new_figure(figsize=(_INCHES[0], _INCHES[1] * len(charts)), dpi=120) as figure:
                if title is not None:
                    figure.suptitle(title)
                for number, chart in enumerate(charts):
                    draw(figure.add_subplot(len(charts), 1, number + 1), chart)
                save(figure, path)

"""Writes the report as one HTML file: text, tables, and charts that Plotly draws, which is in the file as
well."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from dutycycle.report.charts.chart import Chart
from dutycycle.report.charts.plot import Figure, color_of, figure_of
from dutycycle.report.facts import (
    Facts,
    GpuUse,
    anomalies_of,
    evidence_of,
    headline,
    joules_text,
    key_figures,
)
from dutycycle.report.phases import PHASE_COLORS, Phase, seconds_by_name
from dutycycle.report.profiled import TEXTS, Profile, cell_text
from dutycycle.report.view import View
from dutycycle.traces.processes import (
    model_words,
    per_minute,
    samples_per_s,
    software_words,
    start_words,
)
from dutycycle.words import bytes_text, capitalized, digits, moment, short_duration

_HERE = Path(__file__).parent
_MOST_SPANS = 1500
_MOST_OF_CYCLES = 3
_MOST_PROCESSES = 64
_LOOP_COLUMNS = 8
_BROAD = frozenset({"ranks", "gpu-time"})
_MOST_ROWS, _MOST_LETTERS = 10, 120
"""Of a profile's tables: names of kernels have hundreds of letters."""


@dataclass(frozen=True, slots=True)
class Report:
    """Holds all that a report says. ``title``: one that a person chose. ``ended``: how the run did, such as
    its exit status; None where that is not known. ``key_figures`` and ``tables``: what is known beside the
    samples; ``caution``: what a reader has to know before all else."""

    view: View
    facts: Facts
    charts: list[Chart]
    phases: list[Phase]
    source: str
    notes: list[str]
    profiles: Sequence[Profile] = ()
    title: str | None = None
    ended: str | None = None
    key_figures: Sequence[tuple[str, str]] = ()
    tables: Sequence["PageTable"] = ()
    caution: str = ""

    @property
    def heading(self) -> str:
        """Return the chosen title, or what it is about."""
        return self.title or self.view.title


@dataclass(frozen=True, slots=True)
class PageTable:
    """Holds a table under a title. ``text``: columns that are no figures. ``note`` is below it."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: Sequence[int] = ()
    note: str = ""


class Keyed(NamedTuple):
    """Holds a cell with a key of a color before its text."""

    color: str
    text: str


@dataclass(frozen=True, slots=True)
class ServedPage:
    """Says what the server of a page adds: ``links``, addresses with what they are called; ``explain``: the
    address of what explains a figure, by its name, None where nothing does. Style and scripts are served
    below ``static/``."""

    links: Sequence[tuple[str, str]]
    explain: Callable[[str], str | None]


def html_of(report: Report, served: ServedPage | None = None) -> str:
    """Return the whole file, or with ``served`` a page of a server."""
    view, facts = report.view, report.facts
    line, advice = headline(facts)
    verdict = facts.verdicts[0] if line else None
    about = [("Of", view.title)] if report.title else []
    about += [("Host" if len(view.nodes) == 1 else "Hosts", ", ".join(view.nodes))]
    about += [("Ended", report.ended)] if report.ended else []
    seconds_of = seconds_by_name(report.phases)
    span = view.last_ms + 1 - view.first_ms
    least_ms = span / _MOST_SPANS if len(report.phases) > _MOST_SPANS else 0
    return document(
        "report.html",
        f"{report.heading} – Dutycycle report",
        {chart.id: figure_of(chart, view.first_ms, view.last_ms) for chart in report.charts},
        served,
        report=report, view=view, facts=facts, line=line, advice=advice,
        figures_of_verdict=verdict and evidence_of(verdict), anomalies=verdict and anomalies_of(verdict),
        key_figures=[*about, *key_figures(facts, view), *report.key_figures],
        phases_said=", ".join(f"{name} {short_duration(sum_s)}" for name, (sum_s, _) in seconds_of.items()),
        # In percent of all; where there are many, without those that none sees
        spans=[
            (phase, 100 * (phase.first_ms - view.first_ms) / span, 100 * lasted_ms / span)
            for phase in report.phases
            if (lasted_ms := phase.last_ms - phase.first_ms) >= least_ms
        ],
        phases=[
            [Keyed(_phase_color(name), name), short_duration(sum_s), _pct(100_000 * sum_s / span), str(count)]
            for name, (sum_s, count) in seconds_of.items()
        ],
        gpus=[gpu.name for gpu in view.gpus], shown=shown_charts(report.charts),
        sections=[*_sections(facts), *report.tables],
        profiles=[_profile(profile) for profile in report.profiles],
        notes=[f"Made from {report.source}.", *report.notes],
    )  # fmt: skip


def document(
    template: str, name: str, figures: Mapping[str, Figure], served: ServedPage | None = None, **values: Any
) -> str:
    """Return a file of a template that holds all that it needs: style, scripts, the figures of its charts; or
    with ``served`` a page."""
    from plotly.offline import get_plotlyjs  # here, not above: only a page needs these

    from dutycycle.html import templates_of

    templates = templates_of("dutycycle.report")
    templates.filters |= {
        "capital": capitalized, "color": color_of,
        # A number stays on one line with its unit: the space between them becomes one that does not break.
        "kept_together": lambda text: re.sub(r"(?<=\d) (?=[^\d\s(])", "\u00a0", text),
        "phase_color": _phase_color,
        "explain": (lambda _: None) if served is None else served.explain,
    }  # fmt: skip
    whole = {} if served is not None else {
        "css": _text("page.css"), "plotly": get_plotlyjs().replace("</script", "<\\/script"),
        "js": _text("page.js").replace("</script", "<\\/script"),
    }  # fmt: skip
    return templates.get_template(template).render(
        document=name,
        links=None if served is None else served.links,
        # JSON that cannot end the element that it stands in; so is the code above.
        figures=orjson.dumps(figures).decode().replace("<", "\\u003c"),
        **whole,
        **values,
    )


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _phase_color(name: str) -> str:
    return f"var(--{name if name in PHASE_COLORS else 'none'})"


def shown_charts(charts: Iterable[Chart]) -> list[dict[str, Any]]:
    """Return what a page says of each chart beside its figure: ``said`` is for who does not see it."""
    shown = []
    for chart in charts:
        sentences, rows = [f"{chart.title} in {chart.unit}"], []
        for line in chart.series:
            points, name = line.points, line.name or chart.title
            low, high = f"{np.nanmin(points.low):.4g}", f"{np.nanmax(points.high):.4g}"
            mean = f"{np.nanmean(points.mean):.4g}"
            sentences.append(f"{name}: mean {mean}, from {low} to {high}")
            rows.append([name, low, mean, high])
        tables = [] if chart.spots else [(["Series", "Min", "Mean", "Max"], rows)]
        for spots in chart.spots:
            sentences.append(f"{spots.name}: from {spots.y.min():.4g} to {spots.y.max():.4g}")
            sentences.append(f"{chart.across} from {spots.x.min():.4g} to {spots.x.max():.4g}")
            head = [spots.name, chart.across, f"{chart.title} ({chart.unit})"]
            places = enumerate(zip(spots.x, spots.y, strict=True), 1)
            tables.append((head, [[str(at), f"{x:.4g}", f"{y:.4g}"] for at, (x, y) in places]))
        sentences += [chart.cycle[0]] if chart.cycle is not None else []
        shown.append({
            "id": chart.id, "title": chart.title, "unit": chart.unit, "note": chart.note,
            "in_time": chart.in_time, "is_broad": chart.id in _BROAD, "said": "; ".join(sentences),
            "tables": tables,
        })  # fmt: skip
    return shown


def _sections(facts: Facts) -> Iterator[PageTable]:
    """Yield the tables below the charts, each where there is something to say."""
    if facts.gpus:
        yield PageTable("GPUs", _OF_GPU, [_gpu_row(gpu, facts.util_mean) for gpu in facts.gpus])
    if len(facts.verdicts) > 1:  # the only one is at the top
        rows = [
            [
                verdict.name,
                verdict.insight["kind"],
                verdict.insight["bottleneck"].replace("_", " "),
                f"{verdict.insight['bottleneck_confidence']:.0%}",
                short_duration(verdict.seconds),
                verdict.insight.get("advice", ""),
            ]
            for verdict in facts.verdicts
        ]
        head = ["Who", "Kind", "Held back by", "Sure", "For", "Advice"]
        yield PageTable("Kinds and bottlenecks", head, rows, (1, 2, 5))
    if facts.cycles:
        rows = [
            [
                cycle.name,
                what,
                f"{digits(period.period_s)} s",
                f"{period.confidence:.0%}",
                short_duration(period.seconds),
                moment(period.first_ms),
                moment(period.last_ms),
            ]
            for what, cycles in groupby(facts.cycles, key=itemgetter(0))
            for _, cycle in islice(cycles, _MOST_OF_CYCLES)
            for period in cycle.periods
        ]
        head = ["Whose", "Of what", "Period", "Sure", "For", "From (UTC)", "To (UTC)"]
        is_all = sum(len(cycle.periods) for _, cycle in facts.cycles) <= len(rows)
        note = f"Of each figure the {_MOST_OF_CYCLES} whose cycles lasted longest; all are in cycles.csv."
        yield PageTable("Cycles", head, rows, (1,), "" if is_all else note)
    yield from _processes(facts)


_OF_GPU = (
    "GPU", "Node", "Model", "Utilization mean", "from mean of all", "max", "Mem-copy max", "Memory max",
    "Power mean", "Power max", "Energy", "Max °C", "Clock reduced",
)  # fmt: skip


def _gpu_row(gpu: GpuUse, mean: float | None) -> list[str]:
    """Return the cells of a GPU's row. ``mean``: over the GPUs whose utilization is known."""
    throttled = ""
    if gpu.throttled is not None:
        shares = (f"{name.replace('_', ' ')} {share:.1f} %" for name, share in gpu.throttled.items())
        throttled = ", ".join(shares) or "no"
    return [
        gpu.name,
        gpu.node,
        gpu.model or "",
        _pct(gpu.util_mean),
        "" if gpu.util_mean is None or mean is None else f"{gpu.util_mean - mean:+.1f}",
        _pct(gpu.util_max),
        _pct(gpu.mem_copy_max),
        "" if gpu.mem_max is None else bytes_text(gpu.mem_max),
        _unit(gpu.power_mean, "W"),
        _unit(gpu.power_max, "W"),
        "" if gpu.energy_j is None else joules_text(gpu.energy_j),
        _unit(gpu.temp_max, ""),
        throttled,
    ]


def _pct(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} %"


def _unit(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.0f} {unit}".strip()


def _processes(facts: Facts) -> Iterator[PageTable]:
    loops = [
        (process, process.loop)
        for process in facts.processes
        if process.loop is not None and process.loop.steps
    ]
    if loops:
        head = ["Process", "Loop", "Steps", "A minute", "Median", "Longest", "Samples/s", "Model"]
        head += ["Not sent at once"] if any(loop.unsent for _, loop in loops) else []
        rows = [
            [
                process.name, loop.loop, str(loop.steps), f"{per_minute(loop):.3g}",
                _figure(process.step_s, " s"), _figure(loop.longest_s, " s"),
                _figure(samples_per_s(loop)), ", ".join(model_words(loop)),
                *([str(loop.unsent or 0)] if len(head) > _LOOP_COLUMNS else []),
            ]
            for process, loop in loops[:_MOST_PROCESSES]
        ]  # fmt: skip
        yield PageTable("Training loops, from inside", head, rows, (1, 7))
    software = [(process, process.software) for process in facts.processes if process.software is not None]
    if software:
        rows = [
            [
                process.name, ", ".join(software_words(software_seen)), ", ".join(start_words(software_seen)),
                ", ".join(software_seen.unreadable or ()),
            ]
            for process, software_seen in software[:_MOST_PROCESSES]
        ]  # fmt: skip
        head = ["Process", "Software", "Started by", "Not readable"]
        head, rows = (head, rows) if any(row[3] for row in rows) else (head[:3], [row[:3] for row in rows])
        yield PageTable("Processes, from outside", head, rows, (1, 2, 3))


def _figure(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.4g}{unit}"


def _profile(profile: Profile) -> dict[str, Any]:
    """Return what a page says of a profile, with the first rows of its tables."""
    tables = []
    for part in profile.tables:
        rows = [
            [cell_text(name, cell)[:_MOST_LETTERS] for name, cell in zip(part.columns, row, strict=True)]
            for row in part.rows[:_MOST_ROWS]
        ]
        left = len(part.rows) - len(rows)
        texts = [place for place, name in enumerate(part.columns) if name in TEXTS]
        note = f"{left} more: dutycycle profile shows them." if left > 0 else ""
        tables.append(PageTable(part.title, part.columns, rows, texts, note))
    return {
        "source": profile.source, "product": profile.product, "figures": profile.figures(),
        "notes": profile.notes, "tables": tables,
    }  # fmt: skip

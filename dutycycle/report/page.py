"""The report as one HTML file: text, tables, and charts that Plotly draws, which is in the file as well."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path

import numpy as np
import orjson

from dutycycle.profile.profile import Profile
from dutycycle.profile.statistics import TEXTS, cell_text
from dutycycle.report.charts.chart import Chart
from dutycycle.report.charts.plot import Figure, color_of, figure_of
from dutycycle.report.facts import (
    Facts,
    GpuUse,
    Verdict,
    anomalies_of,
    evidence_of,
    headline,
    joules_text,
    key_figures,
)
from dutycycle.report.phases import Phase, seconds_by_name
from dutycycle.report.view import View
from dutycycle.traces.processes import (
    model_words,
    per_minute,
    samples_per_s,
    software_words,
    start_words,
)
from dutycycle.words import bytes_text, digits, short_duration

_HERE = Path(__file__).parent
_MOST_SPANS = 1500
_MOST_OF_CYCLES = 3
_MOST_PROCESSES = 64
_LOOP_COLUMNS = 8
_KNOWN_PHASES = frozenset({"idle", "loading", "training", "inference", "interactive", "checkpoint", "busy"})
_BROAD = frozenset({"ranks", "gpu-time"})
_MOST_ROWS, _MOST_LETTERS = 10, 120
"""Of a profile's tables: names of kernels have hundreds of letters."""


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says. ``title``: one that a person chose. ``ended``: how the run did, such as its
    exit status; None where that is not known."""

    view: View
    facts: Facts
    charts: list[Chart]
    phases: list[Phase]
    source: str
    notes: list[str]
    profiles: Sequence[Profile] = ()
    title: str | None = None
    ended: str | None = None

    @property
    def heading(self) -> str:
        """The chosen title, or what it is about."""
        return self.title or self.view.title


def html_of(report: Report) -> str:
    """The whole file."""
    view = report.view
    figures = {chart.id: figure_of(chart, view.first_ms, view.last_ms) for chart in report.charts}
    body = [
        *_head(report),
        *_verdict(report),
        *_figures(report),
        *_phases(report),
        *_charts(report),
        *_gpus(report.facts),
        *_insights(report.facts.verdicts),
        *_cycles(report.facts),
        *_processes(report.facts),
        *_profiles(report.profiles),
        *_about(report),
    ]
    return document(f"{report.heading} – Dutycycle report", body, figures)


def document(title: str, body: Iterable[str], figures: Mapping[str, Figure]) -> str:
    """A file that holds all that it needs: style, scripts, and the figures of the charts in ``body``."""
    from plotly.offline import get_plotlyjs  # here, not above: only a page needs it

    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_text('page.css')}</style></head>",
            "<body><main>",
            *body,
            '<p id="said" class="hidden" role="status" aria-live="polite"></p></main>',
            f'<script type="application/json" id="figures">{_safe(orjson.dumps(figures).decode())}</script>',
            f"<script>{_script(get_plotlyjs())}</script>",
            f"<script>{_text('page.js')}</script>",
            "</body></html>",
            "",
        ]
    )


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _safe(json: str) -> str:
    """JSON that cannot end the script element that it stands in."""
    return json.replace("<", "\\u003c")


def _script(code: str) -> str:
    return code.replace("</script", "<\\/script")


def moment(ts_ms: int) -> str:
    """In UTC, to the second."""
    return datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _head(report: Report) -> Iterator[str]:
    view = report.view
    yield f"<header><h1>{escape(report.heading)}</h1>"
    yield (
        f'<p class="soft">{moment(view.first_ms)} to {moment(view.last_ms)} UTC, '
        f"{short_duration(report.facts.duration_s)}</p></header>"
    )


def _verdict(report: Report) -> Iterator[str]:
    line, advice = headline(report.facts)
    if line or report.profiles or report.facts.incidents:
        yield '<section class="verdict" aria-label="Verdict">'
        yield from _from_outside(report, line, advice)
        for at_ms, incident in report.facts.incidents:
            yield f"<p><strong>GPU fault</strong> at {moment(at_ms)} UTC: {escape(incident)}</p>"
        for profile in report.profiles:
            source, verdict = escape(profile.source), escape(profile.headline())
            yield f"<p><strong>From inside ({source}): {verdict}</strong></p>"
            yield f"<p>{escape(profile.advice)}</p>" if profile.advice else ""
        yield "</section>"


def _from_outside(report: Report, line: str, advice: str) -> Iterator[str]:
    if not line:
        return
    verdict = report.facts.verdicts[0]
    yield f"<p><strong>{escape(_capital(line))}</strong></p>"
    yield f"<p>{escape(advice)}</p>" if advice else ""
    yield f'<p class="soft">{escape(verdict.name)}, for {short_duration(verdict.seconds)}; the evidence:</p>'
    yield _evidence(evidence_of(verdict))
    for since_ms, odd in anomalies_of(verdict):
        yield f"<p><strong>Anomaly</strong> since {moment(since_ms)} UTC, {escape(odd)}</p>"


def _evidence(figures: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in figures)
    return f'<dl class="evidence">{rows}</dl>'


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _figures(report: Report) -> Iterator[str]:
    yield '<section aria-label="Key figures"><dl class="figures">'
    about = [("Of", report.view.title)] if report.title else []
    about += [("Host" if len(report.view.nodes) == 1 else "Hosts", ", ".join(report.view.nodes))]
    about += [("Ended", report.ended)] if report.ended else []
    for name, value in (*about, *key_figures(report.facts, report.view)):
        yield f"<div><dt>{escape(name)}</dt><dd>{_kept_together(value)}</dd></div>"
    yield "</dl></section>"


def _kept_together(value: str) -> str:
    """A number stays on one line with its unit."""
    return re.sub(r"(?<=\d) (?=[^\d\s(])", "&nbsp;", escape(value))


def _phases(report: Report) -> Iterator[str]:
    if not report.phases:
        return
    view, phase_seconds = report.view, seconds_by_name(report.phases)
    span = view.last_ms + 1 - view.first_ms
    shown = ", ".join(f"{name} {short_duration(seconds)}" for name, (seconds, _) in phase_seconds.items())
    yield f'<section><h2>Phases</h2><div class="phases" role="img" aria-label="{escape(shown)}">'
    least = span / _MOST_SPANS if len(report.phases) > _MOST_SPANS else 0
    for phase in report.phases:
        if phase.last_ms - phase.first_ms >= least:
            left, width = (
                100 * (phase.first_ms - view.first_ms) / span,
                100 * (phase.last_ms - phase.first_ms) / span,
            )
            yield (
                f'<span style="left:{left:.3f}%;width:{width:.3f}%;background:{_phase_color(phase.name)}" '
                f'title="{escape(phase.name)}, {moment(phase.first_ms)}, '
                f'{short_duration(phase.seconds)}"></span>'
            )
    rows = [
        [
            f'<span class="key" style="background:{_phase_color(name)}"></span>{escape(name)}',
            short_duration(seconds),
            f"{100_000 * seconds / span:.1f} %",
            str(count),
        ]
        for name, (seconds, count) in phase_seconds.items()
    ]
    yield "</div>" + table(["Phase", "Time", "Share", "Times"], rows, raw=True) + "</section>"


def _phase_color(name: str) -> str:
    return f"var(--{name if name in _KNOWN_PHASES else 'none'})"


def _charts(report: Report) -> Iterator[str]:
    if not report.charts:
        return
    yield "<section><h2>Over time</h2>"
    yield from tools([gpu.name for gpu in report.view.gpus])
    yield "<noscript><p>The charts need JavaScript; the tables below hold the figures.</p></noscript>"
    yield '<div class="charts">'
    for chart in report.charts:
        yield from chart_of(chart)
    yield "</div></section>"


def tools(gpus: Sequence[str]) -> Iterator[str]:
    """What shows and hides GPUs, by their names, and moves the time of all charts."""
    yield '<fieldset class="tools"><legend class="hidden">Charts</legend>'
    if len(gpus) > 1:
        for place, name in enumerate(map(escape, gpus)):
            yield (
                f'<label><input type="checkbox" data-group="{name}" checked> '
                f'<span class="key" style="background:{color_of(place)}"></span>{name}</label>'
            )
    for key, text in (
        ("+", "Zoom in"),
        ("-", "Zoom out"),
        ("ArrowLeft", "Earlier"),
        ("ArrowRight", "Later"),
        ("0", "All"),
    ):
        yield f'<button type="button" data-key="{key}">{text}</button>'
    yield '<span class="soft">or drag in a chart; on the keyboard + − ← → 0</span></fieldset>'


def chart_of(chart: Chart) -> Iterator[str]:
    """A chart with its title, its note, and its figures as a table."""
    in_time = ' data-time tabindex="0"' if chart.in_time else ""
    said = "; ".join(_said(chart))
    broad = ' class="broad"' if chart.id in _BROAD else ""
    yield f'<figure{broad} aria-labelledby="title-{chart.id}">'
    unit = f'<span class="soft">({escape(chart.unit)})</span>'
    yield f'<h3 id="title-{chart.id}">{escape(chart.title)} {unit}</h3>'
    yield f'<div class="plot" data-chart="{chart.id}"{in_time} role="img" aria-label="{escape(said)}"></div>'
    yield f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
    rows = [
        [line.name or chart.title, *_summary(line.points.mean, line.points.low, line.points.high)]
        for line in chart.series
    ]
    head = ["Series", "Min", "Mean", "Max"]
    tables = [] if chart.spots else [table(head, rows)]
    for spots in chart.spots:
        head = [spots.name, chart.across, f"{chart.title} ({chart.unit})"]
        places = zip(spots.x, spots.y, strict=True)
        tables.append(table(head, [[str(at), f"{x:.4g}", f"{y:.4g}"] for at, (x, y) in enumerate(places, 1)]))
    shown = "".join(tables)
    yield f"<details><summary>Figures</summary>{shown}</details></figure>"


def _summary(mean: np.ndarray, low: np.ndarray, high: np.ndarray) -> tuple[str, str, str]:
    return f"{np.nanmin(low):.4g}", f"{np.nanmean(mean):.4g}", f"{np.nanmax(high):.4g}"


def _said(chart: Chart) -> Iterator[str]:
    """A chart for who does not see it."""
    yield f"{chart.title} in {chart.unit}"
    for line in chart.series:
        low, mean, high = _summary(line.points.mean, line.points.low, line.points.high)
        yield f"{line.name or chart.title}: mean {mean}, from {low} to {high}"
    for spots in chart.spots:
        yield f"{spots.name}: from {spots.y.min():.4g} to {spots.y.max():.4g}"
        yield f"{chart.across} from {spots.x.min():.4g} to {spots.x.max():.4g}"
    if chart.cycle is not None:
        yield chart.cycle[0]


def _gpus(facts: Facts) -> Iterator[str]:
    if not facts.gpus:
        return
    shown = table(_OF_GPU, [_gpu_row(gpu, facts.util_mean) for gpu in facts.gpus])
    yield f'<section><h2>GPUs</h2><div class="wide">{shown}</div></section>'


_OF_GPU = (
    "GPU", "Node", "Model", "Utilization mean", "from mean of all", "max", "Mem-copy max", "Memory max",
    "Power mean", "Power max", "Energy", "Max °C", "Clock reduced",
)  # fmt: skip


def _gpu_row(gpu: GpuUse, mean: float | None) -> list[str]:
    """``mean``: over the GPUs whose utilization is known."""
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


def _insights(verdicts: Sequence[Verdict]) -> Iterator[str]:
    if len(verdicts) < 2:  # the only one is at the top
        return
    rows = [
        [
            verdict.name,
            verdict.insight["kind"],
            verdict.insight["bottleneck"].replace("_", " "),
            f"{verdict.insight['bottleneck_confidence']:.0%}",
            short_duration(verdict.seconds),
            verdict.insight.get("advice", ""),
        ]
        for verdict in verdicts
    ]
    head = ["Who", "Kind", "Held back by", "Sure", "For", "Advice"]
    shown = table(head, rows, text=(1, 2, 5))
    yield f'<section><h2>Kinds and bottlenecks</h2><div class="wide">{shown}</div></section>'


def _cycles(facts: Facts) -> Iterator[str]:
    if not facts.cycles:
        return
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
    yield f'<section><h2>Cycles</h2><div class="wide">{table(head, rows, text=(1,))}</div>'
    if sum(len(cycle.periods) for _, cycle in facts.cycles) > len(rows):
        yield (
            f'<p class="soft">Of each figure the {_MOST_OF_CYCLES} whose cycles lasted longest; all are in '
            "cycles.csv.</p>"
        )
    yield "</section>"


def _processes(facts: Facts) -> Iterator[str]:
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
        yield "<section><h2>Training loops, from inside</h2>"
        yield f'<div class="wide">{table(head, rows, text=(1, 7))}</div></section>'
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
        yield "<section><h2>Processes, from outside</h2>"
        yield f'<div class="wide">{table(head, rows, text=(1, 2, 3))}</div></section>'


def _figure(value: float | None, unit: str = "") -> str:
    return "" if value is None else f"{value:.4g}{unit}"


def _profiles(profiles: Sequence[Profile]) -> Iterator[str]:
    for profile in profiles:
        yield f"<section><h2>From inside: {escape(profile.source)}</h2>"
        yield f'<p class="soft">{escape(profile.product)}; the evidence:</p>{_evidence(profile.figures())}'
        for note in profile.notes:
            yield f'<p class="note">{escape(_capital(note))}.</p>'
        for part in profile.tables:
            texts = [place for place, name in enumerate(part.columns) if name in TEXTS]
            rows = [
                [cell_text(name, cell)[:_MOST_LETTERS] for name, cell in zip(part.columns, row, strict=True)]
                for row in part.rows[:_MOST_ROWS]
            ]
            left = len(part.rows) - len(rows)
            yield f"<h3>{escape(part.title)}</h3>"
            yield f'<div class="wide">{table(part.columns, rows, text=texts)}</div>'
            yield f'<p class="note">{left} more: dutycycle profile shows them.</p>' if left > 0 else ""
        yield "</section>"


def _about(report: Report) -> Iterator[str]:
    yield '<section><h2>About these figures</h2><ul class="soft">'
    for note in [f"Made from {report.source}.", *report.notes]:
        yield f"<li>{escape(note)}</li>"
    yield "</ul></section>"


def table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, raw: bool = False, text: Sequence[int] = ()
) -> str:
    """``raw``: the first cell of a row is HTML already. ``text``: columns that are no figures."""

    def cell(place: int, value: str) -> str:
        kind = ' class="text"' if place in text else ""
        return f"<td{kind}>{value if raw and place == 0 else escape(value)}</td>"

    heads = "".join(
        f'<th scope="col"{" class=text" if place in text else ""}>{escape(title)}</th>'
        for place, title in enumerate(head)
    )
    body = "".join(f"<tr>{''.join(cell(*numbered) for numbered in enumerate(row))}</tr>" for row in rows)
    return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"

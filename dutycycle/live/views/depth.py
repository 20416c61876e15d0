"""Shows one subject in depth: figures, findings, history and forecast, cycle, windows, peaks, processes."""

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from dutycycle.contract.records.insights import Insight
from dutycycle.live.model.history import MetricHistory
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, PodRow, Row
from dutycycle.live.views import charts, figures
from dutycycle.live.views.findings import main_value, period_s, says
from dutycycle.live.views.spans import Line, bar, fit, util_style
from dutycycle.words import (
    bytes_text,
    digits,
    evidence_figures,
    kind_words,
    percent_text,
    short_duration,
)

_HEIGHT, _FOLD_HEIGHT = 7, 5
_FOLD_S = 300
"""Of the history, what a cycle is folded from: an older one may have been another."""
_EVIDENCE = 8
_NAMES = {"gpu_util_pct": "GPU use", "cpu_util_pct": "CPU"}


def depth(state: LiveState, row: Row, width: int) -> list[Line]:
    """Return all that is known, as lines of at most ``width``."""
    parts = (
        _head(row, width), _findings(state, row, width), _history(row, width), _cycle(row, width),
        figures.windows(row), figures.peaks(row), _inside(state, row, width),
    )  # fmt: skip
    lines: list[Line] = []
    for part in parts:
        content = list(part)
        if content:
            lines += [*content, []]
    return lines


def brief(state: LiveState, row: Row, width: int) -> list[Line]:
    """Return the figures and what is said of it: for below a table, where that has room."""
    return [[], *_head(row, width), *_findings(state, row, width)]


def _head(row: Row, width: int) -> Iterator[Line]:
    """Yield pairs of name and figure, in as many columns as there is room for."""
    yield [(figures.kind(row), "dim"), (row.title, "bold"), (f"  {figures.more(row)}", "dim")]
    pairs = list(figures.now(row))
    across = max(1, min(4, width // 38))
    for chunk in zip_longest(*(pairs[at::across] for at in range(across))):
        line: Line = []
        for pair in chunk:
            name, value = pair or ("", "")
            line += [*fit([(f"{name:<11} ", "dim"), (value, "")], width // across - 1), (" ", "")]
        yield line


def _findings(state: LiveState, row: Row, width: int) -> Iterator[Line]:
    words = says(state, row)
    if words:
        yield [("what it does  ", "dim"), (words, "bold")]
    for title, insight in insights_on(state, row):
        of = "" if title == row.title else f"{title}: "
        sure = of + kind_words(insight.kind, insight.confidence)
        evidence = [" ".join(figure) for figure in evidence_figures(insight.evidence)[:_EVIDENCE]]
        yield from _wrapped("because       ", ", ".join((sure, *evidence)), width)
        if insight.advice:
            yield from _wrapped("advice        ", insight.advice, width)


def _wrapped(name: str, text: str, width: int) -> Iterator[Line]:
    for at, line in enumerate(textwrap.wrap(text, max(width - len(name) - 1, 20))):
        yield [(name if at == 0 else " " * len(name), "dim"), (line, "")]


def insights_on(state: LiveState, row: Row) -> Iterator[tuple[str, Insight]]:
    """Yield its own, or of a GPU those of the pods on it."""
    rows: Sequence[Row] = [row]
    if isinstance(row, GpuRow):
        rows = [pod for uid in sorted(row.pods) if (pod := state.rows.get(f"pod/{uid}")) is not None]
    for subject_row in rows:
        if (insight := subject_row.derived.read_insight()) is not None:
            yield subject_row.title, insight


def main_history(row: Row) -> tuple[Sequence[int], Sequence[float]]:
    """Return times and values of the main metric."""
    history: MetricHistory
    if isinstance(row, JobRow):
        return figures.job_history(row)
    history = row.gpu_history if isinstance(row, PodRow) and row.main == "gpu_util_pct" else row.history
    return history.times(), history.values(row.main)


def _top(row: Row, values: Sequence[float]) -> float:
    if row.main == "gpu_util_pct":
        return 100.0
    if isinstance(row, NodeRow) and row.now.cpu_count:
        return 100.0 * row.now.cpu_count
    return max(100.0, max((value for value in values if value == value), default=0.0))


def _history(row: Row, width: int) -> Iterator[Line]:
    times, values = main_history(row)
    if len(times) < 2:
        return
    cells = charts.room_for(width)
    trend = row.derived.trend(row.main)
    ahead_s = trend[0].forecast[-1].horizon_s if trend is not None and trend[0].forecast else 0.0
    past_s = (times[-1] - times[0]) / 1000
    cell_s = max((past_s + ahead_s) / cells, row.interval_ms / 1000)
    past = min(int(past_s / cell_s) + 1, cells)
    begin_ms = times[-1] - past * cell_s * 1000 + 1
    shown = charts.bucketed(times, values, begin_ms, cell_s * 1000, past)
    fan = None
    now = main_value(row)
    if trend is not None and ahead_s and now is not None:
        ahead_cells = max(1, min(int(ahead_s / cell_s), cells - past))
        repeats = period_s(row) is not None
        fan = charts.ForecastCells(trend[0].level, trend[0].forecast, cell_s, ahead_cells, repeats)
    what = _NAMES.get(row.main, row.main)
    title = f"{what}: the last {short_duration(past_s)}"
    title += ", and the forecast with its 90 % interval" if fan is not None else ""
    yield [(title, "bold")]
    yield from charts.with_fan(shown, fan, charts.Scale(_HEIGHT, _top(row, values)))
    yield charts.time_axis(past, cell_s, fan)


def _cycle(row: Row, width: int) -> Iterator[Line]:
    period, cycle = period_s(row), row.derived.cycle(row.main)
    times, values = main_history(row)
    if period is None or cycle is None or not times:
        return
    recent = sum(ts_ms >= times[-1] - _FOLD_S * 1000 for ts_ms in times)
    times, values = times[-recent:], values[-recent:]
    step_s = row.interval_ms / 1000
    # A period that is no multiple of the tick fills the phases between ticks, too.
    bins = max(4, min(charts.room_for(width) // 2, round(4 * period / step_s)))
    sure = "" if cycle.confidence is None else f", {cycle.confidence:.0%} sure"
    since = "" if cycle.since_ms is None else f", for {short_duration((row.ts_ms - cycle.since_ms) / 1000)}"
    others = ", ".join(f"{digits(rhythm.period_s)} s" for rhythm in cycle.others or ())
    also = f"; also {others}" if others else ""
    span_s = (times[-1] - times[0]) / 1000
    yield [(f"One cycle of {digits(period)} s{sure}{since}{also}", "bold"),
           (f"  folded from the last {short_duration(span_s)}", "dim")]  # fmt: skip
    folded = charts.fold(times, values, period, bins)
    # Fill a phase that no tick has hit with the value of the one before
    filled: list[float] = []
    for value in folded:
        filled.append(filled[-1] if value != value and filled else value)
    wide = [value for value in filled for _ in range(2)]
    yield from charts.columns(wide, charts.Scale(_FOLD_HEIGHT, _top(row, values)), "good")
    yield [(" " * 7 + "0" + f"{digits(period)} s".rjust(max(2 * bins - 1, 5)), "dim")]


def _inside(state: LiveState, row: Row, width: int) -> Iterator[Line]:
    """Yield the lines of processes, GPUs or pods."""
    if isinstance(row, GpuRow):
        if row.processes:
            yield [("Processes", "bold")]
        for process in row.processes:
            pod = state.rows.get(f"pod/{process.pod_uid}")
            text = (
                f"{process.pid:>9}  {process.name or 'process':<20} {percent_text(process.gpu_util_pct):>8}"
            )
            yield [(text, ""), (f"  {bytes_text(process.mem_used_bytes):>10}", ""),
                   ("" if pod is None else f"  {pod.title}", "dim")]  # fmt: skip
    elif isinstance(row, JobRow):
        yield from _pods(sorted(row.pods.values(), key=lambda pod: pod.title), width)
    elif isinstance(row, PodRow):
        gpus = [gpu for gpu in state.gpus() if row.uid in gpu.pods]
        yield from _gpus(gpus, row.uid)
    else:
        yield from _gpus([gpu for gpu in state.gpus() if gpu.node == row.name], None)
        yield from _pods([pod for pod in state.pods() if pod.node == row.name], width)


def _gpus(gpus: Sequence[GpuRow], of_pod: str | None) -> Iterator[Line]:
    if gpus:
        yield [("GPUs", "bold")]
    for gpu in gpus:
        mine = [process for process in gpu.processes if of_pod is None or process.pod_uid == of_pod]
        util = gpu.now.gpu_util_pct
        names = ", ".join(f"{process.name or 'process'} {process.pid}" for process in mine)
        yield [
            (f"{gpu.name:>12}  ", ""), *bar(None if util is None else util / 100, 12, util_style(util)),
            (f" {percent_text(util):>8}  {bytes_text(gpu.now.mem_used_bytes):>10}", ""),
            (f"  {names}", "dim"),
        ]  # fmt: skip


def _pods(pods: Sequence[PodRow], width: int) -> Iterator[Line]:
    if pods:
        yield [("Pods", "bold")]
    for pod in pods:
        gpu = f"GPU {percent_text(pod.gpu_util):>8}  " if pod.gpus else ""
        figures_ = f"{gpu}CPU {percent_text(pod.cpu):>8}  {bytes_text(pod.mem):>10}"
        yield [*fit([(f"  {pod.title}", "")], max(width // 3, 24)), (f"  {figures_}", ""),
               (f"  {pod.node}", "dim")]  # fmt: skip

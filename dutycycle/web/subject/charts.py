"""Draws the chart of one subject's last minutes with its forecast, drawn as those of a report are."""

import numpy as np

from dutycycle.contract.units import GIB
from dutycycle.live.model.subjects import JobRow, PodRow, Row
from dutycycle.live.views.depth import main_history
from dutycycle.live.views.findings import period_s
from dutycycle.report.charts.chart import Chart, Fan, Line, folded
from dutycycle.report.charts.cycles import FOLD_PERIODS
from dutycycle.report.charts.forecasts import dots_of
from dutycycle.report.charts.plot import Figure, figure_of
from dutycycle.traces.frames import buckets
from dutycycle.words import digits, short_duration

_POINTS = 600
_LEAST_TICKS = 4
"""Of a shorter period the ticks show nothing."""
_TITLES = {
    "gpu_util_pct": "GPU use", "cpu_util_pct": "CPU", "mem_used_bytes": "Memory", "power_w": "Power",
    "temp_c": "Heat",
}  # fmt: skip
_UNITS = {"mem_used_bytes": "GiB", "power_w": "W", "temp_c": "°C"}
_SCALES = {"mem_used_bytes": GIB}
"""Of the unit that is drawn, in that of the record."""


def charts_of(row: Row) -> list[tuple[str, Figure]]:
    """Draw each metric that was measured in the last minutes, and one cycle; title and figure of each."""
    metrics = [row.main]
    if not isinstance(row, JobRow | PodRow):
        metrics += [metric for metric in row.history.metrics if metric in _UNITS]
    made = [_cycle(row), *(_chart(row, metric) for metric in metrics)]
    return [(chart.note, figure_of(chart, 0, 0)) for chart in made if chart is not None]


def _cycle(row: Row) -> Chart | None:
    """Draw one period of the main metric, folded from the newest ones."""
    cycle = row.derived.cycle(row.main)
    history, column = main_history(row)
    if cycle is None or cycle.period_s is None or len(history) < 2:
        return None
    times, values = np.array(history, np.int64), np.array(column, np.float64)
    of_cycles = times > times[-1] - 1000 * cycle.period_s * FOLD_PERIODS
    tick_ms = max(1, int(np.median(np.diff(times))))
    if not np.isfinite(values[of_cycles]).any() or 1000 * cycle.period_s < _LEAST_TICKS * tick_ms:
        return None
    periods = int((times[-1] - times[of_cycles][0]) / 1000 / cycle.period_s)
    sure = "" if cycle.confidence is None else f", {cycle.confidence:.0%} sure"
    return Chart(
        "cycle", "One cycle", _UNITS.get(row.main, "%"),
        [Line("mean", "", 2, folded(times[of_cycles], values[of_cycles], cycle.period_s, tick_ms))],
        kind="fold", most=100 if row.main == "gpu_util_pct" else None,
        note=f"One cycle of {digits(cycle.period_s)} s{sure}: {_TITLES[row.main]}, the last {periods} "
        "periods on one another; the band has 80 % of the ticks",
    )  # fmt: skip


def _chart(row: Row, metric: str) -> Chart | None:
    if metric == row.main or isinstance(row, JobRow):
        times, values = main_history(row)
    else:
        times, values = row.history.times(), row.history.values(metric)
    if len(times) < 2 or not np.isfinite(values).any():
        return None
    scale = _SCALES.get(metric, 1)
    moments = np.array(times, np.int64)
    points = buckets(
        moments, np.array(values, np.float64) / scale, int(moments[0]), int(moments[-1]), _POINTS
    )
    trend = row.derived.trend(metric)
    fans = []
    if trend is not None and trend[0].forecast:
        (newest, ts_ms), ahead = trend, trend[0].forecast
        values, lows, highs = zip(*((point.value, point.p05, point.p95) for point in ahead), strict=True)
        fans = [
            Fan(
                [ts_ms, *(ts_ms + round(1000 * point.horizon_s) for point in ahead)],
                *([figure / scale for figure in (newest.level, *of)] for of in (values, lows, highs)),
            )
        ]
    repeats = metric == row.main and period_s(row) is not None
    note = f"{_TITLES[metric]}: the last {short_duration((times[-1] - times[0]) / 1000)}, as it came in"
    return Chart(
        metric, _TITLES[metric], _UNITS.get(metric, "%"), [Line("measured", "", 0, points)], kind="fan",
        fans=[] if repeats else fans, dots=[dots_of(fans)] if repeats and fans else [],
        most=100 if metric == "gpu_util_pct" else None,
        note=note + (", and the forecast with its 90 % interval" if fans else ""),
    )  # fmt: skip

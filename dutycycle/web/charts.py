"""The chart of one subject's last minutes with its forecast, drawn as those of a report are."""

import numpy as np

from dutycycle.contract.records.derived import Forecast
from dutycycle.live.model.subjects import JobRow, PodRow, Row
from dutycycle.live.views.depth import main_history
from dutycycle.live.views.findings import period_s
from dutycycle.report.charts.chart import Chart, Fan, Line
from dutycycle.report.charts.forecasts import dots_of
from dutycycle.report.charts.plot import Figure, figure_of
from dutycycle.traces.frames import buckets

_POINTS = 600
_TITLES = {"gpu_util_pct": "GPU use", "cpu_util_pct": "CPU", "power_w": "Power", "temp_c": "Heat"}
_UNITS = {"power_w": "W", "temp_c": "°C"}


def charts_of(row: Row) -> list[tuple[str, Figure]]:
    """Draw each metric that was measured in the last minutes; title and figure of each."""
    made = (_chart(row, metric) for metric in (row.main, *_more(row)))
    return [(chart.title, figure_of(chart, 0, 0)) for chart in made if chart is not None]


def _more(row: Row) -> tuple[str, ...]:
    if isinstance(row, JobRow | PodRow):
        return ()
    return tuple(metric for metric in row.history.metrics if metric in _UNITS)


def _chart(row: Row, metric: str) -> Chart | None:
    if metric == row.main or isinstance(row, JobRow):
        times, values = main_history(row)
    else:
        times, values = row.history.times(), row.history.values(metric)
    if len(times) < 2 or not np.isfinite(values).any():
        return None
    moments = np.array(times, np.int64)
    points = buckets(moments, np.array(values, np.float64), int(moments[0]), int(moments[-1]), _POINTS)
    trend = row.derived.trend(metric)
    fans = []
    if trend is not None and trend[0].forecast:
        fans = [_fan(trend[1], trend[0].level, trend[0].forecast)]
    repeats = metric == row.main and period_s(row) is not None
    return Chart(
        metric, _TITLES[metric], _UNITS.get(metric, "%"), [Line("measured", "", 0, points)], kind="fan",
        fans=[] if repeats else fans, dots=[dots_of(fans)] if repeats and fans else [],
        most=100 if metric == "gpu_util_pct" else None,
    )  # fmt: skip


def _fan(ts_ms: int, level: float, forecast: tuple[Forecast, ...]) -> Fan:
    return Fan(
        [ts_ms, *(ts_ms + round(1000 * point.horizon_s) for point in forecast)],
        [level, *(point.value for point in forecast)],
        [level, *(point.p05 for point in forecast)],
        [level, *(point.p95 for point in forecast)],
    )

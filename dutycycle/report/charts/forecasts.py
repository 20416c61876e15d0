"""Draws forecasts as they were made, beside what came."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np
import orjson

from dutycycle.report.charts.chart import Chart, Dots, Fan, Line, points_of, scaled, unit_of
from dutycycle.report.charts.cycles import periods_of
from dutycycle.report.gather import Gathered
from dutycycle.report.view import View
from dutycycle.traces.frames import Floats, FrameTicks, Moments
from dutycycle.words import rounded_duration

_FANS = 6
_COLUMNS = attrgetter("values"), attrgetter("low"), attrgetter("high")
_SPAN_MS = 20 * 60_000


def forecasts_of(gathered: Gathered, view: View) -> Iterator[Chart]:
    """Yield the last forecasts of each subject that is forecast here, as fans: those of the view's time."""
    first_ms = max(view.first_ms, view.last_ms - _SPAN_MS)
    for key, name, ticks, metric, title in _forecast_subjects(view):
        records = [orjson.loads(data) for data in gathered.trends.get(key, ())]
        made = [
            (record["ts_ms"], record["metrics"][metric]) for record in records if metric in record["metrics"]
        ]
        made = [pair for pair in made if pair[1].get("forecast") and first_ms <= pair[0] <= view.last_ms]
        if not made:
            continue
        unit, scale = unit_of("bytes" if "bytes" in metric else "%", [ticks.most(metric)])
        periods = periods_of(gathered.cycles.get(key, ()), metric, view.first_ms, view.last_ms)
        fans: list[Fan] = []
        of_cycle: list[Fan] = []
        places = np.unique(np.linspace(0, len(made) - 1, min(_FANS, len(made))).round().astype(int))
        spread = [made[at] for at in places]
        for ts_ms, trend in spread:
            repeats = any(period.first_ms <= ts_ms <= period.last_ms for period in periods)
            forecast = trend["forecast"]
            at = max(int(np.searchsorted(ticks.times, ts_ms, "right")) - 1, 0)
            now = float(ticks[metric][at])
            now = (trend["level"] if np.isnan(now) else now) / scale
            columns: list[Floats] = [
                np.array([point[name] for point in forecast]) / scale for name in ("value", "p05", "p95")
            ]
            value, low, high = ([now, *column.tolist()] for column in columns)
            fan = Fan(
                [ts_ms, *(ts_ms + round(1000 * point["horizon_s"]) for point in forecast)], value, low, high
            )
            (of_cycle if repeats else fans).append(fan)
        recent = np.where(ticks.times >= first_ms, ticks[metric], np.nan)
        points = points_of(view, replace(ticks, values={metric: recent}), metric)
        runs_out = made[-1][1].get("exhausts_in_s")
        note = (
            "Forecasts as they were made, up to 5 minutes ahead; 90 % of what came was expected within a fan."
        )
        if of_cycle:
            note += " Of a cycle single moments are forecast, each with its interval: no line joins them."
        if runs_out is not None:
            note += f" At this rate it is full {rounded_duration(runs_out)} after the last forecast."
        yield Chart(
            f"forecast-{metric.replace('_', '-')}-{name.replace(' ', '-').replace('/', '-')}",
            f"Forecast: {title}, {name}",
            unit,
            [Line("measured", "", 0, scaled(points, scale))],
            [dots_of(of_cycle)] if of_cycle else [],
            kind="fan",
            note=note,
            fans=fans,
            most=100 if unit == "%" and "gpu" in metric else None,
        )


def dots_of(fans: Sequence[Fan]) -> Dots:
    """Give the moments ahead of a cycle: between two of them the series goes on in its cycle."""
    times = np.array([ts_ms for fan in fans for ts_ms in fan.times_ms[1:]], np.int64)
    columns = ([value for fan in fans for value in column(fan)[1:]] for column in _COLUMNS)
    return Dots("forecast, 90 % interval", 1, Moments(times, *map(np.array, columns)))


def _forecast_subjects(view: View) -> Iterator[tuple[str, str, FrameTicks, str, str]]:
    """Yield key, name, ticks, metric and title: utilization and memory of the GPU that is used most, memory
    of the first pod or node."""
    if view.gpus:
        gpu = max(view.gpus, key=lambda view_of_gpu: view_of_gpu.ticks.mean("gpu_util_pct") or 0)
        key = f"gpu/{gpu.traced.node}/{gpu.traced.uuid}/nvml"
        yield key, gpu.name, gpu.ticks, "gpu_util_pct", "GPU utilization"
        yield key, gpu.name, gpu.ticks, "mem_used_bytes", "GPU memory"
    for machine in view.machines[:1]:
        yield f"{machine.key}/cgroup", machine.name, machine.ticks, "mem_used_bytes", "host memory"

"""Which charts a report has, as plain data that a page and a picture are drawn from alike."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import orjson

from dutycycle.report.frames import Buckets, Floats, Ticks, buckets
from dutycycle.report.gather import Gathered, Plain
from dutycycle.report.view import GpuView, HostView, View

POINTS = 1000
"""Points of a line at most; of a map, a third of that."""
_FOLD_BINS = 40
_FOLD_PERIODS = 30
_FANS = 6
_FAN_SPAN_MS = 20 * 60_000
_LINES_OF_CYCLE = 40
_GIB, _MIB = 1024**3, 1024**2


@dataclass(frozen=True, slots=True)
class Line:
    """One series. ``group``: the GPU that it belongs to, by which it is shown or hidden; empty for none.
    ``color``: a place in the palette."""

    name: str
    group: str
    color: int
    points: Buckets


@dataclass(frozen=True, slots=True)
class Marks:
    """Moments that stand out on a line, such as reduced clocks."""

    name: str
    group: str
    times_ms: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Fan:
    """A forecast as it was made: its moment and those ahead, with the expected value and the interval."""

    times_ms: list[int]
    values: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """One chart. ``kind``: lines, heat (one row a line), fold (over one cycle, in seconds) or fan."""

    id: str
    title: str
    unit: str
    lines: list[Line]
    kind: str = "lines"
    note: str = ""
    limits: list[tuple[str, float]] = field(default_factory=list)
    marks: list[Marks] = field(default_factory=list)
    fans: list[Fan] = field(default_factory=list)
    cycle: tuple[str, int, int, float] | None = None
    """What is said of the cycle, from when to when it lasted, and its period in seconds."""
    most: float | None = None
    """The end of the vertical axis, where it is known."""


def charts_of(gathered: Gathered, view: View) -> list[Chart]:
    """Every chart for which something was measured."""
    made = [*_gpu_charts(gathered, view), *_machine_charts(gathered, view), *_special(gathered, view)]
    return [one for one in made if one is not None]


def _scaled(points: Buckets, scale: float) -> Buckets:
    return Buckets(
        points.start_ms,
        points.step_ms,
        points.mean / scale,
        points.low / scale,
        points.high / scale,
        points.exact,
    )


def _line(
    view: View, name: str, group: str, color: int, ticks: Ticks, column: str, scale: float
) -> Line | None:
    values = ticks[column]
    if not np.isfinite(values).any():
        return None
    points = buckets(ticks.times, values, view.first_ms, view.last_ms, POINTS)
    return Line(name, group, color, _scaled(points, scale))


def _lines(found: Iterable[Line | None]) -> list[Line]:
    return [one for one in found if one is not None]


def _highest(views: Iterable[GpuView | HostView], columns: Sequence[str]) -> float:
    return max((one.ticks.most(column) or 0 for one in views for column in columns), default=0.0)


def _of_bytes(most: float) -> tuple[str, float]:
    return ("GiB", _GIB) if most >= _GIB else ("MiB", _MIB)


def _of_rate(most: float) -> tuple[str, float]:
    return ("GB/s", 1e9) if most >= 1e9 else ("MB/s", 1e6) if most >= 1e6 else ("kB/s", 1e3)


def _gpu_charts(gathered: Gathered, view: View) -> Iterator[Chart | None]:
    def chart(
        id_: str,
        title: str,
        unit: str,
        column: str,
        *,
        scale: float = 1.0,
        most: float | None = None,
        limit: Callable[[GpuView], float | None] | None = None,
        limit_name: str = "",
        note: str = "",
    ) -> Chart | None:
        lines = _lines(
            _line(view, gpu.name, gpu.name, place, gpu.ticks, column, scale)
            for place, gpu in enumerate(view.gpus)
        )
        if not lines:
            return None
        known = {value / scale for gpu in view.gpus if limit is not None and (value := limit(gpu))}
        return Chart(
            id_,
            title,
            unit,
            lines,
            note=note,
            most=most,
            limits=[(limit_name, one) for one in sorted(known)],
            cycle=_cycle_mark(gathered, view, column),
            marks=_throttle_marks(gathered, view) if id_ == "clock" else [],
        )

    unit, scale = _of_bytes(_highest(view.gpus, ["mem_used_bytes"]))
    yield chart("gpu-util", "GPU utilization", "%", "gpu_util_pct", most=100)
    yield chart(
        "gpu-memory",
        "GPU memory",
        unit,
        "mem_used_bytes",
        scale=scale,
        limit=lambda gpu: gpu.seen.mem_total_bytes,
        limit_name="total",
    )
    yield chart(
        "gpu-power", "GPU power", "W", "power_w", limit=lambda gpu: gpu.seen.power_limit_w, limit_name="limit"
    )
    yield chart("gpu-temperature", "GPU temperature", "°C", "temp_c")
    yield chart(
        "gpu-mem-copy",
        "Memory-copy utilization",
        "%",
        "mem_copy_util_pct",
        most=100,
        note="The share of time in which the memory controller was busy; not memory in use.",
    )
    yield chart(
        "clock",
        "SM clock",
        "MHz",
        "sm_clock_mhz",
        note="Marks are moments at which the driver reduced the clock, with its reason.",
    )


def _throttle_marks(gathered: Gathered, view: View) -> list[Marks]:
    """Where the clock was reduced: of each bucket of the chart at most one mark for each reason."""
    found = []
    for gpu in view.gpus:
        ticks = gpu.ticks
        step_ms = max(-(-(view.last_ms - view.first_ms + 1) // (POINTS // 4)), 1)
        for place, names in enumerate(gathered.throttles):
            where = np.flatnonzero(ticks["throttle"] == place) if names else np.array([], int)
            _, first = np.unique((ticks.times[where] - view.first_ms) // step_ms, return_index=True)
            chosen = where[first]
            chosen = chosen[np.isfinite(ticks["sm_clock_mhz"][chosen])]
            if len(chosen):
                clocks = ticks["sm_clock_mhz"][chosen].tolist()
                found.append(Marks(" + ".join(names), gpu.name, ticks.times[chosen].tolist(), clocks))
    return found


def cycles_of(gathered: Gathered, view: View, metric: str) -> list[tuple[str, Plain]]:
    """The cycles that were found in a metric, of pods first and then of GPUs, the surest first."""
    names = {f"{key}/nvml": name for key, name in view.subjects.items()}
    names |= {f"{one.key}/cgroup": one.name for one in view.machines}
    names |= {f"gpu/{one.seen.node}/{one.seen.uuid}/nvml": one.name for one in view.gpus}
    found = [
        (name, cycle)
        for key, name in names.items()
        if (cycle := gathered.cycles.get(key, {}).get("metrics", {}).get(metric)) and "period_s" in cycle
    ]
    return sorted(found, key=lambda one: -one[1].get("confidence", 0))


def periods_s(cycle: Plain) -> list[float]:
    """The periods of a cycle and of those within it."""
    return [cycle["period_s"], *(one["period_s"] for one in cycle.get("others", ()))]


def _cycle_mark(gathered: Gathered, view: View, metric: str) -> tuple[str, int, int, float] | None:
    found = cycles_of(gathered, view, metric)
    if not found:
        return None
    name, cycle = found[0]
    shown = ", ".join(f"{one:.3g} s" for one in periods_s(cycle))
    since_ms = max(cycle.get("since_ms", view.first_ms), view.first_ms)
    return f"cycle {shown} ({name})", since_ms, view.last_ms, cycle["period_s"]


def cycle_lines_ms(chart: Chart) -> list[int]:
    """Where each period of the chart's cycle begins; none where they would be too many to see."""
    if chart.cycle is None:
        return []
    _, first_ms, last_ms, period_s = chart.cycle
    count = int((last_ms - first_ms) / 1000 / period_s)
    return (
        [round(first_ms + 1000 * period_s * n) for n in range(count + 1)] if count <= _LINES_OF_CYCLE else []
    )


def _machine_charts(gathered: Gathered, view: View) -> Iterator[Chart | None]:
    machines = view.machines
    whole = "" if view.pods else "Of the whole machine."

    def chart(
        id_: str,
        title: str,
        unit: str,
        scale: float,
        of: Sequence[HostView],
        columns: dict[str, str],
        note: str,
    ) -> Chart | None:
        lines = _lines(
            _line(
                view,
                " ".join(filter(None, (one.name if len(of) > 1 or not label else "", label))),
                "",
                len(columns) * place + nth,
                one.ticks,
                column,
                scale,
            )
            for place, one in enumerate(of)
            for nth, (column, label) in enumerate(columns.items())
        )
        metric = next(iter(columns))
        return (
            Chart(id_, title, unit, lines, note=note, cycle=_cycle_mark(gathered, view, metric))
            if lines
            else None
        )

    unit, scale = _of_bytes(_highest(machines, ["mem_used_bytes"]))
    note = f"100 % is one core. {whole}".strip()
    yield chart("cpu", "CPU", "%", 1.0, machines, {"cpu_util_pct": ""}, note)
    yield chart("memory", "Host memory", unit, scale, machines, {"mem_used_bytes": ""}, whole)
    net = {"net_rx_bytes_per_s": "received", "net_tx_bytes_per_s": "sent"}
    of_pods = [one for one in view.pods if one.ticks.most("net_rx_bytes_per_s") is not None]
    of = of_pods or view.hosts
    unit, scale = _of_rate(_highest(of, list(net)))
    yield chart("network", "Network", unit, scale, of, net, "" if of_pods else "Of the whole machine.")
    prefix = "io" if view.pods else "disk"
    disk = {f"{prefix}_read_bytes_per_s": "read", f"{prefix}_write_bytes_per_s": "written"}
    unit, scale = _of_rate(_highest(machines, list(disk)))
    yield chart("disk", "Disk", unit, scale, machines, disk, whole)


def _special(gathered: Gathered, view: View) -> Iterator[Chart | None]:
    yield _heat(view)
    yield _fold(gathered, view)
    yield from _fans(gathered, view)


def _heat(view: View) -> Chart | None:
    if len(view.gpus) < 2:
        return None
    lines = [
        Line(gpu.name, gpu.name, place, points)
        for place, gpu in enumerate(view.gpus)
        if np.isfinite(values := gpu.ticks["gpu_util_pct"]).any()
        and (points := buckets(gpu.ticks.times, values, view.first_ms, view.last_ms, POINTS // 3))
    ]
    note = "Each row is one GPU. Rows that stay lighter than the others wait for them."
    return (
        Chart("ranks", "GPU utilization by rank", "%", lines, kind="heat", note=note, most=100)
        if lines
        else None
    )


def _fold(gathered: Gathered, view: View) -> Chart | None:
    """The mean utilization of the GPUs over one cycle: the shortest that the ticks can show."""
    found = cycles_of(gathered, view, "gpu_util_pct")
    if not found or not view.gpus:
        return None
    tick_s = max(view.gpus[0].ticks.step_ms, 1) / 1000
    possible = sorted(one for one in periods_s(found[0][1]) if one >= 4 * tick_s)
    if not possible:
        return None
    period_s = possible[0]
    from_ms = view.last_ms - _FOLD_PERIODS * period_s * 1000
    bins = min(_FOLD_BINS, int(period_s / tick_s))
    places, values = [], []
    for gpu in view.gpus:
        chosen = (gpu.ticks.times >= from_ms) & np.isfinite(gpu.ticks["gpu_util_pct"])
        phase = (gpu.ticks.times[chosen] - from_ms) / 1000 % period_s / period_s
        places.append((phase * bins).astype(int))
        values.append(gpu.ticks["gpu_util_pct"][chosen])
    place, value = np.concatenate(places), np.concatenate(values)
    mean, low, high = (np.full(bins, np.nan) for _ in range(3))
    for at in range(bins):
        here = value[place == at]
        if len(here):
            mean[at], (low[at], high[at]) = here.mean(), np.percentile(here, (10, 90))
    points = Buckets(0, round(period_s / bins * 1000), mean, low, high, exact=False)
    note = (
        f"The last {_FOLD_PERIODS} cycles of {period_s:.3g} s on one another; the band has 80 % of the ticks."
    )
    return Chart(
        "cycle", "One cycle", "%", [Line("mean of the GPUs", "", 0, points)], kind="fold", note=note, most=100
    )


def _fans(gathered: Gathered, view: View) -> Iterator[Chart]:
    for key, name, ticks, metric, title, bytes_ in _forecast_subjects(view):
        records = [orjson.loads(one) for one in gathered.trends.get(key, ())]
        made = [(one["ts_ms"], one["metrics"][metric]) for one in records if metric in one["metrics"]]
        made = [one for one in made if one[1].get("forecast") and one[0] >= view.last_ms - _FAN_SPAN_MS]
        if not made:
            continue
        unit, scale = _of_bytes(ticks.most(metric) or 0) if bytes_ else ("%", 1.0)
        fans = [_fan(ts_ms, trend, ticks, metric, scale) for ts_ms, trend in _spread(made)]
        first_ms = max(view.first_ms, view.last_ms - _FAN_SPAN_MS)
        points = buckets(
            ticks.times,
            np.where(ticks.times >= first_ms, ticks[metric], np.nan),
            first_ms,
            view.last_ms,
            POINTS,
        )
        runs_out = made[-1][1].get("exhausts_in_s")
        note = (
            "Forecasts as they were made, up to 5 minutes ahead; 90 % of what came was expected within a fan."
        )
        if runs_out is not None:
            note += f" At this rate it is full {_minutes(runs_out)} after the last forecast."
        yield Chart(
            f"forecast-{metric.replace('_', '-')}-{name.replace(' ', '-').replace('/', '-')}",
            f"Forecast: {title}, {name}",
            unit,
            [Line("measured", "", 0, _scaled(points, scale))],
            kind="fan",
            note=note,
            fans=fans,
            most=100 if unit == "%" and "gpu" in metric else None,
        )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"


def _forecast_subjects(view: View) -> Iterator[tuple[str, str, Ticks, str, str, bool]]:
    """Of the GPU that is used most its utilization and memory, of the first pod or node its memory."""
    if view.gpus:
        gpu = max(view.gpus, key=lambda one: one.ticks.mean("gpu_util_pct") or 0)
        key = f"gpu/{gpu.seen.node}/{gpu.seen.uuid}/nvml"
        yield key, gpu.name, gpu.ticks, "gpu_util_pct", "GPU utilization", False
        yield key, gpu.name, gpu.ticks, "mem_used_bytes", "GPU memory", True
    for one in view.machines[:1]:
        yield f"{one.key}/cgroup", one.name, one.ticks, "mem_used_bytes", "host memory", True


def _spread(made: list[tuple[int, Plain]]) -> list[tuple[int, Plain]]:
    places = np.unique(np.linspace(0, len(made) - 1, min(_FANS, len(made))).round().astype(int))
    return [made[at] for at in places]


def _fan(ts_ms: int, trend: Plain, ticks: Ticks, metric: str, scale: float) -> Fan:
    forecast = trend["forecast"]
    at = max(int(np.searchsorted(ticks.times, ts_ms, "right")) - 1, 0)
    now = float(ticks[metric][at])
    now = (trend["level"] if np.isnan(now) else now) / scale
    columns: list[Floats] = [
        np.array([one[name] for one in forecast]) / scale for name in ("value", "p05", "p95")
    ]
    value, low, high = ([now, *column.tolist()] for column in columns)
    return Fan([ts_ms, *(ts_ms + round(1000 * one["horizon_s"]) for one in forecast)], value, low, high)

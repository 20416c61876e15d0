"""Reads what a GPU or node did in the past days, who used it, and what happened to it: by the records, and
its figures by a Prometheus where one is set. Topics are never read for it."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dutycycle.contract.catalogue import GPU_ROWS
from dutycycle.contract.catalogue import unit_of as unit_of_name
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import unix_ms
from dutycycle.live.model.subjects import GPU_HISTORY
from dutycycle.report.charts.chart import Chart, Line, scaled, unit_of
from dutycycle.report.charts.plot import Figure, figure_of
from dutycycle.telemetry.metrics import PREFIX
from dutycycle.traces.frames import Buckets, buckets
from dutycycle.web.questions import DAY_MS
from sinks.records.query import gpu_events
from sinks.records.usage import LEDGER_MEANS, UsageQuery, hours_since, usage

if TYPE_CHECKING:
    from collectors.prometheus.query import Prometheus

PAST_SPANS = {"24h": "a day", "7d": "7 days", "30d": "30 days"}
DEFAULT_PAST = "7d"
_STEPS = {"hour": HOUR_MS, "day": DAY_MS}
_POINTS = 360
_ANSWER_S = 10
_PLAIN = re.compile(r"[\w.:/-]+")
"""UUIDs of GPUs. A query is text, so what is none of these does not come into one."""
_USED = {"busy": "gpu_util_pct", "SM activity": "sm_active_pct", "tensor activity": "tensor_active_pct"}
"""Of each line the metric."""


@dataclass(frozen=True, slots=True)
class HardwareKey:
    """Names a GPU, or with ``uuid`` None a node. ``gpus``: (uuid, what people call it) of those it has."""

    node: str
    uuid: str | None
    gpus: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Past:
    """Holds what is known of ``[start_ms, end_ms)``. ``errors``: why a part of it is not.

    ``charts``: title and figure; ``users``: rows of ``sinks.records.usage``; ``events``: of ``gpu_events``
    with ``at_ms``.
    """

    start_ms: int
    end_ms: int
    charts: list[tuple[str, Figure]] = field(default_factory=list)
    users: Sequence[Mapping[str, Any]] = ()
    events: Sequence[Mapping[str, Any]] = ()
    is_from_prometheus: bool = False
    errors: list[str] = field(default_factory=list)


def read_past(
    settings: Settings,
    url: str,
    key: HardwareKey,
    start_ms: int,
    end_ms: int,
    namespaces: Collection[str] | None = None,
) -> Past:
    """Read it. What cannot be read is named in ``errors``, and the rest is there all the same.

    ``namespaces``: those whose names may be told, None for all.
    """
    past = Past(start_ms, end_ms)
    charts: list[Chart] = []
    if settings.prometheus is not None:
        # Here, not above: 7 MB, for who has one.
        from collectors.prometheus.query import Prometheus, QueryError

        try:
            charts = list(charts_of_prometheus(Prometheus(settings), key.gpus, start_ms, end_ms))
        except QueryError as error:
            past.errors.append(f"Prometheus: {error}")
        past.is_from_prometheus = bool(charts)
    try:
        since_ms = hours_since(url)
        step = "day" if since_ms is not None and start_ms < since_ms else "hour"
        by_step = UsageQuery(
            by=(step,), start_ms=start_ms, end_ms=end_ms, node=key.node, gpu=key.uuid, namespaces=namespaces
        )
        charts = charts or list(_of_ledger(usage(url, by_step), step, start_ms, end_ms))
        past.users = usage(url, replace(by_step, by=("namespace", "job", "pod")))
        past.events = [
            {**event, "at_ms": unix_ms(event["at"])}
            for event in gpu_events(url, key.node, key.uuid, start_ms, namespaces)
        ]
    except DutycycleError as error:
        past.errors.append(str(error))
    past.charts = [(chart.title, figure_of(chart, start_ms, end_ms)) for chart in charts]
    return past


def _of_ledger(rows: Sequence[Mapping[str, Any]], step: str, start_ms: int, end_ms: int) -> Iterator[Chart]:
    """Draw the hours or days of the ledger, from the one in which the time begins: of each the mean over its
    known time."""
    if not rows:
        return
    step_ms = _STEPS[step]
    start_ms -= start_ms % step_ms
    places = [(unix_ms(row[step]) - start_ms) // step_ms for row in rows]
    count = (end_ms - start_ms) // step_ms + 1

    def line(name: str, place: int, metric: str) -> Line | None:
        means = np.full(count, np.nan)
        means[places] = [LEDGER_MEANS[metric].of(row) for row in rows]
        if not np.isfinite(means).any():
            return None
        return Line(name, "", place, Buckets(start_ms, step_ms, means, means, means, exact=True))

    shares = [line(name, place, metric) for place, (name, metric) in enumerate(_USED.items())]
    if lines := [share for share in shares if share is not None]:
        yield Chart("past-use", f"GPU use by {step}", "%", lines, most=100)
    watts = line("", 0, "power_w")
    if watts is not None:
        yield Chart("past-power", f"Power of a GPU by {step}", "W", [watts])


def charts_of_prometheus(
    prometheus: "Prometheus", gpus: Iterable[tuple[str, str]], start_ms: int, end_ms: int
) -> Iterator[Chart]:
    """Draw what it has of GPUs (uuid, name): of the metrics whose last minutes are shown. Close it. Raises
    ``QueryError``."""
    step_s = max(60, (end_ms - start_ms) // 1000 // _POINTS)
    names = {uuid: name for uuid, name in gpus if _PLAIN.fullmatch(uuid)}
    try:
        for metric in (row for row in GPU_ROWS if row.field in GPU_HISTORY and names):
            # What it is called there, the label that has a GPU's UUID, and the factor to our unit
            sources = [(name, "UUID", factor) for name, factor in metric.dcgm.items()]
            if metric.series is not None:
                sources.insert(0, (f"{PREFIX}{metric.series.name}", "uuid", 1 / metric.series.factor))
            points: dict[str, dict[int, float]] = {}
            for name, label, factor in sources:
                pattern = "|".join(map(re.escape, names)).replace("\\", "\\\\")
                selector = f'{{__name__=~"{name}",{label}=~"{pattern}"}}'
                answer = prometheus.by_step(
                    "avg_over_time", name, selector, start_ms, end_ms, step_s, _ANSWER_S
                )
                for series in answer:
                    if not series.labels.get("GPU_I_ID"):  # a slice is no GPU
                        points.setdefault(series.labels[label], {}).update(
                            (ts_ms, factor * value) for ts_ms, value in series.points
                        )
                if points:
                    break
            if not points:
                continue
            known = [value for of_gpu in points.values() for value in of_gpu.values()]
            unit, scale = unit_of(unit_of_name(metric.field).text, known)
            lines = []
            for place, (uuid, of_gpu) in enumerate(sorted(points.items(), key=lambda item: names[item[0]])):
                times = np.array(sorted(of_gpu), np.int64)
                values = np.array([of_gpu[ts_ms] for ts_ms in times.tolist()], np.float64)
                line = buckets(times, values, start_ms, end_ms - 1, (end_ms - start_ms) // (1000 * step_s))
                lines.append(Line(names[uuid] if len(points) > 1 else "", "", place, scaled(line, scale)))
            yield Chart(metric.chart, metric.title, unit, lines, most=100 if unit == "%" else None)
    finally:
        prometheus.close()

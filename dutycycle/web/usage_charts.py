"""Draws what was used over time, of each team, model or what else the usage is asked for by."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.units import unix_ms
from dutycycle.report.charts.chart import GREY, Chart, Line
from dutycycle.report.charts.plot import Figure, figure_of
from dutycycle.traces.frames import Buckets, Floats
from dutycycle.web.questions import DAY_MS

_STEPS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": HOUR_MS}
_MOST = 8
"""Layers of their own; what used less is one more, in grey. With more, colors cannot be told apart."""
_FIGURES = {"gpu_s": "GPU hours", "gpu_idle_s": "Idle GPU hours, as far as known"}


def usage_charts(
    by: Sequence[str], rows: Sequence[Mapping[str, Any]], since_ms: int | None
) -> list[tuple[str, Figure]]:
    """Draw rows of ``sinks.records.usage`` by week, day or hour; title and figure of each, none of others.

    ``since_ms``: before it hours have become days, which stand at their first hour; then hours are drawn by
    the day. None where all are kept. One layer stands on another. Times of which the ledger has nothing are
    gaps; a layer of which nothing is known is left out.
    """
    step = next((name for name in by if name in _STEPS), None)
    if step is None or not rows:
        return []
    times = [unix_ms(row[step]) for row in rows]
    if step == "hour" and since_ms is not None and min(times) < since_ms:
        step = "day"
    step_ms = _STEPS[step]
    start_ms = min(times) // DAY_MS * DAY_MS if step == "day" else min(times)
    count = (max(times) - start_ms) // step_ms + 1
    places = [(time_ms - start_ms) // step_ms for time_ms in times]
    empty = np.full(count, np.nan)
    empty[places] = 0.0
    groups = [", ".join(str(row[name]) for name in by if name not in _STEPS) for row in rows]
    used: dict[str, float] = defaultdict(float)
    for group, row in zip(groups, rows, strict=True):
        used[group] += row["gpu_s"] or 0.0
    layers = {group: at for at, group in enumerate(sorted(used, key=used.__getitem__, reverse=True)[:_MOST])}
    charts = []
    for figure, title in _FIGURES.items():
        hours: dict[str, Floats] = {group: empty.copy() for group in layers}
        known: set[str] = set()
        if len(used) > len(layers):
            hours["others"] = empty.copy()
        for group, place, row in zip(groups, places, rows, strict=True):
            if row[figure] is not None:
                layer = group if group in layers else "others"
                hours[layer][place] += row[figure] / 3600
                known.add(layer)
        lines = [
            Line(group, "", layers.get(group, GREY), Buckets(start_ms, step_ms, of, of, of, exact=True))
            for group, of in hours.items()
            if group in known
        ]
        chart = Chart(f"usage-{figure}", title, "h", lines, kind="stack")
        charts.append((f"{title}, by {step}", figure_of(chart, start_ms, start_ms + count * step_ms)))
    return charts

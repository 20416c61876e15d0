"""Reads of the records what pages show again and again, and takes it for a while as it was read; draws what
was used over time."""

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import unix_ms
from dutycycle.report.charts.chart import GREY, Chart, Line
from dutycycle.report.charts.plot import Figure, figure_of
from dutycycle.traces.frames import Buckets, Floats
from dutycycle.web.questions import DAY_MS, span_of
from dutycycle.web.subject.past import HardwareKey, Past, read_past
from dutycycle.words import moment
from sinks.records.location import default_records_url
from sinks.records.query import read_namespaces
from sinks.records.usage import UsageQuery, ledger_until, usage

_TODAY_S = 20.0
"""For so long the sums of today are taken as they were read, ..."""
_NAMED_S = 60.0
"""... the names of namespaces, ..."""
_PAST_MS, _PASTS = 60_000, 32
"""... and the past of a GPU or node; of so many it is kept."""
_STEPS = {"week": 7 * DAY_MS, "day": DAY_MS, "hour": HOUR_MS}
_MOST = 8
"""Layers of their own; what used less is one more, in grey. With more, colors cannot be told apart."""
_FIGURES = {"gpu_s": "GPU hours", "gpu_idle_s": "Idle GPU hours, as far as known"}


class LedgerReader:
    """Reads the records at ``url``. ``today``: sums since midnight UTC, None where nothing is known of it;
    ``written_ms``: up to when the ledger was written of which they are; ``problem``: why they are those of
    before, empty while they are not."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.records or default_records_url()
        self._settings = settings
        self.today: Mapping[str, Any] | None = None
        self.written_ms: int | None = None
        self.problem = ""
        self._today_ms = 0
        """Says when ``today`` was read, which may be long before it was tried last."""
        self._tried_s = self._named_s = float("-inf")
        self._names: set[str] = set()
        self._pasts: dict[tuple[HardwareKey, str, frozenset[str] | None], Past] = {}
        """Keeps what was read of a span for a viewer, the oldest first."""

    def read_today(self) -> None:
        """Read what was used since midnight UTC; where that fails it stays as it was."""
        if time.monotonic() - self._tried_s < _TODAY_S:
            return
        end_ms = time.time_ns() // 1_000_000
        query = UsageQuery(by=("day",), start_ms=end_ms // DAY_MS * DAY_MS, end_ms=end_ms)
        try:
            sums = next(iter(usage(self.url, query)), None)
            written_ms = ledger_until(self.url, end_ms)
            self.today, self.written_ms, self._today_ms, self.problem = sums, written_ms, end_ms, ""
        except DutycycleError as error:
            # Who never had records is told so on the pages of these.
            if self.today is not None:
                self.problem = f"Today's sums are as of {moment(self._today_ms)} UTC: {error}"
        self._tried_s = time.monotonic()

    def namespaces(self) -> set[str]:
        """Name those of the records as of a minute ago at most; those of before while they cannot be read."""
        if time.monotonic() - self._named_s >= _NAMED_S:
            with suppress(DutycycleError):  # said on the pages of the records
                self._names = read_namespaces(self.url)
            self._named_s = time.monotonic()
        return self._names

    def past(self, hardware: HardwareKey, span: str, namespaces: frozenset[str] | None) -> Past:
        """Return what a GPU or node did in ``span``, one of ``PAST_SPANS``. ``namespaces``: those whose names
        may be told, None for all."""
        key, now_ms = (hardware, span, namespaces), time.time_ns() // 1_000_000
        past = self._pasts.get(key)
        if past is None or now_ms - past.end_ms > _PAST_MS:
            past = read_past(self._settings, self.url, hardware, *span_of(span, now_ms), namespaces)
            self._pasts.pop(key, None)
            self._pasts[key] = past
            if len(self._pasts) > _PASTS:
                del self._pasts[next(iter(self._pasts))]
        return past


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

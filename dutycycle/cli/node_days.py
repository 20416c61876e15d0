"""Prints what nodes needed by day, for ``dutycycle peaks --nodes``: a table for people, JSON or CSV for
programs."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from msgspec import structs

from dutycycle.cli.printing import print_csv, print_json, print_table
from dutycycle.contract.codec import to_plain
from dutycycle.contract.records.derived import NodePeaks, Peak
from dutycycle.contract.units import utc_day
from dutycycle.words import bytes_text, percent_text

_CSV = ("day", "node", "source", "scope", "metric", "max", "mean", "p95", "at_ms")


def _watts(value: float | None) -> str:
    return "·" if value is None else f"{value:.0f} W"


_COLUMNS = (
    ("GPU max", "gpu_util_pct", "max", percent_text),
    ("GPU p95", "gpu_util_pct", "p95", percent_text),
    ("GPU mean", "gpu_util_pct", "mean", percent_text),
    ("GPU memory max", "gpu_mem_used_bytes", "max", bytes_text),
    ("GPU memory p95", "gpu_mem_used_bytes", "p95", bytes_text),
    ("GPU power max", "gpu_power_w", "max", _watts),
    ("CPU max", "cpu_util_pct", "max", percent_text),
    ("CPU p95", "cpu_util_pct", "p95", percent_text),
    ("memory max", "mem_used_bytes", "max", bytes_text),
    ("memory p95", "mem_used_bytes", "p95", bytes_text),
)


def print_days(records: Sequence[NodePeaks], form: str) -> int:
    """Print the records to stdout, those of a node and day as one line of the table; 0, also without any."""
    if form == "json":
        print_json([to_plain(record) for record in records])
    elif form == "csv":
        print_csv(_CSV, (row for record in records for row in _csv_rows(record)))
    else:
        headers = ("node", "day", "GPUs>", *(f"{header}>" for header, *_ in _COLUMNS))
        print_table(headers, _rows(records), "no records yet")
    return 0


def _csv_rows(node_day: NodePeaks) -> Iterator[dict[str, Any]]:
    """Yield one row a metric: of the whole (empty ``scope``), and of each GPU."""
    head = {"day": utc_day(node_day.day_ms), "node": node_day.node, "source": node_day.source}
    for scope, peaks in {"": node_day.metrics, **node_day.gpus}.items():
        for metric, peak in peaks.items():
            yield head | {"scope": scope, "metric": metric, **structs.asdict(peak)}


def _rows(records: Sequence[NodePeaks]) -> Iterator[tuple[str, ...]]:
    for (node, day_ms), several in groupby(records, key=lambda record: (record.node, record.day_ms)):
        sources = list(several)
        metrics: dict[str, Peak] = {name: peak for source in sources for name, peak in source.metrics.items()}
        figures = (form(getattr(metrics.get(metric), what, None)) for _, metric, what, form in _COLUMNS)
        gpus = max(len(source.gpus) for source in sources)
        yield node, utc_day(day_ms), str(gpus or ""), *figures

"""Writes the figures of a report as CSV files, and as Parquet where pyarrow is installed."""

import csv
from collections.abc import Sequence
from dataclasses import fields
from importlib.util import find_spec
from math import isnan
from pathlib import Path

import orjson

from dutycycle.report.facts import GpuUse
from dutycycle.report.page import Report

_Row = Sequence[object]


def write_tables(report: Report, folder: Path) -> None:
    """Write GPUs, phases, cycles, insights and the series of the charts, each in all ``table_formats``."""
    facts = report.facts
    gpus = [
        (
            *(getattr(gpu, name) for name in _GPU_FIGURES),
            None if gpu.throttled is None else orjson.dumps(gpu.throttled).decode(),
        )
        for gpu in facts.gpus
    ]
    phases = [(phase.name, phase.first_ms, phase.last_ms) for phase in report.phases]
    cycles = [
        (
            cycle.name,
            what,
            period.period_s,
            period.seconds,
            period.confidence,
            period.first_ms,
            period.last_ms,
        )
        for what, cycle in facts.cycles
        for period in cycle.periods
    ]
    insights = [
        (
            verdict.name, verdict.insight["kind"], verdict.insight["bottleneck"],
            verdict.insight["bottleneck_confidence"], verdict.seconds, verdict.insight.get("advice", ""),
            orjson.dumps(verdict.insight["evidence"]).decode(),
        )
        for verdict in facts.verdicts
    ]  # fmt: skip
    series = [
        (chart.id, line.name, chart.unit, *point)
        for chart in report.charts if chart.in_time
        for line in chart.series
        for point in zip(
            line.points.times.tolist(), line.points.mean.tolist(), line.points.low.tolist(),
            line.points.high.tolist(), strict=True,
        )
        if not isnan(point[1])  # absent
    ]  # fmt: skip
    tables: dict[str, tuple[Sequence[str], Sequence[_Row]]] = {
        "gpus": (("gpu", *_GPU_FIGURES[1:], "throttled_pct"), gpus),
        "phases": (("phase", "start_ms", "end_ms"), phases),
        "cycles": (
            ("subject", "metric", "period_s", "seconds", "confidence", "first_ms", "last_ms"), cycles,
        ),
        "insights": (
            ("subject", "kind", "bottleneck", "bottleneck_confidence", "seconds", "advice", "evidence"),
            insights,
        ),
        "series": (("chart", "series", "unit", "ts_ms", "mean", "min", "max"), series),
    }  # fmt: skip
    for name, (head, rows) in tables.items():
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(head)
            writer.writerows(rows)
        if "parquet" in table_formats():
            import pyarrow as pa  # here, not above: only Parquet needs it
            from pyarrow import parquet

            columns = zip(*rows, strict=True) if rows else [() for _ in head]
            table = pa.table({title: list(column) for title, column in zip(head, columns, strict=True)})
            parquet.write_table(table, folder / f"{name}.parquet")


def table_formats() -> tuple[str, ...]:
    """Return ``csv``, and ``parquet`` if pyarrow is installed."""
    return ("csv", "parquet") if find_spec("pyarrow") else ("csv",)


_GPU_FIGURES = tuple(field.name for field in fields(GpuUse) if field.name != "throttled")

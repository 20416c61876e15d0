"""The figures of a report as CSV files."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import orjson

from dutycycle.report.chart import Chart
from dutycycle.report.facts import Facts
from dutycycle.report.page import Report

_Row = Sequence[object]


def write_tables(report: Report, folder: Path) -> list[Path]:
    """GPUs, phases, cycles, insights and the series of the charts; the paths of the files."""
    facts = report.facts
    return [
        _write(folder / "gpus.csv", _gpu_head(), _gpus(facts)),
        _write(
            folder / "phases.csv",
            ("phase", "start_ms", "end_ms"),
            ((one.name, one.first_ms, one.last_ms) for one in report.phases),
        ),
        _write(
            folder / "cycles.csv",
            ("subject", "metric", "period_s", "seconds", "confidence", "first_ms", "last_ms"),
            _cycles(facts),
        ),
        _write(
            folder / "insights.csv",
            ("subject", "kind", "bottleneck", "bottleneck_confidence", "seconds", "advice", "evidence"),
            _insights(facts),
        ),
        _write(
            folder / "series.csv",
            ("chart", "series", "unit", "ts_ms", "mean", "min", "max"),
            (row for one in report.charts if one.kind in ("lines", "heat") for row in _series(one)),
        ),
    ]


def _write(path: Path, head: _Row, rows: Iterable[_Row]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        writer.writerows(rows)
    return path


_GPU_FIGURES = (
    "name",
    "model",
    "seconds",
    "busy_s",
    "idle_s",
    "energy_j",
    "util_mean",
    "util_max",
    "mem_copy_max",
    "mem_max",
    "mem_total",
    "power_mean",
    "power_max",
    "temp_max",
)


def _gpu_head() -> _Row:
    return ("gpu", *_GPU_FIGURES[1:], "throttled_pct")


def _gpus(facts: Facts) -> Iterator[_Row]:
    for one in facts.gpus:
        yield (*(getattr(one, name) for name in _GPU_FIGURES), orjson.dumps(one.throttled).decode())


def _cycles(facts: Facts) -> Iterator[_Row]:
    for what, cycle in facts.cycles:
        for one in cycle.periods:
            yield cycle.name, what, one.period_s, one.seconds, one.confidence, one.first_ms, one.last_ms


def _insights(facts: Facts) -> Iterator[_Row]:
    for one in facts.verdicts:
        found = one.insight
        yield (
            one.name,
            found["kind"],
            found["bottleneck"],
            found["bottleneck_confidence"],
            one.seconds,
            found.get("advice", ""),
            orjson.dumps(found["evidence"]).decode(),
        )


def _series(chart: Chart) -> Iterator[_Row]:
    for line in chart.lines:
        points = line.points
        for ts_ms, *values in zip(
            points.times.tolist(),
            points.mean.tolist(),
            points.low.tolist(),
            points.high.tolist(),
            strict=True,
        ):
            if values[0] == values[0]:  # NaN is absent
                yield (chart.id, line.name, chart.unit, ts_ms, *values)

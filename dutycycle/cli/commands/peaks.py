"""``dutycycle peaks``: the max-utilization records, as a table for people, JSON or CSV for programs."""

import argparse
import csv
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from contract.codec import to_plain
from contract.records.derived import JobPeaks, PodPeaks
from contract.settings.groups import Settings
from dutycycle.cli import arguments
from dutycycle.words import bytes_text, percent_text
from sinks.records.location import default_records_url
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.rows import started_ms

EXAMPLE = """dutycycle peaks
dutycycle peaks --job bert --format json | jq '.[0].metrics.gpu_util_pct.max'"""
SETTINGS: tuple[str, ...] = ()
FORMATS = ("table", "json", "csv")
PeakRecord = PodPeaks | JobPeaks
_CSV = ("kind", "namespace", "name", "uid", "node", "job", "first_ms", "last_ms", "final", "scope", "metric",
        "max", "mean", "at_ms", "started_ms")  # fmt: skip
_PIPED_WIDTH = 240
_COLUMNS = (
    ("CPU max", "cpu_util_pct", percent_text),
    ("memory max", "mem_used_bytes", bytes_text),
    ("GPU max", "gpu_util_pct", percent_text),
    ("GPU mean", "gpu_util_pct.mean", percent_text),
    ("GPU memory max", "gpu_mem_used_bytes", bytes_text),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and how."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--jobs", action="store_true", help="jobs instead of pods")
    which.add_argument("--pod", metavar="NAME", help="only pods of this name; several if it was used again")
    parser.add_argument("--namespace", metavar="NAME", help="only in this namespace")
    parser.add_argument("--job", metavar="NAME", help="only this job, or its pods, by name or uid")
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the records."""
    url = settings.records or default_records_url()
    if args.jobs:
        return print_records(job_peaks(url, args.namespace, args.job), args.format)
    return print_records(pod_peaks(url, args.namespace, args.job, args.pod), args.format)


def print_records(records: Sequence[PeakRecord], form: str) -> int:
    """Print the records to stdout; 0, also when there are none."""
    if form == "json":
        sys.stdout.buffer.write(orjson.dumps([to_plain(one) for one in records], option=orjson.OPT_INDENT_2))
        sys.stdout.buffer.write(b"\n")
    elif form == "csv":
        writer = csv.DictWriter(sys.stdout, _CSV)
        writer.writeheader()
        for one in records:
            writer.writerows(csv_rows(one))
    else:
        # Piped into less or grep a line stays a line; on a terminal it is cut to what fits.
        console = Console() if sys.stdout.isatty() else Console(width=_PIPED_WIDTH)
        console.print(_table(records) if records else "no records yet")
    return 0


def csv_rows(record: PeakRecord) -> list[dict[str, Any]]:
    """One row a metric: of the whole (empty ``scope``), and of each GPU or pod."""
    head = _head(record)
    scopes = {"": record.metrics}
    if isinstance(record, PodPeaks):
        scopes |= record.gpus
    else:
        scopes |= {name: pod.metrics for name, pod in record.pods.items()}
    return [
        head | {"scope": scope, "metric": metric, "max": peak.max, "mean": peak.mean, "at_ms": peak.at_ms}
        for scope, peaks in scopes.items()
        for metric, peak in peaks.items()
    ]


def _head(record: PeakRecord) -> dict[str, Any]:
    times = {"first_ms": record.first_ms, "last_ms": record.last_ms, "final": record.final}
    times["started_ms"] = began_ms(record)
    if isinstance(record, PodPeaks):
        pod = record.pod
        job = "" if pod.job is None else pod.job.name
        names = {
            "kind": "pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
            "node": pod.node,
        }
        return names | {"job": job} | times
    job_ref = record.job
    names = {"kind": job_ref.kind, "namespace": record.namespace, "name": job_ref.name, "uid": job_ref.uid}
    return names | {"node": "", "job": job_ref.name} | times


def _table(records: Sequence[PeakRecord]) -> Table:
    table = Table(box=None, pad_edge=False)
    times_named = Counter(_name(one) for one in records)
    headers = ["namespace", "name", "node", "job"]
    if any(count > 1 for count in times_named.values()):
        headers.insert(3, "started")  # the same name again is another pod: their start tells them apart
    for header in headers:
        table.add_column(header, no_wrap=True)
    for header, _, _ in _COLUMNS:
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("seconds", justify="right")
    table.add_column("ended")
    for one in records:
        head = _head(one)
        figures = (form(_value(one, metric)) for _, metric, form in _COLUMNS)
        span = f"{(one.last_ms - one.first_ms) / 1000:.0f}"
        head["started"] = _moment(head["started_ms"]) if times_named[_name(one)] > 1 else ""
        names = (Text(str(head[name] or "")) for name in headers)
        table.add_row(*names, *figures, span, "yes" if one.final else "")
    return table


def began_ms(record: PeakRecord) -> int:
    """When the pod or job of this name began, as far as is known."""
    return started_ms(record) if isinstance(record, PodPeaks) else record.first_ms


def _name(record: PeakRecord) -> tuple[str, str]:
    head = _head(record)
    return head["namespace"] or "", head["name"]


def _moment(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def _value(record: PeakRecord, metric: str) -> float | None:
    name, _, what = metric.partition(".")
    peak = record.metrics.get(name)
    return None if peak is None else peak.mean if what == "mean" else peak.max

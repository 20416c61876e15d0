"""Runs ``dutycycle peaks``: prints the max-utilization records, as a table for people, JSON or CSV for
programs."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from msgspec import structs

from dutycycle.cli import arguments, history
from dutycycle.cli.printing import FORMATS, print_csv, print_json, print_table
from dutycycle.contract.codec import to_plain
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.derived import JobPeaks, NodePeaks, PodPeaks
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import JOULES_PER_KWH, rfc3339, utc_day
from dutycycle.process import print_remark
from dutycycle.words import bytes_text, percent_text
from sinks.records.location import default_records_url
from sinks.records.query import Which, job_peaks, node_peaks, pod_peaks, require_namespace
from sinks.records.rows import started_ms

EXAMPLE = """dutycycle peaks --since 7d --sort gpu
dutycycle peaks --nodes --since 30d
dutycycle peaks --job bert --format json | jq '.[0].metrics.gpu_util_pct.max'"""
SETTINGS: tuple[str, ...] = ()
PeakRecord = PodPeaks | JobPeaks
_CSV = ("kind", "namespace", "name", "uid", "node", "job", "first_ms", "last_ms", "final", "scope", "metric",
        "max", "mean", "p95", "at_ms", "started_ms")  # fmt: skip
_COLUMNS = (
    ("CPU max", "cpu_util_pct", percent_text),
    ("CPU p95", "cpu_util_pct.p95", percent_text),
    ("memory max", "mem_used_bytes", bytes_text),
    ("GPU max", "gpu_util_pct", percent_text),
    ("GPU p95", "gpu_util_pct.p95", percent_text),
    ("GPU mean", "gpu_util_pct.mean", percent_text),
    ("GPU memory max", "gpu_mem_used_bytes", bytes_text),
    ("GPU h", "totals.gpu_s", lambda value: "·" if value is None else f"{value / 3600:.2f}"),
    ("kWh", "totals.energy_j", lambda value: "·" if value is None else f"{value / JOULES_PER_KWH:.2f}"),
)
_CSV_OF_NODE = ("day", "node", "source", "scope", "metric", "max", "mean", "p95", "at_ms")
_COLUMNS_OF_NODE = (
    ("GPU max", "gpu_util_pct", "max", percent_text),
    ("GPU p95", "gpu_util_pct", "p95", percent_text),
    ("GPU mean", "gpu_util_pct", "mean", percent_text),
    ("GPU memory max", "gpu_mem_used_bytes", "max", bytes_text),
    ("GPU memory p95", "gpu_mem_used_bytes", "p95", bytes_text),
    ("GPU power max", "gpu_power_w", "max", lambda value: "·" if value is None else f"{value:.0f} W"),
    ("CPU max", "cpu_util_pct", "max", percent_text),
    ("CPU p95", "cpu_util_pct", "p95", percent_text),
    ("memory max", "mem_used_bytes", "max", bytes_text),
    ("memory p95", "mem_used_bytes", "p95", bytes_text),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to show, and how."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--jobs", action="store_true", help="jobs instead of pods")
    which.add_argument("--nodes", action="store_true", help="nodes by day (UTC) instead of pods")
    which.add_argument("--pod", metavar="NAME", help="only pods of this name; several if it was used again")
    parser.add_argument("--namespace", metavar="NAME", help="only in this namespace")
    parser.add_argument("--job", metavar="NAME", help="only this job, or its pods, by name or uid")
    parser.add_argument("--node", metavar="NAME", help="only what ran on this node, or this node")
    parser.add_argument(
        "--label", type=lambda text: tuple(map(str.strip, text.partition("=")[::2])), metavar="KEY=VALUE",
        help="only pods with this label, or jobs with such pods; of those that DUTYCYCLE_POD_LABELS keeps",
    )  # fmt: skip
    parser.add_argument(
        "--since", metavar="TIME", help="only what was seen since: 7d ago, or 2026-11-20T10:00:00Z"
    )
    parser.add_argument(
        "--sort", choices=(*_SORTS, "name"), default="name",
        help="the largest or newest first; or by namespace, job and name (default: name)",
    )  # fmt: skip
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the records."""
    url = settings.records or default_records_url()
    which = Which(
        namespace=args.namespace, job=args.job, name=args.pod, node=args.node, label=args.label,
        since_ms=None if args.since is None else history.ago_ms("--since", args.since),
    )  # fmt: skip
    nothing = "no records yet" if which == Which() else "no record is of what was asked for"
    if args.nodes:
        for name in ("namespace", "job", "label"):
            if getattr(args, name) is not None:
                raise DutycycleError(
                    f"--{name} is of pods and jobs: with --nodes choose by --node and --since"
                )
        if args.sort != "name":
            raise DutycycleError("--sort is of pods and jobs: with --nodes the order is by node and day")
        return print_days(node_peaks(url, which), args.format, nothing)
    records: Sequence[PeakRecord] = job_peaks(url, which) if args.jobs else pod_peaks(url, which)
    if not records:
        require_namespace(url, args.namespace)
    if which == Which() and not any(map(gpu_count, records)) and any(peak.gpus for peak in node_peaks(url)):
        print_remark("no pod had a GPU; what each node's GPUs did: dutycycle peaks --nodes")
    if args.sort != "name":
        records = sorted(records, key=lambda peaks: -(_SORTS[args.sort](peaks) or 0))
    return print_records(records, args.format, nothing)


def print_records(records: Sequence[PeakRecord], form: str, nothing: str) -> int:
    """Print the records to stdout, or ``nothing`` for an empty table; 0, also when there are none."""
    if form == "json":
        print_json([to_plain(record) for record in records])
    elif form == "csv":
        # One row a metric: of the whole, whose scope is empty, and of each GPU or pod
        rows_of_metrics = []
        for record in records:
            scopes = {"": record.metrics}
            if isinstance(record, PodPeaks):
                scopes |= record.gpus
            else:
                scopes |= {name: pod.metrics for name, pod in record.pods.items()}
            rows_of_metrics += [
                _head(record) | {"scope": scope, "metric": metric, **structs.asdict(peak)}
                for scope, peaks in scopes.items()
                for metric, peak in peaks.items()
            ]
        print_csv(_CSV, rows_of_metrics)
    else:
        heads = [_head(record) for record in records]
        times_named = Counter((head["namespace"] or "", head["name"]) for head in heads)
        names = ["namespace", "name", "node", "job"]
        if any(count > 1 for count in times_named.values()):
            names.insert(3, "started")  # the same name again is another pod: their start tells them apart
        rows = []
        for record, head in zip(records, heads, strict=True):
            is_named_again = times_named[head["namespace"] or "", head["name"]] > 1
            figures = (form(_value(record, metric)) for _, metric, form in _COLUMNS)
            span = f"{(record.last_ms - record.first_ms) / 1000:.0f}"
            head["started"] = rfc3339(head["started_ms"]) if is_named_again else ""
            cells = (str(head[name] or "") for name in names)
            rows.append([*cells, str(gpu_count(record) or ""), *figures, span, "yes" if record.final else ""])
        headers = [*names, "GPUs>", *(f"{header}>" for header, _, _ in _COLUMNS), "seconds>", "ended"]
        print_table(headers, rows, nothing)
    return 0


def print_days(records: Sequence[NodePeaks], form: str, nothing: str) -> int:
    """Print the records to stdout, those of a node and day as one line of the table; 0, also without any."""
    if form == "json":
        print_json([to_plain(record) for record in records])
    elif form == "csv":
        rows = [
            {"day": utc_day(record.day_ms), "node": record.node, "source": record.source, "scope": scope}
            | {"metric": metric, **structs.asdict(peak)}
            for record in records
            for scope, peaks in {"": record.metrics, **record.gpus}.items()
            for metric, peak in peaks.items()
        ]
        print_csv(_CSV_OF_NODE, rows)
    else:
        headers = ("node", "day", "GPUs>", *(f"{header}>" for header, *_ in _COLUMNS_OF_NODE))
        lines = []
        for (node, day_ms), several in groupby(records, key=lambda record: (record.node, record.day_ms)):
            sources = list(several)
            metrics = {name: peak for source in sources for name, peak in source.metrics.items()}
            figures = (
                form(getattr(metrics.get(metric), what, None)) for _, metric, what, form in _COLUMNS_OF_NODE
            )
            gpus = max(len(source.gpus) for source in sources)
            lines.append((node, utc_day(day_ms), str(gpus or ""), *figures))
        print_table(headers, lines, nothing)
    return 0


def _head(record: PeakRecord) -> dict[str, Any]:
    if isinstance(record, PodPeaks):
        pod, job = record.pod, record.pod.job
        whose = {
            "kind": "pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid, "node": pod.node,
            "job": "" if job is None else job.name,
        }  # fmt: skip
    else:
        ref = record.job
        whose = {
            "kind": ref.kind, "namespace": record.namespace, "name": ref.name, "uid": ref.uid, "node": "",
            "job": ref.name,
        }  # fmt: skip
    return whose | {
        "first_ms": record.first_ms, "last_ms": record.last_ms, "final": record.final,
        "started_ms": began_ms(record),
    }  # fmt: skip


def gpu_count(record: PeakRecord) -> int:
    """Tell how many GPUs the pod had, or the pods of the job together: GPU memory is the sum over them."""
    return len(record.gpus if isinstance(record, PodPeaks) else record.known_gpus)


def began_ms(record: PeakRecord) -> int:
    """Tell when the pod or job of this name began, as far as is known."""
    return started_ms(record) if isinstance(record, PodPeaks) else record.first_ms


def _value(record: PeakRecord, metric: str) -> float | None:
    name, _, what = metric.partition(".")
    if name == "totals":
        return (record.totals or {}).get(what)
    peak = record.metrics.get(name)
    return None if peak is None else getattr(peak, what or "max")


_SORTS: dict[str, Callable[[PeakRecord], float | None]] = {
    "gpu": lambda peaks: _value(peaks, "gpu_util_pct"),
    "gpu-mean": lambda peaks: _value(peaks, "gpu_util_pct.mean"),
    "gpu-memory": lambda peaks: _value(peaks, "gpu_mem_used_bytes"),
    "gpus": gpu_count,
    "gpu-hours": lambda peaks: _value(peaks, "totals.gpu_s"),
    "energy": lambda peaks: _value(peaks, "totals.energy_j"),
    "cpu": lambda peaks: _value(peaks, "cpu_util_pct"),
    "memory": lambda peaks: _value(peaks, "mem_used_bytes"),
    "last": lambda peaks: peaks.last_ms,
    "started": began_ms,
    "seconds": lambda peaks: peaks.last_ms - peaks.first_ms,
}
"""What records are sorted by."""

"""``dutycycle predict``: what the pods of a job's file will need, from the peak records of their kin."""

import argparse

from dutycycle.cli import arguments
from dutycycle.contract.settings.groups import Settings
from dutycycle.schedule.asked import advice, prediction_of
from dutycycle.schedule.pod_specs import pods_of
from dutycycle.submit.documents import read_documents
from dutycycle.words import bytes_text
from sinks.records.location import default_records_url
from sinks.records.query import Which, pod_peaks
from sinks.scheduling.core.intervals import Interval
from sinks.scheduling.core.prediction import Prediction

EXAMPLE = """dutycycle predict job.yaml
dutycycle predict job.yaml --namespace ml"""
SETTINGS: tuple[str, ...] = ()
_FIGURES = (
    ("duration_s", "duration", lambda value: f"{value:.0f} s"),
    ("gpu_mem_bytes", "memory of one GPU", bytes_text),
    ("gpu_util_pct", "GPU utilization, max", lambda value: f"{value:.0f} %"),
    ("cpu_cores", "CPUs, p95", lambda value: f"{value:.1f}"),
    ("mem_bytes", "memory, max", bytes_text),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which file, and whose records."""
    parser.add_argument("files", nargs="+", metavar="FILE", help="YAML or JSON, as for kubectl apply")
    parser.add_argument(
        "-n", "--namespace", default="default", metavar="NAME", help="of what names none (default: default)"
    )
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print what each pod template will need. Status 1 where of an object nothing can be predicted, which
    is said."""
    url = settings.records or default_records_url()
    documents, status = read_documents(args.files), 0
    for document in documents:
        if not document.has_pods:
            continue
        asked = pods_of(document, args.namespace, documents)
        if asked.missing is not None:
            print(f"{document}\n  {asked.missing}")  # noqa: T201
            status = 1
        for pod in asked.pods:
            records = pod_peaks(url, Which(namespace=pod.namespace))
            found = prediction_of(pod, records)
            print(f"{document}{f' {pod.role}' if pod.role else ''}")  # noqa: T201
            if pod.note is not None:
                print(f"  {pod.note}")  # noqa: T201
            if found is None:
                print(f"  no prediction: no pod like it has ended in namespace {pod.namespace}")  # noqa: T201
                continue
            for line in (*_lines(found), *(f"ask for {one}" for one in advice(pod, found))):
                print(f"  {line}")  # noqa: T201
    return status


def _lines(found: Prediction) -> list[str]:
    lines = [f"from {found.evidence()}"]
    for name, title, text in _FIGURES:
        if (one := found.figures.get(name)) is not None:
            lines.append(f"{title}: {text(one.middle)}{_range(one, text(one.low), text(one.high))}")
    return lines


def _range(one: Interval, low: str, high: str) -> str:
    return f" ({low} to {high} in {one.coverage:.0%} of runs)" if one.coverage else ""

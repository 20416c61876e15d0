"""``dutycycle peaks``: the max-utilization records, as a table, JSON or CSV."""

import argparse

from contract.settings.settings import Settings
from dutycycle.cli import flags
from dutycycle.cli.peaks_output import FORMATS, show
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.url import default_records_url

EXAMPLE = """dutycycle peaks
dutycycle peaks --job bert --format json | jq '.[0].metrics.gpu_util_pct.max'"""
SETTINGS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to show, and how."""
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--jobs", action="store_true", help="jobs instead of pods")
    which.add_argument("--pod", metavar="NAME", help="only pods of this name, each that ever had it")
    parser.add_argument("--namespace", metavar="NAME", help="only of this namespace")
    parser.add_argument("--job", metavar="NAME", help="only this job, or its pods, by name or uid")
    flags.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the records."""
    url = settings.records or default_records_url()
    if args.jobs:
        return show(job_peaks(url, args.namespace, args.job), args.format)
    return show(pod_peaks(url, args.namespace, args.job, args.pod), args.format)

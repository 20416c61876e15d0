"""``dutycycle profile``: what a profile of Nsight Systems or PyTorch says."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from contract.errors import SettingError
from contract.settings.groups import Settings
from dutycycle.cli import arguments
from dutycycle.status_line import StatusLine
from dutycycle.traces.subject import qualified

if TYPE_CHECKING:
    from contract.records.pods import Pod

EXAMPLE = """nsys export --type sqlite report1.nsys-rep && dutycycle profile report1.sqlite
dutycycle profile rank0.pt.trace.json.gz --rows 5
dutycycle profile report1.sqlite --format json | jq .bottleneck
dutycycle profile report1.sqlite --pod ml/bert-0 --broker kafka://kafka:9092"""
SETTINGS = arguments.OF_BROKER


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and in which form what is found is printed."""
    parser.add_argument(
        "profile", metavar="FILE", type=Path,
        help="an SQLite export of Nsight Systems, or a trace of PyTorch's profiler (*.json, *.json.gz)",
    )  # fmt: skip
    parser.add_argument("--format", choices=("table", "json"), default="table", help="(default: table)")
    parser.add_argument(
        "--pod", metavar="NAME",
        help="whose profile it is: a name, namespace/name or uid; annotations and reports of it and "
        "of its job then say so too (needs --broker)",
    )  # fmt: skip
    arguments.add_timeout(parser)
    parser.add_argument(
        "--rows", type=_rows, default=12, metavar="N", help="rows of each table, at most (default: 12)"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read it and print; 0 when there was something to read."""
    from dutycycle.profile.profile import read  # here: --help need not wait

    pod = _pod(args, settings) if args.pod is not None else None
    with StatusLine(quiet_s=2.0, every_s=0.5) as status:
        profile = read(args.profile, lambda doing: status.show(f"reading {doing} …"))
    if args.format == "json":
        import orjson

        sys.stdout.buffer.write(orjson.dumps(profile.plain(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        from dutycycle.profile.terminal import show

        show(profile, sys.stdout, args.rows)
    if pod is not None:
        from dutycycle.profile.publish import publish

        publish(profile, pod, settings)
        of = f" of job {pod.job.name}" if pod.job is not None else ""
        print(f"published for pod {qualified(pod, pod.name)}{of}", file=sys.stderr)  # noqa: T201
    return 0


def _pod(args: argparse.Namespace, settings: Settings) -> "Pod":
    if settings.broker is None:
        raise SettingError("--pod needs a broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER")
    from dutycycle.profile.publish import find_pod  # here: a profile alone needs no Kafka

    return find_pod(args.pod, settings, args.timeout)


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 on")
    return int(text)

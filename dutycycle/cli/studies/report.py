"""Runs ``dutycycle report``: shows a trace, or the past of a job, as one page with pictures and tables."""

import argparse
from pathlib import Path

from dutycycle.cli import arguments, history
from dutycycle.contract.errors import DutycycleError, NotInstalledError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.process import print_remark
from dutycycle.run.folder import TRACE
from dutycycle.whole_file import PAGES, check_out

EXAMPLE = """dutycycle report day.jsonl.zst --out day.html
dutycycle report day.jsonl.zst --job bert --price-gpu-hour 2.5 --out bert.html
dutycycle report ml/bert --since 2h --broker kafka://kafka:9092 --out bert.html"""
SETTINGS = (
    *arguments.OF_BROKER, *arguments.OF_PROMETHEUS_ACCESS, *arguments.OF_OPERATORS, "price_gpu_hour",
    "price_kwh",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add traces or a name, whose report, and where it goes."""
    parser.add_argument(
        "what", nargs="*", metavar="TRACE|NAME",
        help="trace files, one after the other (- is stdin); with --since a job or a pod: its name, "
        "namespace/name or uid (default: everything)",
    )  # fmt: skip
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--job", metavar="NAME", help="only this job of a trace: name, namespace/name or uid")
    whose.add_argument("--pod", metavar="NAME", help="only this pod of a trace: name, namespace/name or uid")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("report.html"),
        help="the page; pictures and tables are in a folder beside it (default: report.html, report.files)",
    )  # fmt: skip
    parser.add_argument(
        "--profile", metavar="FILE", type=Path, action="append", default=[],
        help="add what a profile shows: an SQLite export of Nsight Systems, or a trace of PyTorch's "
        "profiler; may be given several times",
    )  # fmt: skip
    arguments.add_title(parser)
    arguments.add_force(parser)
    arguments.add_timeout(parser)
    history.add_arguments(parser.add_argument_group("history", "what Kafka or a Prometheus kept"))


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read, compute and write; 0 when there is a report."""
    from dutycycle.profile.profile import read  # here, not above: --help need not wait for it
    from dutycycle.report import build
    from dutycycle.report.tables import table_formats

    check_out(args.out, PAGES, overwrite=args.force)
    name = _name(args)
    profiles = [read(profile) for profile in args.profile]
    if args.since is None:
        names = ("standard input" if trace == "-" else Path(trace).name for trace in args.what)
        traces, source, status = args.what, ", ".join(names), 0
    else:
        trace = build.folder_of(args.out) / TRACE
        if trace.exists() and not args.force:
            raise SettingError(
                f"{trace}: is there already: make the report of it, or read it anew with --force"
            )
        if args.from_prometheus is not None:
            from dutycycle.traces.backfill import backfill

            past_settings, past = history.prometheus_of(args, settings), history.range_of(args)
            place = str(past_settings.prometheus)
            trace.parent.mkdir(exist_ok=True)
            status = backfill(
                str(trace), past, past_settings,
                overwrite=args.force, patience_s=args.timeout, partial=args.partial,
            )  # fmt: skip
        elif args.step is not None:
            raise SettingError("--step needs --from-prometheus")
        elif settings.broker is None:
            raise SettingError(
                "give --broker kafka://host:9092 (or DUTYCYCLE_BROKER), or --from-prometheus URL"
            )
        else:
            from dutycycle.traces.extract import ExtractRequest, extract

            place, status = settings.broker, 0
            wanted = ExtractRequest(name, *history.since_until(args))
            extract(trace, wanted, settings, overwrite=args.force, timeout_s=args.timeout)
        traces, source = [str(trace)], f"{trace}, read from {place}"
    gathered = build.gather(traces, settings)
    report = build.report_of(
        gathered,
        settings,
        source,
        job=name if args.job is None else args.job,
        pod=name if args.pod is None else args.pod,
        profiles=profiles,
        title=args.title,
    )
    folder = build.write_report(report, args.out)
    print(f"{args.out}: the report; pictures and tables are in {folder}")  # noqa: T201
    if "parquet" not in table_formats():
        print_remark(f"The tables are CSV alone; Parquet: {NotInstalledError('pyarrow')}")
    return status


def _name(args: argparse.Namespace) -> str | None:
    """Return the name that is to be looked for in the past; None for a trace, and for everything.

    Raises ``DutycycleError`` for arguments that do not go together.
    """
    if args.since is not None:
        if args.job is not None or args.pod is not None:
            raise SettingError("--job and --pod go with a trace; with --since, give the name alone")
        if len(args.what) > 1:
            raise SettingError(f"--since goes with one name, not {len(args.what)}: {', '.join(args.what)}")
        return args.what[0] if args.what else None
    for flag, value in (
        ("--until", args.until),
        ("--step", args.step),
        ("--from-prometheus", args.from_prometheus),
    ):
        if value is not None:
            raise SettingError(f"{flag} needs --since, such as --since 2h")
    if not args.what:
        raise SettingError("give a trace, or --since 2h with the name of a job or pod")
    for source in args.what:
        if source != "-" and not Path(source).exists():
            raise DutycycleError(
                f"{source}: No such file or directory; for a job or pod of this name add --since 2h"
            )
    return None

"""Runs ``dutycycle compare``: shows runs side by side, as a table, JSON and a page."""

import argparse
from collections import Counter
from pathlib import Path

import orjson

from dutycycle.cli import arguments
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.run.folder import TRACE
from dutycycle.whole_file import PAGES, check_out

EXAMPLE = """dutycycle compare before after
dutycycle compare mon.jsonl.zst tue.jsonl.zst --job bert --price-gpu-hour 2.5 --out bert.html"""
SETTINGS = ("topic_prefix", *arguments.OF_OPERATORS, "price_gpu_hour", "price_kwh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the runs, and how they are shown."""
    parser.add_argument(
        "runs", nargs="+", metavar="RUN",
        help="a trace, or a folder with one: that of dutycycle run, or that beside a report; the others are "
        "compared to the first",
    )  # fmt: skip
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument(
        "--job",
        metavar="NAME",
        help="this job of each trace: name, namespace/name or uid (default: the one "
        "job or pod in it, and everything where there are several)",
    )
    whose.add_argument("--pod", metavar="NAME", help="this pod of each trace: name, namespace/name or uid")
    parser.add_argument("--format", choices=("table", "json"), default="table", help="(default: table)")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write a page as well, with charts")
    arguments.add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Compare and print; 0 when all runs could be read."""
    if len(args.runs) < 2:
        raise SettingError("give two runs or more, such as: dutycycle compare before after")
    # Here, not above: --help need not wait for it.
    from dutycycle.compare.comparison import NamedRun, lines_of, plain_of
    from dutycycle.measures.figures import measures_of
    from dutycycle.report.build import report_of_pods

    if args.out is not None:
        check_out(args.out, PAGES, overwrite=args.force)
    traces = [_trace(run) for run in args.runs]
    subject = {} if args.job is args.pod is None else {"job": args.job, "pod": args.pod}
    runs = []
    # Runs are called by short names, and no two alike.
    paths = [Path(path).absolute() for path in args.runs]
    names = [path.name.split(".")[0] or path.name for path in paths]
    if len(set(names)) < len(names):
        names = [f"{path.parent.name}/{name}" for path, name in zip(paths, names, strict=True)]
    times_named = Counter[str]()
    for at, name in enumerate(names):
        times_named[name] += 1
        names[at] = name if times_named[name] == 1 else f"{name} ({times_named[name]})"
    for name, trace in zip(names, traces, strict=True):
        try:
            report = report_of_pods(trace, settings, **subject)
        except DutycycleError as error:
            raise DutycycleError(f"{trace}: {error}") from error
        runs.append(NamedRun(name, report, measures_of(report)))
    if args.format == "json":
        print(orjson.dumps(plain_of(runs), option=orjson.OPT_INDENT_2).decode())  # noqa: T201
    else:
        for line in lines_of(runs):
            print(line)  # noqa: T201
    if args.out is not None:
        from dutycycle.compare.page import html_of
        from dutycycle.whole_file import whole_file

        with whole_file(args.out) as path:
            path.write_text(html_of(runs), encoding="utf-8")
    return 0


def _trace(given: str) -> str:
    """Return the trace of a run. Raises ``DutycycleError``."""
    path = Path(given)
    if path.is_dir():
        path /= TRACE
        if not path.exists():
            raise DutycycleError(f"{given}: is a folder without a {TRACE}: dutycycle run writes one")
    elif not path.exists():
        raise DutycycleError(f"{given}: No such file or directory")
    return str(path)

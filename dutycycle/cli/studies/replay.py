"""Runs ``dutycycle replay``: the same operators over a trace, in process, once or with many settings; or the
trace back into Kafka."""

import argparse
import os
from math import inf
from pathlib import Path
from typing import Any

from dutycycle.cli import arguments
from dutycycle.cli.garbage import collect_rarely
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import number
from dutycycle.experiments.knobs import assignment, grid, help_lines, with_values
from dutycycle.parser import typed
from dutycycle.process import print_remark
from dutycycle.tables.writer import TRACE

EXAMPLE = """dutycycle replay day.jsonl.zst --out derived.jsonl.zst --records sqlite:///day.db
dutycycle replay day.jsonl.zst --out tables/ --format parquet
dutycycle replay day.jsonl.zst --broker kafka://kafka:9092 --speed 10"""
_MOST_JOBS = 1024
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_RESULTS, *arguments.OF_OPERATORS, "windows_metrics")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add traces, and where the results go."""
    parser.add_argument(
        "trace", nargs="+", metavar="TRACE", help="trace files, one after the other; - is stdin"
    )
    parser.add_argument(
        "--out", metavar="FILE|DIR", help="write every derived record as a trace; - is stdout. A folder "
        "(DIR/, or with --grid or --score) gets a folder a run: trace, settings, scores"
    )  # fmt: skip
    arguments.add_format(parser)
    arguments.add_force(parser)
    arguments.add_records(parser, default="default: none are written")
    parser.add_argument(
        "--keep-open",
        action="store_true",
        help="do not close the last windows: a live stream would not, either",
    )
    parser.add_argument(
        "--skip-bad", action="store_true", help="leave out lines that cannot be read, and say how many"
    )
    parser.add_argument(
        "--sort", action="store_true",
        help="read all first, and take it in the order of time: for a trace that is not in it",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument(
        "--speed", metavar="N", help="with --broker: N times real time",
        type=typed(number(lambda speed: 0 < speed < inf, "a number above 0, such as 10")),
    )  # fmt: skip
    group = parser.add_argument_group("experiments")
    group.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", dest="given",
        help="a setting of the operators, such as cycles.window=1200; --list-settings shows all",
    )  # fmt: skip
    group.add_argument(
        "--grid", action="append", default=[], metavar="NAME=V,V",
        help="a run for each value, and for each combination where there are several (; between lists)",
    )  # fmt: skip
    arguments.add_model(group)
    group.add_argument(
        "--score", metavar="FILE", help="what is known of the cycles: JSON lines of subject, metric, "
        "from_ms, to_ms and period_s, which is left out where there is no cycle"
    )  # fmt: skip
    group.add_argument(
        "--jobs",
        type=arguments.whole_number(_MOST_JOBS),
        default=os.cpu_count() or 1,
        metavar="N",
        help="runs at a time (default: %(default)s)",
    )
    group.add_argument(
        "--list-settings", action=_ListSettings, help="show what --set and --grid take, and exit"
    )


class _ListSettings(argparse.Action):
    """Shows the settings of an experiment."""

    def __init__(self, option_strings: list[str], dest: str, **more: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **more)

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(*help_lines(), sep="\n")  # noqa: T201
        parser.exit()


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Replay; 0 when every line of every trace was read."""
    to_broker = args.setting_broker is not None
    if to_broker and (args.given or args.grid or args.score):
        raise SettingError("--broker publishes the trace: --set, --grid and --score do not go with it")
    if to_broker and (args.out or args.setting_records or args.keep_open):
        raise SettingError("--broker publishes the trace: --out, --records and --keep-open do not go with it")
    if args.sort and (to_broker or args.grid or args.score):
        raise SettingError("--sort does not go with --broker, --grid and --score")
    to_tables = args.format != TRACE
    if to_tables and (to_broker or args.grid or args.score or not args.out):
        raise SettingError(f"--format {args.format} needs --out DIR, and no --broker, --grid or --score")
    if to_broker:
        from dutycycle.traces.republish import republish  # here, not above: --help need not wait for it

        return republish(args.trace, settings, args.speed, skip_bad=args.skip_bad, quiet=args.quiet)
    if args.speed:
        raise SettingError("--speed needs --broker: in process a replay runs as fast as it can")
    is_folder = args.out and not to_tables and (args.out.endswith(os.sep) or Path(args.out).is_dir())
    if args.sort and is_folder:
        raise SettingError("--sort does not go with a folder of runs")
    if args.grid or args.score or is_folder:
        return _experiment(args, settings)
    from dutycycle.traces.replay import replay_in_process  # here, not above: --help need not wait for it

    if args.setting_records:
        from sinks.records.url import require_folder  # here, not above: it needs SQLAlchemy

        require_folder(args.setting_records)
    collect_rarely()
    settings = with_values(settings, dict(assignment(text) for text in args.given))
    records = settings.records if args.setting_records else None
    return replay_in_process(
        args.trace,
        settings,
        out=args.out,
        form=args.format,
        overwrite=args.force,
        records=records,
        keep_open=args.keep_open,
        skip_bad=args.skip_bad,
        sort=args.sort,
        quiet=args.quiet,
    )


def _experiment(args: argparse.Namespace, settings: Settings) -> int:
    """Execute all runs into the folder; return 0 when each was run, now or before."""
    if args.out is None or args.out == "-":
        raise SettingError("--grid and --score need --out DIR/: each run gets a folder there")
    if args.setting_records or args.keep_open:
        raise SettingError("--records and --keep-open do not go with a folder of runs")
    if Path(args.out).is_file():
        raise SettingError(f"--out {args.out}: is a file; name a folder for the runs")
    from dutycycle.experiments.plan import plan  # here, not above: --help need not wait for it
    from dutycycle.experiments.scores.cycles import read_truth
    from dutycycle.experiments.sweep import sweep
    from dutycycle.experiments.tables import unmeasured, write_tables
    from streams.topology import stages

    given = dict(assignment(text) for text in args.given)
    if args.score:
        read_truth(args.score)  # a line that is wrong is said before anything runs
    runs = plan(
        args.trace, settings, given, grid(args.grid), truth=args.score, out=args.out, skip_bad=args.skip_bad
    )
    for run in runs:
        stages(run.settings)  # the same of settings that do not go together
    before = sum(run.finished is not None for run in runs)
    if before:
        print_remark(f"{before} of {len(runs)} runs are finished already")
    sweep(runs, args.jobs, quiet=args.quiet)
    print(write_tables(runs, args.out), end="")  # noqa: T201
    for series in unmeasured(runs):
        print_remark(
            f"{args.score}: the trace has no {series}: left out of the scores; a subject is written as in "
            "the topic cycles, such as gpu/<node>/<uuid>"
        )
    return 0

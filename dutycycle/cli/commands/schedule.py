"""Runs ``dutycycle schedule``: prints what our priorities and scores would do to a trace of arrivals,
simulated."""

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dutycycle.cli import arguments
from dutycycle.cli.printing import print_table
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import number
from dutycycle.parser import typed
from dutycycle.process import print_remark
from dutycycle.progress import Progress
from dutycycle.schedule.compare import HEADERS, compare, legend, plain_rows, rows_of
from dutycycle.schedule.generator import Generator
from dutycycle.schedule.traces import FORMATS, SHOWN, Wrong, workload_of
from dutycycle.schedule.ways import BANDS, WAYS
from dutycycle.schedule.workload import JobTrace
from dutycycle.whole_file import write_csv
from sinks.scheduling.core.policy import Policy
from sinks.scheduling.policy_file import read_policy

EXAMPLE = """dutycycle schedule --simulate generated --jobs 500 --seeds 1-3
dutycycle schedule --simulate pods.csv --format alibaba-2023 --machines nodes.csv --out compared/"""
SETTINGS: tuple[str, ...] = ()
_GENERATED = "generated"
_COUNT = arguments.whole_number(10_000_000)
_MOST_SEEDS = 1000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which arrivals, on which nodes, scheduled how."""
    usual = Generator()
    parser.add_argument(
        "--simulate",
        required=True,
        metavar="TRACE",
        help=f"a file with --format, or `{_GENERATED}` for arrivals of our own",
    )
    parser.add_argument("--format", choices=tuple(FORMATS), help="what the trace is")
    parser.add_argument("--machines", type=Path, metavar="FILE", help="the nodes, in the format of the trace")
    parser.add_argument(
        "--jobs",
        type=_COUNT,
        default=usual.jobs,
        metavar="N",
        help="at most so many jobs (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes",
        type=_COUNT,
        default=usual.nodes,
        metavar="N",
        help="without --machines (default: %(default)s)",
    )
    parser.add_argument(
        "--gpus-per-node", type=_COUNT, default=usual.gpus_per_node, metavar="N", help="default: %(default)s"
    )
    parser.add_argument(
        "--load",
        type=typed(number(lambda load: 0.01 <= load <= 10, "a number from 0.01 to 10, such as 0.9")),
        default=usual.load,
        metavar="X",
        help="of generated arrivals: GPU time asked for over GPU time there is (default: %(default)s)",
    )
    parser.add_argument(
        "--seeds",
        type=_seeds,
        default=[1],
        metavar="N[,N|-N]",
        help="such as 1-5: of generated arrivals, and of the choice among equal nodes (default: 1)",
    )
    parser.add_argument(
        "--ways", type=_ways, default=list(WAYS), metavar="NAMES", help=f"default: {','.join(WAYS)}"
    )
    parser.add_argument(
        "--policy", type=Path, metavar="FILE", help="our policy, TOML; see docs/scheduling.md"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="write figures.csv and schedule.png there")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Simulate, print the table, write the files."""
    # The policy of a file. Jobs of a trace begin at 0 s; without bands of its own it has those of their
    # classes.
    policy = Policy() if args.policy is None else read_policy(str(args.policy), "--policy")
    bands = policy.bands if policy.bands != Policy().bands else BANDS
    policy = replace(policy, bands=bands, epoch_s=0.0)
    if args.out:
        try:
            args.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DutycycleError(f"--out {args.out}: {error.strerror}") from error
    wrong = Wrong()
    workload = _workload(args, wrong)
    with Progress("jobs") as progress:
        results = compare(workload, args.seeds, args.ways, policy, progress)
    print_table(HEADERS, rows_of(results), "")
    print(f"\n{legend(args.ways)}")  # noqa: T201
    if args.out:
        from dutycycle.schedule.pictures import draw  # here, not above: it takes a second

        write_csv(args.out / "figures.csv", plain_rows(results))
        draw(results, args.out / "schedule.png")
    return 0


def _workload(args: argparse.Namespace, wrong: Wrong) -> Callable[[int], JobTrace]:
    """Return the workload of a seed; one of a file is read here, once, and what is wrong in it is said."""
    made = Generator(args.jobs, args.nodes, args.gpus_per_node, args.load)
    if args.simulate == _GENERATED:
        if args.format or args.machines:
            raise SettingError(f"--format and --machines are of a file, not of --simulate {_GENERATED}")
        return made.workload
    if not args.format:
        raise SettingError(f"--simulate {args.simulate}: needs --format, one of {', '.join(FORMATS)}")
    workload = workload_of(args.format, Path(args.simulate), args.machines, made.machines(), args.jobs, wrong)
    for line in wrong.lines:
        print_remark(f"dutycycle: left out: {line}")
    if wrong.count > SHOWN:
        print_remark(f"dutycycle: left out: {wrong.count} in all")
    summary = f"{len(workload.jobs)} jobs on {len(workload.machines)} nodes"
    if workload.left_out:
        summary += f"; {workload.left_out} jobs fit on no node and are left out"
    if wrong.passed_over:
        summary += f"; {wrong.passed_over} rows of what never ran, or did not end, are passed over"
    print_remark(f"dutycycle: {summary}")
    return lambda _: workload


def _seeds(text: str) -> list[int]:
    numbers: dict[int, None] = {}
    for part in text.split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"{text!r}: expected seeds such as 1,2,5 or 1-5")
        # One more than there may be is enough to refuse it: of a typing error it may be billions.
        numbers |= dict.fromkeys(range(int(first), int(last or first) + 1)[: _MOST_SEEDS + 1])
    if not 1 <= len(numbers) <= _MOST_SEEDS:
        raise argparse.ArgumentTypeError(f"{text!r}: expected 1 to {_MOST_SEEDS} seeds")
    return list(numbers)


def _ways(text: str) -> list[str]:
    ways = list(dict.fromkeys(text.split(",")))
    if unknown := [way for way in ways if way not in WAYS]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: expected some of {', '.join(WAYS)}")
    return ways

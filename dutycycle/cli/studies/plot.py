"""Runs ``dutycycle plot``: draws a picture of a few series."""

import argparse
from pathlib import Path

from dutycycle.cli import arguments
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.process import print_remark
from dutycycle.progress import Progress
from dutycycle.whole_file import PAGES, check_out

EXAMPLE = """dutycycle plot day.jsonl.zst --subject 'gpu/gpu-a/*' --metric gpu_util_pct --out util.png
dutycycle plot day.jsonl.zst derived.jsonl.zst --metric gpu_util_pct --forecast 30s --out bert.html
dutycycle plot tables/ --metric power_w --out power.svg"""
SETTINGS = ("topic_prefix",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to read, what of it to show, and where the picture goes."""
    parser.add_argument(
        "what", nargs="+", metavar="TRACE|DIR",
        help="traces of samples, of results or of both, drawn over one another (- is stdin); or what "
        "replay --out DIR/ wrote: tables, or a run",
    )  # fmt: skip
    parser.add_argument(
        "--subject", action="append", default=[], metavar="NAME",
        help="of what: gpu/NODE/UUID, node/NODE or pod/UID, in which * stands for anything; or the name of a "
        "job or pod; several times for several (default: all that have the metric, up to 16)",
    )  # fmt: skip
    parser.add_argument(
        "--metric", action="append", default=[], metavar="NAME",
        help="which figure, such as gpu_util_pct; several times for several charts; without one, those that "
        "there are are named",
    )  # fmt: skip
    parser.add_argument(
        "--forecast", type=arguments.duration_s, metavar="TIME",
        help="also what was forecast so long before, such as 30s, by the trends and by each model",
    )  # fmt: skip
    parser.add_argument(
        "--from", dest="from_", metavar="TIME", help="2026-11-20T10:00:00Z, or -10m: before the end"
    )
    parser.add_argument("--to", metavar="TIME", help="the same; up to here")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("plot.png"),
        help=".png, .svg, or .html to zoom in (default: %(default)s)",
    )  # fmt: skip
    arguments.add_title(parser)
    arguments.add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read and draw; 0 when there is a picture."""
    # Here, not above: --help need not wait for it.
    from dutycycle.plot.charts import PICTURES, charts_of, span_of, write_charts
    from dutycycle.plot.collected import Wanted
    from dutycycle.plot.sources import read, sources_of

    check_out(args.out, (*PICTURES, *PAGES), overwrite=args.force)
    wanted = Wanted(args.subject, tuple(dict.fromkeys(args.metric)), args.forecast)
    with Progress("records") as progress:
        reading = settings.topic_prefix, lambda number: progress.show(number, number)
        collected, unusable = read(sources_of(args.what), wanted, *reading)
    if unusable:
        print_remark(f"dutycycle: {unusable} records could not be used")
    chosen = collected.chosen()
    for sentence in collected.explain_left_out():
        print_remark(f"dutycycle: {sentence}")
    first_ms, last_ms = span_of(collected)
    begin_ms = first_ms if args.from_ is None else arguments.moment_ms("--from", args.from_, last_ms)
    end_ms = last_ms if args.to is None else arguments.moment_ms("--to", args.to, last_ms)
    if begin_ms > end_ms or (begin_ms == end_ms and (args.from_ or args.to)):
        raise SettingError("--from is not before --to")
    span = begin_ms, max(end_ms, begin_ms + 1)  # of one tick alone
    charts = charts_of(collected, chosen, span)
    if not charts:
        raise DutycycleError("nothing was measured between --from and --to")
    write_charts(charts, args.title, span, args.out)
    lines = sum(len(chart.lines) + len(chart.dots) for chart in charts)
    print(f"{args.out}: {', '.join(chart.title for chart in charts)}; {lines} line{'s' * (lines > 1)}")  # noqa: T201
    return 0

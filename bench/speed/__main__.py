"""Measures what Dutycycle promises of its speed, beside its peers: ``make bench``, less by ``ARGS=--quick``.

Full takes about half an hour and writes docs/performance.md, docs/scale.md and their figures; ``--quick``
takes about seven minutes and writes the same into bench/out. ``--only NAME`` measures one thing anew and
keeps the other figures. It wants a quiet machine with two cores or more. Java, Maven, PostgreSQL, etcd, Go
and a C compiler are needed, as for the tests; root, to make cgroups. Ctrl-C ends it early; what was measured
until then is written.
"""

import argparse
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path

from bench.speed import report, scale
from bench.speed.bench import Bench, Measurement, StepPrinter
from bench.speed.figures import ROOT, Figures, load_average, run_of
from bench.speed.goals import ROWS
from bench.speed.rows import backlog, collector, imports, live, replay, sinks, start, state, web
from bench.speed.size import FULL, QUICK
from bench.speed.truth import WrongResultsError

MEASUREMENTS: dict[str, Measurement] = {
    "peers": backlog.compare,
    "scaling": backlog.scale,
    "live": live.live,
    "exact": live.exact,
    "fleet": live.fleet,
    "state": state.state,
    "replay": replay.replay,
    "start": start.start,
    "imports": imports.imports,
    "collector": collector.collector,
    "postgres": sinks.postgres,
    "annotations": sinks.annotations,
    "web": web.web,
}
"""What can be measured, in this order."""
BUSY = 1.0
"""A load average, before anything of ours runs, that is said."""


def measure(bench: Bench, names: list[str], *, quick: bool) -> list[str]:
    """One after the other; each replaces its own figures of before. Which ones failed: they have none."""
    failed = []
    for name in names:
        bench.figures.forget(name)
        before = load_average()
        bench.say(f"== {name}, load average {before}")
        try:
            MEASUREMENTS[name](bench)
        except WrongResultsError as error:
            bench.say(f"!! {name} is not measured:", error)
            failed.append(name)
        except Exception:  # noqa: BLE001 - half an hour of other figures is not lost by it
            bench.say(f"!! {name} is not measured:", traceback.format_exc())
            failed.append(name)
        finally:
            bench.figures.runs[name] = run_of(before, quick=quick)
        if name in failed:
            bench.figures.forget(name)
    return failed


def write(figures: Figures, folder: Path) -> None:
    """The figures and the pages made of them."""
    figures.save(folder / "performance.json")
    report.write(figures, folder)
    scale.write(figures, folder)


def main() -> int:
    """Measure, and write; 1 if something could not be measured."""
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="less of everything, into bench/out")
    parser.add_argument("--only", action="append", choices=list(MEASUREMENTS), help="may be given again")
    parser.add_argument(
        "--write", action="store_true", help="only write the pages, of the figures that are there"
    )
    options = parser.parse_args()
    folder = ROOT / "bench" / "out" if options.quick else ROOT / "docs"
    figures = Figures.load(folder / "performance.json")
    failed: list[str] = []
    if not options.write:
        signal.signal(
            signal.SIGTERM, signal.default_int_handler
        )  # ends like Ctrl-C, and takes the servers with it
        failed = _measure(figures, options.only or list(MEASUREMENTS), quick=options.quick)
    write(figures, folder)
    for row in ROWS:
        values = row.values(figures)
        print(f"{row.title:48s} {report.middle(values):>8s} {row.unit:20s} {row.verdict(values)}")
    print(f"written: {folder / 'performance.md'}")
    if failed:
        print(f"NOT MEASURED, see above: {', '.join(failed)}")
    return 1 if failed else 0


def _measure(figures: Figures, names: list[str], *, quick: bool) -> list[str]:
    say = StepPrinter()
    if (load := load_average()) > BUSY:
        say(f"this machine is busy (load average {load}): times by the clock and CPU are worse than they are")
    # Without byte code on disk every start would compile all that it imports: nobody's installation does.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, set(cores[:-1] or cores))  # servers inherit this
    with tempfile.TemporaryDirectory(prefix="dutycycle-bench-") as temporary:
        bench = Bench(Path(temporary), cores, QUICK if quick else FULL, say, figures)
        try:
            return measure(bench, names, quick=quick)
        except KeyboardInterrupt:
            say("interrupted")
            return ["what was interrupted"]
        finally:
            bench.close()


if __name__ == "__main__":
    sys.exit(main())

"""What insight is worth: cycles, forecasts, kinds and bottlenecks, ours beside its peers, in one run.

    make bench-insight [FIRST=2000] [SEEDS=6]
    make bench-insight REAL=/folder/of/traces [JOBS=2] [CHANGED=1]
    python -m bench.bench_insight [--first 2000] [--seeds 6] [--out bench/out] [--only cycles] [--real FOLDER]

Prints the tables, and writes ``insight.json`` with all their figures. With ``--real`` ours
alone, on logs of real machines in that folder (``bench/insight/real.py`` says of what form), as the first
tables of ``docs/insight.md``. What each log's replay says stays in ``bench/out/real`` until the code changes.
With ``--changed``, instead, kinds of the same logs as other sources could have told them are printed.
Nothing was tuned on seeds from 1000. Times are CPU times; they grow on a busy machine.
"""

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.insight import (
    changed,
    tables_age,
    tables_anomaly,
    tables_cycle,
    tables_forecast,
    tables_job_forecasts,
    tables_jobs,
    tables_kind,
    tables_machines,
    tables_real,
)
from bench.insight.report import TableReport
from bench.speed.figures import processor

PAGE = Path(__file__).parents[1] / "docs/insight.md"


def cycles(report: TableReport, seeds: range, thin: int) -> None:
    """Measure cycles, of series, machines and jobs."""
    tables_cycle.comparison(report, seeds, thin)
    tables_cycle.ours_alone(report, seeds, thin)
    tables_cycle.delays(report, seeds)
    tables_machines.machines(report, seeds, thin)
    tables_jobs.jobs(report, seeds, thin)
    tables_cycle.cost(report, seeds, thin)


def forecasts(report: TableReport, seeds: range, thin: int) -> None:
    """Measure forecasts, of series and of jobs, and memory that runs out."""
    tables_forecast.comparison(report, seeds, thin)
    more = range(seeds.start, seeds.start + -(-10 * len(seeds) // thin))
    tables_age.by_age(report, more)
    tables_forecast.exhaustion(report, more)
    tables_forecast.fills(report, more)
    tables_job_forecasts.job_forecasts(report, seeds, thin)


def kinds(report: TableReport, seeds: range, thin: int) -> None:
    """Measure kinds of jobs, and what holds them back."""
    tables_kind.comparison(report, seeds, thin)
    tables_kind.bottlenecks(report, seeds, thin)
    tables_kind.bottlenecks_with_counters(report, seeds)


def anomalies(report: TableReport, seeds: range, thin: int) -> None:
    """Measure anomalies of pods; seeds are 1000 further, as some of the others were looked at."""
    tables_anomaly.comparison(report, range(seeds.start + 1000, seeds.stop + 1000), thin)


PARTS: dict[str, Callable[[TableReport, range, int], None]] = {
    "cycles": cycles, "forecasts": forecasts, "kinds": kinds, "anomalies": anomalies,
}  # fmt: skip


def run(seeds: range, out: Path, only: tuple[str, ...] = tuple(PARTS), thin: int = 1) -> TableReport:
    """All parts, with each ``thin``-th case; the report that was printed."""
    out.mkdir(parents=True, exist_ok=True)
    report = TableReport()
    report.figures["run"] = {
        "first": seeds.start, "seeds": len(seeds), "date": time.strftime("%Y-%m-%d"), "cpu": processor(),
        "python": platform.python_version(), "numpy": np.__version__,
    }  # fmt: skip
    print(*(f"{name} {value}" for name, value in report.figures["run"].items()), sep=", ")
    for name in only:
        began = time.process_time()
        PARTS[name](report, seeds, thin)
        print(f"\n({name}: {time.process_time() - began:.0f} s of CPU)")
    report.write(out / "insight.json")
    return report


def main() -> None:
    """As the arguments say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=2000, help="the first seed (default: 2000)")
    parser.add_argument("--seeds", type=int, default=6, help="how many (default: 6)")
    parser.add_argument("--out", type=Path, default=Path("bench/out"), help="where JSON goes")
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="a part; may be repeated")
    parser.add_argument(
        "--real", type=Path, help="instead: a folder of traces of real machines, with truth.json"
    )
    parser.add_argument("--changed", action="store_true", help="with --real: the kinds of changed logs alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes that replay logs (default: 1)")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that their tables are written to")
    args = parser.parse_args()
    if args.real is not None:
        if args.changed:
            changed.changed_logs(TableReport(), args.real, args.jobs)
        else:
            tables_real.real_machines(args.real, args.out / "real", args.page, args.jobs)
        return
    run(range(args.first, args.first + args.seeds), args.out, tuple(args.only or PARTS))


if __name__ == "__main__":
    main()

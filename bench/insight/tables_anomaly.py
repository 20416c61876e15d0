"""Anomalies: what is found at an allowed rate of false alarms, ours beside alert rules and River's."""

import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import numpy as np

from bench.bench_anomaly import Told, counted, made, ours
from bench.generators import Floats
from bench.generators_anomalies import COUNTED, FAULTS, Job
from bench.insight.peers_anomaly import PEERS, begun, limits_for
from bench.insight.report import Cell, TableReport

WEEK_MINUTES = 7 * 24 * 60
ALLOWED = 0.1
"""False alarms per GPU and week."""
FITTED = 16
"""Seeds, from 0 on, that the limits of the peers are fitted to."""
Scored = list[tuple[Job, Floats]]


def weeks(jobs: Sequence[Job]) -> float:
    """GPU weeks without a fault."""
    return sum(one.begins * int(one.gpu_util.shape[1]) for one in jobs) / WEEK_MINUTES


def peer(name: str, fitted: Scored, cases: Scored) -> tuple[list[Told], float]:
    """What a peer told, with limits of its own; and its microseconds a minute and pod."""
    score = PEERS[name]
    scores = [(one, score(one, period_s)) for one, period_s in fitted]
    limits = limits_for(scores, int(ALLOWED * weeks([one for one, _ in fitted])))
    began = time.process_time()
    told = [Told(one, [(at, "any") for at in begun(score(one, period_s), limits)]) for one, period_s in cases]
    return told, _us(began, cases)


def _us(began: float, cases: Scored) -> float:
    return (time.process_time() - began) / sum(one.util.size for one, _ in cases) * 1e6


def comparison(report: TableReport, seeds: range, thin: int = 1) -> None:
    """The tables."""
    step = min(thin, 3)
    fitted, cases = made(0, -(-FITTED // thin), step), made(seeds.start, len(seeds), step)
    began = time.process_time()
    mine = [ours(*case) for case in cases]
    rows = [_row("Dutycycle", mine, _us(began, cases), named=True)]
    rows += [_row(name, *peer(name, fitted, cases), named=False) for name in PEERS]
    kinds = [*dict.fromkeys(FAULTS.values())]
    title = (
        f"anomalies: % of faults told within 30 minutes; {ALLOWED} false alarms per GPU and week allowed, "
        f"of {weeks([one for one, _ in cases]):.0f} GPU weeks"
    )
    columns = ["detector", *kinds, "alarms/GPU week", "precision %", "µs/minute"]
    report.table("anomalies", title, columns, rows)
    _by_fault(report, mine)
    _alarms(report, mine)
    _counted(report, cases + counted(seeds))


def _counted(report: TableReport, cases: Scored) -> None:
    """Make the table of hangs, and of what is taken for one, on GPUs without and with counters."""
    rows: list[list[Cell]] = []
    hung: dict[str, list[int]] = {"usual jobs": [], "light": [], "caches": []}
    for place, (one, _) in enumerate(cases):
        hung[one.shape if one.shape in COUNTED else "usual jobs"].append(place)
    told = [[ours(*case, counters=counters) for case in cases] for counters in (False, True)]
    for name, places in hung.items():
        jobs = [[each[place] for place in places] for each in told]
        shares = [_share(_found(each, ["hung rank"], named=True)) for each in jobs]
        alarms = [sum(one.false.count("hang") for one in each) for each in jobs]
        rows.append([name, weeks([cases[place][0] for place in places]), *shares, *alarms])
    columns = ["job", "GPU weeks", "told %", "told with %", "false", "false with"]
    title = "hangs told within 30 minutes, and told falsely; without and with counters of activity"
    report.table("anomalies_counters", title, columns, rows)


def _found(told: Sequence[Told], faults: Sequence[str], *, named: bool) -> list[int | None]:
    """Of each job with one of the faults the minutes until it was found; None if it was not."""
    mine = [one for one in told if one.job.fault in faults]
    return [one.after({FAULTS[one.job.fault or ""]} if named else {"any"}) for one in mine]


def _share(after: Sequence[int | None]) -> float | None:
    return 100 * float(np.mean([one is not None for one in after])) if after else None


def _row(name: str, told: Sequence[Told], us: float, *, named: bool) -> list[Cell]:
    of_kind: dict[str, list[str]] = {}
    for fault, kind in FAULTS.items():
        of_kind.setdefault(kind, []).append(fault)
    found = partial(_found, told, named=named)
    alarms, hits = sum(len(one.false) for one in told), [one for one in found([*FAULTS]) if one is not None]
    precision = 100 * len(hits) / (len(hits) + alarms) if hits or alarms else None
    shares = [_share(found(faults)) for faults in of_kind.values()]
    return [name, *shares, alarms / weeks([one.job for one in told]), precision, us]


def _by_fault(report: TableReport, told: Sequence[Told]) -> None:
    rows: list[list[Cell]] = []
    for fault, kind in FAULTS.items():
        after = _found(told, [fault], named=True)
        known = [one for one in after if one is not None]
        middle, most = (float(np.quantile(known, of)) if known else None for of in (0.5, 0.9))
        rows.append([fault, kind, len(after), _share(after), middle, most])
    title = "anomalies of ours by fault, and minutes until they are told"
    report.table(
        "anomalies_by_fault", title, ["fault", "told as", "jobs", "found %", "median", "9 of 10"], rows
    )


def _alarms(report: TableReport, told: Sequence[Told]) -> None:
    alarms = Counter((one.job.shape, kind) for one in told for kind in one.false)
    rows: list[list[Cell]] = []
    for shape in dict.fromkeys(one.job.shape for one in told):
        mine = {kind: count for (of, kind), count in alarms.items() if of == shape}
        gpu_weeks = weeks([one.job for one in told if one.job.shape == shape])
        rows.append([shape, gpu_weeks, sum(mine.values()), ", ".join(sorted(mine)) or None])
    report.table(
        "anomalies_false", "anomalies, false alarms of ours", ["job", "GPU weeks", "alarms", "as"], rows
    )

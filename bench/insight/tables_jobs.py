"""One cycle for a job: what its ranks say together, beside the surest of them and the best of them.

Each GPU of a machine stands for a rank with one GPU. The best rank is known only afterwards: the one that
found the period first, and of those the one that was wrong for the shortest time.
"""

from dataclasses import replace

from msgspec.structs import replace as replace_state

from bench.generators_machines import KINDS, METRICS, Run, machine_run
from bench.insight.report import Cell, TableReport
from bench.insight.tables_machines import (
    START_MS,
    TIMES,
    TIMES_OF_OTHERS,
    Said,
    Watched,
    evaluated,
    figures_of,
    told_periods,
)
from dutycycle.contract.records.parts import WorkloadState
from streams.operators.workload.jobs.cycle import job_cycle

STATE_S = 30
"""A rank tells its job what it found so often, aligned."""
ODD = "one_rank_of_its_own"
"""Short dips, but the last rank has another period."""
COLUMNS = (
    "job", "by", "jobs", "found %", "in periods", "9 of 10", "kept %", "wrong in 1,000 h", "wrong %",
    "changes/h",
)  # fmt: skip
_NO_CYCLE = WorkloadState(seen_ms=0)


def made(kind: str, seed: int) -> Run:
    """Make the run of a job."""
    if kind != ODD:
        return machine_run(kind, seed)
    run, odd = machine_run("short_dips", seed), machine_run("short_dips", seed + 10_000)
    series, bursts, count = run.series.copy(), run.bursts.copy(), len(METRICS)
    series[:, -count:], bursts[:, -1] = odd.series[:, :count], odd.bursts[:, 0]
    return replace(run, series=series, bursts=bursts)


def watched(run: Run) -> tuple[Watched, Watched, Watched]:
    """Return what the ranks said together, what the surest of them said, and what the best of them said."""
    ranks, size = run.bursts.shape[1], len(METRICS)
    states, by_rank = [_NO_CYCLE] * ranks, [Said() for _ in range(ranks)]
    together, surest = Said(), Said()
    for second, scales, changes in evaluated(run, bursts=True):
        for rank in {column // size for column, _ in changes}:
            # As a node tells it of a pod: the cycle of the utilization, or else of what follows it.
            metrics = (scales.published(size * rank + metric) for metric in range(size))
            cycle = next((metric for metric in metrics if metric is not None and metric.cyclic), None)
            states[rank] = _NO_CYCLE if cycle is None else WorkloadState(
                seen_ms=0, period_s=cycle.period_s, confidence=cycle.confidence, other_cycles=cycle.others,
                cycle_since_ms=cycle.since_ms,
            )  # fmt: skip
            by_rank[rank].append((second, told_periods(states[rank].period_s, states[rank].other_cycles)))
        if second % STATE_S == STATE_S - 1:
            seen_ms = START_MS + 1000 * second
            joined = job_cycle([(1, replace_state(state, seen_ms=seen_ms)) for state in states])
            best = max(states, key=lambda state: state.confidence or 0.0)
            for answers, periods in (
                (together, told_periods(joined.period_s, joined.others)),
                (surest, told_periods(best.period_s, ())),
            ):
                if periods != (answers[-1][1] if answers else []):
                    answers.append((second, periods))
    best_rank = min(
        (Watched(run, answers, 0) for answers in by_rank),
        key=lambda rank: (rank.found_s or len(run.series), sum(rank.seconds(rank.is_wrong))),
    )
    return Watched(run, together, 0), Watched(run, surest, 0), best_rank


def jobs(report: TableReport, seeds: range, thin: int = 1) -> None:
    """The table: of each kind of job what is said by its ranks together, by the surest, by the best."""
    rows: list[list[Cell]] = []
    for kind in (*KINDS, ODD):
        count = max(TIMES.get(kind, TIMES_OF_OTHERS) * len(seeds) // thin, 1)
        runs = [made(kind, seed) for seed in range(seeds.start, seeds.start + count)]
        answered = zip(*(watched(run) for run in runs), strict=True)
        for by, jobs_answers in zip(("its ranks", "the surest", "the best"), answered, strict=True):
            number, found_pct, _, *rest = figures_of([[answers] for answers in jobs_answers])
            rows.append([kind, by, number, found_pct, *(None if cell != cell else cell for cell in rest)])
    report.table("cycles_jobs", "one cycle for a job, from its ranks", COLUMNS, rows)

"""One cycle for a job: what its ranks say together, beside the surest of them and the best of them.

Each GPU of a machine stands for a rank with one GPU. The best rank is known only afterwards: the one that
found the period first, and of those the one that was wrong for the shortest time.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from msgspec.structs import replace as replace_state

from bench.generators_machines import KINDS, METRICS, Machine, Run
from bench.insight.report import Cell, TableReport
from bench.insight.tables_machines import EVERY, START_MS, TIMES, TIMES_OF_OTHERS, Said, Watched, figures_of
from dutycycle.contract.records.parts import WorkloadState
from streams.operators.cycles.result import CycleResult
from streams.operators.cycles.scales import CycleScales
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
    """A job."""
    if kind != ODD:
        return Machine(kind, seed).made()
    run, other = (Machine("short_dips", one).made() for one in (seed, seed + 10_000))
    series, bursts, count = run.series.copy(), run.bursts.copy(), len(METRICS)
    series[:, -count:], bursts[:, -1] = other.series[:, :count], other.bursts[:, 0]
    return replace(run, series=series, bursts=bursts)


def watched(run: Run) -> tuple[Watched, Watched, Watched]:
    """What the ranks said together, what the surest of them said, and what the best of them said."""
    ranks = run.bursts.shape[1]
    scales = CycleScales(run.series.shape[1], witnesses=np.arange(run.series.shape[1]) // 3 * 3)
    offsets = np.linspace(-1000, 0, run.bursts.shape[2] + 1)[1:].tolist()
    states, told = [_NO_CYCLE] * ranks, [Said() for _ in range(ranks)]
    together, surest = Said(), Said()
    for second, row in enumerate(run.series):
        ts_ms = START_MS + 1000 * second
        quick = [
            (3 * rank, list(zip(offsets, of, strict=True)))
            for rank, of in enumerate(run.bursts[second].tolist())
        ]
        scales.update(ts_ms, row, 1000, quick)
        if second % EVERY == EVERY - 1:
            for rank in {column // 3 for column, _ in scales.changes(ts_ms)}:
                states[rank] = _state([scales.published(3 * rank + metric) for metric in range(3)])
                told[rank].append((second, _periods(states[rank])))
        if second % STATE_S == STATE_S - 1:
            one = job_cycle([(1, replace_state(state, seen_ms=ts_ms)) for state in states])
            _note(
                together,
                second,
                [] if one.period_s is None else [one.period_s, *(it.period_s for it in one.others or ())],
            )
            best = max(states, key=lambda state: state.confidence or 0.0)
            _note(surest, second, [] if best.period_s is None else [best.period_s])
    every = [Watched(run, said, 0) for said in told]
    best_rank = min(every, key=lambda one: (one.found_s or len(run.series), sum(one.seconds(one.is_wrong))))
    return Watched(run, together, 0), Watched(run, surest, 0), best_rank


def _state(metrics: Sequence[CycleResult | None]) -> WorkloadState:
    """As a node tells it of a pod: the cycle of the utilization, or else of what follows it."""
    known = next((one for one in metrics if one is not None and one.cyclic), None)
    if known is None:
        return _NO_CYCLE
    return WorkloadState(
        seen_ms=0, period_s=known.period_s, confidence=known.confidence, other_cycles=known.others,
        cycle_since_ms=known.since_ms,
    )  # fmt: skip


def _periods(state: WorkloadState) -> list[float]:
    return (
        []
        if state.period_s is None
        else [state.period_s, *(one.period_s for one in state.other_cycles or ())]
    )


def _note(said: Said, second: int, periods: list[float]) -> None:
    if periods != (said[-1][1] if said else []):
        said.append((second, periods))


def jobs(report: TableReport, seeds: range, thin: int = 1) -> None:
    """The table: of each kind of job what is said by its ranks together, by the surest, by the best."""
    rows: list[list[Cell]] = []
    for kind in (*KINDS, ODD):
        count = max(TIMES.get(kind, TIMES_OF_OTHERS) * len(seeds) // thin, 1)
        runs = [made(kind, seed) for seed in range(seeds.start, seeds.start + count)]
        said = [watched(run) for run in runs]
        for place, by in enumerate(("its ranks", "the surest", "the best")):
            number, found, _, *rest = figures_of([[one[place]] for one in said])
            rows.append([kind, by, number, found, *(None if one != one else one for one in rest)])
    report.table("cycles_jobs", "one cycle for a job, from its ranks", COLUMNS, rows)

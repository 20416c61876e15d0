"""Asks our detectors of anomalies about generated jobs, minute by minute.

Our limits were chosen on seeds 0-99 and 2000-2011; those of the peers are fitted to seeds 0-15 each time, to
the allowed rate of false alarms. A fault counts as found when it is told within half an hour, ours by the
right name, a peer's by any. A false alarm is each time that something begins to be told without a fault.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bench.generators import Floats
from bench.generators_anomalies import COUNTED, FAULTS, HURT, MINUTE_S, SHAPES, Job, job
from streams.operators.cycles.scales import CycleScales
from streams.operators.workload.anomalies.finder import AnomalyFinder
from streams.operators.workload.anomalies.minute import GpuMinute, Minute

WITHIN = 30
"""Minutes after its begin in which a fault is to be found."""
BATCH = 64


def periods(jobs: Sequence[Job]) -> Floats:
    """The shortest period that our detector told of each job at the end of each minute, shape (jobs,
    minutes); NaN for none."""
    minutes = jobs[0].util.size
    scales, found = CycleScales(len(jobs)), np.full((len(jobs), minutes), np.nan)
    rows, now = np.stack([one.seconds for one in jobs], axis=1), np.full(len(jobs), np.nan)
    for second in range(len(rows)):
        ts_ms = 1000 * (second + 1)
        scales.extend(np.array([ts_ms]), rows[[second]], 1000)
        if second % 10 == 9:
            for column, said in scales.changes(ts_ms):
                others = (one.period_s for one in said.others or ())
                now[column] = np.nan if said.period_s is None else min(said.period_s, *others, said.period_s)
        if second % MINUTE_S == MINUTE_S - 1:
            found[:, second // MINUTE_S] = now
    return found


def minutes_of(one: Job, period_s: Floats, *, counters: bool = False) -> Iterator[Minute]:
    """What the streams would see; with ``counters`` those of a Hopper as well."""
    names = [f"n/{g}" for g in range(one.gpu_util.shape[1])]
    each = np.stack([one.gpu_util, one.gpu_power_pct, one.temp_c, one.clock_mhz], axis=2).tolist()
    figures = (one.util, one.util_spread, one.power_pct, one.power_spread, one.mem_pct, one.copy_pct,
               one.tensor_pct, one.dram_pct, one.fp32_pct)  # fmt: skip
    rows = np.stack(figures, axis=1).tolist()
    for at, (row, period, gpus) in enumerate(zip(rows, period_s.tolist(), each, strict=True), start=1):
        util, util_spread, power, power_spread, mem, copies, tensor, dram, fp32 = row
        yield Minute(
            end_ms=60_000 * at, util_pct=util, util_spread=util_spread, power_pct=power,
            power_spread=power_spread, mem_pct=mem, copy_pct=copies,
            tensor_pct=tensor if counters else np.nan, dram_pct=dram if counters else np.nan,
            fp32_pct=fp32 if counters else np.nan,
            period_s=None if np.isnan(period) else period,
            gpus=tuple(GpuMinute(name, *of) for name, of in zip(names, gpus, strict=True)),
        )  # fmt: skip


@dataclass(slots=True)
class Told:
    """What began to be told of a job: the minute, and the kind (of a peer always "any")."""

    job: Job
    begun: list[tuple[int, str]]

    @property
    def false(self) -> list[str]:
        """The kinds that were told without a fault."""
        return [kind for at, kind in self.begun if at < self.job.begins]

    def after(self, kinds: set[str]) -> int | None:
        """Minutes until one of ``kinds`` was told first; None if it was not in time."""
        found = [at - self.job.begins for at, kind in self.begun if kind in kinds and at >= self.job.begins]
        return found[0] if found and found[0] <= WITHIN else None


def ours(one: Job, period_s: Floats, *, counters: bool = False) -> Told:
    """Our own detectors; with ``counters`` of GPUs from Hopper on."""
    finder, holds, begun = AnomalyFinder(), set[str](), []
    for at, minute in enumerate(minutes_of(one, period_s, counters=counters)):
        finder.add(minute)
        now = {found.kind for found in finder.current}
        begun += [(at, kind) for kind in sorted(now - holds)]
        holds = now
    return Told(one, begun)


@lru_cache(maxsize=2)
def made(first: int, count: int, step: int = 1) -> list[tuple[Job, Floats]]:
    """Every shape, and every fault in one of its shapes, of each seed, with its periods; each ``step``-th."""
    jobs = []
    for seed in range(first, first + count):
        jobs += [job(shape, seed) for shape in SHAPES[::step]]
        jobs += [job(HURT[fault][seed % len(HURT[fault])], seed, fault) for fault in [*FAULTS][::step]]
    return with_periods(jobs)


def counted(seeds: range) -> list[tuple[Job, Floats]]:
    """Make the jobs of which counters say what nothing else does: as they are meant to be, and hung."""
    return with_periods([job(shape, seed, fault) for seed in seeds for shape in COUNTED
                         for fault in (None, "hung rank")])  # fmt: skip


def with_periods(jobs: Sequence[Job]) -> list[tuple[Job, Floats]]:
    """Give jobs with their periods."""
    batches = [jobs[at : at + BATCH] for at in range(0, len(jobs), BATCH)]
    return [pair for batch in batches for pair in zip(batch, periods(batch), strict=True)]

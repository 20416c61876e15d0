"""How well anomalies are found at a bounded rate of false alarms, beside thresholds and River's detectors.

    python -m bench.bench_anomaly [FIRST_SEED [SEEDS]]

Limits were chosen on seeds 0-39; those of the peers are fitted to these seeds each time, to the allowed rate of
false alarms. A fault counts as found when what it is called is told within half an hour. A false alarm is each
time that something begins to be told without a fault.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from bench.generators_anomalies import FAULTS, HURT, MINUTE_S, SHAPES, Floats, Job, job
from streams.operators.cycles.scales import CycleScales
from streams.operators.workload.anomalies.finder import AnomalyFinder
from streams.operators.workload.anomalies.minute import GpuMinute, Minute

WEEK_MINUTES = 7 * 24 * 60
ALLOWED = 0.1
"""False alarms per GPU and week."""
WITHIN = 30
"""Minutes after its begin in which a fault is to be found."""
TUNED = range(40)
BATCH = 64


def periods(jobs: Sequence[Job]) -> Floats:
    """The period that our detector told of each job at the end of each minute, shape (jobs, minutes)."""
    minutes = jobs[0].util.size
    scales, found = CycleScales(len(jobs)), np.full((len(jobs), minutes), np.nan)
    rows, now = np.stack([one.seconds for one in jobs], axis=1), np.full(len(jobs), np.nan)
    for second in range(len(rows)):
        ts_ms = 1000 * (second + 1)
        scales.update(ts_ms, rows[second], 1000)
        if second % 10 == 9:
            for column, said in scales.changes(ts_ms):
                known = [said.period_s or np.nan, *(one.period_s for one in said.others or ())]
                now[column] = min(known)
        if second % MINUTE_S == MINUTE_S - 1:
            found[:, second // MINUTE_S] = now
    return found


def minutes_of(one: Job, period_s: Floats) -> Iterator[Minute]:
    """What the streams would see."""
    names = [f"n/{g}" for g in range(one.gpu_util.shape[1])]
    each = np.stack([one.gpu_util, one.gpu_power_pct, one.temp_c, one.clock_mhz], axis=2).tolist()
    rows = zip(one.util.tolist(), one.util_spread.tolist(), one.power_pct.tolist(), one.power_spread.tolist(),
               one.mem_pct.tolist(), one.copy_pct.tolist(), period_s.tolist(), each, strict=True)  # fmt: skip
    for at, (util, util_spread, power, power_spread, mem, copy, period, gpus) in enumerate(rows, start=1):
        yield Minute(
            end_ms=60_000 * at, util_pct=util, util_spread=util_spread, power_pct=power,
            power_spread=power_spread, mem_pct=mem, copy_pct=copy, period_s=None if np.isnan(period) else period,
            gpus=tuple(GpuMinute(name, *figures) for name, figures in zip(names, gpus, strict=True)),
        )  # fmt: skip


@dataclass(slots=True)
class Told:
    """What began to be told of a job: the minute and the kind."""

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

    @property
    def gpu_minutes(self) -> int:
        """Without a fault."""
        return self.job.begins * self.job.gpu_util.shape[1]


def ours(one: Job, period_s: Floats) -> Told:
    """Our own detectors."""
    finder, holds, begun = AnomalyFinder(), set[str](), []
    for at, minute in enumerate(minutes_of(one, period_s)):
        now = {found.kind for found in finder.add(minute)}
        begun += [(at, kind) for kind in sorted(now - holds)]
        holds = now
    return Told(one, begun)


@lru_cache(maxsize=4)
def made(first: int, count: int) -> list[tuple[Job, Floats]]:
    """Every shape, and every fault in one of its shapes, of each seed."""
    jobs = []
    for seed in range(first, first + count):
        jobs += [job(shape, seed) for shape in SHAPES]
        jobs += [job(HURT[fault][seed % len(HURT[fault])], seed, fault) for fault in FAULTS]
    found = []
    for at in range(0, len(jobs), BATCH):
        batch = jobs[at : at + BATCH]
        found += list(zip(batch, periods(batch), strict=True))
    return found


def main(first: int = 2000, count: int = 10) -> None:
    began = time.process_time()
    cases = made(first, count)
    print(f"made in {time.process_time() - began:.0f} s")
    began = time.process_time()
    told = [ours(*case) for case in cases]
    spent = time.process_time() - began
    print(f"{spent / sum(one.job.util.size for one in told) * 1e6:.0f} µs a minute")
    weeks = sum(one.gpu_minutes for one in told) / WEEK_MINUTES
    from collections import Counter
    alarms = Counter((one.job.shape, kind) for one in told for kind in one.false)
    print(f"{weeks:.1f} GPU weeks; {sum(alarms.values()) / weeks:.3f} false alarms", alarms.most_common())
    for fault, kind in FAULTS.items():
        mine = [one for one in told if one.job.fault == fault]
        after = [one.after({kind}) for one in mine]
        hits = [one for one in after if one is not None]
        other = Counter(k for one in mine for at, k in one.begun if at >= one.job.begins and k != kind)
        print(f"{fault:<16}{len(hits) / len(mine):6.2f} after {np.median(hits) if hits else -1:.0f} min; any {np.mean([one.after(set(FAULTS.values())) is not None for one in mine]):.2f}", dict(other),
              [one.job.shape for one, a in zip(mine, after) if a is None])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""How good forecasts are by kind of series, how honest their intervals, and how often they are published.

    python -m bench.bench_trend [FIRST_SEED [SEEDS]]

The error is the mean absolute error over that of persistence (what is now stays), as the mean over series:
below 1 is better. Beside ours: the oracle, who knows how a series is made and only cannot know its noise;
seasonal naive, which repeats the last period that our detector found; and Holt's line without damping (the
same as ``river.time_series.HoltWinters`` without seasons). Nothing was tuned on seeds from 1000.
When memory is said to run out is measured by ``bench_insight``.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.generators import Floats
from bench.generators_trend import HORIZONS_S, Known, mix
from streams.operators.columns.arrays import Ints
from streams.operators.cycles.bank import CycleBank
from streams.operators.trends.bank import TrendBank
from streams.operators.trends.changes import TrendDebouncer
from streams.operators.trends.holt import LEVEL, SLOPE
from streams.operators.trends.season import Season, season_of

LEARN = 600
"""Ticks before forecasts are judged."""
EVERY = 10
START_MS = 1_700_000_000_000
WHO = ("ours", "oracle", "seasonal naive", "Holt")


@dataclass(frozen=True, slots=True)
class TrendScores:
    """Of n series: ``errors`` over persistence's, shape (who, horizons, n); the shares of truths in the
    5-95 % interval and below its 95 % point, (horizons, n); of moments with a cycle, (n,); records a
    minute, (n,); and the microseconds of a tick and series, and of a forecast."""

    known: Sequence[Known]
    errors: Floats
    inside: Floats
    below: Floats
    locked: Floats
    published: Floats
    us_learnt: float
    us_forecast: float

    def of(self, where: Floats) -> dict[str, list[float]]:
        """The means over the series ``where``."""
        chosen = np.flatnonzero(where)
        errors = self.errors[:, :, chosen].mean(axis=2)
        found = {who: errors[row].tolist() for row, who in enumerate(WHO)}
        for name, part in (("inside", self.inside), ("below", self.below)):
            found[name] = part[:, chosen].mean(axis=1).tolist()
        return found | {
            "locked": [float(self.locked[chosen].mean())],
            "published": [float(self.published[chosen].mean())],
        }


class Run:
    """Series tick by tick through the banks, as a node's operator feeds them."""

    def __init__(self, n: int, horizons_s: tuple[float, ...]) -> None:
        self.trends = TrendBank(n, horizons_s)
        self.cycles = CycleBank(n)
        self.debouncer = TrendDebouncer(n)
        self.spent_learning = self.spent_forecasting = 0.0
        self._columns: Ints = np.arange(n)

    def season(self) -> Season | None:
        return season_of(self.cycles.locked(), self._columns)

    def update(self, ts_ms: int, values: Floats) -> None:
        self.cycles.update(ts_ms, values)
        began = time.process_time()
        self.trends.update(ts_ms, values)
        self.spent_learning += time.process_time() - began

    def evaluate(self, ts_ms: int) -> tuple[Floats, Floats, Floats, Floats, Season | None, Ints]:
        """Value, 5 % and 95 % point, Holt's line, cycles, and the columns that are published."""
        self.cycles.changes(ts_ms)
        began = time.process_time()
        season = self.season()
        said = self.trends.forecast(season)
        self.spent_forecasting += time.process_time() - began
        cyclic = np.isin(self._columns, season.columns if season else [])
        holt = self.trends._holt.state
        line = holt[LEVEL] + np.outer(said.horizons_s, holt[SLOPE])
        return (
            said.value,
            said.p05,
            said.p95,
            line,
            season,
            self.debouncer.changes(ts_ms, said, cyclic, self._columns),
        )


def judge(known: Sequence[Known], horizons_s: tuple[int, ...] = HORIZONS_S) -> TrendScores:
    """Feed the series, and hold what is said against what comes."""
    series = np.array([one.series for one in known]).T
    rows = [HORIZONS_S.index(horizon) for horizon in horizons_s]
    oracle = np.array([one.oracle[rows] for one in known]).transpose(1, 2, 0)
    n, ahead = len(known), np.array(horizons_s)
    run = Run(n, tuple(float(horizon) for horizon in horizons_s))
    off, naive = np.zeros((len(WHO), ahead.size, n)), np.zeros((ahead.size, n))
    inside, below = np.zeros((2, ahead.size, n))
    locked, published, count = np.zeros(n), np.zeros(n), 0
    for tick, values in enumerate(series):
        ts_ms = START_MS + 1000 * tick
        run.update(ts_ms, values)
        if tick % EVERY:
            continue
        value, p05, p95, line, season, changed = run.evaluate(ts_ms)
        published[changed] += 1
        if tick < LEARN or tick + ahead[-1] >= len(series):
            continue
        count += 1
        truth = series[tick + ahead]
        repeated = _repeated(series, tick, ahead, season)
        for row, guess in enumerate((value, oracle[:, tick], repeated, line)):
            off[row] += np.abs(truth - guess)
        naive += np.abs(truth - values)
        inside += (p05 <= truth) & (truth <= p95)
        below += truth <= p95
        if season is not None:
            locked[season.columns] += 1
    us_forecast = run.spent_forecasting / (len(series) / EVERY) / (n * ahead.size) * 1e6
    return TrendScores(
        known, off / np.maximum(naive, 1e-9), inside / count, below / count, locked / count,
        published / (len(series) / 60), run.spent_learning / len(series) / n * 1e6, us_forecast,
    )  # fmt: skip


def _repeated(series: Floats, tick: int, ahead: Ints, season: Season | None) -> Floats:
    """Seasonal naive: the value whole periods before the moment, the newest that is known; without a
    cycle, what is now."""
    guess = np.tile(series[tick], (ahead.size, 1))
    if season is not None:
        back = np.ceil(ahead[:, np.newaxis] / season.period_s) * season.period_s
        place = np.clip(np.rint(tick + ahead[:, np.newaxis] - back).astype(np.int64), 0, tick)
        guess[:, season.columns] = series[place, season.columns]
    return guess


def forecasts(seeds: range, horizons_s: tuple[int, ...] = HORIZONS_S) -> dict[str, dict[str, list[float]]]:
    """The table of errors and coverage by kind of series; the last row is of cost, in microseconds."""
    judged = judge(mix(seeds), horizons_s)
    kinds = np.array([one.kind for one in judged.known])
    parts = np.array([one.what for one in judged.known])
    chosen = {kind: kinds == kind for kind in dict.fromkeys(kinds.tolist())}
    chosen |= {part: parts == part for part in sorted(set(parts.tolist())) if part}
    chosen |= {"cyclic": parts != "", "others": parts == "", "all": kinds != ""}
    table = {name: judged.of(where) for name, where in chosen.items()}
    return table | {"cost": {"learnt": [judged.us_learnt], "forecast": [judged.us_forecast]}}


def _print_forecasts(seeds: range) -> None:
    heads = (*WHO, "in 5-95 %", "below 95 %")
    print(f"{'':<12}" + "".join(f"{head:^{7 * len(HORIZONS_S) + 3}}" for head in heads) + "  records/min")
    table = forecasts(seeds)
    for name, row in table.items():
        if name != "cost":
            parts = [row[head] for head in (*WHO, "inside", "below")]
            figures = "   ".join("".join(f"{value:7.3f}" for value in part) for part in parts)
            print(f"{name:<12}{figures}{row['published'][0]:9.2f}")
    # One horizon less is published than is measured here: cost is that of a node's operator.
    cost = forecasts(range(seeds.start, seeds.start + min(len(seeds), 12)), (10, 30, 300))["cost"]
    print(
        f"{cost['learnt'][0]:.2f} µs per tick and series to learn, {cost['forecast'][0]:.1f} µs per forecast"
    )


def main(first: int = 1000, count: int = 30) -> None:
    """Print the tables."""
    print(f"seeds {first}-{first + count - 1}, horizons {HORIZONS_S} s")
    _print_forecasts(range(first, first + count))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

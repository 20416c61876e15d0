"""How honest intervals are from the first minute of a series on, by what it does and how old it is.

Series are seeded curves of memory in use, in percent of the capacity, with noise or without. What they do is
what no past can foretell: a load comes to rest, a step comes once. So each lasts an hour.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.generators import Floats, Rng
from bench.insight.report import Cell, TableReport
from bench.insight.tables_forecast import EVERY, START_MS
from streams.operators.columns.arrays import Bools
from streams.operators.trends.bank import HORIZONS_S, TrendBank, TrendForecast

LENGTH = 3600
SECONDS = np.arange(float(LENGTH))
YOUNG_S = 300
CAPACITY = 100e9
OF_A_BYTE = 1e-6
"""Share of the capacity by which a truth may miss an end: without noise, intervals have no width."""


def ramp(rng: Rng) -> Floats:
    """Go up or down at one pace for the whole hour, and not full."""
    curve = rng.uniform(10, 40) + rng.uniform(10, 55) * SECONDS / LENGTH
    return np.asarray(curve if rng.uniform() < 0.5 else curve[::-1])


def load(rng: Rng) -> Floats:
    """Read in at one pace for 10 s to 9 minutes, then there."""
    took, at = rng.uniform(10, 540), rng.uniform(0, 60)
    return np.asarray(rng.uniform(1, 10) + rng.uniform(30, 85) * np.clip((SECONDS - at) / took, 0, 1))


def step(rng: Rng) -> Floats:
    """Step up or down once."""
    before, after = rng.uniform(5, 95, size=2)
    return np.asarray(np.where(rng.uniform(0.1, 0.9) * LENGTH > SECONDS, before, after))


def leak(rng: Rng) -> Floats:
    """Fill up within 10 minutes to an hour, and stay full."""
    start = rng.uniform(20, 60)
    return np.asarray(np.minimum(start + (100 - start) * SECONDS / rng.uniform(600, 3600), 100.0))


def flat(rng: Rng) -> Floats:
    """Stay the same throughout."""
    return np.full(LENGTH, rng.uniform(5, 95))


CURVES: dict[str, Callable[[Rng], Floats]] = {
    "ramp": ramp, "load": load, "step": step, "leak": leak, "flat": flat,
}  # fmt: skip


def curve(kind: str, seed: int, *, noisy: bool) -> Floats:
    """Draw a curve of this kind, one value a second."""
    rng = np.random.default_rng([seed, *kind.encode()])
    return np.clip(CURVES[kind](rng) + noisy * rng.uniform(0.1, 1) * rng.normal(size=LENGTH), 0, 100)


@dataclass(frozen=True, slots=True)
class Covered:
    """Of each series: ``forecasts`` that were made and ``inside``, those whose interval held the truth, shape
    (ages, horizons, n), under five minutes and over; and how often the way to an announced end lay outside of
    the same moment's interval, (n,)."""

    forecasts: Floats
    inside: Floats
    contradicted: Floats
    moments: Floats


def covered(series: Floats) -> Covered:
    """Feed percent of memory, shape (seconds, n), and hold what is said against what comes."""
    n = series.shape[1]
    bank, capacity = TrendBank(n), np.full(n, CAPACITY)
    shape = (2, len(HORIZONS_S), n)
    made, inside, contradicted, moments = np.zeros(shape), np.zeros(shape), np.zeros(n), np.zeros(shape)
    values = series / 100 * CAPACITY
    for second, row in enumerate(values):
        bank.update(START_MS + 1000 * second, row)
        if second % EVERY:
            continue
        said = bank.forecast(lower=np.zeros(n), upper=capacity, capacity=capacity)
        contradicted += _contradicts(said)
        for place, horizon_s in enumerate(map(int, HORIZONS_S)):
            if second + horizon_s < len(values):
                truth, age = values[second + horizon_s], int(second >= YOUNG_S)
                made[age, place] += said.known[place]
                inside[age, place] += _within(truth, said, place)
                moments[age, place] += 1
    return Covered(made, inside, contradicted, moments)


def _within(value: Floats, said: TrendForecast, place: int) -> Bools:
    slack = OF_A_BYTE * CAPACITY
    return np.asarray((said.p05[place] - slack <= value) & (value <= said.p95[place] + slack))


def _contradicts(said: TrendForecast) -> Floats:
    """Whether the straight way to the announced end leaves an interval of the same record."""
    outside = np.zeros(said.level.size, np.bool_)
    for place, horizon_s in enumerate(said.horizons_s):
        way = said.level + (CAPACITY - said.level) * np.minimum(horizon_s / said.exhausts_in_s, 1.0)
        outside |= said.known[place] & np.isfinite(way) & ~_within(way, said, place)
    return outside.astype(np.float64)


def by_age(report: TableReport, seeds: range) -> None:
    """The table: of each curve, with noise and without, the share of truths inside and of forecasts made."""
    names = [(kind, noisy) for kind in CURVES for noisy in (False, True)]
    series = np.array([curve(kind, seed, noisy=noisy) for kind, noisy in names for seed in seeds]).T
    found = covered(series)
    rows: list[list[Cell]] = []
    for row, (kind, noisy) in enumerate(names):
        of = slice(row * len(seeds), (row + 1) * len(seeds))
        made, inside = found.forecasts[:, :, of].sum(axis=2), found.inside[:, :, of].sum(axis=2)
        share = np.where(made > 0, 100 * inside / np.maximum(made, 1), np.nan)
        there = 100 * made / found.moments[:, :, of].sum(axis=2)
        cells = [*share.ravel().tolist(), there[0, -1], there[1, -1], found.contradicted[of].sum()]
        rows.append(
            [kind, "yes" if noisy else "no", *(None if np.isnan(cell) else float(cell) for cell in cells)]
        )
    ages = (f"{age} 5 min, {int(horizon)} s" for age in ("under", "over") for horizon in HORIZONS_S)
    heads = ["curve", "noise", *ages, "300 s told under", "over", "contradictions"]
    title = (
        f"% of truths in the 5-95 % interval, {len(seeds)} series of {LENGTH} s of each curve, by their age"
    )
    report.table("ages", title, heads, rows)

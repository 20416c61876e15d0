"""How good forecasts are, how honest their intervals, and who says that memory runs out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.generators import Floats, Rng
from bench.generators_memory import ENDED, ENDS_AT, HARMLESS, INDISTINCT, LEAKS, fill
from bench.generators_trend import HORIZONS_S, LENGTH, Known, mix
from bench.insight.peers_forecast import FORECASTERS, Forecaster
from bench.insight.report import Cell, TableReport
from streams.operators.cycles.bank import CycleBank
from streams.operators.trends.bank import TrendBank
from streams.operators.trends.season import season_of

OURS = "Dutycycle"
ORACLE = "(all known but the noise)"
LEARN, EVERY = 600, 10
START_MS = 1_700_000_000_000
MOMENTS = tuple(range(LEARN, LENGTH - HORIZONS_S[-1], EVERY))
"""When forecasts are judged."""
ALERT_S, LOOK_BACK = 3600, 600
"""Prometheus' usual rule: the line through the last ten minutes reaches the capacity within an hour."""


@dataclass(frozen=True, slots=True)
class SeriesForecasts:
    """Forecasts of one series at ``MOMENTS``, each of shape (horizons, moments)."""

    value: Floats
    p05: Floats
    p95: Floats


@dataclass(frozen=True, slots=True)
class OurForecasts:
    """All forecasts of ours: by series; what a tick and a forecast cost, µs per series."""

    fans: list[SeriesForecasts]
    tick_us: float
    forecast_us: float


def ours(known: list[Known]) -> OurForecasts:
    """What a node does: all series at once, the cycles of each known as far as they were found."""
    series, n = np.array([one.series for one in known]).T, len(known)
    horizons_s = tuple(map(float, HORIZONS_S))
    bank, cycles = TrendBank(n, horizons_s), CycleBank(n)
    columns = np.arange(n)
    learning = telling = 0.0
    said = []
    for second, values in enumerate(series):
        ts_ms = START_MS + 1000 * second
        cycles.update(ts_ms, values)
        began = time.process_time()
        bank.update(ts_ms, values)
        learning += time.process_time() - began
        if second % EVERY:
            continue
        cycles.changes(ts_ms)
        began = time.process_time()
        forecast = bank.forecast(season_of(cycles.locked(), columns))
        telling += time.process_time() - began
        if second in MOMENTS:
            said.append((forecast.value, forecast.p05, forecast.p95))
    parts = np.array(said).transpose(3, 1, 2, 0)
    made = len(series) / EVERY * n * len(HORIZONS_S)
    return OurForecasts(
        [SeriesForecasts(*one) for one in parts], learning / series.size * 1e6, telling / made * 1e6
    )


def theirs(make: type[Forecaster], known: list[Known]) -> OurForecasts:
    """What a peer does, a series at a time."""
    learning = telling = 0.0
    fans = []
    for one in known:
        model, values, said = make(), one.series.tolist(), []
        for since, now in zip((0, *MOMENTS), MOMENTS, strict=False):
            began = time.process_time()
            for value in values[since + bool(since) : now + 1]:
                model.learn(value)
            learned = time.process_time()
            said.append(model.ahead())
            learning += learned - began
            telling += time.process_time() - learned
        middle = np.array(said).T
        fans.append(SeriesForecasts(middle, middle, middle))
    made = len(known) * len(MOMENTS) * len(HORIZONS_S)
    return OurForecasts(fans, learning / (len(known) * (MOMENTS[-1] + 1)) * 1e6, telling / made * 1e6)


def truths(one: Known) -> Floats:
    """What came, shape (horizons, moments)."""
    return np.array([one.series[np.array(MOMENTS) + horizon] for horizon in HORIZONS_S])


def ratios(known: list[Known], said: list[Floats]) -> Floats:
    """Mean absolute error over persistence's, shape (series, horizons)."""
    rows = []
    for one, value in zip(known, said, strict=True):
        truth = truths(one)
        now = one.series[np.array(MOMENTS)]
        rows.append(np.abs(value - truth).mean(axis=1) / np.abs(now - truth).mean(axis=1))
    return np.array(rows)


def comparison(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the tables of errors, of all series and by noise, and of how honest our intervals are."""
    known = mix(seeds)[:: min(thin, 3)]
    cyclic = np.array([one.what != "" for one in known])
    made = {OURS: ours(known)} | {name: theirs(peer, known) for name, peer in FORECASTERS.items()}
    said = {name: [fan.value for fan in one.fans] for name, one in made.items()}
    said[ORACLE] = [one.oracle[:, np.array(MOMENTS)] for one in known]
    rows: list[list[Cell]] = []
    for name, values in said.items():
        error, cost = ratios(known, values), made.get(name)
        rows.append([name, *map(float, error.mean(axis=0)), *map(float, error[cyclic].mean(axis=0)),
                     *((cost.tick_us, cost.forecast_us) if cost else (None, None))])  # fmt: skip
    columns = [f"{what} {horizon} s" for what in ("all", "cyclic") for horizon in HORIZONS_S]
    title = f"forecasts: error over persistence's, {len(known)} series, {cyclic.sum()} of them cyclic"
    report.table("forecasts", title, ["forecaster", *columns, "µs/tick", "µs/forecast"], rows)
    by_noise(report, known, {name: ratios(known, values) for name, values in said.items()})
    coverage(report, known, made[OURS].fans)


def by_noise(report: TableReport, known: list[Known], errors: dict[str, Floats]) -> None:
    """The same of the cyclic series alone, by how faint their cycle is: ours,
    the best peer, and the best there is."""
    parts = np.array([one.what for one in known])
    rows: list[list[Cell]] = [
        [name, part, *map(float, error[parts == part].mean(axis=0))]
        for part in sorted({one.what for one in known if one.what}, key=lambda part: -float(part.split()[1]))
        for name, error in errors.items()
        if name in (OURS, "seasonal naive", ORACLE)
    ]
    columns = ["forecaster", "series", *(f"{horizon} s" for horizon in HORIZONS_S)]
    report.table("forecasts_by_noise", "forecasts of cyclic series: error over persistence's", columns, rows)


def coverage(report: TableReport, known: list[Known], fans: list[SeriesForecasts]) -> None:
    """How often the truth lay where ours said."""
    inside, below = np.array([
        [(fan.p05 <= truths(one)) & (truths(one) <= fan.p95), truths(one) <= fan.p95]
        for one, fan in zip(known, fans, strict=True)
    ]).mean(axis=3).transpose(1, 0, 2)  # fmt: skip
    kinds = np.array([one.kind for one in known])
    groups = {"all": kinds != "", **{kind: kinds == kind for kind in dict.fromkeys(kinds.tolist())}}
    rows = [
        [name, *(100 * inside[chosen].mean(axis=0)).tolist(), *(100 * below[chosen].mean(axis=0)).tolist()]
        for name, chosen in groups.items()
    ]
    columns = [f"{what} {horizon} s" for what in ("5-95", "<95") for horizon in HORIZONS_S]
    title = "forecasts of ours: % of truths in the 5-95 % interval, and below the 95 % point"
    report.table("coverage", title, ["series", *columns], rows)


def _line_at_its_end(since: npt.NDArray[np.floating[Any]], values: Floats) -> tuple[float, float]:
    """Slope and newest value of the least-squares line through the known of ``values``."""
    known = ~np.isnan(values)
    slope, now = np.polyfit(since[known], values[known], 1)
    return float(slope), float(now)


def leaking(series: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Of percent of memory, shape (seconds, n): what ours says of the time left, (moments, n), NaN for
    nothing; and whether the rule of Prometheus would fire, once it has its ten minutes:
    ``predict_linear(memory[10m], 3600) > capacity``."""
    n = series.shape[1]
    bank, capacity = TrendBank(n), np.full(n, 100e9)
    left: list[Floats] = []
    fires: list[npt.NDArray[np.bool_]] = []
    since = np.arange(LOOK_BACK) - (LOOK_BACK - 1.0)
    for second, values in enumerate(series):
        bank.update(START_MS + 1000 * second, values * 1e9)
        if second % EVERY:
            continue
        left.append(bank.forecast(capacity=capacity).exhausts_in_s)
        if second >= LOOK_BACK:
            recent = series[second + 1 - LOOK_BACK : second + 1]
            lines = [_line_at_its_end(since, recent[:, column]) for column in range(n)]
            fires.append(np.array([now + slope * ALERT_S > 100 for slope, now in lines]))
    return np.array(left), np.array(fires)


CURVES: dict[str, Callable[[Rng, int], Floats]] = {**LEAKS, **ENDED, **HARMLESS, **INDISTINCT}
FULL = 99.5


def curve(kind: str, seed: int) -> Floats:
    """Percent of memory over half an hour."""
    return CURVES[kind](np.random.default_rng([seed, *kind.encode()]), LENGTH)


FILL_MINUTES = (1, 3, 5, 10, 30, 60)


def fills(report: TableReport, seeds: range) -> None:
    """How long before memory is full it is announced, by how fast it fills."""
    rows: list[list[Cell]] = []
    for minutes in FILL_MINUTES:
        lead: list[float] = []
        for seed in seeds:
            series = fill(np.random.default_rng([seed, minutes]), 60.0 * minutes)
            left, _ = leaking(series[: np.argmax(series >= FULL), np.newaxis])
            silent = np.flatnonzero(np.isnan(left[:, 0]))[-1]
            if silent < len(left) - 1:
                lead.append(float(len(series) - 1 - EVERY * (silent + 1)))
        figures = [float(figure) for figure in np.percentile(lead, (10, 50))] if lead else [None, None]
        rows.append([minutes, 100 * len(lead) / len(seeds), *figures])
    heads = ["full in minutes", "announced %", "before s (10 %)", "before s (median)"]
    report.table("fills", f"memory that fills up, {len(seeds)} series of each", heads, rows)


def exhaustion(report: TableReport, seeds: range) -> None:
    """Leaks are announced, and stay so until they end; harmless curves are not."""
    rows: list[list[Cell]] = []
    ends = int(ENDS_AT * LENGTH)
    for kind in CURVES:
        series = np.array([curve(kind, seed) for seed in seeds]).T
        left, fires = leaking(series)
        said = ~np.isnan(left)
        announced = said.any(axis=0)
        first = np.argmax(said, axis=0)[announced] * EVERY
        last = (len(said) - 1 - np.argmax(said[::-1], axis=0))[announced] * EVERY
        figures: list[Cell] = [None, None, None]
        if announced.any():
            over = float(np.median(last - ends)) if kind in ENDED else None
            # How often what was said of a series, shape (moments, n), was taken back before it was full
            full = np.maximum.accumulate(series >= FULL, axis=0)[::EVERY]
            back = (said[:-1] & ~said[1:] & ~full[1:]).sum(axis=0)
            taken_back = float(back[said.any(axis=0)].mean())
            figures = [float(np.median(first)), taken_back, over]
        verdicts = ((LEAKS, "yes"), (ENDED, "until it ends"), (INDISTINCT, "no, though it looks so"))
        runs_out = next((verdict for curves, verdict in verdicts if kind in curves), "no")
        rows.append([kind, runs_out, 100 * float(announced.mean()), *figures,
                     100 * float(fires.any(axis=0).mean())])  # fmt: skip
    title = f"memory announced to run out, % of {len(seeds)} series of each curve"
    heads = ["curve", "runs out", OURS, "first after s", "taken back", "over after s", "predict_linear"]
    report.table("memory", title, heads, rows)

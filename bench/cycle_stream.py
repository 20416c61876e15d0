"""How fast cycles are found and let go of, how patient the detector is, and what it costs: the streams."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import orjson
import zstandard

from bench.generators import CONTROLS, Case, Floats
from streams.operators.cycles.bank import CycleBank
from streams.operators.cycles.scales import CycleScales

CLOSE = 0.05
"""Relative error up to which a period is a hit."""
START_MS = 1_700_000_000_000
EVERY = 10
"""Seconds between looks of a stream."""


def _stream(columns: list[Floats]) -> tuple[list[list[tuple[int, float | None]]], float]:
    """Of each column the news of a bank, (second, period or None); microseconds per series and second."""
    bank, series = CycleBank(len(columns)), np.array(columns).T
    news: list[list[tuple[int, float | None]]] = [[] for _ in columns]
    began = time.process_time()
    for second, row in enumerate(series):
        bank.update(START_MS + 1000 * second, row)
        if second % EVERY == EVERY - 1:
            for column, result in bank.changes(START_MS + 1000 * second):
                news[column].append((second, result.period_s))
    return news, (time.process_time() - began) / series.size * 1e6


@dataclass(frozen=True, slots=True)
class Delays:
    """In periods, one of each job: until the first cycle was locked, until it was dropped after its end
    (old periods), until the next was found, until the end of that was seen; infinite for never."""

    locked: list[float]
    dropped: list[float]
    found: list[float]
    ended: list[float]


def jobs(seeds: range, shapes: Sequence[str]) -> tuple[Delays, float]:
    """A job starts, changes its cycle and ends, between idleness: when is each of these known?

    Second: microseconds per series and second, looked at every ten seconds.
    """
    columns, periods = [], []
    for seed in seeds:
        for kind in shapes:
            rng = np.random.default_rng([seed, *kind.encode(), 1])
            one, other = np.exp(rng.uniform(np.log(6), np.log(60), size=2))
            busy = [Case(kind, seed, p, 10.0, length=400).series() for p in (one, other)]
            rest = [2 + 0.3 * rng.normal(size=200) for _ in range(2)]
            columns.append(np.concatenate((rest[0], *busy, rest[1])))
            periods.append((one, other))
    told, us = _stream(columns)
    delays = Delays([], [], [], [])
    for (one, other), news in zip(periods, told, strict=True):
        if abs(one / other - 1) < 2 * CLOSE:
            continue
        delays.locked.append((_when(news, one, 200) - 200) / one)
        delays.dropped.append((next((s for s, p in news if s >= 600 and _off(p, one)), np.inf) - 600) / one)
        delays.found.append((_when(news, other, 600) - 600) / other)
        delays.ended.append((next((s for s, p in news if s >= 1000 and p is None), np.inf) - 1000) / other)
    return delays, us


def print_jobs(seeds: range, shapes: Sequence[str]) -> None:
    """Print the delays of jobs."""
    told, us = jobs(seeds, shapes)
    print(f"{'/'.join(shapes)}: {len(told.locked)} jobs, {us:.1f} µs per series and second")
    figures = (told.locked, told.dropped, told.found, told.ended)
    for what, cycles in zip(("locked", "old dropped", "new found", "end seen"), figures, strict=True):
        middle, most = np.quantile(cycles, (0.5, 0.9), method="higher")
        print(f"  {what:<12} after {middle:5.2f} periods (median), {most:5.2f} (9 of 10)")


def _when(news: list[tuple[int, float | None]], period: float, since: int) -> float:
    return next((s for s, p in news if s >= since and p is not None and not _off(p, period)), np.inf)


def _off(period: float | None, true: float) -> bool:
    return period is None or abs(period / true - 1) > CLOSE


@dataclass(frozen=True, slots=True)
class Costs:
    """``tick_us`` of a node's tick, ``look_us`` of a look at one series, ``gpu_us`` of a GPU's three series
    in ten seconds; bytes of state per series as it is written, before and after compression."""

    tick_us: float
    look_us: float
    gpu_us: float
    state_bytes: float
    packed_bytes: float


NODE = (
    ("constant",) * 8
    + ("white", "ar1", "telegraph", "step") * 2
    + ("sine", "square", "sawtooth", "bursts") * 2
)


def costs(seed: int, seconds: int = 2100, warm_s: int = 900) -> Costs:
    """What a node of eight GPUs costs on all time scales once it has run for ``warm_s``: a third of its 24
    series are idle, a third busy without a cycle, a third have one."""
    columns = [
        Case(
            kind, seed * 100 + place, None if kind in CONTROLS else 10.0 + 2 * place, length=seconds
        ).series()
        for place, kind in enumerate(NODE)
    ]
    scales, ticks, looks = CycleScales(len(columns)), 0.0, 0.0
    for second, row in enumerate(np.maximum(np.array(columns).T, 0.0)):
        began = time.process_time()
        scales.update(START_MS + 1000 * second, row, 1000)
        middle = time.process_time()
        if second % EVERY == EVERY - 1:
            scales.changes(START_MS + 1000 * second)
        if second >= warm_s:
            ticks, looks = ticks + middle - began, looks + time.process_time() - middle
    plain = orjson.dumps(scales.snapshot())
    packed = zstandard.ZstdCompressor(level=1).compress(plain)
    tick_us = ticks / (seconds - warm_s) * 1e6
    look_us = looks / ((seconds - warm_s) / EVERY) / len(columns) * 1e6
    gpu_us = 3 * look_us + EVERY * tick_us / 8
    return Costs(tick_us, look_us, gpu_us, len(plain) / len(columns), len(packed) / len(columns))


def print_costs(seed: int) -> None:
    """Print what a node costs."""
    told = costs(seed)
    cores = told.gpu_us * 8000 / EVERY / 1e6
    print(f"\na node of 8 GPUs, 24 series: {told.tick_us:.0f} µs a tick, {told.look_us:.0f} µs a look at one")
    print(f"{told.gpu_us:.0f} µs a GPU every {EVERY} s, {cores:.2f} core for 8,000")
    print(f"state {told.state_bytes:.0f} bytes a series, {told.packed_bytes:.0f} packed")


def print_patience(seeds: range, hours: float) -> None:
    """How often a series without a cycle is said to have one, when it is watched for long."""
    print(f"\nfalse locks per hour of watching, {len(seeds)} series of {hours:g} h")
    for kind in CONTROLS:
        columns = [Case(kind, seed, length=int(3600 * hours)).series() for seed in seeds]
        told, us = _stream(columns)
        locks = sum(period is not None for news in told for _, period in news)
        print(f"{kind:<12}  {locks / len(seeds) / hours:7.4f}   {us:5.1f} µs per series and second")

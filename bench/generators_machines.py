"""Seeded GPUs of one job on one machine, as ``nvidia-smi`` logs them once a second: rhythms that real
training runs have and simple shapes do not.

A GPU is busy or not at each twentieth of a second. Utilization is what the driver measured in the last fifth
of a second, power a mean over all of it, the memory controller a share of the utilization. So steps of a few
seconds are aliased, as they are on real machines.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from bench.generators import Floats, Rng

FINE = 20
"""Points in a second."""
LAST = 4
"""Of them, what a sample of utilization is of."""
METRICS = ("gpu_util_pct", "mem_copy_util_pct", "power_w")
STILL = 0.01


@dataclass(frozen=True, slots=True)
class Run:
    """Holds what is logged of a machine; its kind, see ``KINDS``, says how it runs.

    ``series``, shape (seconds, series): the ``METRICS`` of each GPU in turn. ``bursts``, shape (seconds,
    GPUs, samples): the driver's own samples of utilization. The job runs between the seconds ``begin`` and
    ``end``. ``periods`` (s) may be said of it; the first ``wanted`` have to be.
    """

    series: Floats
    bursts: Floats
    periods: tuple[float, ...]
    begin: int
    end: int
    wanted: int = 1


def _step(
    rng: Rng, step: float, duty: float, jitter: float, level: float = 0.97
) -> Iterator[tuple[float, float]]:
    """One training step: busy, then waiting for data."""
    long = max(step * (1 + jitter * rng.normal()), 0.2)
    yield duty * long, level
    yield (1 - duty) * long, STILL


def _run(rng: Rng, gpus: list[Floats], periods: tuple[float, ...], rest: int = 60, wanted: int = 1) -> Run:
    """What is logged of GPUs that were so busy, with ``rest`` idle seconds before and after."""
    columns: list[Floats] = []
    bursts: list[Floats] = []
    for busy in gpus:
        seconds = busy.reshape(-1, FINE)
        quick = 100 * seconds.reshape(-1, FINE // LAST, LAST).mean(axis=2)
        util = quick[:, -1]
        share = rng.uniform(0.25, 0.7)
        noisy = np.clip(util + (util > 2) * rng.normal(size=util.size) * 1.5, 0, 100).round()
        copy = np.clip(share * util + (util > 2) * rng.normal(size=util.size) * 2, 0, 100).round()
        idle, top = rng.uniform(50, 90), rng.uniform(220, 390)
        slow = np.convolve(np.concatenate((np.zeros(1), seconds.mean(axis=1))), (0.7, 0.3))[1:-1]
        power = idle + (top - idle) * slow + rng.normal(size=util.size) * rng.uniform(2, 8)
        for series, still in ((noisy, 0.0), (copy, 0.0), (power, idle)):
            ends = [still + (still > 0) * rng.normal(size=rest) for _ in range(2)]
            columns.append(np.concatenate((ends[0], series, ends[1])))
        bursts.append(np.pad(quick, ((rest, rest), (0, 0))))
    end = len(columns[0]) - rest
    return Run(np.array(columns).T, np.stack(bursts, axis=1), periods, rest, end, wanted)


def _gpus(
    rng: Rng, seconds: int, parts: Callable[[Rng], Iterator[tuple[float, float]]], count: int
) -> list[Floats]:
    """GPUs that wait for one another: all do the same, and each is a little late and differs in detail."""
    seed = int(rng.integers(1 << 60))
    found = []
    for _ in range(count):
        # How busy a GPU is at each point: parts are pairs of duration (s) and level (0-1)
        levels, at = np.zeros(seconds * FINE), 0.0
        for lasts, level in parts(np.random.default_rng(seed)):
            first, at = round(at * FINE), at + lasts
            levels[first : round(at * FINE)] = level
            if at >= seconds:
                break
        late = int(rng.integers(0, 4))
        uneven = np.where(
            levels > STILL,
            np.clip(levels + 0.03 * rng.normal(size=levels.size), 0, 1),
            levels,
        )
        found.append(np.concatenate((np.zeros(late), uneven))[: levels.size])
    return found


def fast_with_pauses(rng: Rng) -> Run:
    """Steps of about 2.3 s, and after each sixteenth a checkpoint of four to five seconds."""
    step, duty, jitter = rng.uniform(2.1, 2.5), rng.uniform(0.5, 0.8), rng.uniform(0.0, 0.02)
    steps, pause = int(rng.integers(13, 17)), rng.uniform(4.0, 5.0)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            for _ in range(steps):
                yield from _step(same, step, duty, jitter)
            yield pause + 0.2 * same.normal(), STILL

    period, seconds = steps * step + pause, 600
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    return _run(rng, gpus, (period, step))


def short_dips(rng: Rng) -> Run:
    """Steps of a tenth of a second, so that a GPU seems busy all the time, and a dip of one to three seconds
    in each period."""
    period, dip, depth = rng.uniform(12, 60), rng.uniform(1.0, 3.0), rng.uniform(0.0, 0.6)
    level, jitter = rng.uniform(0.8, 0.98), rng.uniform(0.0, 0.02)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            long = period * (1 + jitter * same.normal())
            yield long - dip, level
            yield dip, depth

    seconds = 600
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    return _run(rng, gpus, (period,))


def few_cycles(rng: Rng) -> Run:
    """Ten cycles of thirteen seconds, between idleness; some GPUs hardly rest between them."""
    period, duty, jitter = rng.uniform(12, 14), rng.uniform(0.5, 0.85), rng.uniform(0.0, 0.03)
    step, inner = rng.uniform(0.3, 1.3), rng.uniform(0.7, 0.95)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            long = period * (1 + jitter * same.normal())
            busy = duty * long
            while busy > 0:
                yield from _step(same, min(step, busy), inner, 0.05)
                busy -= step
            yield (1 - duty) * long, STILL

    seconds = int(10 * period)
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    # What a GPU does of its own between: data that it copies, a slower start.
    for one in gpus:
        if rng.uniform() < 0.4:
            fill = rng.uniform(0.2, 0.8) * (rng.uniform(size=seconds) < rng.uniform(0.2, 0.7))
            one[:] = np.maximum(one, np.repeat(fill, FINE))
    return _run(rng, gpus, (period, step), rest=150)


def slow_with_texture(rng: Rng) -> Run:
    """Cycles of about 68 s of many steps of one to two seconds and a rest: a step may look like 7.5 s."""
    period, rest = rng.uniform(55, 80), rng.uniform(5, 12)
    step, duty, jitter = rng.uniform(1.05, 1.95), rng.uniform(0.4, 0.8), rng.uniform(0.0, 0.03)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            busy = period - rest
            while busy > 0:
                for lasts, level in _step(same, step, duty, jitter):
                    yield lasts, level
                    busy -= lasts
            yield rest + busy, STILL

    seconds = 900
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    return _run(rng, gpus, (period, step))


def steps_with_checkpoints(rng: Rng) -> Run:
    """Steps of twelve seconds, and a checkpoint of 20 to 40 s each 300 s."""
    step, duty, jitter = rng.uniform(9, 15), rng.uniform(0.5, 0.8), rng.uniform(0.0, 0.03)
    every, pause = rng.uniform(270, 330), rng.uniform(20, 40)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            at = 0.0
            while at < every - pause:
                for lasts, level in _step(same, step, duty, jitter):
                    yield lasts, level
                    at += lasts
            yield max(every - at, 5.0), STILL

    seconds = 2400
    gpus = _gpus(rng, seconds, parts, 2)
    return _run(rng, gpus, (step, every))


def two_rhythms(rng: Rng) -> Run:
    """Steps, and a second load that comes and goes in a rhythm of its own and slows them down."""
    step, duty, jitter = rng.uniform(8, 15), rng.uniform(0.4, 0.8), rng.uniform(0.0, 0.01)
    other, busy, left = rng.uniform(50, 110), rng.uniform(0.3, 0.7), rng.uniform(0.3, 0.7)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        while True:
            yield from _step(same, step, duty, jitter)

    seconds = 900
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    shared = np.where((np.arange(seconds * FINE) / FINE / other) % 1 < busy, left, 1.0)
    return _run(rng, [one * shared for one in gpus], (step, other), wanted=2)


def wandering(rng: Rng) -> Run:
    """No rhythm at all: phases of busy and idle of any length, and a load that wanders."""
    mean, slow = rng.uniform(5, 60), rng.uniform(0, 0.05)

    def parts(same: Rng) -> Iterator[tuple[float, float]]:
        level = 0.6
        while True:
            level = float(np.clip(level + slow * same.normal(), 0.2, 1.0))
            yield same.exponential(mean), level
            if same.uniform() < 0.7:
                yield same.exponential(mean / 2), STILL

    seconds = 1800
    gpus = _gpus(rng, seconds, parts, int(rng.choice((2, 4, 8))))
    return _run(rng, gpus, ())


KINDS: dict[str, Callable[[Rng], Run]] = {
    "fast_with_pauses": fast_with_pauses, "short_dips": short_dips, "few_cycles": few_cycles,
    "slow_with_texture": slow_with_texture, "steps_with_checkpoints": steps_with_checkpoints,
    "two_rhythms": two_rhythms, "wandering": wandering,
}  # fmt: skip


def machine_run(kind: str, seed: int) -> Run:
    """Make the run of a kind and seed."""
    return KINDS[kind](np.random.default_rng([seed, *kind.encode(), 21]))

"""Pods of which the GPU alone is seen, half an hour long, at ticks from a second to a minute: those of
``generators_jobs``, and shapes that public logs of real machines show and it lacks.

Trainings that offload to the host, wait for data most of the time, hold caching allocators, or are as flat as
a server; runs one after another; servers in low and in constant load; a loaded model that nobody asks; loops
that nobody can name."""

from collections.abc import Callable

import numpy as np

from bench.generators import Floats, Rng, log_uniform
from bench.generators_jobs import SHAPES, Draft, Pod
from streams.operators.workload.channels import CHANNEL_ROW, NVML_CHANNELS

SECONDS = 1800
TICKS_S = (1, 1, 1, 1, 2, 2, 5, 10, 15, 30, 60)
Shape = Callable[[Draft], None]


def _work(d: Draft, begin: float, end: float, level: float) -> None:
    """Add work at a level from one moment to another, of each second as much as lies between."""
    seconds = np.arange(int(begin), min(int(end) + 1, d.n))
    d.util[seconds] += level * (np.minimum(seconds + 1, end) - np.maximum(seconds, begin)).clip(0, 1)


def _hold(d: Draft, kind: str) -> None:
    """Memory that is taken once, some power at work, and a kind."""
    rng = d.rng
    d.mem[:] = log_uniform(rng, 1.5, 98)
    d.effort[:] = rng.uniform(0.12, 1.0)
    d.copy_share[:] = rng.uniform(0.02, 0.75)
    d.label(0, d.n, kind)


def _starts_up(d: Draft) -> None:
    """Seconds to minutes before anything runs, while memory is not there yet and the GPU draws less; a log
    may begin later."""
    if d.rng.uniform() < 0.65:
        begin = int(log_uniform(d.rng, 4, 90))
        d.util[:begin] = 0
        d.mem[:begin] = d.mem[begin] * np.linspace(0, 1, begin) ** d.rng.uniform(0.3, 3)
        idle_w = np.full(d.n, d.idle_w)
        idle_w[:begin] *= d.rng.uniform(0.5, 1)
        d.idle_w = idle_w
        if d.rng.uniform() < 0.5:  # weights are moved, kernels are tuned
            d.util[begin // 2 : begin] = d.rng.uniform(0, 25, begin - begin // 2)
        d.label(0, begin, "")


def _pauses(d: Draft) -> None:
    """Logging, evaluation and checkpoints, each so often."""
    rng = d.rng
    for chance, every, lasts in (
        (0.6, log_uniform(rng, 8, 90), (0.5, 2)),
        (0.4, log_uniform(rng, 100, 900), (3, 45)),
    ):
        if rng.uniform() < chance:
            rest, at = rng.uniform(0, 0.8), rng.uniform(0, every)
            while at < d.n:
                d.util[int(at) : int(at + rng.uniform(*lasts)) + 1] *= rest
                at += max(every * (1 + 0.05 * rng.normal()), 1)


def flat(d: Draft) -> None:
    """A training at any level, with steps far below a second."""
    rng = d.rng
    _hold(d, "training")
    top = rng.uniform(90, 100) if rng.uniform() < 0.45 else rng.uniform(12, 95)
    d.util[:] = top + d.noise(rng.uniform(0.2, 8), rng.uniform(0, 0.9))
    if rng.uniform() < 0.3:
        d.util += d.noise(rng.uniform(1, 8), 0.99)
    _pauses(d)
    _starts_up(d)


def ranks(d: Draft) -> None:
    """Ranks on several GPUs, which spin while they wait for one another: always full, at any power."""
    rng = d.rng
    _hold(d, "training")
    d.gpus = int(rng.choice((2, 4, 8, 8)))
    d.effort[:] = rng.uniform(0.3, 0.95)
    d.copy_share[:] = rng.uniform(0.1, 0.6)
    d.util[:] = 100 - abs(d.noise(rng.uniform(0.2, 1.5)))
    if rng.uniform() < 0.7:
        _pauses(d)
    _starts_up(d)


def offloaded(d: Draft) -> None:
    """Parameters live on the host: each step the GPU works shortly, and waits for the rest of it."""
    rng = d.rng
    _hold(d, "training")
    period, share = log_uniform(rng, 1.5, 25), rng.uniform(0.05, 0.6)
    lengths = np.maximum(
        period * (1 + rng.uniform(0.01, 0.12) * rng.normal(size=int(2 * d.n / period) + 9)), 0.5
    )
    ends = np.concatenate(([0], lengths.cumsum()))
    fine = np.arange(d.n * 10) / 10
    place = np.searchsorted(ends, fine, side="right") - 1
    at_work = (fine - ends[place]) < share * lengths[place]
    d.util[:] = rng.uniform(50, 100) * at_work.reshape(-1, 10).mean(axis=1)
    _pauses(d)
    _starts_up(d)


def starved(d: Draft) -> None:
    """Bursts of work between waits for data, each of another length."""
    rng = d.rng
    _hold(d, "training")
    work_s, wait_s, wide = log_uniform(rng, 0.5, 15), log_uniform(rng, 1, 60), rng.uniform(0.1, 0.8)
    level, at = rng.uniform(15, 100), rng.uniform(0, 20)
    while at < d.n:
        ends = at + work_s * np.exp(wide * rng.normal())
        _work(d, at, ends, level)
        at = ends + wait_s * np.exp(wide * rng.normal())
    d.util *= 1 + 0.1 * d.noise(1.0)
    if rng.uniform() < 0.4:
        d.mem[:] = (d.mem + d.noise(rng.uniform(0.5, 4), 0.9)).clip(0.5, 99)
    _starts_up(d)


def allocating(d: Draft) -> None:
    """A caching allocator: memory moves at each look, near full at times."""
    flat(d)
    d.mem[:] = np.clip(d.rng.uniform(60, 96) + d.noise(d.rng.uniform(1.5, 9), d.rng.uniform(0, 0.5)), 5, 99.9)


def runs(d: Draft) -> None:
    """Trainings one after another: memory goes with each."""
    rng, at = d.rng, 0.0
    d.label(0, d.n, "training")
    d.effort[:] = rng.uniform(0.12, 1.0)
    held = log_uniform(rng, 2, 95)
    while at < d.n:
        ends, level = at + log_uniform(rng, 30, 900), rng.uniform(5, 100)
        where = slice(int(at), int(ends))
        d.util[where] = (level + d.noise(rng.uniform(0.5, 8), rng.uniform(0, 0.9)))[where]
        d.mem[where] = held * rng.uniform(0.8, 1.1)
        rest = log_uniform(rng, 3, 50)
        if rng.uniform() < 0.3:
            d.mem[int(ends) : int(ends + rest)] = d.mem[int(ends) - 1 if ends < d.n else -1]
        at = ends + rest
    _pauses(d)


def little(d: Draft) -> None:
    """A small model: an epoch each so many seconds, and little of the GPU at any time."""
    rng = d.rng
    _hold(d, "training")
    d.mem[:] = log_uniform(rng, 0.8, 15)
    every, share, level = log_uniform(rng, 8, 150), rng.uniform(0.3, 0.95), rng.uniform(6, 45)
    phase = (np.arange(d.n) / every + 0.02 * d.noise(1.0, 0.9)) % 1
    d.util[:] = np.where(phase < share, level, level * rng.uniform(0, 0.5)) * (1 + 0.12 * d.noise(1.0, 0.3))
    _starts_up(d)


def constant_load(d: Draft) -> None:
    """A server under a client of constant concurrency, in rounds."""
    rng = d.rng
    _hold(d, "inference")
    d.util[:] = rng.uniform(25, 98) + d.noise(rng.uniform(0.4, 3), rng.uniform(0, 0.6))
    d.copy_share[:] = rng.uniform(0.15, 0.95)
    d.effort[:] = rng.uniform(0.15, 0.6)
    at = rng.uniform(10, 200)
    while rng.uniform() < 0.97 and at < d.n:
        d.util[int(at) : int(at + log_uniform(rng, 2, 40))] *= rng.uniform(0, 0.3)
        at += log_uniform(rng, 30, 400)
    _starts_up(d)


def rare(d: Draft) -> None:
    """A server with few requests, or some at once: bursts of seconds at random, memory that never moves."""
    rng = d.rng
    _hold(d, "inference")
    d.mem[:] = rng.uniform(15, 97)
    gap_s, burst_s, level = log_uniform(rng, 3, 40), log_uniform(rng, 0.4, 6), rng.uniform(30, 100)
    at = rng.exponential(gap_s)
    while at < d.n:
        ends = at + rng.exponential(burst_s) + 0.2
        _work(d, at, ends, min(level * rng.uniform(0.3, 1.2), 100))
        at += rng.exponential(gap_s) * np.exp(0.5 * rng.normal())
    d.util = d.util.clip(0, 100)
    _starts_up(d)


def batches(d: Draft) -> None:
    """A server that waits with its model in memory, and gets some hundred requests at once: seconds of work,
    and none between."""
    rng = d.rng
    _hold(d, "inference")
    d.mem[:] = rng.uniform(15, 97)
    d.copy_share[:] = rng.uniform(0.3, 0.85)
    d.effort[:] = rng.uniform(0.3, 1.0)
    work_s, gap_s = log_uniform(rng, 1, 8), log_uniform(rng, 3, 25)
    at = rng.uniform(0, 20)
    while at < d.n:
        ends = at + work_s * np.exp(0.5 * rng.normal())
        _work(d, at, ends, min(rng.uniform(55, 130), 100))
        at = ends + gap_s * np.exp(0.8 * rng.normal())
    d.util = d.util.clip(0, 100)


def decoding(d: Draft) -> None:
    """A server that answers a request after the other, or a few at once: each token reads all weights, so the
    GPU is neither full nor near its limit, and always the same."""
    rng = d.rng
    _hold(d, "inference")
    d.mem[:] = rng.uniform(8, 95)
    d.util[:] = rng.uniform(35, 88) + d.noise(rng.uniform(0.8, 3), rng.uniform(0, 0.5))
    d.copy_share[:] = rng.uniform(0.2, 0.5)
    d.effort[:] = rng.uniform(0.2, 0.45)
    warm = int(log_uniform(rng, 5, 60))
    d.util[:warm] *= rng.uniform(0.4, 0.9)
    _starts_up(d)


def hum(d: Draft) -> None:
    """A little work all the time: a game, a screen, a search. Nobody can be sure."""
    rng = d.rng
    _hold(d, "unknown")
    d.gpus = 1
    d.effort[:] = rng.uniform(0.2, 1)
    d.util[:] = rng.uniform(1, 10) * np.exp(d.noise(rng.uniform(0.2, 1.0), rng.uniform(0, 0.9)))


def loop(d: Draft) -> None:
    """A kernel in a loop: nothing moves. Nobody can be sure."""
    rng = d.rng
    _hold(d, "unknown")
    d.gpus = 1
    d.util[:] = rng.choice((100.0, 100.0, rng.uniform(92, 100))) + d.noise(0.15)
    begin = int(log_uniform(rng, 1, 20))
    d.util[:begin] = 0


def loaded(d: Draft) -> None:
    """A model is loaded, and nobody asks for anything."""
    d.mem[:] = d.rng.uniform(2, 97)
    _starts_up(d)
    if d.kind[0] < 0:
        d.label(0, int(np.flatnonzero(d.kind >= 0)[0]) + 15, "")


WIDE: dict[str, Shape] = {
    one.__name__: one
    for one in (
        flat, ranks, offloaded, starved, allocating, runs, little, constant_load, rare, batches, decoding,
        hum, loop, loaded,
    )
}  # fmt: skip
SHARES = {
    "training": 0.66,
    "inference": 0.13,
    "idle": 0.13,
    "unknown": 0.06,
    "interactive": 0.01,
    "loading": 0.01,
}
"""How common each kind is, as in public logs of GPUs (59 trainings for 12 servers): a prior, as nothing else
than its GPU is known of such a pod."""
GROUPS = (
    ("power_pct", "power_w"), ("power_pct",), ("gpu_mem_pct",), ("mem_copy_util_pct",),
)  # fmt: skip
"""Channels that are absent together in some logs."""


def gpu_pod(shape: str, seed: int) -> Pod:
    """The pod of a shape and seed, half an hour long."""
    draft = Draft(np.random.default_rng([seed, 7, *shape.encode()]), SECONDS)
    (WIDE.get(shape) or SHAPES[shape])(draft)
    return draft.done(shape, seed)


def at_ticks(one: Pod, rng: Rng) -> tuple[Floats, int]:
    """The channels of its GPU, shape (channels, seconds), as ticks of some length see them, and that length:
    each holds for the seconds before it, a moment or the mean of them. Some channels are absent."""
    tick = int(rng.choice(TICKS_S))
    values = one.matrix()[: len(NVML_CHANNELS)].copy()
    for group in GROUPS:
        if rng.uniform() < 0.3:
            values[[CHANNEL_ROW[name] for name in group]] = np.nan
    if tick == 1:
        return values, tick
    whole = values.shape[1] // tick * tick
    by_tick = values[:, :whole].reshape(len(values), -1, tick)
    averaged = rng.uniform() < 0.4
    seen = by_tick.mean(axis=2) if averaged else by_tick[:, :, -1]
    return np.repeat(seen, tick, axis=1), tick

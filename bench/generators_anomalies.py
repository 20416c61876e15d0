"""Seeded jobs of a pod with several GPUs, by the second for hours: as they are meant to be, or with a fault.

A shape is a kind of job, a fault is what happens to it at a moment after its first two hours, and stays. What
is returned are the figures that a pod's anomalies are found from, by the minute: means, and of each GPU those
of the newest ten seconds. The period is found from each second's utilization.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # its signal is loaded when it is used

from bench.generators import Floats, Rng, log_uniform

HOURS = 8
MINUTE_S = 60
EARLIEST_S, LATEST_S = 7200, (HOURS - 2) * 3600
"""When a fault begins."""
SHAPES = (
    "cyclic", "steady", "jitters", "elastic", "sweep", "notebook", "inference", "pipeline", "saves_long",
    "evaluates",
)  # fmt: skip
COUNTED = ("light", "caches")
"""Shapes of which counters say what nothing else does."""
FAULTS = {
    "slow 5-10 %": "slow_steps", "slow 10-20 %": "slow_steps", "slow 20-30 %": "slow_steps",
    "hot GPU": "hot_gpu", "slow GPU": "slow_gpu", "stuck clocks": "power", "hidden load": "power",
    "hung rank": "hang",
}  # fmt: skip
"""What it should be called."""
SLOWER = {"slow 5-10 %": (1.05, 1.1), "slow 10-20 %": (1.1, 1.2), "slow 20-30 %": (1.2, 1.3)}
TRAINING = ("cyclic", "pipeline", "saves_long", "evaluates")
HURT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SLOWER, TRAINING), "hot GPU": (*TRAINING, "steady"), "slow GPU": (*TRAINING, "steady"),
    "stuck clocks": (*TRAINING, "steady"), "hidden load": ("notebook", "inference", "cyclic"),
    "hung rank": (*TRAINING, "steady"),
}  # fmt: skip
"""The shapes that each fault happens to."""


@dataclass(slots=True)
class Job:
    """Figures of a pod by the minute, shape (minutes,), or (minutes, GPUs) where they are of each GPU.

    ``seconds`` is its utilization by the second, from which ``period_s`` is found: NaN for none.
    """

    shape: str
    fault: str | None
    begins: int
    """The minute in which the fault begins; the number of minutes without one."""
    seconds: Floats
    util: Floats
    util_spread: Floats
    power_pct: Floats
    power_spread: Floats
    mem_pct: Floats
    copy_pct: Floats
    gpu_util: Floats
    gpu_power_pct: Floats
    temp_c: Floats
    clock_mhz: Floats
    tensor_pct: Floats
    dram_pct: Floats
    fp32_pct: Floats
    """What the counters of a Hopper say of tensor cores, memory and the pipes for 32-bit floats."""


class JobDraft:
    """The pod by the second, before it is measured; ``work`` is busy (0-1) by second, ``effort`` the share of
    the power limit that full utilization needs."""

    def __init__(self, rng: Rng) -> None:
        self.rng, self.n = rng, HOURS * 3600
        self.gpus = int(rng.choice((2, 4, 8, 8)))
        self.busy = np.zeros(self.n)
        self.effort = np.full(self.n, rng.uniform(0.55, 0.97))
        self.mem = np.full(self.n, rng.uniform(30, 90))
        self.slower = np.ones(self.n)
        self.copy_share = np.full(self.n, rng.uniform(0.15, 0.6))
        self.waits = np.zeros(self.n, np.bool_)
        """Kernels that wait for other ranks: full utilization, little power."""
        self.cached = np.zeros(self.n, np.bool_)
        """Work in the caches on 32-bit floats: neither tensor cores nor memory have anything to do."""
        self.spin_power = rng.uniform(0.2, 0.38)
        self.period = log_uniform(rng, 4, 45)
        self.duty = rng.uniform(0.6, 0.9)
        self.jitter = rng.uniform(0.002, 0.02)

    def steps(self, periods: Floats, rest: float = 0.15) -> Floats:
        """Busy and less so in turns, with these periods by second."""
        found, at, cuts = self.rng, 0.0, [0.0]
        while at < self.n:
            period = periods[min(int(at), self.n - 1)]
            at += period * max(1 + self.jitter * found.normal(), 0.2)
            cuts.append(at)
        edges = np.array(cuts)
        # The share of each second that lies in the busy part of its step.
        grid = np.arange(0, self.n, 0.25)
        step = np.searchsorted(edges, grid, side="right") - 1
        place = (grid - edges[step]) / (edges[step + 1] - edges[step])
        share = (place < self.duty).reshape(self.n, 4).mean(axis=1)
        return np.asarray(rest + (1 - rest) * share)

    def pauses(self, every_s: float, lasts_s: tuple[float, float]) -> npt.NDArray[np.bool_]:
        """Where it pauses, by second."""
        where, at = np.zeros(self.n, np.bool_), self.rng.uniform(0.3, 1) * every_s
        while at < self.n:
            last = at + self.rng.uniform(*lasts_s)
            where[int(at) : int(last)] = True
            at = last + every_s * self.rng.uniform(0.9, 1.1)
        return where


def cyclic(d: JobDraft) -> None:
    """Steps that show, and a checkpoint now and then."""
    d.busy = d.steps(d.period * d.slower)
    d.busy[d.pauses(d.rng.uniform(600, 2400), (8, 50))] = 0.0


def steady(d: JobDraft) -> None:
    """Steps far below a second."""
    d.busy = np.clip(d.rng.uniform(0.85, 1.0) + d.rng.normal(0, 0.02, d.n), 0, 1)
    d.busy[d.pauses(d.rng.uniform(600, 2400), (5, 40))] = 0.0


def jitters(d: JobDraft) -> None:
    """A loader that is late now and then: steps vary, in times of more and of less load."""
    wander = np.exp(scipy.signal.lfilter([0.02], [1, -0.9995], d.rng.normal(0, 0.05, d.n)))
    d.jitter = d.rng.uniform(0.05, 0.2)
    d.busy = d.steps(d.period * wander)


def elastic(d: JobDraft) -> None:
    """Workers or batch sizes that change: steps and memory with them."""
    scale, mem = np.ones(d.n), d.mem.copy()
    at = 0
    while at < d.n:
        last = at + int(d.rng.uniform(2400, 7200))
        factor = d.rng.uniform(0.6, 1.6)
        scale[at:last], mem[at:last] = factor, np.clip(d.mem[0] * (0.5 + 0.5 * factor), 5, 98)
        at = last
    d.mem = mem
    d.busy = d.steps(d.period * scale)


def sweep(d: JobDraft) -> None:
    """One experiment after another in one pod: each has its own steps, power and memory."""
    periods, at = np.full(d.n, d.period), 0
    idle, ends = np.zeros(d.n, np.bool_), []
    while at < d.n:
        last = at + int(d.rng.uniform(1800, 9000))
        periods[at:last] = log_uniform(d.rng, 3, 40)
        d.effort[at:last], d.mem[at:last] = d.rng.uniform(0.4, 1.0), d.rng.uniform(10, 95)
        gap = slice(last, last + int(d.rng.uniform(30, 240)))
        idle[gap] = True
        ends.append((gap, bool(d.rng.uniform() < 0.7)))
        at = last
    for gap, ended in ends:
        if ended:  # the process ends, and another begins
            d.mem[gap] = 0.0
    d.busy = d.steps(periods)
    d.busy[idle] = 0.0


def notebook(d: JobDraft) -> None:
    """Somebody tries things: idle, and bursts of any length and power."""
    at = 0
    while at < d.n:
        at += int(d.rng.exponential(600))
        last = at + int(log_uniform(d.rng, 5, 1500))
        d.busy[at:last], d.effort[at:last] = d.rng.uniform(0.1, 1.0), d.rng.uniform(0.3, 0.95)
        at = last


def inference(d: JobDraft) -> None:
    """Requests in waves of an hour or so."""
    wave = 0.45 + 0.4 * np.sin(2 * np.pi * np.arange(d.n) / d.rng.uniform(2400, 14400) + d.rng.uniform(0, 6))
    d.busy = np.clip(wave + d.rng.normal(0, 0.15, d.n), 0, 1)
    d.effort[:] = d.rng.uniform(0.4, 0.8)


def saves_long(d: JobDraft) -> None:
    """One rank writes a checkpoint for minutes, and the others wait for it in a collective."""
    cyclic(d)
    d.waits |= d.pauses(d.rng.uniform(3000, 7200), (60, 330))


def evaluates(d: JobDraft) -> None:
    """An evaluation of some minutes now and then, with steps of its own and less power."""
    cyclic(d)
    where = d.pauses(d.rng.uniform(1200, 3600), (60, 400))
    d.busy[where] = d.steps(np.full(d.n, d.period * d.rng.uniform(0.2, 0.7)))[where]
    d.effort[where] *= d.rng.uniform(0.6, 0.95)


def light(d: JobDraft) -> None:
    """A training that needs little power, as memory is its limit: kernels that wait need not much less."""
    cyclic(d)
    d.effort[:], d.spin_power = d.rng.uniform(0.3, 0.5), d.rng.uniform(0.22, 0.36)


def caches(d: JobDraft) -> None:
    """A training that computes something else for many minutes now and then, at full utilization and less
    power, and within the caches."""
    steady(d)
    d.cached = d.pauses(d.rng.uniform(5400, 9000), (480, 1500))
    d.busy[d.cached] = 1.0
    d.effort[d.cached] *= d.rng.uniform(0.35, 0.65)


def pipeline(d: JobDraft) -> None:
    """Stages of a pipeline: each GPU has its own share of the work, see ``_each``."""
    cyclic(d)


_SHAPES: dict[str, Callable[[JobDraft], None]] = {
    "cyclic": cyclic, "steady": steady, "jitters": jitters, "elastic": elastic, "sweep": sweep,
    "notebook": notebook, "inference": inference, "pipeline": pipeline, "saves_long": saves_long,
    "evaluates": evaluates, "light": light, "caches": caches,
}  # fmt: skip


@dataclass(slots=True)
class Hurt:
    """What a fault does to the GPUs ``which``, by second: a factor on their clock, degrees, the share of
    power that something hidden needs, and whether they hang, with this utilization."""

    which: npt.NDArray[np.bool_]
    clock: Floats
    warmer: Floats
    hidden: Floats
    hangs: npt.NDArray[np.bool_]
    hung_busy: float = 0.0


def _hurt(d: JobDraft, fault: str | None, begin: int) -> Hurt:
    rng, since = d.rng, np.arange(d.n) >= begin
    one = np.arange(d.gpus) == rng.integers(d.gpus)
    hurt = Hurt(one, np.ones(d.n), np.zeros(d.n), np.zeros(d.n), np.zeros(d.n, np.bool_))
    ramp = np.clip((np.arange(d.n) - begin) / rng.uniform(60, 1200), 0, 1)
    if fault in SLOWER:
        d.slower = np.where(since, rng.uniform(*SLOWER[fault]), 1.0)
    elif fault == "hot GPU":
        hurt.warmer = ramp * rng.uniform(10, 25)
    elif fault == "slow GPU":
        hurt.clock = np.where(since, 1 - rng.uniform(0.08, 0.4), 1.0)
        d.slower = np.where(since, 1 + (1 / hurt.clock - 1) * rng.uniform(0.5, 1.0), 1.0)
    elif fault == "stuck clocks":
        hurt.which = np.ones(d.gpus, np.bool_)
        hurt.clock = np.where(since, 1 - rng.uniform(0.1, 0.6), 1.0)
        d.slower = np.where(since, 1 + (1 / hurt.clock - 1) * rng.uniform(0.5, 1.0), 1.0)
    elif fault == "hidden load":
        hurt.hidden = np.where(since, rng.uniform(0.45, 0.9), 0.0)
    elif fault == "hung rank":
        hurt.hangs, hurt.hung_busy = since, float(rng.choice((0.0, 1.0)))
    return hurt


def job(shape: str, seed: int, fault: str | None = None) -> Job:
    """One job. The same arguments give the same figures."""
    rng = np.random.default_rng(
        [seed, [*_SHAPES].index(shape), 0 if fault is None else 1 + list(FAULTS).index(fault)]
    )
    d = JobDraft(rng)
    begin = int(rng.uniform(EARLIEST_S, LATEST_S))
    hurt = _hurt(d, fault, begin)
    _SHAPES[shape](d)
    if fault == "hidden load":  # what hides runs where the pod itself does little
        d.busy = np.where(np.arange(d.n) >= begin, d.busy * rng.uniform(0.05, 0.3), d.busy)
    return _measured(d, hurt, shape, fault, begin)


def _measured(d: JobDraft, hurt: Hurt, shape: str, fault: str | None, begin: int) -> Job:
    rng, n = d.rng, d.n
    shares = rng.uniform(0.75, 1.0, d.gpus) if shape == "pipeline" else rng.normal(1, 0.02, d.gpus)
    drifts = rng.uniform(0, 4) * np.sin(np.arange(n) / 86400 * 2 * np.pi + rng.uniform(0, 6))
    around = np.repeat((rng.uniform(22, 32) + drifts)[:, np.newaxis], d.gpus, axis=1)
    if rng.uniform() < 0.4:  # others on the node heat some of the GPUs for an hour or more
        since = int(rng.uniform(0, n))
        lasts = slice(since, since + int(rng.uniform(3000, 10000)))
        around[lasts, : rng.integers(1, d.gpus + 1)] += rng.uniform(1, 4)
    waiting = d.waits | hurt.hangs
    gpus = [
        _gpu(d, hurt, waiting, shares[g], around[:, g], hit=bool(hurt.which[g]), hides=fault == "hidden load")
        for g in range(d.gpus)
    ]
    util, power, temp, clock = (np.stack(one, axis=1) for one in zip(*gpus, strict=True))
    return _by_minute(d, waiting, (util, power, temp, clock), shape, fault, begin)


def _gpu(
    d: JobDraft, of: Hurt, waiting: npt.NDArray[np.bool_], share: float, around: Floats, *, hit: bool,
    hides: bool,
) -> tuple[Floats, Floats, Floats, Floats]:  # fmt: skip
    """Utilization, power (of the limit), degrees, and clock by second."""
    rng, n = d.rng, d.n
    busy = np.where(waiting, 1.0, d.busy)
    if hit and of.hangs.any():
        busy = np.where(of.hangs, of.hung_busy, busy)
    rate = of.clock if hit else np.ones(n)
    effort = np.where(waiting, d.spin_power, d.effort * share)
    needs = 0.1 + busy * np.maximum(effort - 0.1, 0.02) * rate**1.7
    if hides:
        needs = np.maximum(needs, of.hidden * (1 + 0.02 * rng.normal(size=n)))
    needs = np.minimum(needs * (1 + 0.012 * rng.normal(size=n)), 1.0)
    # At its power limit a chip lowers its clocks; idle ones rest.
    limited = 1 - np.clip(needs - 0.85, 0, 1) * rng.uniform(0.4, 1.0)
    clock = 1980 * rng.normal(1, 0.015) * limited * rate * np.where(busy > 0.02, 1, 0.4)
    clock *= 1 + 0.004 * rng.normal(size=n) + _wanders(rng, n, 0.006, 1800)
    heat = scipy.signal.lfilter(
        [1 / 45], [1, -(1 - 1 / 45)], 100 * needs, zi=[100 * needs[0] * (1 - 1 / 45)]
    )[0]
    temp = around + rng.normal(0, 3.5) + 0.42 * heat + _wanders(rng, n, 1.2, 3600)
    util = 100 * busy + np.where(busy > 0.02, rng.normal(0, 1.5, n), 0)
    warmer = of.warmer if hit else 0.0
    return np.clip(np.round(util), 0, 100), 100 * needs, np.round(temp + warmer), clock


def _wanders(rng: Rng, n: int, deviation: float, time_s: float) -> Floats:
    """What moves by itself: fans and dust, steps of a boost."""
    gains = [deviation * np.sqrt(2 / time_s)], [1, -(1 - 1 / time_s)]
    return np.asarray(scipy.signal.lfilter(*gains, rng.normal(size=n)))


def _by_minute(
    d: JobDraft, waiting: npt.NDArray[np.bool_], seconds: tuple[Floats, ...], shape: str, fault: str | None,
    begin: int,
) -> Job:  # fmt: skip
    util, power, temp, clock = seconds
    minutes = d.n // MINUTE_S
    mean_util, mean_power = (one.mean(axis=1).reshape(minutes, MINUTE_S) for one in (util, power))
    gpu_util, gpu_power, temps, working = (
        one.reshape(minutes, 6, 10, d.gpus)[:, -1].mean(axis=1) for one in (util, power, temp, clock * util)
    )
    clocks = np.full(gpu_util.shape, np.nan)
    np.divide(working, gpu_util, out=clocks, where=gpu_util > 0)
    copies = np.where(waiting, d.rng.uniform(0, 2), d.copy_share * mean_util.ravel())
    copies = np.where(d.cached, 1.0, copies)
    # Drawn last, so that all else is as without counters. Kernels that spin read one word again and again.
    tensor, dram, fp32 = (
        np.where(
            d.cached & ~waiting,
            cached,
            np.where(waiting, d.rng.uniform(0, spins), d.rng.uniform(*share) * mean_util.ravel()),
        )
        * (1 + 0.05 * d.rng.normal(size=d.n))
        for spins, share, cached in (
            (0.3, (0.1, 0.75), 0.0),
            (0.6, (0.1, 0.6), 1.0),
            (0.2, (0.02, 0.1), 40.0),
        )
    )
    return Job(
        shape=shape, fault=fault, begins=begin // MINUTE_S if fault else minutes, seconds=util.mean(axis=1),
        util=mean_util.mean(axis=1), util_spread=mean_util.std(axis=1), power_pct=mean_power.mean(axis=1),
        power_spread=mean_power.std(axis=1),
        mem_pct=np.round(2 * d.mem.reshape(minutes, MINUTE_S).min(axis=1)) / 2,
        copy_pct=copies.reshape(minutes, MINUTE_S).mean(axis=1),
        gpu_util=gpu_util, gpu_power_pct=gpu_power, temp_c=temps, clock_mhz=clocks,
        tensor_pct=np.clip(tensor, 0, 100).reshape(minutes, MINUTE_S).mean(axis=1),
        dram_pct=np.clip(dram, 0, 100).reshape(minutes, MINUTE_S).mean(axis=1),
        fp32_pct=np.clip(fp32, 0, 100).reshape(minutes, MINUTE_S).mean(axis=1),
    )  # fmt: skip

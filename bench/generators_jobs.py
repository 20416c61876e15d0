"""Seeded pods as insights see them: one value a second of each channel, and what is true at each second.

A shape is a way in which such a pod may look; a seed draws its levels, noises and pauses. ``TUNED`` are the
shapes that weights were fitted to, ``UNSEEN`` those that are only measured. Everything is drawn from wide
ranges, as jobs of one kind differ more than kinds do on average; where two kinds cannot be told apart,
``unknown`` is the truth.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from bench.generators import Floats, Rng, log_uniform
from streams.operators.workload.channels import CGROUP_CHANNELS, CHANNELS

Bounds = tuple[float, float]
SECONDS = 600
KINDS = ("training", "inference", "loading", "idle", "interactive", "unknown")


@dataclass(slots=True)
class Pod:
    """``values`` by channel, shape (seconds,), NaN for absent; ``kind`` by second, -1 where nothing is
    asked."""

    shape: str
    seed: int
    values: dict[str, Floats]
    kind: npt.NDArray[np.int64]
    bottleneck: str | None = None
    gpus: int = 1
    cpu_request: float | None = None
    """CPUs that it asks for; None: it does not say."""
    starts: list[int] = field(default_factory=list)
    """Seconds at which a kind began."""

    def matrix(self) -> Floats:
        """All channels, shape (channels, seconds); NaN for those that the shape has not."""
        absent = np.full(self.kind.shape, np.nan)
        return np.stack([self.values.get(name, absent) for name in CHANNELS])


class Draft:
    """A quiet pod on a GPU that shapes write into."""

    def __init__(self, rng: Rng, seconds: int = SECONDS) -> None:
        self.rng = rng
        self.n = seconds
        self.gpus = int(rng.choice((1, 1, 1, 2, 4, 8)))
        self.idle_w: float | Floats = rng.uniform(30, 110)
        self.limit_w = float(rng.choice((300, 400, 700)))
        self.util = np.zeros(seconds)
        self.copy_share = np.full(seconds, rng.uniform(0.15, 0.6))
        self.effort = np.full(seconds, rng.uniform(0.55, 0.95))
        """Power at full utilization, as a share of the limit."""
        self.mem = np.full(seconds, rng.uniform(1, 4))
        self.cpu = np.full(seconds, rng.uniform(0.5, 6))
        self.throttled = np.zeros(seconds)
        self.read = np.zeros(seconds)
        self.write = self.few(0.02, 200)
        self.rx = self.few(0.2, 6)
        self.tx = self.few(0.2, 6)
        self.host_mb = np.full(seconds, np.exp(rng.uniform(np.log(800), np.log(60_000))))
        self.host_busy = np.clip(rng.uniform(3, 60) + rng.normal(size=seconds) * 2, 0, 100)
        self.limit_mb = np.nan if rng.uniform() < 0.4 else 1.2 * self.host_mb.max() * rng.uniform(1, 6)
        self.heat = np.zeros(seconds)
        self.cap = np.zeros(seconds)
        self.kind = np.full(seconds, KINDS.index("idle"))
        self.bottleneck: str | None = None
        self.cpu_request: float | None = None
        self.spread = rng.uniform(0, 4)
        self.pcie_kb = rng.uniform(5e3, 5e5)
        self.unused = 0

    def few(self, chance: float, size: float) -> Floats:
        """Now and then a little, as of logs and probes."""
        return np.asarray((self.rng.uniform(size=self.n) < chance) * self.rng.exponential(size, self.n))

    def noise(self, size: float, smooth: float = 0.0) -> Floats:
        """Normal noise with first-order autocorrelation ``smooth``."""
        steps = self.rng.normal(size=self.n) * size * np.sqrt(1 - smooth**2)
        if smooth == 0:
            return np.asarray(steps)
        out, value = np.empty(self.n), self.rng.normal() * size
        for place, step in enumerate(steps):
            value = out[place] = smooth * value + step
        return out

    def label(self, first: int, last: int, kind: str) -> None:
        """From ``first`` until before ``last`` the pod is of this kind."""
        self.kind[max(first, 0) : last] = KINDS.index(kind) if kind else -1

    def done(self, shape: str, seed: int) -> Pod:
        """The pod, measured: rounded, with ticks that are missing."""
        rng = self.rng
        util = np.clip(np.round(self.util), 0, 100)
        power = self.idle_w + util / 100 * np.maximum(self.effort * self.limit_w - self.idle_w, 20)
        power = np.minimum(power * (1 + 0.02 * rng.normal(size=self.n)), self.limit_w)
        copy = np.clip(np.round(util * self.copy_share + rng.normal(size=self.n)), 0, 100)
        least = np.clip(util - abs(rng.normal(size=self.n)) * self.spread * (self.gpus > 1), 0, 100)
        cpu = np.maximum(self.cpu * (1 + 0.04 * rng.normal(size=self.n)), 0)
        write, rx, tx = (np.maximum(one, 0) for one in (self.write, self.rx, self.tx))
        pcie = self.pcie_kb * (0.02 + util / 100) * rng.uniform(0.5, 1.5, self.n)
        # Results go back to the host, and what is sent to other ranks; data come in.
        both_ways = np.minimum(pcie + self.read + self.rx, 0.2 * pcie + self.tx)
        values = {
            "busiest_gpu_util_pct": util, "mem_copy_util_pct": np.where(util > 0, copy, 0),
            "gpu_mem_pct": np.clip(self.mem, 0, 100),
            "power_pct": 100 * power / self.limit_w, "power_w": power * self.gpus,
            "pcie_kb_per_s": both_ways / self.gpus,
            "throttled_power_pct": self.cap, "throttled_heat_pct": self.heat,
            "idle_gpus": np.where(util < 5, self.gpus, self.unused), "least_gpu_util_pct": least,
            "cpu_pct": cpu, "cpu_throttled_pct": np.clip(self.throttled, 0, 100),
            "read_kb_per_s": np.maximum(self.read, 0), "write_kb_per_s": write,
            "rx_kb_per_s": rx, "tx_kb_per_s": tx,
            "mem_pct": 100 * self.host_mb / self.limit_mb, "mem_mb": self.host_mb,
            "host_cpu_pct": self.host_busy,
        }  # fmt: skip
        values = {
            name: np.where(rng.uniform(size=self.n) < 0.004, np.nan, one) for name, one in values.items()
        }
        values["gpu_util_pct"] = (
            (values["busiest_gpu_util_pct"] + least) / 2 if self.gpus > 1 else values["busiest_gpu_util_pct"]
        )
        if rng.uniform() < 0.1:  # a pod on the host's network
            values["rx_kb_per_s"] = values["tx_kb_per_s"] = np.full(self.n, np.nan)
        changes = np.flatnonzero(np.diff(self.kind)) + 1
        starts = [0, *changes.tolist()]
        return Pod(shape, seed, values, self.kind, self.bottleneck, self.gpus, self.cpu_request, starts)


def _train(d: Draft, first: int, last: int, level: float | None = None) -> slice:
    """The common part of training: a plateau, memory that is taken at once, a busy CPU, data from
    somewhere."""
    rng, where = d.rng, slice(first, last)
    top = rng.uniform(45, 100) if level is None else level
    d.util[where] = (top + d.noise(rng.uniform(0.5, 5), rng.choice((0.0, 0.6))))[where]
    since = np.maximum(np.arange(d.n) - first, 0)
    d.mem[where] = (rng.uniform(25, 96) * (1 - 0.4 * np.exp(-since / rng.uniform(1, 15))))[where]
    d.cpu[where] = (log_uniform(rng, 80, 1600) * np.exp(d.noise(rng.uniform(0.02, 0.2), 0.5)))[where]
    source = rng.choice(("memory", "disk", "network"))
    data = log_uniform(rng, 200, 400_000) * np.exp(d.noise(rng.uniform(0.1, 0.6), rng.uniform(0, 0.8)))
    if source == "disk":
        d.read[where] = data[where]
    elif source == "network":
        d.rx[where] = data[where]
    if rng.uniform() < 0.4:  # gradients over the network
        traffic = log_uniform(rng, 2_000, 3_000_000) * np.exp(d.noise(0.2))
        d.rx[where] += traffic[where]
        d.tx[where] += (traffic * rng.uniform(0.8, 1.2))[where]
    d.write[where] += d.few(rng.uniform(0.02, 0.2), 60)[where]
    if rng.uniform() < 0.25:  # metrics and profiles, all the time
        d.write[where] += (log_uniform(rng, 10, 2_000) * np.exp(d.noise(0.4, 0.5)))[where]
    d.label(first, last, "training")
    if rng.uniform() < 0.85:  # logging, metrics, shuffling: a dip each so many seconds
        _dips(d, where, rng.uniform(12, 90), rng.uniform(1, 3), rng.uniform(0.0, 0.7), jitter=0.03)
    return where


def _dips(d: Draft, where: slice, period: float, width: float, rest: float, jitter: float) -> Floats:
    """Dips to ``rest`` of the level; where they are, 0-1 by second."""
    at = where.start + d.rng.uniform(0, period)
    depth = np.zeros(d.n)
    while at < where.stop:
        first, last = at, at + width * d.rng.uniform(0.8, 1.2)
        seconds = np.arange(max(int(first), where.start), min(int(last) + 1, where.stop))
        depth[seconds] = np.maximum(
            depth[seconds], np.minimum(seconds + 1, last) - np.maximum(seconds, first)
        )
        at += max(period * (1 + jitter * d.rng.normal()), 1.0)
    d.util *= 1 - depth * (1 - rest)
    return depth


def steady(d: Draft) -> None:
    """Steps far below a second: a noisy plateau; a warm-up at the begin, in half of them."""
    where = _train(d, 0, d.n)
    if d.rng.uniform() < 0.5:
        warm = int(d.rng.uniform(5, 40))
        d.util[:warm] *= np.clip(np.linspace(0.1, 1, warm) + 0.2 * d.rng.normal(size=warm), 0, 1)
    assert where.stop == d.n


def cyclic(d: Draft) -> None:
    """Long steps, accumulated gradients: busy and less so, in turns."""
    where = _train(d, 0, d.n, d.rng.uniform(75, 100))
    period = log_uniform(d.rng, 4, 45)
    _dips(d, where, period, period * d.rng.uniform(0.15, 0.5), d.rng.uniform(0, 0.6), jitter=0.03)


def stalled(d: Draft) -> None:
    """The GPU waits for data while the loader's CPUs are at their limit."""
    rng = d.rng
    where = _train(d, 0, d.n, rng.uniform(70, 100))
    d.cpu[:] = 100.0 * rng.integers(1, 9) * np.clip(1 - 0.02 * abs(d.noise(1.0)), 0.5, 1)
    period = rng.uniform(3, 12)
    depth = _dips(d, where, period, period * rng.uniform(0.35, 0.7), rng.uniform(0, 0.3), jitter=0.15)
    if rng.uniform() < 0.6:
        d.throttled[:] = rng.uniform(25, 60) + rng.uniform(20, 40) * depth
    else:  # the disk is slow: it is read while the GPU waits
        d.read[:] = log_uniform(rng, 60_000, 900_000) * (0.15 + depth) * np.exp(d.noise(0.15))
        d.cpu[:] *= 0.4
    d.bottleneck = "input"


def checkpoints(d: Draft) -> None:
    """Every few minutes all waits for a checkpoint to be written."""
    where = _train(d, 0, d.n)
    depth = _dips(d, where, d.rng.uniform(60, 240), d.rng.uniform(4, 25), 0.0, jitter=0.05)
    d.write += depth * log_uniform(d.rng, 50_000, 2_000_000)
    d.cpu = np.where(depth > 0.5, 100 * d.rng.uniform(0.8, 1.5), d.cpu)


def evaluates(d: Draft) -> None:
    """Training, and an evaluation in between that needs less."""
    where = _train(d, 0, d.n)
    depth = _dips(
        d, where, d.rng.uniform(100, 250), d.rng.uniform(15, 50), d.rng.uniform(0.3, 0.7), jitter=0.02
    )
    d.copy_share *= 1 - 0.4 * depth


def communicates(d: Draft) -> None:
    """Ranks on several nodes that wait for gradients: kernels spin, power is low, the network is full."""
    rng = d.rng
    _train(d, 0, d.n, rng.uniform(95, 100))
    d.effort[:] = rng.uniform(0.25, 0.42)
    d.copy_share[:] = rng.uniform(0.05, 0.25)
    traffic = log_uniform(rng, 600_000, 6_000_000) * np.exp(d.noise(0.1))
    d.rx[:], d.tx[:] = traffic, traffic * rng.uniform(0.9, 1.1)
    d.bottleneck = "communication"


def _serve(d: Draft, first: int, last: int) -> None:
    """The common part of a server: memory taken once, and nothing read."""
    where = slice(first, last)
    d.mem[where] = d.rng.uniform(10, 95)
    d.label(first, last, "inference")


def _requests(d: Draft, work: Floats, *, kb_in: Bounds, kb_out: Bounds, cpu: Bounds) -> None:
    """Add what serving ``work`` (0-1 by second) costs beside the GPU; levels are drawn from these ranges."""
    rng = d.rng
    in_kb, out_kb, cpu_pct = (log_uniform(rng, *bounds) for bounds in (kb_in, kb_out, cpu))
    blur = np.exp(d.noise(rng.uniform(0.1, 0.5)))
    d.rx += work * in_kb * blur
    d.tx += work * out_kb * blur * np.exp(d.noise(0.2))
    d.cpu += work * cpu_pct * np.exp(d.noise(0.15))


def _queue(rng: Rng, rates: Floats, service_s: float) -> Floats:
    """The share of each second in which a server works, with a queue before it."""
    waiting, busy = 0.0, np.empty(rates.size)
    for second, rate in enumerate(rates):
        waiting += rng.poisson(rate) * service_s * rng.uniform(0.6, 1.4)
        busy[second] = min(waiting, 1.0)
        waiting = min(waiting - busy[second], 40.0)
    return busy


def _rates(d: Draft, load: float, service_s: float, *, swing: float) -> Floats:
    """Requests a second around a load, with slow swings."""
    return np.asarray(load / service_s * np.exp(d.noise(swing, 0.97)))


def _before_work(d: Draft) -> None:
    """A server that nobody asked yet cannot be told from one that is idle."""
    busy = np.flatnonzero(d.util >= 5)
    d.label(0, int(busy[0]) if busy.size else d.n, "")


def requests(d: Draft) -> None:
    """Independent requests; each is short."""
    rng = d.rng
    _serve(d, 0, d.n)
    service_s = log_uniform(rng, 0.01, 1.0)
    work = _queue(rng, _rates(d, rng.uniform(0.1, 0.75), service_s, swing=rng.uniform(0.1, 0.6)), service_s)
    d.util += work * rng.uniform(50, 100) * (1 + 0.05 * d.noise(1.0))
    _requests(d, work, kb_in=(20, 20_000), kb_out=(10, 5_000), cpu=(15, 400))


def language(d: Draft) -> None:
    """A language model: bursts of long answers, bound by memory while it decodes; idle in between."""
    rng = d.rng
    _serve(d, 0, d.n)
    d.mem[:] = rng.uniform(60, 96)
    service_s = log_uniform(rng, 2, 20)
    on = (d.noise(1.0, rng.uniform(0.9, 0.98)) > rng.uniform(-1.2, 0.4)) + rng.uniform(0.02, 0.2)
    work = _queue(rng, np.asarray(on * rng.uniform(0.3, 1.0) / service_s), service_s)
    d.util += work * rng.uniform(85, 100) * (1 + 0.02 * d.noise(1.0))
    d.copy_share[:] = rng.uniform(0.45, 0.9)
    d.effort[:] = rng.uniform(0.4, 0.75)
    _requests(d, work, kb_in=(5, 60), kb_out=(10, 200), cpu=(60, 160))
    _before_work(d)


def saturated(d: Draft) -> None:
    """A language model whose queue never empties."""
    rng = d.rng
    _serve(d, 0, d.n)
    d.mem[:] = rng.uniform(70, 96)
    work = np.clip(rng.uniform(0.93, 1.0) + d.noise(0.04, 0.5), 0.3, 1)
    d.util += work * 100
    d.copy_share[:] = rng.uniform(0.66, 0.95)
    d.effort[:] = rng.uniform(0.4, 0.8)
    _requests(d, work, kb_in=(30, 400), kb_out=(60, 900), cpu=(90, 180))
    d.bottleneck = "memory_bandwidth"


def traffic(d: Draft) -> None:
    """Many small requests: a level that wanders."""
    rng = d.rng
    _serve(d, 0, d.n)
    work = np.clip(
        rng.uniform(0.15, 0.7) * np.exp(d.noise(rng.uniform(0.08, 0.35), rng.uniform(0.3, 0.95))), 0, 1
    )
    d.util += work * 100 * (1 + 0.04 * d.noise(1.0))
    _requests(d, work, kb_in=(200, 60_000), kb_out=(50, 20_000), cpu=(60, 900))


def download(d: Draft, then: Callable[[Draft], None] | None = None) -> None:
    """A model comes over the network, goes into host memory, then onto the GPU; then it serves or trains."""
    rng, end = d.rng, int(d.rng.uniform(80, 330))
    if then is None:
        then = (requests, language, steady, cyclic)[int(rng.integers(4))]
    then(d)
    move = int(rng.uniform(0.45, 0.95) * end)
    fetch, place, since = slice(0, move), slice(move, end), np.arange(end)
    after_mem, after_mb = float(d.mem[end:].mean()), float(d.host_mb[end])
    _quiet(d, end)
    speed = log_uniform(rng, 15_000, 2_000_000)
    d.rx[fetch] = (speed * np.exp(d.noise(0.25, 0.7)))[fetch]
    if rng.uniform() < 0.6:
        d.write[fetch] += 0.9 * d.rx[fetch]
    d.read[place] = (log_uniform(rng, 80_000, 3_000_000) * np.exp(d.noise(0.3, 0.5)))[place]
    d.cpu[:end] = (rng.uniform(30, 180) * np.exp(d.noise(0.15, 0.5)))[:end]
    d.mem[:end] = np.clip(1 + (after_mem - 1) * (since - move) / (end - move), 0.5, 100)
    d.host_mb[:end] = after_mb * np.clip(0.1 + 0.9 * since / end, 0, 1)
    d.bottleneck = None


def shards(d: Draft) -> None:
    """Shards are read from a disk or a share one after the other, each then copied to the GPU."""
    rng, end = d.rng, int(d.rng.uniform(70, 300))
    (requests, language, steady)[int(rng.integers(3))](d)
    after_mem = float(d.mem[end:].mean())
    _quiet(d, end)
    shard = rng.uniform(4, 30)
    phase = np.arange(end) / shard % 1
    source = d.read if rng.uniform() < 0.6 else d.rx
    source[:end] = (
        np.where(phase < 0.75, log_uniform(rng, 60_000, 2_000_000), 500) * np.exp(d.noise(0.2))[:end]
    )
    steps = np.floor(np.arange(end) / shard + 0.2) * shard / end
    d.mem[:end] = np.clip(1 + (after_mem - 1) * steps, 0.5, 100)
    d.cpu[:end] = (rng.uniform(60, 130) * np.exp(d.noise(0.1)))[:end]
    d.util[:end] = np.where(phase > 0.85, rng.uniform(0, 12), 0)
    d.bottleneck = None


def _quiet(d: Draft, end: int) -> None:
    for one in (d.util, d.read, d.write, d.rx, d.tx, d.throttled):
        one[:end] = 0
    d.rx[:end] += d.few(0.2, 6)[:end]
    d.label(0, end, "loading")


def asleep(d: Draft) -> None:
    """Nothing runs; memory may still be held, a heartbeat may blink."""
    rng = d.rng
    if rng.uniform() < 0.6:
        d.mem[:] = rng.uniform(2, 95)
    if rng.uniform() < 0.5:
        every = int(rng.uniform(10, 60))
        d.cpu[::every] += rng.uniform(3, 40)
    if rng.uniform() < 0.2:
        d.util += (rng.uniform(size=d.n) < 0.01) * rng.uniform(1, 4, d.n)
    d.bottleneck = "idle"


def ends(d: Draft) -> None:
    """It trains, then it is done, and keeps its GPU."""
    cut = int(d.rng.uniform(150, 330))
    (steady, cyclic)[int(d.rng.integers(2))](d)
    for one in (d.util, d.read, d.write, d.rx, d.tx):
        one[cut:] = 0
    d.rx += d.few(0.2, 6)
    d.cpu[cut:] = d.rng.uniform(0.2, 8)
    if d.rng.uniform() < 0.4:
        d.mem[cut:] = d.rng.uniform(0.5, 3)
    d.label(cut, d.n, "idle")
    d.bottleneck = "idle"


def notebook(d: Draft) -> None:
    """A person: a cell now and then, each something else; memory stays where the last cell left it."""
    _person(d, think_s=log_uniform(d.rng, 12, 60), run_s=log_uniform(d.rng, 2, 15), spread=0.8, same=False)


def _person(d: Draft, *, think_s: float, run_s: float, spread: float, same: bool) -> None:
    rng, at, first = d.rng, d.rng.uniform(3, 25), -1
    mem = rng.uniform(0.5, 8)
    level, data_kb = rng.uniform(15, 100), log_uniform(rng, 500, 200_000)
    if rng.uniform() < 0.25:
        d.write += d.few(0.05, 400)
    d.mem[:] = mem
    while at < d.n:
        runs = max(run_s * np.exp(spread * rng.normal()), 1.0)
        begin, end = int(at), min(int(at + runs) + 1, d.n)
        where = slice(begin, end)
        cell = "gpu" if same else rng.choice(("gpu", "gpu", "gpu", "cpu", "data"))
        d.cpu[where] = rng.uniform(60, 130) if rng.uniform() < 0.8 else rng.uniform(200, 800)
        if cell == "gpu":
            first = begin if first < 0 else first
            high = level if same else rng.uniform(10, 100)
            d.util[where] = np.clip(high + rng.normal(size=end - begin) * rng.uniform(1, 15), 0, 100)
            mem = min(max(mem + (0 if same else rng.uniform(-2, 12)), 0.5), 95)
            d.mem[begin:] = mem
        elif cell == "data":
            d.read[where] = data_kb * rng.uniform(0.3, 2)
            d.host_mb[begin:] *= rng.uniform(1.0, 1.3)
        d.tx[where] += rng.exponential(30)
        at = end + min(think_s * np.exp(0.7 * rng.normal()), 150)
    d.label(0, max(first, 0), "")
    if first >= 0:
        d.label(first, d.n, "interactive")
    else:
        d.label(0, d.n, "")


def offline(d: Draft) -> None:
    """Inference over a data set: busy as training is. Results are written as it goes; nobody can be sure."""
    rng = d.rng
    _serve(d, 0, d.n)
    work = np.clip(rng.uniform(0.6, 1.0) + d.noise(rng.uniform(0.01, 0.1), rng.uniform(0, 0.8)), 0.1, 1)
    d.util += 100 * work
    d.cpu[:] = log_uniform(rng, 90, 900) * np.exp(d.noise(0.1, 0.5))
    data = log_uniform(rng, 500, 300_000) * np.exp(d.noise(0.3, 0.3))
    if rng.uniform() < 0.5:
        d.read += data
    else:
        d.rx += data
    results = log_uniform(rng, 100, 30_000) * np.exp(d.noise(0.4, 0.3))
    if rng.uniform() < 0.4:  # written when a buffer is full
        every = rng.uniform(8, 40)
        results = np.where(np.arange(d.n) % every < 1.5, results * every, 0)
    (d.tx if rng.uniform() < 0.2 else d.write)[:] += results
    d.label(0, d.n, "unknown")


def wandering(d: Draft) -> None:
    """Utilization that follows nothing."""
    rng = d.rng
    d.util[:] = np.clip(rng.uniform(20, 80) + rng.normal(size=d.n).cumsum() * rng.uniform(1, 6), 2, 100)
    d.mem[:] = np.clip(rng.uniform(20, 70) + rng.normal(size=d.n).cumsum() * 0.3, 1, 99)
    d.cpu[:] = np.clip(log_uniform(rng, 20, 900) * np.exp(d.noise(0.6, 0.97)), 1, None)
    d.read[:] = log_uniform(rng, 10, 50_000) * np.exp(d.noise(1.5, 0.9))
    d.write[:] += log_uniform(rng, 10, 50_000) * np.exp(d.noise(1.5, 0.9))
    d.label(0, d.n, "unknown")


# Shapes that no weight was fitted to.


def small(d: Draft) -> None:
    """A small model: regular, but the GPU is never busy for long."""
    where = _train(d, 0, d.n, d.rng.uniform(25, 55))
    d.mem *= 0.5
    assert where.start == 0


def curriculum(d: Draft) -> None:
    """Steps that become longer as sequences grow."""
    where = _train(d, 0, d.n, d.rng.uniform(80, 100))
    period = log_uniform(d.rng, 4, 15)
    for part in np.array_split(np.arange(d.n), 5):
        piece = slice(int(part[0]), int(part[-1]) + 1)
        _dips(d, piece, period, 0.3 * period, d.rng.uniform(0, 0.5), jitter=0.03)
        period *= 1.3
    assert where.stop == d.n


def epochs(d: Draft) -> None:
    """Short epochs: a ramp, a plateau, a save and a shuffle between them."""
    where = _train(d, 0, d.n, d.rng.uniform(75, 100))
    period = d.rng.uniform(40, 110)
    depth = _dips(d, where, period, d.rng.uniform(4, 12), d.rng.uniform(0, 0.2), jitter=0.04)
    d.write += np.where(depth > 0.8, log_uniform(d.rng, 5_000, 200_000), 0)
    ramp = (np.arange(d.n) % period) / period
    d.util *= 0.9 + 0.1 * np.minimum(ramp * 5, 1)


def tenants(d: Draft) -> None:
    """Several servers on one GPU through MPS: utilization is their processes', power is nobody's."""
    rng = d.rng
    _serve(d, 0, d.n)
    total = np.zeros(d.n)
    for _ in range(int(rng.integers(2, 5))):
        service_s = log_uniform(rng, 0.02, 0.5)
        total += _queue(
            rng, _rates(d, rng.uniform(0.05, 0.3), service_s, swing=0.4), service_s
        ) * rng.uniform(0.3, 1)
    work = np.clip(total, 0, 1)
    d.util += 100 * work
    _requests(d, work, kb_in=(50, 10_000), kb_out=(30, 5_000), cpu=(40, 400))
    d.effort[:] = np.nan


def spikes(d: Draft) -> None:
    """Mostly a little traffic; a few times in ten minutes a rush that fills the queue."""
    rng = d.rng
    _serve(d, 0, d.n)
    service_s = log_uniform(rng, 0.1, 2)
    rush = np.zeros(d.n)
    for at in rng.uniform(0, d.n, int(rng.integers(2, 6))):
        rush[int(at) : int(at + rng.uniform(15, 60))] = rng.uniform(0.6, 1.3)
    work = _queue(rng, np.asarray((rng.uniform(0.05, 0.25) + rush) / service_s), service_s)
    d.util += work * rng.uniform(60, 100)
    _requests(d, work, kb_in=(20, 5_000), kb_out=(20, 3_000), cpu=(30, 300))
    _before_work(d)


def slow_disk(d: Draft) -> None:
    """Weights are unpickled from a slow disk, one CPU busy, and quantized on the GPU as they come."""
    rng, end = d.rng, int(d.rng.uniform(90, 280))
    (requests, steady)[int(rng.integers(2))](d)
    after_mem = float(d.mem[end:].mean())
    _quiet(d, end)
    since = np.arange(end)
    d.read[:end] = (log_uniform(rng, 40_000, 250_000) * np.exp(d.noise(0.3, 0.8)))[:end]
    d.cpu[:end] = (rng.uniform(85, 110) * np.exp(d.noise(0.05)))[:end]
    d.mem[:end] = 1 + (after_mem - 1) * since / end
    d.util[:end] = (rng.uniform(size=end) < 0.15) * rng.uniform(2, 20, end)
    d.bottleneck = None


def probed(d: Draft) -> None:
    """Idle, but a health check runs a kernel every few seconds."""
    rng = d.rng
    d.mem[:] = rng.uniform(5, 90)
    d.util[:: int(rng.uniform(8, 30))] = rng.uniform(1, 4)
    d.cpu += rng.uniform(0, 4)
    d.rx += d.few(0.1, 3)
    d.bottleneck = "idle"


def debugging(d: Draft) -> None:
    """The same short script, again and again, with thoughts in between; memory comes and goes with it."""
    _person(d, think_s=log_uniform(d.rng, 15, 50), run_s=log_uniform(d.rng, 3, 10), spread=0.4, same=True)
    d.mem = np.where(d.util > 0, d.rng.uniform(8, 40), d.rng.uniform(0.3, 1))


TUNED: dict[str, Callable[[Draft], None]] = {
    one.__name__: one
    for one in (
        steady, cyclic, stalled, checkpoints, evaluates, communicates, requests, language, saturated, traffic,
        download, shards, asleep, ends, notebook, offline, wandering,
    )
}  # fmt: skip


def simulation(d: Draft) -> None:
    """A simulation: fully busy, no data, a snapshot each so many minutes. Nobody can be sure."""
    rng = d.rng
    d.util[:] = rng.uniform(85, 100) + d.noise(rng.uniform(0.3, 3))
    d.mem[:] = rng.uniform(5, 70)
    d.cpu[:] = rng.uniform(95, 110)
    every = rng.uniform(60, 200)
    d.write += np.where(np.arange(d.n) % every < 3, log_uniform(rng, 10_000, 500_000), 0)
    d.label(0, d.n, "unknown")


# What holds a pod back; only their bottlenecks are measured, kinds of training and serving as above.


def compute(d: Draft) -> None:
    """Large matrices: busy, and memory is not the limit."""
    _train(d, 0, d.n, d.rng.uniform(95, 100))
    d.util = np.maximum(d.util, 90 + d.noise(2))
    d.copy_share[:] = d.rng.uniform(0.2, 0.42)
    d.effort[:] = d.rng.uniform(0.7, 0.88)
    d.bottleneck = "gpu"


def launches(d: Draft) -> None:
    """Kernels so small that one core is busy with starting them: always one at work, none of them large."""
    _train(d, 0, d.n, d.rng.uniform(95, 100))
    d.util = np.maximum(d.util, 85 + d.noise(3))
    d.effort[:] = d.rng.uniform(0.2, 0.42)
    d.copy_share[:] = d.rng.uniform(0.03, 0.2)
    d.cpu[:] = d.rng.uniform(98, 130)
    d.rx[:], d.tx[:] = d.few(0.2, 6), d.few(0.2, 6)
    d.bottleneck = "gpu"


def capped(d: Draft) -> None:
    """At its power limit most of the time."""
    compute(d)
    d.effort[:] = d.rng.uniform(0.96, 1.02)
    d.cap[:] = 100.0 * (d.rng.uniform(size=d.n) < d.rng.uniform(0.65, 1))
    d.bottleneck = "power"


def hot(d: Draft) -> None:
    """Too warm: clocks are taken back in turns."""
    compute(d)
    d.heat[:] = 100.0 * (d.noise(1, 0.9) > d.rng.uniform(-1, 0.2))
    d.bottleneck = "heat"


def uneven(d: Draft) -> None:
    """One of its GPUs has less to do."""
    compute(d)
    d.gpus = int(d.rng.choice((2, 4, 8)))
    d.spread = d.rng.uniform(55, 80)
    d.bottleneck = "imbalance"


def spare(d: Draft) -> None:
    """It asked for more GPUs than it uses."""
    compute(d)
    d.gpus = int(d.rng.choice((2, 4, 8)))
    d.unused = int(d.rng.integers(1, d.gpus))
    d.spread = 100.0
    d.bottleneck = "over_provisioned"


def tiny(d: Draft) -> None:
    """A small model on a large GPU."""
    rng = d.rng
    _serve(d, 0, d.n)
    d.mem[:] = rng.uniform(3, 22)
    work = np.clip(rng.uniform(0.04, 0.16) * np.exp(d.noise(0.3, 0.5)), 0.01, 0.3)
    d.util += 100 * work
    _requests(d, work, kb_in=(200, 20_000), kb_out=(50, 10_000), cpu=(60, 300))
    d.bottleneck = "over_provisioned"


def one_core(d: Draft) -> None:
    """A single loader process keeps one core busy while the GPU waits."""
    _train(d, 0, d.n, d.rng.uniform(70, 100))
    d.read[:], d.rx[:] = 0, d.few(0.2, 6)
    d.cpu[:] = 100 * np.clip(1 + d.noise(0.02), 0.9, 1.05)
    period = d.rng.uniform(3, 12)
    _dips(d, slice(0, d.n), period, period * d.rng.uniform(0.4, 0.7), d.rng.uniform(0, 0.2), jitter=0.1)
    d.bottleneck = "input"


def roomy(d: Draft) -> None:
    """A server that nothing holds back, with far more CPUs than it ever uses."""
    fitting(d)
    d.cpu_request = float(d.rng.choice((32, 64, 96)))
    d.bottleneck = "over_provisioned"


def fitting(d: Draft) -> None:
    """The same with about the CPUs that it needs."""
    requests(d)
    d.mem[:] = d.rng.uniform(50, 95)
    d.cpu_request = float(np.ceil(d.cpu.max() / 100 * d.rng.uniform(1.1, 2)))
    d.bottleneck = "none"


UNSEEN: dict[str, Callable[[Draft], None]] = {
    one.__name__: one
    for one in (small, curriculum, epochs, tenants, spikes, slow_disk, probed, debugging, simulation)
}
LIMITED: dict[str, Callable[[Draft], None]] = {
    one.__name__: one
    for one in (
        compute, launches, capped, hot, stalled, one_core, communicates, saturated, uneven, spare, tiny,
        roomy, fitting, asleep, ends, probed,
    )
}  # fmt: skip
"""Shapes of which is known what holds them back."""
SHAPES = {**TUNED, **UNSEEN, **LIMITED}


def pod(shape: str, seed: int) -> Pod:
    """The pod of a shape and seed."""
    draft = Draft(np.random.default_rng([seed, *shape.encode()]))
    SHAPES[shape](draft)
    return draft.done(shape, seed)


def blind(one: Pod) -> Pod:
    """The same where nobody measures the CPU's side."""
    absent = dict.fromkeys(CGROUP_CHANNELS, np.full(one.kind.size, np.nan))
    return replace(one, values=one.values | absent)

"""Seeded curves of memory in use, in percent of the capacity: what runs out, and what only looks like it.

All parameters are drawn anew for each seed; each curve has one value per second, NaN where none is seen.
"""

from collections.abc import Callable

import numpy as np

from bench.generators import MEMORY, Floats, Rng, leak

Curve = Callable[[Rng, int], Floats]


def _noise(rng: Rng, length: int, most: float = 0.2) -> Floats:
    return np.asarray(rng.uniform(0, most) * rng.normal(size=length))


def _sawtooth(rng: Rng, length: int) -> Floats:
    """What a batch holds, or what is collected: 1-10 % of the capacity every 5-120 s."""
    phase = np.arange(length) / rng.uniform(5, 120) + rng.uniform()
    return np.asarray(rng.uniform(1, 10) * (phase % 1))


def leak_under_batches(rng: Rng, length: int) -> Floats:
    """Memory that comes and goes with batches, and of which a little stays every time."""
    start, full_after = rng.uniform(20, 50), rng.uniform(0.8, 2) * length
    grown = start + (100 - start) * np.arange(length) / full_after
    return np.asarray(np.minimum(grown + _sawtooth(rng, length) + _noise(rng, length), 100.0))


def leak_per_epoch(rng: Rng, length: int) -> Floats:
    """Something that is kept at the end of each epoch of 15-90 s."""
    start, full_after = rng.uniform(20, 50), rng.uniform(0.8, 1.8) * length
    steps = np.floor(np.arange(length) / rng.uniform(15, 90) + rng.uniform())
    grown = start + (100 - start) * steps / steps[-1] * length / full_after
    return np.asarray(np.minimum(grown + _noise(rng, length), 100.0))


def runaway(rng: Rng, length: int) -> Floats:
    """Growth that gathers speed: a queue that is filled faster than it is emptied."""
    start, full_after = rng.uniform(10, 40), rng.uniform(0.7, 1.2) * length
    power = rng.uniform(1.3, 2.2)
    grown = start + (100 - start) * (np.arange(length) / full_after) ** power
    return np.asarray(np.minimum(grown + _noise(rng, length), 100.0))


def model_load(rng: Rng, length: int) -> Floats:
    """Weights that are read in at one pace, for 10 s to 9 minutes, to 30-95 % of the capacity; then use."""
    at, took = int(rng.uniform(0, 0.3) * length), rng.uniform(10, 540)
    loaded = rng.uniform(30, 90) * np.clip((np.arange(length) - at) / took, 0, 1)
    pieces = rng.choice((0.0, 0.5, 2.0))
    loaded = np.floor(loaded / pieces) * pieces if pieces else loaded
    return np.asarray(1 + loaded + 0.5 * _sawtooth(rng, length) * (loaded >= loaded[-1]))


def slow_load(rng: Rng, length: int) -> Floats:
    """The same over 10-25 minutes, from a slow disk."""
    at, took = int(rng.uniform(0, 0.1) * length), rng.uniform(600, 1500)
    loaded = rng.uniform(30, 90) * np.clip((np.arange(length) - at) / took, 0, 1)
    return np.asarray(1 + loaded + _noise(rng, length))


def key_value_cache(rng: Rng, length: int) -> Floats:
    """An inference server's cache: requests fill it, and what is full evicts; it rests below the limit."""
    room, base = rng.uniform(10, 50), rng.uniform(20, 45)
    held, out = 0.0, np.empty(length)
    arrives, leaves = rng.uniform(0.05, 1.0), rng.uniform(0.0005, 0.01)
    for place in range(length):
        held = min(held + arrives * rng.exponential() * 0.3 - leaves * held, room)
        out[place] = held
    return np.asarray(base + out)


def page_cache(rng: Rng, length: int) -> Floats:
    """A data set that is read once: fills as fast as the disk gives, 2-9 minutes, then is all there."""
    at, took = int(rng.uniform(0, 0.3) * length), rng.uniform(120, 540)
    pace = np.maximum(rng.normal(1, 0.3, length), 0)
    pace[: at + 1] = 0
    filled = np.minimum(pace.cumsum() / took, 1.0)
    return np.asarray(rng.uniform(5, 40) + rng.uniform(10, 50) * filled + _noise(rng, length))


def fragments(rng: Rng, length: int) -> Floats:
    """An allocator that keeps what it once had: ever rarer steps, of ever less."""
    grown = np.log1p(np.arange(length) / rng.uniform(5, 100))
    grown = grown / grown[-1] * rng.uniform(10, 50)
    step = rng.uniform(0.5, 4)
    return np.asarray(rng.uniform(10, 40) + np.floor(grown / step) * step + _noise(rng, length, 0.1))


def allocator(rng: Rng, length: int) -> Floats:
    """A caching allocator that keeps what batches of all lengths asked for, until memory is short: then it
    gives back what is unused, and begins anew. It rests now and then."""
    top, base = rng.uniform(97, 99.9), rng.uniform(65, 88)
    step, every = rng.uniform(0.5, 6), rng.uniform(3, 25)
    held, out = base, np.empty(length)
    for place in range(length):
        if rng.uniform() < 1 / every:
            held += step * rng.exponential()
            if held > top:
                held = base + rng.exponential() if rng.uniform() < 0.8 else top
        out[place] = held
    return np.asarray(out.clip(0, top))


def allocator_far_apart(rng: Rng, length: int) -> Floats:
    """The same where a sample comes each 10 to 60 s only: NaN between."""
    curve, every = allocator(rng, length), int(rng.integers(10, 61))
    seen = np.full(length, np.nan)
    seen[::every] = curve[::every]
    return seen


def batches(rng: Rng, length: int) -> Floats:
    """Memory that comes and goes with batches of wandering size."""
    size = np.clip(1 + 0.02 * rng.normal(size=length).cumsum(), 0.3, 2)
    return np.asarray(rng.uniform(20, 60) + _sawtooth(rng, length) * size + _noise(rng, length))


def day_begins(rng: Rng, length: int) -> Floats:
    """Users who come one after another for minutes on end, then stay: a rise that is uneven and ends."""
    came = np.sort(rng.uniform(0, rng.uniform(0.1, 0.6), size=int(rng.integers(5, 40)))) * length
    each = rng.exponential(size=came.size)
    each *= rng.uniform(20, 60) / each.sum()
    users = np.zeros(length)
    np.add.at(users, np.minimum(came.astype(np.int64), length - 1), each)
    return np.asarray(rng.uniform(5, 20) + users.cumsum() + _noise(rng, length))


def fill(rng: Rng, seconds: float) -> Floats:
    """In use for a while, then full within so many ``seconds``; ends when it is."""
    before, start, step = int(rng.uniform(60, 600)), rng.uniform(20, 60), rng.uniform(0, 0.5)
    grown = start + (100 - start) * np.maximum(np.arange(before + seconds + 1) - before, 0) / seconds
    if step > 0.25:
        grown = np.floor(grown / step) * step
    grown = np.minimum(grown + _noise(rng, grown.size), 100.0)
    grown[-1] = 100.0
    return np.asarray(grown)


ENDS_AT = 0.75
"""Share of its length at which a curve that ends comes to rest."""


def _ending(make: Curve) -> Curve:
    """A curve that climbs no further from ``ENDS_AT`` on: it goes on as in the two minutes before."""

    def ended(rng: Rng, length: int) -> Floats:
        curve, at = make(rng, length), int(ENDS_AT * length)
        climbed = np.minimum.accumulate(curve[::-1])[::-1]
        lately = (curve - climbed)[at - 120 : at]
        return np.concatenate((curve[:at], climbed[at - 1] + np.resize(lately, length - at)))

    return ended


LEAKS: dict[str, Curve] = {
    "leak": leak, "leak_under_batches": leak_under_batches, "leak_per_epoch": leak_per_epoch,
    "runaway": runaway,
}  # fmt: skip
HARMLESS: dict[str, Curve] = {
    **MEMORY, "model_load": model_load, "key_value_cache": key_value_cache, "page_cache": page_cache,
    "fragments": fragments, "batches": batches, "day_begins": day_begins, "allocator": allocator,
    "allocator_far_apart": allocator_far_apart,
}  # fmt: skip
INDISTINCT: dict[str, Curve] = {"slow_load": slow_load}
"""What its curve alone does not tell from a leak, until it ends."""
ENDED: dict[str, Curve] = {
    "leak_per_epoch_ends": _ending(leak_per_epoch), "leak_under_batches_ends": _ending(leak_under_batches),
}  # fmt: skip
"""What ran out until it was mended."""

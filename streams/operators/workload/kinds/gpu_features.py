"""Computes what a pod's GPUs did in its last half hour, as numbers that mean the same at any tick from a
tenth of a second to a minute. A figure that is not known is NaN, and no figure of another.

Spans of ten seconds are the unit, or ticks where those are longer. What needs seconds (dips, noise from
second to second) is NaN where ticks are further apart.
"""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.vectors import average, copy_into, correlation, deviation, share_from, sort
from streams.operators.workload.channels import SPAN_S
from streams.operators.workload.kinds.features import NAMES
from streams.operators.workload.kinds.history import ROWS

_BUSY_PCT, _IDLE_PCT = 8.0, 5.0
_FINE_S = 1.5
"""With longer ticks a second has no value of its own; with ``_SPAN_TICK_S`` a span has too few to have a
range."""
_SPAN_TICK_S = 5.0
_RECENT = 6
_START_SPANS = 3
_TRIES, _TRY_SPANS = 3, 3
_FEWEST = 6
"""Samples from which a correlation or a spread is taken."""
_BY_SECOND = ("busy_noise", "dips_per_min", "run_spread", "periodicity")
"""Of ``features.NAMES``: those that are taken over where ticks are fine enough."""
GPU_NAMES = (
    "level", "level_now", "busy_share", "full_share", "busy_level", "busy_mean", "spread", "busy_spread",
    "range", "range_spread", "depth", "smooth", "rest_longest", "rest_now", "starts",
    "mem_level", "mem_moves", "mem_span", "mem_drop",
    "power_busy", "power_over", "power_now", "power_spread", "power_follows",
    "copy_ratio", "minutes", "gpus", "begins_loaded", "still_alone", "still_together", *_BY_SECOND,
)  # fmt: skip
"""In the order of the vector."""
_PAUSE, _PAUSES = 0.85, 2
"""Work pauses where utilization goes below this share of the usual, and does so in so many spans."""
_RANKS_PCT, _FULL_PCT = 80.0, 95.0
"""Usual utilization of ranks that wait for one another, and of a GPU that is always full."""
_SURE = 0.5
"""A rhythm that is as sure shows steps."""
_MEAN, _LEAST, _MOST, _COPY, _MEMORY, _POWER_PCT, _POWER_W = range(len(ROWS))
_SECONDS = np.array([NAMES.index(name) for name in _BY_SECOND])
(
    _LEVEL, _LEVEL_NOW, _BUSY_SHARE, _FULL_SHARE, _BUSY_LEVEL, _BUSY_MEAN, _SPREAD, _BUSY_SPREAD,
    _RANGE, _RANGE_SPREAD, _DEPTH, _SMOOTH, _REST_LONGEST, _REST_NOW, _STARTS,
    _MEM_LEVEL, _MEM_MOVES, _MEM_SPAN, _MEM_DROP,
    _POWER_BUSY, _POWER_OVER, _POWER_NOW, _POWER_SPREAD, _POWER_FOLLOWS,
    _COPY_RATIO, _MINUTES, _GPUS, _BEGINS_LOADED, _STILL_ALONE, _STILL_TOGETHER,
) = range(len(GPU_NAMES) - len(_BY_SECOND))  # fmt: skip


def gpu_features(spans: Floats, tick_s: float, gpus: int, by_second: Floats | None) -> Floats | None:
    """Return the vector, shape (len(GPU_NAMES),); None if no utilization is known.

    ``spans``: values of ``history.ROWS`` by span of ten seconds, newest last. ``by_second``: the vector of
    ``features`` of the last four minutes, None if there is none.
    """
    figures = np.full(len(GPU_NAMES), np.nan)
    if not _gpu_features(spans, _step(tick_s), gpus, tick_s <= _SPAN_TICK_S, figures):
        return None
    if tick_s <= _FINE_S and by_second is not None:
        figures[-len(_BY_SECOND) :] = by_second[_SECONDS]
    return figures


def is_even(spans: Floats, tick_s: float, gpus: int, rhythm: float) -> bool:
    """Tell whether work shows nothing by which a training could be told from a server under constant load, or
    from a kernel in a loop: it never pauses, and memory stays as it is. Several GPUs that are nearly full are
    ranks that wait for one another. A ``rhythm`` shows steps, but not those of one GPU that is always full: a
    loop has copies, too. Where memory is not known, nobody can say that it stays. ``spans`` as in
    ``gpu_features``.

    What goes far below the usual counts, and twice: noise goes as far up as down, and once is how work
    begins. At any tick that is the same question, whether or not a pause is long enough to be caught."""
    return _is_even(spans, _step(tick_s), gpus, rhythm)


def _step(tick_s: float) -> int:
    """Return of how many spans one is looked at: those that have a tick."""
    return max(round(tick_s / SPAN_S), 1)


@kernel
def _picked(values: Floats, most: Floats, from_pct: float, beside: Floats) -> Floats:
    """Return the values of spans whose ``most`` is not below ``from_pct``, and whose ``beside`` is known."""
    picked, count = np.empty(values.size), 0
    for at in range(values.size):
        if most[at] >= from_pct and not np.isnan(beside[at]):
            picked[count] = values[at]
            count += 1
    return picked[:count]


@kernel
def _median(values: Floats) -> float:
    """Return the median of values, all of which are known; it sorts them."""
    sort(values)
    middle = values.size // 2
    return float(values[middle - 1 + values.size % 2] + values[middle]) / 2


@kernel
def _correlation(first: Floats, other: Floats) -> float:
    """Return Pearson's correlation; NaN of too few, or of what does not move."""
    return correlation(first, other, 0.5, np.nan) if first.size >= _FEWEST else np.nan


@kernel
def _known(spans: Floats, step: int) -> Floats:
    """Return each ``step``-th span, the newest among them, of those whose utilization is known."""
    count = 0
    for at in range((spans.shape[1] - 1) % step, spans.shape[1], step):
        count += not np.isnan(spans[_MEAN, at])
    known = np.empty((len(spans), count))
    for at in range(spans.shape[1] - 1, -1, -step):
        if not np.isnan(spans[_MEAN, at]):
            count -= 1
            for row in range(len(spans)):
                known[row, count] = spans[row, at]
    return known


@kernel
def _from(known: Floats, begin: int) -> Floats:
    """Return the spans from that one on."""
    kept = np.empty((len(known), known.shape[1] - begin))
    for row in range(len(known)):
        copy_into(kept[row], known[row, begin:])
    return kept


@kernel
def _work(known: Floats) -> tuple[int, int, int]:
    """Count the busy spans, and tell which is the first, and in which utilization comes first to half of what
    it usually is in those; -1 for none."""
    work = _picked(known[_MEAN], known[_MOST], _BUSY_PCT, known[_MEAN])
    if work.size == 0:
        return 0, -1, -1
    first, half = -1, _median(work) / 2
    for at in range(known.shape[1]):
        if known[_MOST, at] >= _BUSY_PCT:
            first = at if first < 0 else first
            if known[_MEAN, at] >= half:
                return work.size, first, at
    return work.size, first, -1  # not reached: one of them is the usual, or more


@kernel
def _utilization(kept: Floats, recent: int, out: Floats) -> None:
    mean, most, copy = kept[_MEAN], kept[_MOST], kept[_COPY]
    out[_LEVEL], out[_LEVEL_NOW] = average(mean) / 100, average(mean[-recent:]) / 100
    out[_BUSY_SHARE], out[_FULL_SHARE] = share_from(most, _BUSY_PCT), share_from(mean, 90.0)
    if mean.size > 1:
        out[_SPREAD] = min(deviation(mean) / 50, 1.0)
    out[_SMOOTH] = _correlation(mean[1:], mean[:-1])
    work = _picked(mean, most, _BUSY_PCT, mean)
    if work.size == 0:
        return
    if work.size >= _FEWEST:
        out[_BUSY_SPREAD] = min(deviation(work) / max(average(work), 1.0), 2.0)
    out[_BUSY_LEVEL], out[_BUSY_MEAN] = (
        _median(_picked(most, most, _BUSY_PCT, most)) / 100, _median(work) / 100,
    )  # fmt: skip
    copied = _picked(copy, most, _BUSY_PCT, copy)
    if copied.size:
        worked = average(_picked(mean, most, _BUSY_PCT, copy)) * copied.size
        out[_COPY_RATIO] = min(average(copied) * copied.size / max(worked, 1.0), 1.0)


@kernel
def _ranges(kept: Floats, gpus: int, out: Floats) -> None:
    """Write how far utilization moves within ten seconds, and whether it does so alike in all of them; how
    often it does not move at all, where there is one GPU, as with a kernel in a loop, and how often where
    there are several, as with ranks that wait for one another."""
    least = _picked(kept[_LEAST], kept[_MOST], _BUSY_PCT, kept[_MEAN])
    wide = _picked(kept[_MOST], kept[_MOST], _BUSY_PCT, kept[_MEAN])
    if wide.size == 0:
        return
    still = 0
    for at in range(wide.size):
        most = wide[at]
        wide[at], least[at] = most - least[at], least[at] / most
        still += wide[at] <= 1
    out[_RANGE], out[_DEPTH] = average(wide) / 100, _median(least)
    out[_STILL_ALONE if gpus <= 1 else _STILL_TOGETHER] = still / wide.size
    if wide.size >= _FEWEST:
        out[_RANGE_SPREAD] = min(deviation(wide) / (average(wide) + 3), 2.0)


@kernel
def _memory(memory: Floats, out: Floats) -> None:
    if memory.size == 0:
        return
    out[_MEM_LEVEL] = memory[-1] / 100
    least = most = memory[0]
    moves, drop = 0, 0.0
    for at in range(1, memory.size):
        least, most = min(least, memory[at]), max(most, memory[at])
        moves += abs(memory[at] - memory[at - 1]) >= 1
        drop = max(drop, memory[at - 1] - memory[at])
    if memory.size > 1:
        out[_MEM_MOVES] = moves / (memory.size - 1)
        out[_MEM_SPAN], out[_MEM_DROP] = (most - least) / 100, drop / 100


@kernel
def _power(kept: Floats, recent: int, ever: Floats, out: Floats) -> None:
    """Write figures of power. ``ever``: watts of all spans, the start too: the least of them is the nearest
    to what an idle GPU draws."""
    mean, most, watts, of_limit = kept[_MEAN], kept[_MOST], kept[_POWER_W], kept[_POWER_PCT]
    known = _picked(watts, most, 0.0, watts)
    if known.size == 0:
        return
    idle = known[0]
    for value in ever:
        if value < idle:
            idle = value
    idle = max(idle, 1.0)
    now = _picked(watts[-recent:], most[-recent:], 0.0, watts[-recent:])
    work = _picked(watts, most, _BUSY_PCT, watts)
    if now.size:
        out[_POWER_NOW] = np.log2(max(average(now), 1.0) / idle) / 3
    if work.size:
        out[_POWER_OVER] = np.log2(max(average(work), 1.0) / idle) / 3
    if work.size >= _FEWEST:
        out[_POWER_SPREAD] = min(deviation(work) / max(average(work), 1.0), 1.0)
    shares = _picked(of_limit, most, _BUSY_PCT, of_limit)
    if shares.size:
        out[_POWER_BUSY] = average(shares) / 100
    out[_POWER_FOLLOWS] = _correlation(_picked(mean, most, 0.0, watts), known)


@entry("boolean(float64[:, ::1], int64, int64, boolean, float64[::1])")
def _gpu_features(spans: Floats, step: int, gpus: int, has_ranges: bool, out: Floats) -> bool:
    """Write all figures but those ``_BY_SECOND``; False if no utilization is known."""
    known = _known(spans, step)
    count = known.shape[1]
    if count == 0:
        return False
    # Work begins behind the span in which a pod first does half of what it usually does: before, models and
    # libraries are loaded, and how much of that is in which span hangs on the clock.
    _, first_busy, first_work = _work(known)
    begins = first_busy >= 0 and count - first_busy > _START_SPANS
    kept = _from(known, min(first_work, count - 2) + 1 if begins else 0)
    seconds = step * SPAN_S
    recent = max(_RECENT * SPAN_S // seconds, 1)
    out[_MINUTES] = np.log2(1 + kept.shape[1] * seconds / 60) / 5
    out[_GPUS] = np.log2(max(gpus, 1)) / 3
    _utilization(kept, recent, out)
    if has_ranges:
        _ranges(kept, gpus, out)
    longest = run = starts = 0
    for at in range(kept.shape[1]):
        rests = kept[_MOST, at] < _IDLE_PCT
        starts += at > 0 and run > 0 and not rests
        run = run + 1 if rests else 0
        longest = max(longest, run)
    hours = kept.shape[1] * seconds / 3600
    out[_REST_LONGEST], out[_REST_NOW] = np.log2(1 + longest * seconds) / 11, np.log2(1 + run * seconds) / 11
    out[_STARTS] = np.log2(1 + starts / max(hours, 0.1)) / 8
    _memory(_picked(kept[_MEMORY], kept[_MOST], 0.0, kept[_MEMORY]), out)
    _power(kept, recent, known[_POWER_W], out)
    if known[_MOST, 0] < _IDLE_PCT:  # a server is loaded before it is asked
        out[_BEGINS_LOADED] = known[_MEMORY, 0] / 100
    return True


@entry("boolean(float64[:, ::1], int64, int64, float64)")
def _is_even(spans: Floats, step: int, gpus: int, rhythm: float) -> bool:
    known = _known(spans, step)
    busy, _, first_work = _work(known)
    if busy == 0:
        return False
    # The first span of several GPUs has nothing after it yet.
    kept = _from(known, first_work + (busy > 1 or gpus <= 1))
    work = _picked(kept[_MEAN], kept[_MOST], _BUSY_PCT, kept[_MEAN])
    if work.size == 0:
        return True
    usual = _median(work)
    if (gpus > 1 and usual >= _RANKS_PCT) or (rhythm >= _SURE and not (gpus <= 1 and usual >= _FULL_PCT)):
        return False
    memory = _picked(kept[_MEMORY], kept[_MOST], 0.0, kept[_MEMORY])
    if memory.size == 0:
        return False
    moves = pauses = 0
    for at in range(1, memory.size):
        moves += abs(memory[at] - memory[at - 1]) >= 1
    for least in kept[_LEAST]:
        pauses += least < _PAUSE * usual
    return bool(max(moves, pauses) < min(_PAUSES, 1 + kept.shape[1] // _FEWEST))


@entry("float64(float64[:, ::1])")
def tries(spans: Floats) -> float:
    """Tell to which share a pod's work is tries: runs of half a minute at most, each followed by a rest in
    which half of its memory or more is free again, as its process has ended. 0-1: the third such run is as
    sure as it gets. 0 where most of its runs are others. ``spans`` as in ``gpu_features``, of which each has
    a tick."""
    memory = _picked(spans[_MEMORY], spans[_MOST], 0.0, spans[_MEMORY])
    most = _picked(spans[_MOST], spans[_MOST], 0.0, spans[_MEMORY])
    if memory.size < _FEWEST:
        return 0.0
    ended = released = at = 0
    while at < memory.size:
        begin, held, free = at, -np.inf, np.inf
        while at < memory.size and most[at] >= _BUSY_PCT:
            held = max(held, memory[at])
            at += 1
        end = at
        while at < memory.size and most[at] < _BUSY_PCT:
            free = min(free, memory[at])
            at += 1
        if begin > 0 and held - free >= 1:  # of a run between two looks at memory nothing is seen
            ended += 1
            released += end - begin <= _TRY_SPANS and free <= held / 2
    return min(released / _TRIES, 1.0) if 2 * released > ended else 0.0

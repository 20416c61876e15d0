"""Computes what a pod's GPUs did in its last half hour, as numbers that mean the same at any tick from a
tenth of a second to a minute. A figure that is not known is NaN, and no figure of another.

Spans of ten seconds are the unit, or ticks where those are longer. What needs seconds (dips, noise from
second to second) is NaN where ticks are further apart.
"""

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
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
_ROW = {name: row for row, name in enumerate(ROWS)}


def gpu_features(spans: Floats, tick_s: float, gpus: int, by_second: Floats | None) -> Floats | None:
    """Return the vector, shape (len(GPU_NAMES),); None if no utilization is known.

    ``spans``: values of ``history.ROWS`` by span of ten seconds, newest last. ``by_second``: the vector of
    ``features`` of the last four minutes, None if there is none.
    """
    step = max(round(tick_s / SPAN_S), 1)
    known = _known(spans, step)
    if not known.shape[1]:
        return None
    # Work begins behind the span in which a pod first does half of what it usually does: before, models and
    # libraries are loaded, and how much of that is in which span hangs on the clock.
    begin, worked = 0, np.flatnonzero(known[_ROW["most"]] >= _BUSY_PCT)
    if worked.size and known.shape[1] - worked[0] > _START_SPANS:
        begin = min(_first_work(known, worked), int(known.shape[1]) - 2) + 1
    kept = known[:, begin:]
    busy = kept[_ROW["most"]] >= _BUSY_PCT
    seconds = step * SPAN_S
    values_by_name: dict[str, float] = {
        "minutes": np.log2(1 + kept.shape[1] * seconds / 60) / 5, "gpus": np.log2(max(gpus, 1)) / 3,
    }  # fmt: skip
    values_by_name |= _utilization(kept, busy, max(_RECENT * SPAN_S // seconds, 1))
    values_by_name |= _ranges(kept, busy, gpus) if tick_s <= _SPAN_TICK_S else {}
    values_by_name |= _rests(kept[_ROW["most"]], seconds)
    memory = kept[_ROW["memory"]]
    memory = memory[~np.isnan(memory)]
    if memory.size:
        values_by_name["mem_level"] = memory[-1] / 100
    if memory.size > 1:
        steps = np.diff(memory)
        values_by_name |= {
            "mem_moves": float((abs(steps) >= 1).mean()), "mem_span": np.ptp(memory) / 100,
            "mem_drop": max(-steps.min(), 0.0) / 100,
        }  # fmt: skip
    values_by_name |= _power(kept, busy, max(_RECENT * SPAN_S // seconds, 1), known[_ROW["power_w"]])
    if known[_ROW["most"], 0] < _IDLE_PCT:  # a server is loaded before it is asked
        values_by_name["begins_loaded"] = known[_ROW["memory"], 0] / 100
    if tick_s <= _FINE_S and by_second is not None:
        values_by_name |= {name: float(by_second[NAMES.index(name)]) for name in _BY_SECOND}
    return np.array([values_by_name.get(name, np.nan) for name in GPU_NAMES])


def tries(spans: Floats) -> float:
    """Tell to which share a pod's work is tries: runs of half a minute at most, each followed by a rest in
    which half of its memory or more is free again, as its process has ended. 0-1: the third such run is as
    sure as it gets. 0 where most of its runs are others. ``spans`` as in ``gpu_features``, of which each has
    a tick."""
    known = spans[:, ~np.isnan(spans[_ROW["most"]]) & ~np.isnan(spans[_ROW["memory"]])]
    memory = known[_ROW["memory"]]
    if memory.size < _FEWEST or np.ptp(memory) < 1:
        return 0.0
    busy = np.concatenate(([False], known[_ROW["most"]] >= _BUSY_PCT, [False]))
    begins, ends = np.flatnonzero(~busy[:-1] & busy[1:]), np.flatnonzero(busy[:-1] & ~busy[1:])
    ended = released = 0
    for begin, end, following in zip(begins, ends, np.append(begins, memory.size)[1:], strict=True):
        held, free = memory[begin:end].max(), memory[end:following].min(initial=np.inf)
        if begin > 0 and held - free >= 1:  # of a run between two looks at memory nothing is seen
            ended += 1
            released += int(end - begin <= _TRY_SPANS and free <= held / 2)
    return min(released / _TRIES, 1.0) if 2 * released > ended else 0.0


def is_even(spans: Floats, tick_s: float, gpus: int, rhythm: float) -> bool:
    """Tell whether work shows nothing by which a training could be told from a server under constant load, or
    from a kernel in a loop: it never pauses, and memory stays as it is. Several GPUs that are nearly full are
    ranks that wait for one another. A ``rhythm`` shows steps, but not those of one GPU that is always full: a
    loop has copies, too. Where memory is not known, nobody can say that it stays. ``spans`` as in
    ``gpu_features``.

    What goes far below the usual counts, and twice: noise goes as far up as down, and once is how work
    begins. At any tick that is the same question, whether or not a pause is long enough to be caught."""
    known = _known(spans, max(round(tick_s / SPAN_S), 1))
    worked = np.flatnonzero(known[_ROW["most"]] >= _BUSY_PCT)
    if not worked.size:
        return False
    begins = worked.size > 1 or gpus <= 1  # the first span of several GPUs has nothing after it yet
    kept = known[:, _first_work(known, worked) + begins :]
    busy = kept[_ROW["most"]] >= _BUSY_PCT
    if not busy.any():
        return True
    usual = _median(kept[_ROW["mean"]][busy])
    if (gpus > 1 and usual >= _RANKS_PCT) or (rhythm >= _SURE and not (gpus <= 1 and usual >= _FULL_PCT)):
        return False
    memory = kept[_ROW["memory"]]
    if np.isnan(memory).all():
        return False
    moves = int((abs(np.diff(memory[~np.isnan(memory)])) >= 1).sum())
    pauses = int((kept[_ROW["least"]] < _PAUSE * usual).sum())
    return max(moves, pauses) < min(_PAUSES, 1 + int(busy.size) // _FEWEST)


def _known(spans: Floats, step: int) -> Floats:
    """Return each ``step``-th span, the newest among them, of those whose utilization is known."""
    thinned = spans[:, ::-1][:, ::step][:, ::-1]
    return thinned[:, ~np.isnan(thinned[_ROW["mean"]])]


def _first_work(kept: Floats, busy: Ints) -> int:
    """Tell in which of the ``busy`` spans utilization comes first to half of what it usually is."""
    work = kept[_ROW["mean"], busy]
    return int(busy[np.argmax(work >= _median(work) / 2)])


def _utilization(kept: Floats, busy: np.ndarray, recent: int) -> dict[str, float]:
    mean, most, copy = kept[_ROW["mean"]], kept[_ROW["most"]], kept[_ROW["copy"]]
    values_by_name = {
        "level": mean.mean() / 100, "level_now": mean[-recent:].mean() / 100, "busy_share": busy.mean(),
        "full_share": (mean >= 90).mean(), "spread": min(mean.std() / 50, 1.0) if mean.size > 1 else np.nan,
        "smooth": _correlation(mean[1:], mean[:-1]),
    }  # fmt: skip
    if busy.any():
        work = mean[busy]
        values_by_name |= {
            "busy_level": _median(most[busy]) / 100,
            "busy_mean": _median(work) / 100,
        }
        if work.size >= _FEWEST:
            values_by_name["busy_spread"] = min(work.std() / max(work.mean(), 1.0), 2.0)
        known = busy & ~np.isnan(copy)
        if known.any():
            values_by_name["copy_ratio"] = min(copy[known].sum() / max(mean[known].sum(), 1.0), 1.0)
    return values_by_name


def _ranges(kept: Floats, busy: np.ndarray, gpus: int) -> dict[str, float]:
    """Tell how far utilization moves within ten seconds, and whether it does so alike in all of them; how
    often it does not move at all, where there is one GPU, as with a kernel in a loop, and how often where
    there are several, as with ranks that wait for one another."""
    if not busy.any():
        return {}
    wide = (kept[_ROW["most"]] - kept[_ROW["least"]])[busy]
    values_by_name = {
        "range": wide.mean() / 100,
        "depth": _median(kept[_ROW["least"]][busy] / kept[_ROW["most"]][busy]),
        "still_alone" if gpus <= 1 else "still_together": (wide <= 1).mean(),
    }
    return values_by_name | (
        {"range_spread": min(wide.std() / (wide.mean() + 3), 2.0)} if wide.size >= _FEWEST else {}
    )


def _rests(most: Floats, seconds: int) -> dict[str, float]:
    longest = run = starts = 0
    for at, value in enumerate(most.tolist()):
        rests = value < _IDLE_PCT
        starts += at > 0 and run > 0 and not rests
        run = run + 1 if rests else 0
        longest = max(longest, run)
    hours = most.size * seconds / 3600
    return {
        "rest_longest": np.log2(1 + longest * seconds) / 11, "rest_now": np.log2(1 + run * seconds) / 11,
        "starts": np.log2(1 + starts / max(hours, 0.1)) / 8,
    }  # fmt: skip


def _power(kept: Floats, busy: np.ndarray, recent: int, ever: Floats) -> dict[str, float]:
    """Return figures of power. ``ever``: watts of all spans, the start too: the least of them is the nearest
    to what an idle GPU draws."""
    watts, share = kept[_ROW["power_w"]], kept[_ROW["power_pct"]]
    known = ~np.isnan(watts)
    if not known.any():
        return {}
    least = max(float(np.nanmin(ever)), 1.0)
    values_by_name: dict[str, float] = {}
    if known[-recent:].any():
        values_by_name["power_now"] = np.log2(max(_mean(watts[-recent:]), 1.0) / least) / 3
    work = watts[known & busy]
    if work.size:
        values_by_name["power_over"] = np.log2(max(work.mean(), 1.0) / least) / 3
    if work.size >= _FEWEST:
        values_by_name["power_spread"] = min(work.std() / max(work.mean(), 1.0), 1.0)
    if (busy & ~np.isnan(share)).any():
        values_by_name["power_busy"] = _mean(share[busy]) / 100
    values_by_name["power_follows"] = _correlation(kept[_ROW["mean"]][known], watts[known])
    return values_by_name


def _median(values: Floats) -> float:
    """Return the median of values, all of which are known: NumPy's own takes some 20 µs for a few."""
    ordered, middle = np.sort(values), values.size // 2
    return float(ordered[middle - 1 + values.size % 2] + ordered[middle]) / 2


def _mean(values: Floats) -> float:
    """Return the mean of those that are known, of which there is one."""
    known = ~np.isnan(values)
    return float(np.where(known, values, 0.0).sum()) / int(known.sum())


def _correlation(first: Floats, other: Floats) -> float:
    """Return Pearson's correlation; NaN of too few, or of what does not move."""
    if first.size < _FEWEST:
        return np.nan
    a, b = first - first.mean(), other - other.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size > 0.5 * first.size else np.nan

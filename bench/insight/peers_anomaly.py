"""How others would find anomalies: alert rules, and River's detectors, over the figures that ours get.

Each gives scores by the minute, shape (minutes, scores), the larger the odder. One is told when it is above
its limit for ``NEEDED`` minutes in a row; limits are fitted to the allowed rate of false alarms on other
seeds.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from river import anomaly, preprocessing, stats, time_series

from bench.generators import Floats
from bench.generators_anomalies import Job

_holt_winters: Any = time_series.HoltWinters
NEEDED = 6
FIRST = 60
"""Minutes in which everything learns, and tells nothing."""
FIGURES = ("longest step", "hottest", "lowest clock", "power", "power beside use", "waiting")


def figures(one: Job, period_s: Floats) -> Floats:
    """What an alert rule would be written on, shape (minutes, FIGURES): larger is worse. The period over the
    mean of the first hour with one; the hottest GPU over the median of all; the lowest clock below it, in
    percent; power below that of the first hour, and above what utilization explains; and how little power is
    taken at full utilization."""
    rows = np.full((one.util.size, len(FIGURES)), np.nan)
    known = np.flatnonzero(~np.isnan(period_s))[:FIRST]
    if known.size == FIRST:
        rows[:, 0] = period_s / period_s[known].mean() - 1
    busy = np.where(one.gpu_util >= 30, 1.0, np.nan)
    enough = np.isfinite(busy).sum(axis=1) >= 2
    for row, of in ((1, one.temp_c), (2, -one.clock_mhz / 19.8)):
        rows[enough, row] = np.nanmax((of * busy)[enough], axis=1) - np.nanmedian((of * busy)[enough], axis=1)
    rows[:, 3] = one.power_pct[:FIRST].mean() - one.power_pct
    rows[:, 4] = one.power_pct - one.util
    rows[:, 5] = np.where(one.util >= 90, 100 - one.power_pct - 10 * one.util_spread, np.nan)
    return rows


def own_past(one: Job, period_s: Floats) -> Floats:
    """The figures over their past: distance from the mean of the last two hours in standard deviations, as an
    alert rule with ``avg_over_time`` and ``stddev_over_time``."""
    rows = figures(one, period_s)
    scores = np.full(rows.shape, np.nan)
    for at in range(FIRST, len(rows)):
        past = rows[max(at - 120, 0) : at]
        with np.errstate(all="ignore"):
            enough = np.isfinite(past).sum(axis=0) >= FIRST // 2
            scores[at] = np.where(enough, (rows[at] - _nanmean(past)) / (_nanstd(past) + 0.5), np.nan)
    return scores


def _nanmean(values: Floats) -> Floats:
    known = np.isfinite(values)
    return np.asarray(np.where(known, values, 0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def _nanstd(values: Floats) -> Floats:
    return np.asarray(np.sqrt(_nanmean((values - _nanmean(values)) ** 2)))


def quantile_filter(one: Job, period_s: Floats) -> Floats:
    """River's filter of each figure's error of the forecast of River's Holt. What it scores above its
    quantile teaches neither of the two."""
    rows = figures(one, period_s)
    scores = np.full(rows.shape, np.nan)
    for column in range(rows.shape[1]):
        model: Any = anomaly.QuantileFilter(anomaly.StandardAbsoluteDeviation(sub_stat=stats.Mean()), q=0.99)
        level, known = _holt_winters(alpha=0.05), 0
        for at, value in enumerate(rows[:, column].tolist()):
            if np.isnan(value):
                continue
            error = value - level.forecast(horizon=1)[0] if known > 2 else 0.0
            score = model.score_one(None, error)
            scores[at, column] = score if error > 0 else 0.0
            model.learn_one(None, error)
            if not model.classify(score) or known < FIRST:
                level.learn_one(value)
            known += 1
    return scores


def _all_at_once(build: Callable[[], Any]) -> Callable[[Job, Floats], Floats]:
    def score(one: Job, period_s: Floats) -> Floats:
        rows, model = np.nan_to_num(figures(one, period_s)), build()
        scores = np.full((len(rows), 1), np.nan)
        for at, row in enumerate(rows.tolist()):
            x = dict(zip(FIGURES, row, strict=True))
            scores[at] = model.score_one(x)
            model.learn_one(x)
        return scores

    return score


def _trees() -> Any:
    trees = anomaly.HalfSpaceTrees(n_trees=25, height=8, window_size=120, seed=1)
    return preprocessing.MinMaxScaler() | trees


def _vectors() -> Any:
    return preprocessing.StandardScaler() | anomaly.OneClassSVM(nu=0.05)


PEERS: dict[str, Callable[[Job, Floats], Floats]] = {
    "thresholds": figures,
    "own past, deviations": own_past,
    "QuantileFilter on forecast errors (River)": quantile_filter,
    "HalfSpaceTrees (River)": _all_at_once(_trees),
    "OneClassSVM (River)": _all_at_once(_vectors),
}  # fmt: skip


def begun(scores: Floats, limits: Floats) -> list[int]:
    """The minutes in which something begins to be told."""
    return sorted(
        at
        for column, limit in enumerate(limits.tolist())
        for at, run in enumerate(_runs(scores[:, column] > limit))
        if run == NEEDED
    )


def _runs(odd: npt.NDArray[np.bool_]) -> list[int]:
    """How many minutes in a row are odd by then."""
    run, found = 0, []
    for at, one in enumerate(odd.tolist()):
        run = run + 1 if one and at >= FIRST else 0
        found.append(run)
    return found


def limits_for(scored: Sequence[tuple[Job, Floats]], allowed: int) -> Floats:
    """The lowest limits with ``allowed`` false alarms, the same number of each score."""
    columns = scored[0][1].shape[1]
    limits = np.full(columns, np.inf)
    for column in range(columns):
        normal = [scores[: one.begins, column : column + 1] for one, scores in scored]
        held = [_held(scores[:, 0]) for scores in normal]
        for limit in sorted({one for one in held if np.isfinite(one)}, reverse=True):
            if sum(len(begun(scores, np.array([limit]))) for scores in normal) > allowed // columns:
                break
            limits[column] = limit
    return limits


def _held(scores: Floats) -> float:
    """The highest score that held for as long as is needed."""
    of = np.where(np.isnan(scores), -np.inf, scores)[FIRST:]
    return float(sliding_window_view(of, NEEDED).min(axis=1).max()) if of.size >= NEEDED else -np.inf

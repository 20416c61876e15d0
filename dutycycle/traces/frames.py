"""Holds figures over time: the columns of one subject, and their buckets for a chart."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]
_NAN = float("nan")


class Frame:
    """Collects the ticks of one subject: a time and a value of each column; NaN is absent."""

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = tuple(columns)
        self._times = array("q")
        self._values = {name: array("d") for name in columns}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, ts_ms: int, values: Mapping[str, float | None]) -> None:
        """Append one tick."""
        self._times.append(ts_ms)
        for name, column in self._values.items():
            value = values.get(name)
            column.append(_NAN if value is None else value)

    def between(self, first_ms: int, last_ms: int) -> "FrameTicks":
        """Return the ticks from ``first_ms`` to ``last_ms``, both included, in order, each once."""
        return self.during([(first_ms, last_ms)])

    def during(self, spans: Iterable[tuple[int, int]]) -> "FrameTicks":
        """Return the same of several such times. A tick stands for as long as it does beside those that come
        between these times."""
        times, first = np.unique(np.frombuffer(self._times, np.int64), return_index=True)
        chosen = np.zeros(len(times), np.bool_)
        for first_ms, last_ms in spans:
            chosen |= (times >= first_ms) & (times <= last_ms)
        among = between_known(chosen)
        steps = np.diff(times[among], prepend=times[among][:1])
        step_ms = int(np.median(steps[1:])) if len(steps) > 1 else 0
        steps[:1] = step_ms
        lasted_s = np.minimum(steps, 2 * step_ms)[chosen[among]] / 1000.0
        values = {
            name: np.frombuffer(value, np.float64)[first][chosen] for name, value in self._values.items()
        }
        return FrameTicks(times[chosen], values, step_ms, lasted_s)


@dataclass(frozen=True, slots=True)
class FrameTicks:
    """Holds a part of a frame: ``times`` in Unix milliseconds, rising; ``values`` by column, NaN for
    absent.

    ``step_ms``: the usual time between two ticks; 0 with fewer than two. ``lasted_s``: for how many seconds
    each tick stands: since the one before, but two usual steps at most, so that a gap in the measurement is
    not taken for what was measured after it.
    """

    times: npt.NDArray[np.int64]
    values: Mapping[str, Floats]
    step_ms: int
    lasted_s: Floats

    def __getitem__(self, name: str) -> Floats:
        return self.values[name]

    @property
    def life(self) -> tuple[int, int]:
        """Return from when to when it was there, in Unix milliseconds: the first of its ticks, of which there
        are some, stands for the time before it."""
        return int(self.times[0]) - max(self.step_ms, 1), int(self.times[-1])

    def total(self, name: str) -> float | None:
        """Return a rate per second over its time: how much in all; None where it was never measured."""
        values = self[name]
        known = np.isfinite(values)
        return float((values * self.lasted_s)[known].sum()) if known.any() else None

    def mean(self, name: str) -> float | None:
        """Return the mean, each tick for as long as it stands; None where it was never measured."""
        return self.mean_of(self[name])

    def mean_of(self, values: Floats) -> float | None:
        """Return the same of ``values``, one a tick."""
        known = np.isfinite(values)
        lasted = self.lasted_s[known]
        if not lasted.any():
            return float(values[known].mean()) if known.any() else None
        return float(np.average(values[known], weights=lasted))

    def most(self, name: str) -> float | None:
        """Return the largest value; None where it was never measured."""
        known = self[name][np.isfinite(self[name])]
        return float(known.max()) if len(known) else None

    def p95(self, name: str) -> float | None:
        """Return the least value that was not exceeded for 95 % of the time; None where it was never
        measured."""
        known = np.isfinite(self[name])
        values, lasted = self[name][known], self.lasted_s[known]
        if not len(values):
            return None
        order = np.argsort(values, kind="stable")
        passed = np.cumsum(lasted[order] if lasted.any() else np.ones(len(values)))
        place = int(np.searchsorted(passed, 0.95 * passed[-1] * (1 - 1e-12)))
        return float(values[order][place])


@dataclass(frozen=True, slots=True)
class Buckets:
    """Holds a series for a chart: bucket ``i`` begins at ``start_ms + i * step_ms``; NaN is absent.

    ``exact``: no bucket holds more than one tick, so that mean, low and high are the same.
    """

    start_ms: int
    step_ms: int
    mean: Floats
    low: Floats
    high: Floats
    exact: bool

    @property
    def times(self) -> npt.NDArray[np.int64]:
        """Return where each bucket begins, in Unix milliseconds."""
        return np.asarray(self.start_ms + self.step_ms * np.arange(len(self.mean)))

    def means_at(self, times: npt.NDArray[np.int64]) -> Floats:
        """Give the mean of the bucket in which each moment lies: it stands until the next."""
        return self.mean[np.clip((times - self.start_ms) // self.step_ms, 0, len(self.mean) - 1)]


@dataclass(frozen=True, slots=True)
class Moments:
    """Holds values of single moments for a chart: each stands where it is, and none is averaged with
    another."""

    times: npt.NDArray[np.int64]
    mean: Floats
    low: Floats
    high: Floats

    @property
    def exact(self) -> bool:
        """Tell whether none has an interval."""
        return not bool((self.high > self.low).any())


def buckets(times: npt.NDArray[np.int64], values: Floats, first_ms: int, last_ms: int, most: int) -> Buckets:
    """Return at most ``most`` equal buckets from ``first_ms`` to ``last_ms``, none shorter than a tick."""
    tick_ms = int(np.median(np.diff(times))) if len(times) > 1 else 1000
    step_ms = max(tick_ms, -(-(last_ms - first_ms + 1) // most), 1)
    # A tick is a little early or late: half a step of a bucket of one tick is on either side of it.
    shift = step_ms // 2 if step_ms == tick_ms else 0
    count = (last_ms - first_ms + shift) // step_ms + 1
    known = np.isfinite(values)
    place = np.clip((times[known] - first_ms + shift) // step_ms, 0, count - 1)
    value = values[known]
    held = np.bincount(place, minlength=count)
    with np.errstate(invalid="ignore"):
        mean = np.bincount(place, weights=value, minlength=count) / held
    low, high = np.full(count, np.inf), np.full(count, -np.inf)
    np.minimum.at(low, place, value)
    np.maximum.at(high, place, value)
    low[held == 0] = high[held == 0] = np.nan
    return Buckets(first_ms, step_ms, mean, low, high, exact=bool((held <= 1).all()))


def aligned(parts: Iterable[FrameTicks], column: str, first_ms: int, last_ms: int, step_ms: int) -> Floats:
    """Return a column of several subjects on one grid, shape (subjects, steps). A slower source has fewer
    buckets: each of its values stands until the next."""
    count = (last_ms - first_ms) // step_ms + 1
    place = first_ms + step_ms * np.arange(count)
    rows = [buckets(part.times, part[column], first_ms, last_ms, count).means_at(place) for part in parts]
    return np.array(rows).reshape(len(rows), count)


def between_known(known: Flags) -> Flags:
    """Tell along the last axis what lies between the first that is known and the last, both included."""
    since, until = np.logical_or.accumulate(known, axis=-1), known[..., ::-1]
    return np.asarray(since & np.logical_or.accumulate(until, axis=-1)[..., ::-1])


def mean_of_known(rows: Floats) -> Floats:
    """Give each step's mean over what is known of ``rows``, shape (subjects, steps); NaN where nothing is."""
    return _over_known(np.nanmean, rows)


def total_of_known(rows: Floats) -> Floats:
    """Give each step's sum in the same way. While a row is not known between its first value and its last, it
    counts with its mean: it is not known to be 0."""
    known = np.isfinite(rows)
    filled = rows.copy()
    for row, missing in zip(filled, between_known(known) & ~known, strict=True):
        if missing.any():
            row[missing] = np.nanmean(row)
    return np.where(known.any(axis=0), _over_known(np.nansum, filled), np.nan)


def _over_known(of: Callable[..., Floats], rows: Floats) -> Floats:
    known = np.isfinite(rows).any(axis=0)
    line = np.full(rows.shape[1], np.nan)
    line[known] = of(rows[:, known], axis=0)
    return line


def at_once(lives: Iterable[tuple[int, int, float]]) -> float | None:
    """Return the sum of amounts, each (first ms, last ms, amount), over the time in which any is there: of
    those that came and went that of each moment. None where there are none."""
    used = there_ms = 0.0
    until_ms = -inf
    for first_ms, last_ms, amount in sorted(lives):
        used += amount * (last_ms - first_ms)
        there_ms += max(last_ms - max(first_ms, until_ms), 0)
        until_ms = max(until_ms, last_ms)
    return used / there_ms if there_ms else None

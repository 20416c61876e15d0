"""Forecasts at several horizons by simple forecasters, weighed by their recent errors at each horizon.

A forecast is kept until its moment comes and is then compared with what was measured: by the tick that came
nearest. So the interval is that of errors really made at this horizon, and needs no model of how errors grow;
before enough were made, there is no forecast. The forecasters' blend is told where, as it was made before the
moment came, it was nearer than what is simplest, that the value stays as it is (persistence); else that is
told, with the interval of its own errors. Blends above the newest value and those below have records of their
own: a GPU that works in short bursts comes back to rest, and leaves it when nobody knows. That a cycle was
found says nothing yet of that. The value that stays is the newest; where that is the mean of a tick, it is
what was read at its end if that was nearer so far. After a step that leaves the blend's interval and does not
come back, persistence is told at once: how good the blend was says nothing of what comes now.
Of the errors the mean root counts, which a few large ones move less than a mean square. The weights are those
of J. M. Bates and C. W. J. Granger 1969 with a higher power. The 5 % and 95 % points follow the share of
misses (adaptive conformal inference, I. Gibbs and E. Candès 2021), and reach no less far than at the next
shorter horizon, of which more errors are known, sooner. While a series has a cycle, forecasters
that know it are blended in, and else the medians of the last minutes. The former begin with the error that
they would have had on the newest samples.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.columns.vectors import copy_into, sorted_known
from streams.operators.trends.holt import COUNT as COUNTED
from streams.operators.trends.holt import (
    FINE,
    FORECASTERS,
    INTERVAL_MS,
    LEVEL,
    NEWEST,
    READ,
    RESET_MS,
    SEEN_MS,
    SLOW_MEAN,
    Holt,
    expect,
    is_known,
    is_measured,
)
from streams.operators.trends.pending import NEVER_MS, PendingForecasts
from streams.operators.trends.season import SEASONS, Season

LINE = FORECASTERS
"""The undamped line through the last minutes, or that of an announced exhaustion; the others are Holt's."""
MEDIANS_OF = (6, 18, 60)
"""Of so many of the newest values, one from each forecast, a median is a forecaster: least in absolute error
where values come from about one distribution, be it of two levels or with rare and large ones. Those that
know a cycle take their place while there is one."""
MEDIANS = slice(LINE + 1, LINE + 1 + len(MEDIANS_OF))
SEASONAL = slice(MEDIANS.stop, MEDIANS.stop + SEASONS)
"""The forecasters that know the cycle."""
MODELS = SEASONAL.stop
STILL, ROOT, COUNT, BELOW, ABOVE, STILL_BELOW, STILL_ABOVE, PERIOD = range(MODELS, MODELS + 8)
"""Rows after the forecasters' mean absolute errors: the mean roots of persistence's errors and of the
blend's, the number of errors seen, how many standard errors the 5 % and 95 % points lie away, the blend's and
persistence's, and the period that is known (s)."""
POINTS = slice(BELOW, PERIOD)
"""The rows of the 5 % and 95 % points."""
SIDES = 2
"""A blend lies below the newest value or above it."""
ROWS = PERIOD + 2 + 3 * SIDES
READ_GAIN = ROWS - 1
"""Row of the mean by which what was read last was nearer than the newest value, where that is a mean."""
COMPARISONS, MOVED, GAIN = range(PERIOD + 1, READ_GAIN, SIDES)
"""Rows, one of each side: how many blends on it were compared with persistence, the mean error of that then,
and by how much it was further off than the blend."""
KEPT = MODELS + 6
BLEND, LOW, HIGH, STILL_LOW, STILL_HIGH, READING = range(MODELS, KEPT)
"""Rows of a kept forecast, all less the value that persistence told then: each forecaster's, their blend, the
5 % and 95 % points that were made of the errors, the blend's and persistence's, and what was read last."""
METHODS = ("persistence", "blend", "exhaustion")
"""How a value is forecast: it stays as it is; the forecasters' blend; on the way to the announced end."""
PERSISTENCE, BLENDED, EXHAUSTION = range(len(METHODS))
MARGIN = 0.08
"""What was read is told to stay, and not the mean of the tick, where it was nearer by more than such a share
of the error. The blend is told where it was better than persistence by more than such a share of that's:
on its side of the newest value, or on both together and not worse on its own;"""
COMPARED, BORROWED = 6.0, 10.0
"""known from so many errors at least, of which those that overlap in time count as one. Those at the next
shorter horizon count as up to so many more: what comes back to its mean within a minute does so in five."""
STEPPED_S = 30.0
"""A series has stepped if its newest value, and those at the forecasts before, one for each such part of the
horizon, lie beyond the blend's interval. One alone is an outlier, which comes back; farther ahead, what lasts
longer does, too."""
NEAR = 4
"""A moment was measured if a tick came within a quarter of the horizon."""
MISS, STEP = 0.04, 0.25
"""Share of values that may lie beyond a point, a little less than 5 %, as what is published is more often
what has changed; and by which share of itself, or of a standard error if that
is more, a miss moves it: so it soon reaches what is rare and large."""
NORMAL_ERROR = 1.2533
"""Standard over mean absolute error of a normal distribution."""
NORMAL_ROOT = 0.8222
"""Mean root of the absolute value of a standard normal variable."""
FIRST_POINT = 1.8
"""Standard errors at which the points begin. The 95 % point of a normal distribution is 1.64, that of a
double exponential one 1.98: errors of real machines are seldom large, and then larger than normal ones."""
FADING, FASTER = 0.04, 1.5
"""Least weight of the newest error in the forecasters' mean errors, and how much faster those of the blend
fade: what was forecast while a model was loaded says nothing of what comes then."""
SIDE_FADING = SIDES * FADING
"""Least weight of the newest error in what is known of one side, which sees half of them."""
ENOUGH = 3
"""Fewest errors that bear a horizon: of the values after two, only two thirds lie in the interval."""
YOUNG = 5
"""A series is forecast no farther than so many times its age."""
SEASONAL_FADING = 0.04
"""The weight for forecasters that know the cycle, whose first error is one in retrospect."""
ANOTHER = 0.05
"""Share by which the period of another cycle differs."""
EARLY_MS = INTERVAL_MS // 10
"""A tick that comes up to so much too soon, by jitter, is the one that was forecast."""
WHOLE = 1.0
"""What values are multiples of, at least, while all of a series were whole numbers, as of a source that
rounds."""
LEAST = 1e-6
"""Share of the largest error below which an error makes no further difference."""


@kernel
def _blended(forecasts: Floats, errors: Floats) -> float:
    """Return the mean of a series' forecasts, each weighed by the inverse eighth power of its error; NaN is
    no forecast."""
    most, least = 0.0, np.inf
    for model in range(MODELS):
        if not np.isnan(forecasts[model]):
            most, least = max(most, errors[model]), min(least, errors[model])
    floor = LEAST * most
    least, value, total = max(least, floor), 0.0, 0.0
    for model in range(MODELS):
        if not np.isnan(forecasts[model]):
            weight = max(errors[model], floor) / least if most > 0 else 1.0
            weight *= weight
            weight *= weight
            weight = 1 / (weight * weight)
            value += weight * forecasts[model]
            total += weight
    return value / total


@kernel
def _learn_points(moved: float, low: float, high: float, points: Floats) -> None:
    """Move the two ``points`` of an interval, in standard errors, by whether a value missed it. One that has
    no width, though its points are not 0, was made before an error was known: to miss it says nothing."""
    if not high > low and points[0] + points[1] > 0:
        return
    points[0] += STEP * max(points[0], 1.0) * ((moved < low) - MISS)
    points[1] += STEP * max(points[1], 1.0) * ((moved > high) - MISS)
    points[0], points[1] = max(points[0], 0.0), max(points[1], 0.0)


@kernel
def _side(blend: float) -> int:
    """Return on which side of the newest value a blend lies that is so much more."""
    return 1 if blend > 0 else 0


@entry(
    "void(int64, int64, int64, float64[::1], float64[:, ::1], float64[::1], float32[:, ::1], float64[:, ::1])"
)
def _learn(
    due_ms: int, within_ms: int, ts_ms: int, values: Floats, holt: Floats, then: Floats,
    kept: npt.NDArray[np.float32], state: Floats,
) -> None:  # fmt: skip
    """Learn the errors of what was ``kept`` for ``due_ms`` beside the values of ``then``, where it was
    forecast and is measured: by the tick at ``ts_ms``, or by that before it, if that came nearer."""
    for column in range(values.size):
        value, off_ms = values[column], float(ts_ms - due_ms)
        if due_ms - holt[SEEN_MS, column] < off_ms or not is_measured(value):
            value, off_ms = holt[READ, column], due_ms - holt[SEEN_MS, column]
        if off_ms > within_ms or np.isnan(kept[BLEND, column]):
            continue
        moved, models, of_it = value - then[column], kept[:, column].astype(np.float64), state[:, column]
        newest, reading = models[0], models[READING]
        if not np.isnan(newest) and newest != reading:
            gain = abs(moved - newest) - abs(moved - reading)
            of_it[READ_GAIN] += (gain - of_it[READ_GAIN]) * max(1 / (1 + of_it[COUNT]), FADING)
        # As wrong as the blend would have been with what is known of the forecasters now.
        blended = _blended(models, of_it)
        of_it[COUNT] += 1
        weight = max(2 / (1 + of_it[COUNT]), FADING)
        for model in range(MODELS):
            if not np.isnan(models[model]):
                error = (abs(moved - models[model]) - of_it[model]) * weight
                if model >= SEASONAL.start:
                    error *= SEASONAL_FADING / weight
                of_it[model] += error
        faster = min(FASTER * weight, 1.0)
        of_it[STILL] += (np.sqrt(abs(moved)) - of_it[STILL]) * faster
        _learn_points(moved, models[STILL_LOW], models[STILL_HIGH], of_it[STILL_BELOW : STILL_ABOVE + 1])
        # A forecast from before the cycle was found, or its end, says nothing of how wrong they are now.
        if np.isnan(models[SEASONAL.start]) == (of_it[PERIOD] > 0):
            continue
        of_it[ROOT] += (np.sqrt(abs(moved - blended)) - of_it[ROOT]) * faster
        # The blend of then is compared: what is known of the forecasters now would have done better.
        if models[BLEND] != 0:
            side, still = _side(models[BLEND]), abs(moved)
            of_it[COMPARISONS + side] += 1
            weight = max(2 / (1 + of_it[COMPARISONS + side]), SIDE_FADING)
            of_it[MOVED + side] += (still - of_it[MOVED + side]) * weight
            of_it[GAIN + side] += (still - abs(moved - models[BLEND]) - of_it[GAIN + side]) * weight
        _learn_points(moved, models[LOW], models[HIGH], of_it[BELOW : ABOVE + 1])


@kernel
def _expected(of_it: Floats) -> float:
    """Return the forecasters' weighted mean error of one series at one horizon."""
    errors = of_it[:MODELS].copy()
    if of_it[PERIOD] > 0:
        errors[MEDIANS] = np.nan
    else:
        errors[SEASONAL] = np.nan
    return _blended(errors, errors)


@entry("Tuple((int64[::1], float64[:, ::1]))(int64[::1], float64[::1], float64[:, :, ::1])")
def _follow(columns: Ints, period_s: Floats, state: Floats) -> tuple[Ints, Floats]:
    """Note the known cycles. The series whose cycle was found, lost or is another, and the errors that were
    expected of them before, shape (horizons, series)."""
    periods = np.zeros(state.shape[2])
    for place, column in enumerate(columns):
        periods[column] = period_s[place]
    changed = np.flatnonzero(np.abs(periods - state[0, PERIOD]) > ANOTHER * periods)
    before = np.empty((len(state), changed.size))
    for row in range(len(state)):
        for place, column in enumerate(changed):
            before[row, place] = _expected(state[row, :, column])
        copy_into(state[row, PERIOD], periods)
    return changed, before


@entry("void(int64[::1], float64[:, ::1], float64[:, :, ::1])")
def _begin(changed: Ints, before: Floats, state: Floats) -> None:
    """Change the mean root of the blends' errors with what is expected of them."""
    for row in range(len(state)):
        for place, column in enumerate(changed):
            of_it = state[row, :, column]
            after, expected = _expected(of_it), before[row, place]
            normal = NORMAL_ROOT * np.sqrt(NORMAL_ERROR * after)
            # What a cycle foretold to the byte had next to no error: its ratio to the others' says nothing.
            others = of_it[ROOT] * (np.sqrt(after / expected) if expected > 0 else 1.0)
            of_it[ROOT] = normal if of_it[PERIOD] > 0 else min(others, max(of_it[ROOT], normal))
            if not of_it[PERIOD] > 0:
                for side in range(SIDES):
                    of_it[GAIN + side] = min(of_it[GAIN + side], of_it[0] - after)


@entry("boolean[:, :, ::1](float64[::1], float64[:, :, ::1])")
def _worth(overlap: Floats, state: Floats) -> Bools:
    """Tell where a blend below the newest value, or above it, is told and not persistence, shape (horizons,
    SIDES, series): by what share of persistence's error the blends on each side, and last on both, were
    better, and from how many errors that is known. Each horizon goes on from the next shorter one."""
    worth = np.zeros((len(state), SIDES, state.shape[2]), np.bool_)
    sums, gained, compared = np.empty((3, SIDES + 1)), np.empty(SIDES + 1), np.empty(SIDES + 1)
    for column in range(state.shape[2]):
        gained[:] = compared[:] = 0.0
        for row in range(len(state)):
            sums[:] = 0.0
            for side in range(SIDES):
                count = min(state[row, COMPARISONS + side, column], 2 / SIDE_FADING)
                for place in (side, SIDES):
                    sums[0, place] += count
                    sums[1, place] += count * state[row, MOVED + side, column]
                    sums[2, place] += count * state[row, GAIN + side, column]
            for place in range(SIDES + 1):
                independent = sums[0, place] / overlap[row]
                gain = sums[2, place] / sums[1, place] if sums[1, place] > 0 else 0.0
                gained[place] = (gain * independent + gained[place] * BORROWED) / (independent + BORROWED)
                compared[place] = independent + min(compared[place], BORROWED)
            both = compared[SIDES] >= COMPARED and gained[SIDES] > MARGIN
            for side in range(SIDES):
                alone = compared[side] >= COMPARED and gained[side] > MARGIN
                worth[row, side, column] = alone or (both and gained[side] >= 0)
    return worth


@kernel
def _spread(overlap: float, root: float, count: float) -> tuple[float, bool]:
    """Return the standard error of what has this mean ``root`` of errors, and whether it is known from enough
    of them."""
    independent = min(count, 2 / (FASTER * FADING)) / overlap
    # Larger, the fewer errors it is known from: times the 95 % point of Student's distribution over that of
    # the normal one, about.
    few, normal = 1 + 1 / (max(independent, 1.0) - 0.7), root / NORMAL_ROOT
    return normal * normal * few, count >= ENOUGH


@kernel
def _points(
    overlap: float,
    worth: Bools,
    announced: bool,
    latest: Floats,
    newest: float,
    of_it: Floats,
    models: Floats,
    reaches: Floats,
) -> tuple[float, float, float, int, bool]:
    """Return value, 5 % and 95 % point of what is told, less the newest value, its place in ``METHODS``, and
    whether enough errors are known. The blend and the points are written to ``models``, to be kept.
    ``worth``: on which sides a blend is told; ``latest``: the newest values, of which the last is the
    ``newest``. ``reaches``, in the order of ``POINTS``: how far intervals reach at the next shorter horizon,
    overwritten by how far at this one, which is no less."""
    models[BLEND] = _blended(models, of_it)
    error, enough = _spread(overlap, of_it[ROOT], of_it[COUNT])
    still, _ = _spread(overlap, of_it[STILL], of_it[COUNT])
    for place, unit in enumerate((error, error, still, still)):
        reaches[place] = max(of_it[BELOW + place] * unit, reaches[place])
    models[LOW], models[HIGH] = models[BLEND] - reaches[0], models[BLEND] + reaches[1]
    models[STILL_LOW], models[STILL_HIGH] = -reaches[2], reaches[3]
    value, low, high, method = 0.0, models[STILL_LOW], models[STILL_HIGH], PERSISTENCE
    better = models[BLEND] != 0 and worth[_side(models[BLEND])]
    if better and not of_it[PERIOD] > 0 and models[HIGH] > models[LOW]:
        # It has stepped where all of the latest values lie beyond the blend's interval on the far side of the
        # slow mean: those of a ramp, which the blend runs ahead of, lie between the two. What was foretold to
        # the byte has no interval to leave.
        beyond, mean = 0, models[SLOW_MEAN]
        for latest_value in latest:
            off = latest_value - newest
            beyond += (off > models[HIGH] and mean < 0) or (off < models[LOW] and mean > 0)
        better = beyond < latest.size
    if announced or better:
        value, low, high = models[BLEND], models[LOW], models[HIGH]
        method = EXHAUSTION if announced else BLENDED
    # No record says two things: the way to the announced end lies within the interval.
    if announced:
        low, high = min(low, models[LINE]), max(high, models[LINE])
    return value, low, high, method, enough


@kernel
def _medians(values: Floats, wanted: bool, medians: Floats) -> None:
    """Write into ``medians`` the median of each number of the newest ``values``, oldest first; NaN is none,
    or not wanted."""
    medians[:] = np.nan
    if not wanted:
        return
    for row, size in enumerate(MEDIANS_OF):
        ordered = sorted_known(values[-size:])
        middle = ordered.size // 2
        if ordered.size:
            medians[row] = (ordered[middle] + ordered[(ordered.size - 1) // 2]) / 2


@kernel
def _within(value: float, lower: float, upper: float) -> float:
    """Return the value clipped to bounds; a NaN bound does not bind, a NaN value stays NaN."""
    if value < lower:
        value = lower
    if value > upper:
        value = upper
    return value


@entry(
    "Tuple((float64[:, :, ::1], float64[:, ::1], float64[:, :, ::1], int64[:, ::1], float64[:, ::1]))(int64,"
    " float64[::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1], float64[:, ::1],"
    " int64[::1], float64[:, :, ::1], boolean[:, :, :], float64[:, :, ::1])"
)
def _forecast(
    now_ms: int, ahead_s: Floats, overlap: Floats, holt: Floats, before: Floats, recent: Floats,
    bounds: Floats, cyclic: Ints, seasonal: Floats, worth: Bools, state: Floats,
) -> tuple[Floats, Floats, Floats, Ints, Floats]:  # fmt: skip
    """See ``Horizons.forecast``; before what that returns, what is to be kept, and the values that
    persistence tells."""
    horizons, n = ahead_s.size, holt.shape[1]
    kept, points = np.full((horizons, KEPT, n), np.nan), np.full((3, horizons, n), np.nan)
    lasts = np.full((horizons, n), np.nan)
    now, methods = np.full((2, n), np.nan), np.zeros((horizons, n), np.int64)
    medians, reaches = np.empty(len(MEDIANS_OF)), np.empty(POINTS.stop - POINTS.start)
    for row, place in np.ndindex(horizons, cyclic.size):
        copy_into(kept[row, SEASONAL, cyclic[place]], seasonal[row, :, place])
    for column in range(n):
        lower, upper = bounds[0, column], bounds[1, column]
        capacity, left_s, resolution = bounds[2, column], bounds[3, column], bounds[4, column]
        unseen_s = (now_ms - holt[SEEN_MS, column]) / 1000
        known, announced = is_known(now_ms, holt[:, column]), np.isfinite(left_s) and np.isfinite(capacity)
        level, slope = recent[0, column], recent[1, column]
        trend, age_s = recent[2, column], recent[3, column]
        resolution = max(resolution, WHOLE) if resolution > 0 and not holt[FINE, column] > 0 else resolution
        if announced:
            level = holt[LEVEL, column]
            slope = trend = (capacity - level) / left_s
        _medians(before[:, column], known and not state[0, PERIOD, column] > 0, medians)
        if known:
            now[0, column], now[1, column] = _within(holt[LEVEL, column], lower, upper), trend
        reaches[:] = 0.0
        for row in range(horizons):
            of_it, models = state[row, :, column], kept[row, :, column]
            if not announced:
                expect(ahead_s[row], unseen_s, holt[:, column], models)
                copy_into(models[MEDIANS], medians)
            models[LINE] = level + slope * ahead_s[row]
            newest = holt[READ if of_it[READ_GAIN] > MARGIN * of_it[0] else NEWEST, column]
            foretold = models[:MODELS]
            foretold -= newest
            models[READING], lasts[row, column] = holt[READ, column] - newest, newest
            if not (known and ahead_s[row] <= YOUNG * age_s and unseen_s <= ahead_s[row]):
                continue
            latest = before[-1 - max(int(np.ceil(ahead_s[row] / STEPPED_S)), 1) :, column]
            value, low, high, method, enough = _points(
                overlap[row], worth[row, :, column], announced, latest, newest, of_it, models, reaches
            )
            if not enough:
                continue
            value, low, high = _within(newest + value, lower, upper), newest + low, newest + high
            if resolution > 0:
                low, high = min(low, value - resolution), max(high, value + resolution)
            methods[row, column], points[0, row, column] = method, value
            points[1, row, column] = _within(low, lower, upper)
            points[2, row, column] = _within(high, lower, upper)
    return kept, lasts, points, methods, now


class Horizons:
    """Keeps forecasts of n series at ``horizons_s`` (ascending), and their errors so far.

    The errors are the rows of ``_state``, shape (horizons, ROWS, n).
    """

    def __init__(self, horizons_s: tuple[float, ...], n: int) -> None:
        self._ahead_s = np.array(horizons_s)
        self._kept = [PendingForecasts(horizon_s, KEPT, n) for horizon_s in horizons_s]
        self._overlap = np.cbrt([forecasts.slots for forecasts in self._kept])
        self._state = np.zeros((len(horizons_s), ROWS, n))
        self._state[:, POINTS] = FIRST_POINT
        self._before = np.full((MEDIANS_OF[-1], n), np.nan)
        """The newest value at each of the last forecasts, oldest first."""
        self._next_ms = NEVER_MS

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._state = remap(self._state, keep, 0.0)
        self._state[:, POINTS, keep < 0] = FIRST_POINT
        self._before = remap(self._before, keep, np.nan)
        for forecasts in self._kept:
            forecasts.resize(keep)

    def _plan(self) -> None:
        """Work out when the next forecast is to be checked."""
        self._next_ms = min((forecasts.next_ms for forecasts in self._kept), default=NEVER_MS)

    def check(self, times: Ints, readings: Floats, holt: Holt) -> int:
        """Measure the errors of the forecasts that were made for the first of these ticks, or for the time
        between that and the last in ``holt``; ``readings`` has shape (ticks, n), NaN is absent. How many
        ticks may be taken before the next has to be checked."""
        if (ts_ms := int(times[0])) + EARLY_MS >= self._next_ms:
            for state, ahead_s, waiting in zip(self._state, self._ahead_s, self._kept, strict=True):
                within_ms = max(2 * INTERVAL_MS, int(1000 * ahead_s) // NEAR)
                while ts_ms + EARLY_MS >= waiting.next_ms:
                    due_ms, then, kept = waiting.take()
                    _learn(due_ms, within_ms, ts_ms, readings[0], holt.state, then, kept, state)
            self._plan()
        if times[-1] + EARLY_MS < self._next_ms:
            return times.size
        return max(int(times.searchsorted(self._next_ms - EARLY_MS)), 1)

    def follow(self, season: Season) -> None:
        """Follow the cycles of ``season`` from now on.

        Where a cycle was found or lost, the interval changes at once, in proportion to the expected error.
        """
        changed, before = _follow(season.columns, season.period_s, self._state)
        if not changed.size:
            return
        self._state[:, SEASONAL, changed] = 0.0
        begun = np.flatnonzero(np.isin(season.columns, changed))
        self._state[:, SEASONAL, season.columns[begun]] = season.errors(begun)
        _begin(changed, before, self._state)

    def forecast(
        self, ts_ms: int, holt: Holt, recent: Floats, bounds: Floats, season: Season
    ) -> tuple[Floats, Ints, Floats]:
        """Return value, 5 % and 95 % points of all columns, shape (3, horizons, n), NaN where the age of the
        series and the errors that were measured do not bear the horizon; how they are forecast, places in
        ``METHODS``, shape (horizons, n); and level and slope, shape (2, n).

        ``recent`` is what ``RecentMeans.read`` says. ``bounds``, shape (5, n): least and largest value,
        capacity, seconds until that is reached, and what the values are multiples of, NaN for none. The
        forecasts are kept until their moment comes.
        """
        worth = _worth(self._overlap, self._state)
        self._before[:-1] = self._before[1:]
        seen = (holt.state[COUNTED] > 0) & (holt.state[SEEN_MS] >= ts_ms - RESET_MS)
        self._before[-1] = np.where(seen, holt.state[READ], np.nan)
        kept, lasts, points, methods, now = _forecast(
            ts_ms, self._ahead_s, self._overlap, holt.state, self._before, recent, bounds, season.columns,
            season.ahead(self._ahead_s), worth, self._state,
        )  # fmt: skip
        for of_it, then, forecasts in zip(kept, lasts, self._kept, strict=True):
            if forecasts.has_room(ts_ms):
                forecasts.put(ts_ms, then, of_it)
        self._plan()
        return points, methods, now

    def path(
        self, ts_ms: int, ahead_s: Floats, holt: Holt, recent: Floats, bounds: Floats, season: Season
    ) -> Floats:
        """Return the same at any other times (ascending), shape (3, times, n): with the interval of the next
        later horizon, or the last. Nothing is kept.

        A forecaster is as wrong as at the worse of the two horizons around: that what is now stays is right
        at each multiple of a period, and wrong in between.
        """
        rows = np.minimum(np.searchsorted(self._ahead_s, ahead_s), self._ahead_s.size - 1)
        earlier = np.where(self._ahead_s[rows] > ahead_s, np.maximum(rows - 1, 0), rows)
        worth, state = _worth(self._overlap, self._state)[rows], self._state[rows]
        state[:, :MODELS] = np.maximum(state[:, :MODELS], self._state[earlier, :MODELS])
        return _forecast(
            ts_ms, ahead_s, self._overlap[rows], holt.state, self._before, recent, bounds, season.columns,
            season.ahead(ahead_s), worth, state,
        )[2]  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        horizons = [
            {**forecasts.snapshot(), "state": pack(state)}
            for state, forecasts in zip(self._state, self._kept, strict=True)
        ]
        return {"before": pack(self._before), "horizons": horizons}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns and horizons."""
        self._before = unpack(plain["before"], "f8", self._before.shape)
        for state, forecasts, of_it in zip(self._state, self._kept, plain["horizons"], strict=True):
            state[:] = unpack(of_it["state"], "f8", state.shape)
            forecasts.restore(of_it)
        self._plan()

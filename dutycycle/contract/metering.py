"""Says how one tick of a GPU counts: its time, how busy it was, and its energy. Pure.

The one definition for the ledger, the series, the report and the screen (docs/decisions/0048). Streams
compile ``mean_of_samples``, ``joules_of_tick`` and ``working_pct`` as they stand here: plain loops over
numbers, in which NaN is absent.
"""

from math import isnan, nan
from typing import Any

from msgspec.structs import replace

from dutycycle.contract.catalogue import ACTIVITY_METRICS
from dutycycle.contract.records.samples import Gpu, NvmlSample

BY_POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})
BY_HEAT = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
"""What holds clocks down, by NVML's names as ``nvml-samples`` have them."""
HELD_DOWN = BY_HEAT | {"hw_slowdown", "hw_power_brake_slowdown"}
"""Of all these reasons, those by which a GPU computes more slowly than it could."""
GAP_MS = 10_000
DRIVER_PERIOD_MS = 1000
"""The longest time that one of the driver's samples is about. Its buffer runs dry while the GPU is idle."""
BUFFER_MS = 10_000
"""The driver's buffer reaches back at least so far. What a longer tick did before that, it does not tell."""


LEAST_DRAWN_W = 1.0
"""With less a GPU may be asleep, and its counter of energy stands still."""
_WORKS = 0.5
"""Of its power limit: no GPU draws as much that does nothing."""
SET_BACK_MS = 300_000
"""A clock that is behind by more than this was set back; by less, a record comes late."""


RESTS_SHARE, BUSY_SHARE = 0.1, 0.15
"""Of its power limit: what a GPU draws at rest, about, and how much more it draws at least while it works at
full utilization. Kernels that spin until others come take less: at a fifth of its power a GPU waits."""
WORKS_SM_SHARE = 0.5
"""Where its multiprocessors are active for so much of the busy time, a GPU works whatever it draws. Few of
them say nothing: it depends on the library how many spin."""


def is_outdated(ts_ms: int, newest_ms: int) -> bool:
    """Tell whether what is said of ``ts_ms`` comes late, after what is said of ``newest_ms``. If it is far
    behind, the clock was set back, and it is the newest."""
    return 0 < newest_ms - ts_ms <= SET_BACK_MS


def heard_ms(ts_ms: int, now_s: float) -> int:
    """Return the moment from which a record gets old that is of ``ts_ms`` and came at ``now_s`` (Unix
    seconds): its own, or now where the clock of its node is ahead."""
    return min(ts_ms, round(now_s * 1000))


def counted_ms(step_ms: int, interval_ms: int) -> int:
    """Return the milliseconds for which a tick counts that comes ``step_ms`` after the one before it."""
    return interval_ms if is_gap(step_ms, interval_ms) else step_ms


def is_gap(step_ms: int, interval_ms: int) -> bool:
    """Tell whether nobody measured in between, or the clock went back."""
    return not 0 < step_ms <= max(3 * interval_ms, GAP_MS)


def mean_of_samples(samples: Any, interval_ms: float, idle_between: bool) -> float:
    """Return the mean of the driver's samples of a tick, each for the time since the one before it.

    ``samples``: at least one pair of (milliseconds from the tick, value), oldest first. The first is about as
    much time as the second: it began in the tick before. ``idle_between``: time that no sample is about is
    idle, as it is for utilization; power goes on as it was.
    """
    total = lasted = idle = 0.0
    low: float = samples[0][1]
    high: float = low
    before = -min(interval_ms, BUFFER_MS)
    for at in range(len(samples)):
        offset_ms, value = samples[at][0], samples[at][1]
        step_ms = offset_ms - before
        idle += max(step_ms - DRIVER_PERIOD_MS, 0)
        if at == 0 and len(samples) > 1 and step_ms < DRIVER_PERIOD_MS:
            step_ms = samples[1][0] - offset_ms
        step_ms = min(max(step_ms, 1), DRIVER_PERIOD_MS)
        total += step_ms * value
        lasted += step_ms
        low, high, before = min(low, value), max(high, value), offset_ms
    # A mean of equal values can miss them by a rounding step; it never lies outside of them.
    mean: float = min(max(total / lasted, low), high)
    return mean * (lasted / (lasted + idle)) if idle_between else mean


def working_pct(busy_pct: float, sm_pct: float, power_w: float, limit_w: float) -> float:
    """Give the part of a tick in which a GPU was busy and worked, in percent: all of ``busy_pct``, or 0 where
    neither power nor the activity of its multiprocessors says that it works. NaN where neither is known."""
    share = power_w / limit_w if limit_w > 0 else nan
    if isnan(busy_pct) or (isnan(share) and isnan(sm_pct)):
        return nan
    draws = share >= RESTS_SHARE + BUSY_SHARE * busy_pct / 100
    return busy_pct if draws or sm_pct >= WORKS_SM_SHARE * busy_pct else 0.0


def joules_of_tick(
    counter_j: float, power_w: float, seconds: float, last_j: float, guessed_j: float, owed_j: float,
    before_j: float, added_j: float,
) -> tuple[float, float, float, float, float, float]:  # fmt: skip
    """Return the energy of a tick that counts for ``seconds``; then what to pass as the last five for the
    next one: NaN, 0, 0, NaN and 0 for the first.

    By the driver's counter: its increase since it was read last, at ``last_j``. While it cannot be read, or
    stands still though power is drawn, power times time; what was guessed so since then counts no second time
    when the counter is back. If that was more than the counter says, so much is owed by its next increases:
    no sum ever goes down. A counter at 0 is not read either: drivers and exporters say so of what they fail
    to read, and its whole value would be the next increase. A step down is a counter that began anew: it says
    nothing of this tick, which adds power times time, and what was guessed before stays. If the next other
    reading is not below ``before_j``, where it was before the step, it is back and never began anew: its
    increase is since then, and ``added_j`` of that counts already.

    The energy is NaN where nothing tells it: without counter and power, and where a counter is read for the
    first time.
    """
    stands_still = counter_j == last_j and power_w > LEAST_DRAWN_W
    if isnan(counter_j) or counter_j == 0 or stands_still:
        joules = power_w * seconds
        guessed_j = guessed_j if isnan(joules) else guessed_j + joules
        return joules, last_j, guessed_j, owed_j, before_j, added_j
    if isnan(last_j):
        return last_j, counter_j, 0.0, owed_j, before_j, 0.0
    if counter_j < last_j:
        joules = 0.0 if isnan(power_w) else power_w * seconds
        before_j = last_j if isnan(before_j) else before_j
        return joules, counter_j, 0.0, owed_j, before_j, added_j + guessed_j + joules
    due_j = counter_j - last_j - guessed_j - owed_j
    if counter_j >= before_j:
        due_j = counter_j - before_j - added_j - guessed_j - owed_j
    if counter_j > last_j:  # else it may come back yet
        before_j, added_j = nan, 0.0
    return max(due_j, 0.0), counter_j, 0.0, max(-due_j, 0.0), before_j, added_j


def with_means(sample: NvmlSample) -> NvmlSample:
    """Return the sample with ``gpu_util_pct`` and ``power_w`` of each GPU as they were over the tick: the
    means of the driver's samples where there are any, instead of its newest value."""
    interval_ms = sample.interval_ms or DRIVER_PERIOD_MS
    gpus = []
    for gpu in sample.gpus:
        util, power = gpu.gpu_util_pct, gpu.power_w
        if gpu.util_burst:
            util = mean_of_samples(gpu.util_burst, interval_ms, True)
        if gpu.power_burst:
            power = mean_of_samples(gpu.power_burst, interval_ms, False)
        gpus.append(replace(gpu, gpu_util_pct=util, power_w=power))
    return replace(sample, gpus=tuple(gpus))


def highest_util_pct(gpu: Gpu) -> float | None:
    """Return the most that the GPU did within the tick, by the driver's samples where there are any, or by
    what the source has beside the mean."""
    if gpu.util_burst:
        return max(value for _, value in gpu.util_burst)
    return gpu.gpu_util_pct if gpu.gpu_util_max_pct is None else gpu.gpu_util_max_pct


def highest_power_w(gpu: Gpu) -> float | None:
    """Return the highest power, in watts, in the same way."""
    return max((value for _, value in gpu.power_burst), default=None) if gpu.power_burst else gpu.power_w


class FalseZeros:
    """Leaves out counters of activity of a source that writes 0 for all of them after some errors, as DCGM
    does until it is started again (NVIDIA/DCGM#303). Its samples are to come in their order.

    A GPU that draws half of its power limit has warps on its multiprocessors, and touches its memory: one of
    the two has to be among the zeros. From then on its zeros tell nothing, also while it draws less, until a
    counter moves.
    """

    def __init__(self) -> None:
        self._distrusted: set[str] = set()

    def drop(self, gpu: Gpu) -> Gpu:
        """Give the GPU without its counters if they are such zeros."""
        activities = [value for name in ACTIVITY_METRICS if (value := getattr(gpu, name)) is not None]
        if any(activities):
            self._distrusted.discard(gpu.uuid)
        if not activities or any(activities) or gpu.gpu_util_pct == 0:  # no kernel ran: these zeros are true
            return gpu
        says_enough = gpu.sm_active_pct is not None or gpu.dram_active_pct is not None
        power_w, limit_w = gpu.power_w, gpu.power_limit_w
        works = power_w is not None and limit_w is not None and power_w >= _WORKS * limit_w
        if says_enough and works:
            self._distrusted.add(gpu.uuid)
        return replace(gpu, **dict.fromkeys(ACTIVITY_METRICS)) if gpu.uuid in self._distrusted else gpu

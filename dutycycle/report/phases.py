"""Tells what a job did when: loading, training, checkpoint, idle. From the GPUs' use, the I/O and the
insights."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from dutycycle.report.gather import Plain
from dutycycle.report.view import View
from dutycycle.traces.frames import Floats, FrameTicks, aligned, mean_of_known

IDLE, LOADING, CHECKPOINT, BUSY, UNMEASURED = "idle", "loading", "checkpoint", "busy", "not measured"
PHASE_COLORS = {
    "idle": "#b9c0cb",
    "loading": "#b78a06",
    "training": "#3b82d6",
    "inference": "#1f9e76",
    "interactive": "#8a6fdf",
    "checkpoint": "#e0712a",
    "busy": "#2aa3b8",
}
"""Of those that have one; on a page they are in its style sheet."""
_BUSY_PCT = 5.0
_SMOOTH_S = 5.0
_PAUSE_S = (5.0, 30.0)
_BYTES_PER_S = 5e6
_TIMES_USUAL = 3.0
_CPU_PCT = 50.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Holds one stretch of time of one name; ``last_ms`` is exclusive."""

    name: str
    first_ms: int
    last_ms: int

    @property
    def seconds(self) -> float:
        """Return how long it is, in seconds."""
        return (self.last_ms - self.first_ms) / 1000


@dataclass(frozen=True, slots=True)
class _Activity:
    """Holds at each step the mean over the GPUs and MIG slices, and what all pods together read, wrote and
    computed."""

    step_ms: int
    util: Floats
    read: Floats
    written: Floats
    cpu: Floats


def phases_of(view: View, insights: Iterable[Plain], period_s: float | None) -> list[Phase]:
    """Return the phases, in order and without a gap. ``period_s``: the shortest cycle, during which a GPU may
    wait without the phase being over. Without a GPU there are none."""
    if not view.gpus:
        return []
    step_ms = max(*(gpu.ticks.step_ms for gpu in view.gpus), 1000)
    machines = [machine.ticks for machine in view.machines if len(machine.ticks.times)]

    def rows(parts: Iterable[FrameTicks], column: str) -> Floats:
        return aligned(parts, column, view.first_ms, view.last_ms, step_ms)

    def summed(name: str) -> Floats:
        column = name if view.pods else name.replace("io_", "disk_")
        return np.asarray(np.nansum(rows(machines, column), axis=0))

    activity = _Activity(
        step_ms, mean_of_known(rows((*(gpu.ticks for gpu in view.gpus), *view.slices), "gpu_util_pct")),
        summed("io_read_bytes_per_s"), summed("io_write_bytes_per_s"), summed("cpu_util_pct"),
    )  # fmt: skip
    steps = step_ms / 1000
    pause = min(max(_PAUSE_S[0], 1.2 * (period_s or 0.0)), _PAUSE_S[1])
    states = _states(activity, max(round(_SMOOTH_S / steps), 1), pause / steps)
    joined: list[Phase] = []
    for phase in _named(states, activity, view.first_ms, insights):
        if joined and joined[-1].name == phase.name:
            joined[-1] = Phase(phase.name, joined[-1].first_ms, phase.last_ms)
        else:
            joined.append(phase)
    if joined:
        joined[-1] = Phase(
            joined[-1].name, joined[-1].first_ms, max(view.last_ms + 1, joined[-1].first_ms + 1)
        )
    return joined


def seconds_by_name(phases: Iterable[Phase]) -> dict[str, tuple[float, int]]:
    """Return of each name how many seconds in all, and how often; the longest first."""
    seconds_of_phase: dict[str, list[float]] = defaultdict(list)
    for phase in phases:
        seconds_of_phase[phase.name].append(phase.seconds)
    return {
        name: (sum(all_), len(all_))
        for name, all_ in sorted(seconds_of_phase.items(), key=lambda x: -sum(x[1]))
    }


def _states(activity: _Activity, smooth: int, least_pause: float) -> list[tuple[str, int, int]]:
    """Stretches of busy, paused and not measured, as (name, first step, step after the last).

    A short pause between busy stretches is a wait within a step, unless much is written in it.
    """
    known = np.isfinite(activity.util)
    window = np.ones(min(smooth, len(known)))  # with a longer one the result would be longer, too
    work = np.convolve(np.where(known, activity.util, 0), window, "same")
    level = work / np.maximum(np.convolve(known, window, "same"), 1)
    busy = level >= _BUSY_PCT
    usual = float(activity.written[busy].mean()) if busy.any() else 0.0
    state = np.where(~known, 2, np.where(busy, 0, 1))
    edges = [0, *(np.flatnonzero(np.diff(state)) + 1).tolist(), len(state)]
    runs = [(int(state[first]), first, last) for first, last in pairwise(edges)]
    joined: list[tuple[str, int, int]] = []
    for place, (value, first, last) in enumerate(runs):
        name = (BUSY, IDLE, UNMEASURED)[value]
        inside = 0 < place < len(runs) - 1 and joined[-1][0] == BUSY
        if inside and last - first < least_pause and not _much(activity.written[first:last], usual):
            name = BUSY
        if joined and joined[-1][0] == name:
            joined[-1] = name, joined[-1][1], last
        else:
            joined.append((name, first, last))
    return joined


def _named(
    states: Sequence[tuple[str, int, int]], activity: _Activity, start_ms: int, insights: Iterable[Plain]
) -> Iterator[Phase]:
    """Name the stretches: a busy one is cut by the kinds that the insights give it, of which the first counts
    from the beginning on."""
    kinds = [
        (insight["since_ms"], insight["kind"])
        for insight in sorted(insights, key=lambda insight: insight["since_ms"])
        if insight["kind"] not in ("unknown", "idle", "loading")
    ]
    busy = [slice(first, last) for name, first, last in states if name == BUSY]
    usual_written, usual_read = (
        float(np.concatenate([rates[where] for where in busy]).mean()) if busy else 0.0
        for rates in (activity.written, activity.read)
    )
    worked = False
    for name, first, last in states:
        from_ms, to_ms = (start_ms + at * activity.step_ms for at in (first, last))
        where = slice(first, last)
        if name == BUSY:
            worked = True
            cuts = [at for at, _ in kinds[1:] if from_ms < at < to_ms]
            for begin, end in zip([from_ms, *cuts], [*cuts, to_ms], strict=True):
                past = [kind for at, kind in kinds if at <= begin]
                yield Phase(past[-1] if past else (kinds[0][1] if kinds else BUSY), begin, end)
            continue
        if name == IDLE:
            if worked and _much(activity.written[where], usual_written):
                name = CHECKPOINT
            elif _much(activity.read[where], usual_read) or (
                not worked and activity.cpu[where].mean() >= _CPU_PCT
            ):
                name = LOADING
        yield Phase(name, from_ms, to_ms)


def _much(rate: Floats, usual: float) -> bool:
    return bool(rate.mean() >= max(_BYTES_PER_S, _TIMES_USUAL * usual))

"""Draws what GPUs do in use: where their time goes, and whether tensor cores or memory are the limit."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from dutycycle.report.charts.chart import GREY, POINTS, Chart, Line, Spots
from dutycycle.report.charts.cycles import FOLD_PERIODS, ShownCycle
from dutycycle.report.view import View
from dutycycle.traces.frames import Buckets, Floats, FrameTicks, aligned, mean_of_known
from dutycycle.words import digits

LAYERS = {
    "tensor cores": 2,
    "SM without tensor cores": 0,
    "in use, SM empty": 5,
    "in use, not told further": 7,
    "idle": GREY,
}
"""What a GPU does, from below, and its color. Each moment is one of these."""
_TENSOR, _SM, _EMPTY, _BUSY, _IDLE = LAYERS
_LEAST_WINDOW_MS = 10_000
_WINDOWS = 60
_PHASES = 24
_FULL_DRAM_PCT, _FULL_TENSOR_PCT = 80.0, 93.0
"""The most that programs reach, by NVIDIA's guide to DCGM's profiling metrics."""


def layers_of(ticks: FrameTicks) -> dict[str, Floats]:
    """Give the percent of each tick's time in each of ``LAYERS``: 100 together, NaN where utilization is not
    known. What counters would tell is "not told further" where they are absent."""
    util, sm, tensor = (ticks[name] for name in ("gpu_util_pct", "sm_active_pct", "tensor_active_pct"))
    # Counters and utilization are not of the very same moment: the part is never larger than the whole.
    on_tensor = np.where(np.isnan(tensor), 0.0, np.minimum(tensor, util))
    has_all = ~np.isnan(sm) & ~np.isnan(tensor)
    on_sm = np.where(has_all, np.maximum(np.minimum(sm, util) - on_tensor, 0.0), 0.0)
    left = util - on_tensor - on_sm
    layers = {
        _TENSOR: on_tensor, _SM: on_sm, _EMPTY: np.where(has_all, left, 0.0),
        _BUSY: np.where(has_all, 0.0, left), _IDLE: 100 - util,
    }  # fmt: skip
    return {name: np.where(np.isnan(util), np.nan, values) for name, values in layers.items()}


def time_chart(view: View) -> Chart | None:
    """Draw where the time of all GPUs and MIG slices goes, one layer upon the other; None where no
    utilization is known."""
    whole, slices = (
        [ticks for ticks in parts if np.isfinite(ticks["gpu_util_pct"]).any()]
        for parts in ([gpu.ticks for gpu in view.gpus], view.slices)
    )
    gpus = [*whole, *slices]
    if not gpus:
        return None
    parts = [replace(ticks, values=layers_of(ticks)) for ticks in gpus]
    step_ms = max(*(ticks.step_ms for ticks in gpus), -(-(view.last_ms - view.first_ms + 1) // POINTS), 1)
    lines = []
    for name, color in LAYERS.items():
        rows = aligned(parts, name, view.first_ms, view.last_ms, step_ms)
        if np.nanmax(rows) == 0:
            continue
        low, high = np.fmin.reduce(rows), np.fmax.reduce(rows)
        points = Buckets(view.first_ms, step_ms, mean_of_known(rows), low, high, exact=len(rows) == 1)
        lines.append(Line(name, "", color, points))
    counted = any(np.isfinite(ticks["tensor_active_pct"]).any() for ticks in gpus)
    note = (
        "By utilization, and the activity of multiprocessors (SM) and tensor cores. In use with empty SM are "
        "copies, and kernels that are too small or too few."
        if counted
        else "By utilization alone: these GPUs do not tell what they do while they are in use."
    )
    what = "GPU" if whole else "MIG slice"
    if len(gpus) > 1:
        note += f" Mean over all {what}s{' and MIG slices' if whole and slices else ''}."
    whose = f"{what}s'" if len(gpus) > 1 else f"{what}'s"
    return Chart("gpu-time", f"Where the {whose} time goes", "%", lines, kind="stack", note=note, most=100)


def plane_chart(view: View, chosen: ShownCycle | None) -> Chart | None:
    """Draw tensor over DRAM activity: a dot for each part of the cycle, or of the run where it has none. None
    where they were not both measured."""
    gpus = [ticks for ticks in (*(gpu.ticks for gpu in view.gpus), *view.slices) if _known(ticks).any()]
    if not gpus:
        return None
    tick_ms = max(*(ticks.step_ms for ticks in gpus), 1)
    of_cycle = [] if chosen is None else [gpu.ticks for gpu in chosen.gpus if _known(gpu.ticks).any()]
    if chosen is None or not of_cycle:
        span_ms = view.last_ms - view.first_ms + 1
        period_ms, from_ms, to_ms = float(span_ms), float(view.first_ms), view.last_ms + 1
        parts = max(min(_WINDOWS, span_ms // max(tick_ms, _LEAST_WINDOW_MS)), 1)
        name, note = f"means of {digits(span_ms / parts / 1000)} s", "The darker a dot, the later."
    else:
        period_ms = 1000 * chosen.period_s
        gpus = of_cycle
        from_ms, to_ms = chosen.from_ms, chosen.to_ms
        parts = min(_PHASES, round(period_ms / tick_ms))
        name = f"parts of the cycle of {digits(period_ms / 1000)} s ({chosen.name})"
        note = f"Means over the last cycles, up to {FOLD_PERIODS}. The darker a dot, the later in the cycle."
    sums, count = np.zeros((2, parts)), np.zeros(parts)
    for ticks in gpus:
        which = _known(ticks) & (ticks.times >= from_ms) & (ticks.times < to_ms)
        place = ((ticks.times[which] - from_ms) % period_ms / period_ms * parts).astype(int)
        count += np.bincount(place, minlength=parts)
        for row, metric in enumerate(("dram_active_pct", "tensor_active_pct")):
            sums[row] += np.bincount(place, weights=ticks[metric][which], minlength=parts)
    x, y = sums[:, count > 0] / count[count > 0]
    note = (
        "To the right memory is the limit, above tensor cores are. Below on the left neither is: kernels are "
        f"small, wait, or compute without tensor cores. {note}"
    )
    return Chart(
        "gpu-plane", "Tensor cores against memory", "%", [], kind="plane", note=note, most=100,
        spots=[Spots(name, x, y)], across="DRAM activity (%)",
        limits=[("tensor cores reach", _FULL_TENSOR_PCT)], limits_across=[("memory reaches", _FULL_DRAM_PCT)],
    )  # fmt: skip


def _known(ticks: FrameTicks) -> npt.NDArray[np.bool_]:
    return np.isfinite(ticks["dram_active_pct"]) & np.isfinite(ticks["tensor_active_pct"])

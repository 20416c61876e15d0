"""Pictures of forecasts: fans on series of several kinds, and memory that runs out."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from bench.generators_trend import HORIZONS_S, Known
from bench.insight.canvas import BLUE, GREY, ORANGE, RED, picture
from bench.insight.tables_forecast import CURVES, EVERY, MOMENTS, OurForecasts, curve, leaking

BACK_S, AHEAD_S = 120, HORIZONS_S[-1]
SHOWN = (len(MOMENTS) // 3, 2 * len(MOMENTS) // 3)
"""Moments whose forecasts are drawn."""
CLEAREST = "SNR 10"
SHOWN_CURVES = (
    "leak", "leak_under_batches", "leak_per_epoch", "warm_up", "cache", "collected", "key_value_cache",
    "model_load", "batches",
)  # fmt: skip


def fans(path: Path, known: list[Known], made: OurForecasts) -> None:
    """Of each kind the first series, at one moment: what was said of the next five minutes, and what came."""
    kinds = list(dict.fromkeys(one.kind for one in known))
    title = "Forecasts made at 0 s for 1, 10, 30 and 300 s: middle and 5-95 % (orange), and what came (grey)"
    with picture(path, title, -(-len(kinds) // 3), 3, (11, 7.5)) as axes:
        for axis, kind in zip(axes, kinds, strict=False):
            places = [place for place, one in enumerate(known) if one.kind == kind]
            place = next((place for place in places if known[place].what == CLEAREST), places[0])
            _fan(axis, known[place], made, place)


def _fan(axis: Axes, one: Known, made: OurForecasts, place: int) -> None:
    at = SHOWN[0]
    now, fan = MOMENTS[at], made.fans[place]
    before, after = np.arange(-BACK_S, 1), np.arange(AHEAD_S + 1)
    axis.plot(before, one.series[now + before], color=BLUE)
    axis.plot(after, one.series[now + after], color=GREY, linewidth=0.7)
    middle = fan.value[:, at]
    reach = np.array([middle - fan.p05[:, at], fan.p95[:, at] - middle])
    axis.errorbar(HORIZONS_S, middle, yerr=np.maximum(reach, 0), fmt="o", color=ORANGE, markersize=3.5,
                  capsize=3, linewidth=1.4, zorder=3)  # fmt: skip
    axis.axvline(0, color=GREY, linewidth=0.6)
    axis.set_title(f"{one.kind}{', ' + one.what if one.what else ''}", loc="left")
    axis.set_xlim(-BACK_S, AHEAD_S + 10)


def memory(path: Path, seed: int) -> None:
    """A leak, and what only looks like one: use, and the moments at which it is said to run out."""
    kinds = [kind for kind in CURVES if kind in SHOWN_CURVES]
    series = np.array([curve(kind, seed) for kind in kinds]).T
    left, fires = leaking(series)
    seconds = np.arange(len(left)) * EVERY
    title = "Memory, %: ours says that it runs out (red), predict_linear over ten minutes says so (orange)"
    with picture(path, title, -(-len(kinds) // 3), 3, (11, 4.5 if len(kinds) <= 6 else 7)) as axes:
        for axis, kind, place in zip(axes, kinds, range(len(kinds)), strict=False):
            axis.plot(np.arange(len(series)), series[:, place], color=BLUE)
            said = ~np.isnan(left[:, place])
            axis.scatter(seconds[said], np.full(said.sum(), 104), s=7, color=RED, marker="s")
            rule = seconds[-len(fires) :][fires[:, place]]
            axis.scatter(rule, np.full(rule.size, 110), s=7, color=ORANGE, marker="s")
            axis.set(ylim=(0, 114), xlabel="s" if place >= len(kinds) - 3 else "")
            axis.set_title(kind, loc="left")

"""Pictures of cycles: what was found, what was missed or made up, and how the peers compare."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from bench.bench_cycle import CycleAnswer
from bench.generators import NAMED_CONTROLS, SHAPES, SNRS
from bench.insight.canvas import BLUE, GREEN, GREY, INK, ORANGE, RED, picture
from bench.insight.tables_cycle import OURS, DetectorScores

SHOWN = 6
"""So many periods of a series are drawn, so that its shape can be seen."""
MOST = 12
"""Failures in a picture."""


def hits(path: Path, said: Sequence[CycleAnswer]) -> None:
    """Of each shape and ratio one answer, with and without a trend by turns."""
    title = "Cycles found: newest samples, and a mark at each period that was detected"
    with picture(path, title, len(SHAPES), len(SNRS), (11, 8)) as axes:
        for place, kind in enumerate(SHAPES):
            for column, snr in enumerate(SNRS):
                fitting = [one for one in said if (one.case.kind, one.case.snr) == (kind, snr)]
                fitting.sort(key=lambda one: one.case.trend, reverse=(place + column) % 2 == 1)
                if fitting:
                    _draw(axes[place * len(SNRS) + column], fitting[0])


def failures(path: Path, said: Sequence[CycleAnswer]) -> int:
    """Everything that went wrong, up to a dozen; says how much there was."""
    wrong = [one for one in said if not one.right]
    wrong.sort(key=lambda one: (one.case.kind, one.case.seed, one.case.snr, one.case.trend))
    chosen = np.unique(np.linspace(0, max(len(wrong) - 1, 0), MOST).astype(np.int64))
    shown = [wrong[place] for place in chosen] if wrong else []
    title = f"Cycles missed, mistaken or made up: {len(shown)} of {len(wrong)} failures in {len(said)} series"
    with picture(
        path, title, -(-max(len(shown), 1) // 3), 3, (11, 2 * -(-max(len(shown), 1) // 3) + 0.5)
    ) as axes:
        for axis, one in zip(axes, shown, strict=False):
            _draw(axis, one)
    return len(wrong)


def _draw(axis: Axes, one: CycleAnswer) -> None:
    series, case = one.case.series(), one.case
    period = one.period or case.period
    shown = series.size if case.period is None or not period else min(round(SHOWN * period), series.size)
    since = np.arange(series.size - shown, series.size)
    axis.plot(since, series[-shown:], color=BLUE, linewidth=0.8)
    color = GREEN if one.right else RED
    if one.period is not None:
        for mark in np.arange(series.size - 1, since[0], -one.period):
            axis.axvline(mark, color=color, linewidth=0.7, alpha=0.7)
    axis.set_xlim(since[0], series.size)
    axis.set_title(f"{_what(one)}\n{_answer(one)}", color=INK if one.right else RED, loc="left")


def _what(one: CycleAnswer) -> str:
    case = one.case
    if case.period is None:
        return f"{case.kind}, no cycle (seed {case.seed})"
    trend = ", trend" if case.trend else ""
    return f"{case.kind} of {case.period:.2f}, SNR {case.snr:g}{trend} (seed {case.seed})"


def _answer(one: CycleAnswer) -> str:
    if one.period is None:
        return "found: nothing"
    return f"found: {one.period:.2f}, confidence {one.confidence:.3f}"


def peers(path: Path, found: dict[str, DetectorScores], seeds: range) -> None:
    """F1 beside false alarms, by detector."""
    names = list(found)[::-1]
    rows = np.arange(len(names))
    with picture(
        path,
        f"Finding cycles: seeds {seeds.start}-{seeds.stop - 1}, the same series for all",
        1,
        2,
        (9, 3.2),
    ) as axes:
        score, alarms = axes
        for shift, part, color in ((0.2, "whole", BLUE), (-0.2, "fractional", ORANGE)):
            values = [found[name].f1(getattr(found[name], part), seeds) for name in names]
            score.barh(rows + shift, values, 0.38, color=color, label=f"{part} periods")
            for row, value in zip(rows.tolist(), values, strict=True):
                score.text(value + 0.01, row + shift, f"{value:.3f}", va="center", fontsize=6.5)
        score.set(title="F1 (1 is best)", xlim=(0, 1.12), xticks=[0, 0.25, 0.5, 0.75, 1])
        score.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
        share = [100 * found[name].alarms(NAMED_CONTROLS) for name in names]
        alarms.barh(rows, share, 0.6, color=[GREEN if name == OURS else GREY for name in names])
        for row, value in zip(rows.tolist(), share, strict=True):
            alarms.text(value + 0.5, row, f"{value:.1f}", va="center", fontsize=6.5)
        alarms.set(title="false alarms, % of series without a cycle", xlim=(0, max(share) * 1.15 + 1))
        score.set_yticks(rows, names)
        alarms.set_yticks(rows, [])

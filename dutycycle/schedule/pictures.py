"""Draws results as a picture: how long jobs waited, and each way against the default, a dot a seed."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dutycycle.report.charts.pictures import new_figure
from dutycycle.schedule.compare import BASE, Result, ratios
from dutycycle.whole_file import whole_file

_PANELS = (("mean_completion_s", "mean completion time", 0.75), ("p95_wait_s", "p95 of waiting", 0.8))
"""Figures, their names, and our goals."""
_LEAST_S = 1.0


def draw(results: Sequence[Result], path: Path) -> None:
    """Write a PNG. Raises ``DutycycleError``."""
    with whole_file(path) as whole, new_figure(figsize=(12, 4), layout="constrained") as figure:
        ways = list(dict.fromkeys(result.way for result in results))
        colours = {way: f"C{place}" for place, way in enumerate(ways)}
        axis = figure.add_subplot(1, 3, 1)
        for way, colour in colours.items():
            waits = np.sort(np.concatenate([result.waits_s for result in results if result.way == way]))
            share = 1 - np.arange(len(waits)) / len(waits)
            axis.plot(np.maximum(waits, _LEAST_S) / 3600, share, color=colour, label=way)
        axis.set(xscale="log", yscale="log", xlabel="hours", title="share of jobs that waited longer")
        axis.legend(fontsize="small")
        for place, (name, title, goal) in enumerate(_PANELS, 2):
            axis = figure.add_subplot(1, 3, place)
            ratios_by_way = ratios(results, name)
            shown = [way for way in ways if way != BASE and way in ratios_by_way]
            for at, way in enumerate(shown):
                values = ratios_by_way[way]
                axis.plot([at] * len(values), values, "o", color=colours[way], alpha=0.5)
                axis.plot([at - 0.25, at + 0.25], [np.mean(values)] * 2, color=colours[way], linewidth=2)
            axis.axhline(1.0, color="0.3", linewidth=1)
            axis.axhline(goal, color="0.3", linewidth=1, linestyle="--")
            axis.set_xticks(range(len(shown)), shown)
            axis.set(title=f"{title}, of the default's", yscale="log")
            axis.set_yticks(
                [0.25, 0.5, goal, 1, 2, 4, 8], ["0.25", "0.5", f"goal {goal}", "1", "2", "4", "8"]
            )
            axis.minorticks_off()
        figure.savefig(whole, dpi=120)

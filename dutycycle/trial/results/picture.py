"""Draws the trials as a picture: a bar a trial, for each figure that is compared."""

from pathlib import Path

from dutycycle.measures.change import SIGMAS
from dutycycle.report.charts.pictures import new_figure
from dutycycle.trial.results.text import number
from dutycycle.trial.results.verdict import TrialVerdict
from dutycycle.whole_file import whole_file

_BEST, _OTHER = "#2a9d8f", "#8d99ae"


def draw(verdict: TrialVerdict, title: str, file: Path) -> None:
    """Write a PNG or SVG, by the ending of its name. Raises ``DutycycleError``."""
    unit = verdict.unit or "step"
    panels = {
        f"{unit}s a second (more is better)": [row.rate for row in verdict.rows],
        f"GPU-seconds a {unit} (less is better)": [row.gpu_s for row in verdict.rows],
        f"joules a {unit} (less is better)": [row.joules for row in verdict.rows],
    }
    height = 1.6 + 0.45 * len(verdict.rows)
    with whole_file(file) as whole, new_figure(figsize=(12, height), layout="constrained") as figure:
        figure.suptitle(title)
        axes = figure.subplots(1, 3, sharey=True)
        places = range(len(verdict.rows))
        for axis, (name, values) in zip(axes, panels.items(), strict=True):
            most = max((value.value for value in values if value is not None), default=1.0)
            for place, row, value in zip(places, verdict.rows, values, strict=True):
                if value is None:
                    axis.text(0.02 * most, place, "not known", va="center", color="gray")
                    continue
                error = None if value.error is None else SIGMAS * value.error
                color = _BEST if row is verdict.best else _OTHER
                axis.barh(place, value.value, xerr=error, color=color, ecolor="black", capsize=3)
                axis.text(0.02 * most, place, number(value.value), va="center", color="white", weight="bold")
            axis.set_title(name, fontsize=10)
            axis.set_xlim(0, 1.25 * most)
            axis.spines[["top", "right"]].set_visible(False)
        axes[0].set_yticks(
            list(places),
            [f"{row.outcome.variant.name}{' (best)' * (row is verdict.best)}" for row in verdict.rows],
        )
        axes[0].set_ylim(len(verdict.rows) - 0.4, -0.6)
        figure.savefig(whole, dpi=120)

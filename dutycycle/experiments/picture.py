"""Draws the errors of all forecasters as bars, a panel for each metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dutycycle.report.charts.pictures import new_figure

_NAMES, _FIGURES = ("run", "forecaster", "metric", "models"), ("error_", "coverage_")
_LEAST, _MOST = 0.01, 10.0
"""Ends of the axis: what is ten times as wrong as persistence is wrong enough."""


def write_picture(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the errors of forecasts, a panel for each metric, into the file ``path``."""
    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    horizons = list(dict.fromkeys(name for row in rows for name in row if name.startswith("error_")))
    # The settings that differ between the rows
    names = (name for name in rows[0] if not name.startswith(_FIGURES) and name not in _NAMES)
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    with new_figure(figsize=(8, 3.2 * len(metrics)), layout="constrained") as figure:
        for place, metric in enumerate(metrics):
            axis = figure.add_subplot(len(metrics), 1, place + 1)
            shown = [row for row in rows if row["metric"] == metric]
            width = 0.8 / len(shown)
            for at, row in enumerate(shown):
                errors = [np.nan if (error := row.get(name)) is None else error for name in horizons]
                left = np.arange(len(horizons)) - 0.4 + (at + 0.5) * width
                label = " ".join([row["forecaster"], *(f"{name}={row[name]}" for name in varied)])
                axis.bar(left, np.clip(errors, _LEAST, _MOST), width * 0.9, label=label)
            axis.axhline(
                1.0, color="0.3", linewidth=1, linestyle="--", label="persistence: what is now stays"
            )
            axis.set(yscale="log", ylim=(_LEAST, _MOST), title=metric, ylabel="error over persistence's")
            axis.yaxis.set_major_formatter("{x:g}")  # the usual labels are formulas
            axis.set_xticks(
                range(len(horizons)), [f"{name.removeprefix('error_')} ahead" for name in horizons]
            )
            axis.legend(fontsize="small", ncols=3, loc="upper center", bbox_to_anchor=(0.5, -0.1))
        figure.savefig(path, dpi=120)

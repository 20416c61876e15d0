"""The scores of all runs: as text on the screen, and as CSV and text in the folder."""

import csv
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dutycycle.experiments.plan import Run
from dutycycle.experiments.scores.forecasts import BUILT_IN
from dutycycle.kubectl.output import aligned

Row = dict[str, Any]
_DIGITS = 4


def write_tables(runs: Sequence[Run], out: str) -> str:
    """Write ``scores.csv``, ``forecasts.csv`` and ``scores.txt``; the text."""
    varied = list(dict.fromkeys(name for run in runs for name in run.given))
    found = [(run, run.finished or {}) for run in runs]
    scores = [_head(run, varied) | _row(done["scores"]) for run, done in found]
    forecasts = [_head(run, varied) | row for run, done in found for row in done["scores"]["forecasts"]]
    folder = Path(out)
    text = ""
    for name, rows in (("scores", scores), ("forecasts", forecasts)):
        _write_csv(folder / f"{name}.csv", rows)
        text += _text(rows) + "\n" if rows else ""
    (folder / "scores.txt").write_text(text, encoding="utf-8")
    return text


def _head(run: Run, varied: Sequence[str]) -> Row:
    return {name: run.given.get(name, "") for name in varied} or {"run": run.name}


def _row(scores: dict[str, Any]) -> Row:
    """One row a run: of the forecasts those of the built-in trends, over all metrics."""
    row: Row = {}
    if (cycles := scores["cycles"]) is not None:
        row |= {
            "cycle_f1": cycles["f1"],
            "cycles_right": f"{cycles['right']}/{cycles['spans']}",
            "false_alarms": cycles["false_alarms"],
            "delay_periods": cycles["delay_periods"],
        }
    ours = [one for one in scores["forecasts"] if one["forecaster"] == BUILT_IN and one["error"] is not None]
    for horizon_s in sorted({one["horizon_s"] for one in ours}):
        of_it = [one for one in ours if one["horizon_s"] == horizon_s]
        row[f"error_{horizon_s:g}s"] = fmean(one["error"] for one in of_it)
        row[f"coverage_{horizon_s:g}s"] = fmean(one["coverage"] for one in of_it)
    windows = scores["windows"]
    return row | {"windows": "equal" if windows["equal"] else "DIFFER"}


def _write_csv(path: Path, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _text(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    numeric = [name for name in names if any(isinstance(row.get(name), int | float) for row in rows)]
    heads = [f"{name}>" if name in numeric else name for name in names]
    return aligned(heads, [[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)

"""Writes the scores of all runs: as text on the screen, as CSV and text in the folder, and the errors of all
forecasters as a picture."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from dutycycle.contract.records.models import BUILT_IN
from dutycycle.experiments.plan import PlannedRun
from dutycycle.whole_file import whole_file, write_csv
from dutycycle.words import aligned

_NAMES, _FIGURES = ("run", "forecaster", "metric", "models"), ("error_", "coverage_")
_LEAST, _MOST = 0.01, 10.0
"""Ends of the axis: what is ten times as wrong as persistence is wrong enough."""
Row = dict[str, Any]
_DIGITS = 4
_OF_HORIZON = frozenset({"horizon_s", "series", "forecasts", "error", "coverage"})


def write_picture(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the errors of forecasts, a panel for each metric, into the file ``path``."""
    from dutycycle.report.charts.pictures import new_figure  # here, not above: few experiments need it

    metrics = list(dict.fromkeys(row["metric"] for row in rows))
    horizons = list(dict.fromkeys(name for row in rows for name in row if name.startswith("error_")))
    # The settings that differ between the rows
    names = (name for name in rows[0] if not name.startswith(_FIGURES) and name not in _NAMES)
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    with new_figure(figsize=(8, 3.2 * len(metrics)), layout="constrained") as figure:
        for number, metric in enumerate(metrics):
            axis = figure.add_subplot(len(metrics), 1, number + 1)
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


def write_tables(runs: Sequence[PlannedRun], out: str) -> str:
    """Write ``scores.csv``, ``forecasts.csv``, ``scores.txt`` and, of models that forecast,
    ``forecasts.png``; the text."""
    varied = list(dict.fromkeys(name for run in runs for name in run.given))
    finished_runs = [(run, run.finished or {}) for run in runs]
    scores = [
        _joined(_head(run, varied), _row(done["scores"], done["noticed"])) for run, done in finished_runs
    ]
    forecasts = [
        _joined(_head(run, varied), row) for run, done in finished_runs for row in done["scores"]["forecasts"]
    ]
    folder = Path(out)
    write_csv(folder / "scores.csv", scores)
    write_csv(folder / "forecasts.csv", forecasts)
    # A row for each forecaster of a metric that a model forecasts, with a column for each horizon.
    metrics = {row["metric"] for row in forecasts if row["forecaster"] != BUILT_IN}
    rows: dict[tuple[Any, ...], Row] = {}
    for row in forecasts:
        if row["metric"] in metrics:
            head = {name: value for name, value in row.items() if name not in _OF_HORIZON}
            row_of_run = rows.setdefault(tuple(head.values()), head)
            row_of_run[f"error_{row['horizon_s']:g}s"] = row["error"]
            if row["coverage"] is not None:
                row_of_run[f"coverage_{row['horizon_s']:g}s"] = row["coverage"]
    compared = list(rows.values())
    text = _text(scores) + ("\n" + _text(compared) if compared else "")
    with whole_file(folder / "scores.txt") as path:
        path.write_text(text, encoding="utf-8")
    if compared:
        with whole_file(folder / "forecasts.png") as path:
            write_picture(compared, path)
    return text


def unmeasured(runs: Sequence[PlannedRun]) -> list[str]:
    """Name each series of the truth that no run has met in the trace: ``<metric> of <subject>``."""
    scored = [(run.finished or {})["scores"]["cycles"] for run in runs]
    return list(
        dict.fromkeys(
            f"{span['metric']} of {span['subject']}"
            for cycles in scored if cycles is not None
            for span in cycles["of_spans"] if span["right"] is None
        )
    )  # fmt: skip


def _joined(head: Row, scores: Row) -> Row:
    """Join a row with what was set and what came of it: a score that is called as a setting gets another
    name."""
    return head | {f"score_{name}" if name in head else name: value for name, value in scores.items()}


def _head(run: PlannedRun, varied: Sequence[str]) -> Row:
    return {name: run.given.get(name, "") for name in varied} or {"run": run.name}


def _row(scores: dict[str, Any], noticed: dict[str, int]) -> Row:
    """Return one row a run: of the forecasts those of the built-in trends, over all metrics."""
    row: Row = {}
    if (cycles := scores["cycles"]) is not None:
        row |= {
            "cycle_f1": cycles["f1"],
            "cycles_right": f"{cycles['right']}/{cycles['spans']}",
            "false_alarms": cycles["false_alarms"],
            "delay_periods": cycles["delay_periods"],
        }
    ours = [
        score
        for score in scores["forecasts"]
        if score["forecaster"] == BUILT_IN and score["error"] is not None
    ]
    for horizon_s in sorted({score["horizon_s"] for score in ours}):
        of_it = [score for score in ours if score["horizon_s"] == horizon_s]
        row[f"error_{horizon_s:g}s"] = fmean(row_of_run["error"] for row_of_run in of_it)
        row[f"coverage_{horizon_s:g}s"] = fmean(row_of_run["coverage"] for row_of_run in of_it)
    windows = scores["windows"]
    happened = ", ".join(f"{count} {name}" for name, count in noticed.items())
    return (
        row
        | {"windows": "equal" if windows["equal"] else "DIFFER"}
        | ({"noticed": happened} if happened else {})
    )


def _text(rows: Sequence[Row]) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    numeric = [name for name in names if any(isinstance(row.get(name), int | float) for row in rows)]
    heads = [f"{name}>" if name in numeric else name for name in names]
    return aligned(heads, [[_cell(row.get(name)) for name in names] for row in rows])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.{_DIGITS}g}" if isinstance(value, float) else str(value)

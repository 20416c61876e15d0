"""Writes the scores of all runs: as text on the screen, and as CSV and text in the folder."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from dutycycle.contract.records.models import BUILT_IN
from dutycycle.experiments.plan import PlannedRun
from dutycycle.whole_file import whole_file, write_csv
from dutycycle.words import aligned

Row = dict[str, Any]
_DIGITS = 4
_OF_HORIZON = frozenset({"horizon_s", "series", "forecasts", "error", "coverage"})


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
        from dutycycle.experiments.picture import write_picture  # here, not above: it takes a second

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

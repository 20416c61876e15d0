"""Makes a table of results for people, and rows of all figures for programs."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from dutycycle.schedule.compare import Result, ratios
from dutycycle.schedule.figures import ScheduleFigures
from dutycycle.schedule.ways import WAYS
from dutycycle.words import rounded_duration

HEADERS = (
    "way", "mean wait>", "p95>", "longest>", "mean completion>", "of default's>", "p95 wait of default's>",
    "makespan>", "split>", "fairness>", "starved>",
)  # fmt: skip


def rows_of(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """Yield a row a way, below ``HEADERS``: means over the seeds; of jobs that starved the sum."""
    completion, waits = ratios(results, "mean_completion_s"), ratios(results, "p95_wait_s")
    for way in dict.fromkeys(result.way for result in results):
        figures = [result.figures for result in results if result.way == way]
        starved = [run.starved for run in figures if run.starved is not None]
        yield (
            way,
            *(rounded_duration(_mean(figures, name)) for name in ("mean_wait_s", "p95_wait_s")),
            rounded_duration(max(run.max_wait_s for run in figures)),
            rounded_duration(_mean(figures, "mean_completion_s")),
            _times(completion.get(way)),
            _times(waits.get(way)),
            rounded_duration(_mean(figures, "makespan_s")),
            f"{_mean(figures, 'split_pct'):.1f} %",
            f"{_mean(figures, 'fairness'):.3f}",
            str(sum(starved)) if starved else "",
        )


def legend(ways: Sequence[str]) -> str:
    """Return a line a way."""
    width = max(len(way) for way in ways)
    return "\n".join(f"{way:{width}}  {WAYS[way][0]}" for way in ways)


def figures_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return a row a seed and way, with all figures by name."""
    return [{"seed": result.seed, "way": result.way, **result.figures.by_name()} for result in results]


def _mean(figures: Sequence[ScheduleFigures], name: str) -> float:
    return float(np.mean([getattr(run, name) for run in figures]))


def _times(values: Sequence[float] | None) -> str:
    return f"{np.mean(values):.2f}x" if values else ""

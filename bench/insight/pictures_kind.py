"""Pictures of how far answers can be trusted: reliability, and which kinds are mistaken for which."""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.bench_kind import KindAnswer
from bench.generators_jobs import KINDS
from bench.insight.canvas import BLUE, GREEN, GREY, ORANGE, picture

EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
FEWEST = 10
"""Fewer answers than this say nothing about a share."""


def confusion(path: Path, answers: Sequence[KindAnswer]) -> None:
    """Truth by row, our answer by column."""
    counts = Counter((one.truth, one.kind) for one in answers)
    table = np.array([[counts[truth, kind] for kind in KINDS] for truth in KINDS])
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    with picture(path, f"Kinds of jobs: {len(answers)} answers, one a minute", 1, 1, (5.4, 4.4)) as axes:
        axis = axes[0]
        axis.imshow(share, cmap="Blues", vmin=0, vmax=1)
        for row, column in np.argwhere(table > 0).tolist():
            dark = share[row, column] > 0.5
            axis.text(column, row, f"{table[row, column]}\n{100 * share[row, column]:.1f} %", ha="center",
                      va="center", fontsize=7, color="white" if dark else "black")  # fmt: skip
        axis.set_xticks(range(len(KINDS)), KINDS, rotation=30)
        axis.set_yticks(range(len(KINDS)), KINDS)
        axis.set(xlabel="our answer", ylabel="truth")


def reliability(path: Path, parts: Mapping[str, Sequence[tuple[float, bool]]]) -> None:
    """Share that was right by confidence; the whiskers are of 95 % (E. B. Wilson 1927)."""
    with picture(path, "Of the answers with a confidence, so many were right", 1, 1, (5, 4.4)) as axes:
        axis = axes[0]
        axis.plot([0.5, 1], [0.5, 1], color=GREY, linestyle="--", linewidth=0.8)
        for (name, pairs), color in zip(parts.items(), (BLUE, ORANGE, GREEN), strict=False):
            points = [_point(pairs, low, high) for low, high in itertools.pairwise(EDGES)]
            known = [one for one in points if one is not None]
            if not known:
                continue
            said, right, low, high = np.array(known).T
            reach = np.maximum([right - low, high - right], 0)
            axis.errorbar(said, right, yerr=reach, fmt="o-", color=color, markersize=3.5, capsize=2,
                          label=f"{name} ({len(pairs)} answers)")  # fmt: skip
        axis.set(xlabel="confidence", ylabel="share right", xlim=(0.48, 1.02), ylim=(0.4, 1.03))
        axis.legend(loc="lower right")


def _point(pairs: Sequence[tuple[float, bool]], low: float, high: float) -> tuple[float, ...] | None:
    part = [(said, right) for said, right in pairs if low <= said < high]
    if len(part) < FEWEST:
        return None
    said, share = np.mean(part, axis=0).tolist()
    n, z = len(part), 1.96
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * np.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return said, share, middle - reach, middle + reach

"""Tables as plain text for people, and the same figures as JSON for programs."""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

Cell = str | float | int | None


def text(cell: Cell) -> str:
    """A cell: three digits for fractions, "-" for what there is none of."""
    if cell is None:
        return "-"
    if isinstance(cell, float):
        return f"{cell:.3f}" if abs(cell) < 10 else f"{cell:.1f}"
    return str(cell)


@dataclass(slots=True)
class TableReport:
    """What was measured so far: ``figures`` by table."""

    figures: dict[str, Any] = field(default_factory=dict)

    def table(self, name: str, title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> None:
        """Print a table, its first column to the left, and keep it."""
        cells = [list(columns), *([text(cell) for cell in row] for row in rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
        print(f"\n{title}")
        for row in cells:
            first, *rest = zip(row, widths, strict=True)
            print("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]))
        self.figures[name] = [dict(zip(columns, row, strict=True)) for row in rows]

    def reliability(
        self, name: str, title: str, pairs: Sequence[tuple[float, bool]], edges: Sequence[float]
    ) -> None:
        """Print which share of answers (a confidence, and whether right) was right, between two ``edges``."""
        rows: list[list[Cell]] = []
        for low, high in itertools.pairwise(edges):
            part = [(confidence, right) for confidence, right in pairs if low <= confidence < high]
            if part:
                mean, share = np.mean(part, axis=0)
                rows.append([f"{low:.2f}-{min(high, 1):.2f}", len(part), float(mean), float(share)])
        title += ": mean confidence and share of right answers"
        self.table(f"{name}_reliability", title, ["confidence", "answers", "mean", "right"], rows)

    def write(self, path: Path) -> None:
        """Write all figures as JSON."""
        path.write_text(json.dumps(self.figures, indent=1, default=float) + "\n")

"""Holds what a report says of a profile that another part reads: reports do without that part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.units import Number, printable_text
from streams.operators.workload.rules.finding import Finding

Cell = str | int | float
_UNITS = {"_pct": " %", "_us": " µs", "_ms": " ms", "_per_s": "/s", "_s": " s"}
TEXTS = frozenset({"Name", "Operation", "Style", "Range", "Family", "Largest Kernel", "What", "For", "GPU"})
"""Columns that are no figures."""


@dataclass(frozen=True, slots=True)
class StatisticsTable:
    """Holds a summary: its rows have one cell a column, largest first."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Cell, ...]]


def cell_text(column: str, cell: Cell) -> str:
    """Return a cell with separators, and the digits that ``nsys stats`` gives it; control characters become
    ``?``."""
    if isinstance(cell, str):
        return printable_text(cell)
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:,.3f}" if "(MB)" in column else f"{cell:,.1f}"


@dataclass(frozen=True, slots=True)
class Profile:
    """Holds all that is said of a profile. ``notes``: what it lacks. ``whole``: not cut off; else there is no
    verdict, as the events of a trace are in no order of time, and those that are missing are of one kind."""

    source: str
    product: str
    notes: list[str]
    gpus: dict[str, dict[str, int]]
    tables: list[StatisticsTable]
    evidence: dict[str, Number]
    finding: Finding
    advice: str | None
    whole: bool

    @classmethod
    def told(cls, record: ProfileVerdict, source: str) -> "Profile":
        """Return a profile with what was published of it."""
        return cls(
            source=source, product=record.product, notes=[], gpus={}, tables=[], whole=True,
            evidence=dict(record.evidence), advice=record.advice,
            finding=Finding(record.bottleneck, record.bottleneck_confidence),
        )  # fmt: skip

    def headline(self) -> str:
        """Return the verdict in one line."""
        word = self.finding.bottleneck
        if not self.whole:
            return "no verdict, since the file is cut off"
        if not self.evidence:
            return "no GPU was traced"
        if word == "none":
            return "nothing holds it back but its demand"
        if word == "unknown":
            return "what holds it back is not known: the GPU waits, and the profile does not say for what"
        return f"held back by: {word.replace('_', ' ')} ({self.finding.confidence:.0%} sure)"

    def figures(self) -> Iterator[tuple[str, str]]:
        """Yield the evidence for people, without what is zero."""
        for name, value in self.evidence.items():
            ending = next((unit for unit in _UNITS if name.endswith(unit)), "")
            if value:
                named = name.removesuffix(ending).replace("_", " ").replace("gpu", "GPU")
                yield named, f"{value:,g}{_UNITS.get(ending, '')}"

    def plain(self) -> dict[str, Any]:
        """Return it as plain objects for JSON. The verdict has the fields of an insight."""
        return {
            "source": self.source,
            "product": self.product,
            "notes": self.notes,
            "whole": self.whole,
            "bottleneck": self.finding.bottleneck,
            "bottleneck_confidence": self.finding.confidence,
            "evidence": self.evidence,
            "advice": self.advice,
            "gpus": self.gpus,
            "tables": {
                table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
                for table in self.tables
            },
        }

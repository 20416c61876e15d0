"""Reads the rows of a file; what is wrong is named and counted, and the rest is used."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import TypeVar

from dutycycle.contract.errors import DutycycleError
from dutycycle.encodings import encoding_of

SHOWN = 5
_HEAD_BYTES = 4096
_Found = TypeVar("_Found")


@dataclass(slots=True)
class Wrong:
    """Counts what could not be used: the first five ``lines`` with place and reason, and how many there are.

    ``passed_over``: rows that are right, and are no job to simulate, such as those that never ran.
    """

    lines: list[str] = field(default_factory=list)
    count: int = 0
    passed_over: int = 0

    def add(self, place: str, reason: object) -> None:
        """Count one more line that is of no use."""
        self.count += 1
        if len(self.lines) < SHOWN:
            self.lines.append(f"{place}: {reason}")


def rows(path: Path, columns: Sequence[str], wrong: Wrong) -> Iterator[tuple[str, Mapping[str, str]]]:
    """Yield the place and the cells of each row of a CSV, by column; with or without a heading.

    Rows end with their line: a quote that is not closed costs its own line, and not all that follow.
    Raises ``DutycycleError`` for a file that cannot be read.
    """
    names = list(columns)
    try:
        with path.open("rb") as binary:
            encoding = encoding_of(binary.read(_HEAD_BYTES))
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            for number, line in enumerate(file, 1):
                try:
                    cells = [cell.strip() for cell in next(csv.reader([line], strict=True))]
                except csv.Error as error:
                    wrong.add(f"{path.name}:{number}", f"no row of CSV: {error}")
                    continue
                if number == 1 and len({cell.lower() for cell in cells}.intersection(columns)) > 1:
                    names = [cell.lower() for cell in cells]
                    if missing := [name for name in columns if name not in names]:
                        raise DutycycleError(f"{path}: no column {', '.join(missing)}")
                elif len(cells) != len(names):
                    wrong.add(f"{path.name}:{number}", f"{len(cells)} values for {len(names)} columns")
                else:
                    yield f"{path.name}:{number}", dict(zip(names, cells, strict=True))
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error


def read(
    path: Path, columns: Sequence[str], make: Callable[[Mapping[str, str]], _Found | None], wrong: Wrong
) -> list[_Found]:
    """Return what ``make`` makes of each row. It raises ``ValueError`` for a wrong row; None: passed over."""
    made = []
    for place, cells in rows(path, columns, wrong):
        try:
            row = make(cells)
        except ValueError as error:
            wrong.add(place, error)
            continue
        if row is None:
            wrong.passed_over += 1
        else:
            made.append(row)
    return made


def number(cells: Mapping[str, str], name: str, *, empty: float | None = None) -> float:
    """Return a finite number, 0 or more. ``empty``: what nothing stands for. Raises ``ValueError``."""
    text = cells[name]
    if not text and empty is not None:
        return empty
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is no number") from None
    if not isfinite(value) or value < 0:
        raise ValueError(f"{name}: {text!r}: expected 0 or more")
    return value

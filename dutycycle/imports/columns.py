"""From the cells of a log to the fields of ``Gpu``."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, NamedTuple, Protocol

_MIB = 1024 * 1024
_TIME = "timestamp"
_heading = re.compile(r"(?P<name>\S+)(?: \[(?P<unit>.+)\])?").fullmatch


class Row(NamedTuple):
    """One GPU at one moment: fields of ``Gpu``, of which ``uuid`` and ``index`` may be absent."""

    ts_ms: int
    fields: dict[str, Any]


class Reader(Protocol):
    """Reads the lines of one file, in order. ``unused``: columns that have no field."""

    unused: tuple[str, ...]

    def row(self, line: str) -> Row | None:
        """The row of a line; None for a line without one. Raises ``ValueError`` for a wrong line."""
        ...


def number(text: str) -> int | float:
    """A finite number, whole where it is written so."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text!r} is no number")
    return int(value) if value.is_integer() else value


def mib(text: str) -> int:
    """Bytes of MiB."""
    return round(number(text) * _MIB)


def words(text: str) -> str:
    """A name."""
    return "".join(one for one in text if one.isprintable())


@dataclass(frozen=True, slots=True)
class Column:
    """The field that a column has, and the unit that may stand behind its values and in its heading."""

    field: str
    unit: str = ""
    read: Callable[[str], Any] = number

    def value(self, cell: str) -> Any:
        """None for what was not measured: ``N/A``, ``[Not Supported]``, ``[Unknown Error]``, nothing."""
        if cell in ("", "N/A") or cell.startswith("["):
            return None
        try:
            return self.read(cell.removesuffix(f" {self.unit}"))
        except (ValueError, OverflowError) as error:
            raise ValueError(f"{cell!r} is no {self.field}") from error


class Places:
    """Which cell has which field. Of two columns for one field that counts which the table has first."""

    def __init__(self, names: Sequence[str], table: Mapping[str, Column]) -> None:
        self._width = len(names)
        self._columns: dict[str, tuple[int, Column]] = {}
        for name, column in table.items():
            if name in names:
                self._columns.setdefault(column.field, (names.index(name), column))
        self.unused = tuple(name for name in names if name not in table and name != _TIME)

    def fields(self, cells: Sequence[str]) -> dict[str, Any]:
        """What was measured. Raises ``ValueError``."""
        if len(cells) != self._width:
            raise ValueError(f"{len(cells)} values for {self._width} columns")
        found = {name: column.value(cells[place]) for name, (place, column) in self._columns.items()}
        return {name: value for name, value in found.items() if value is not None}


class CsvReader:
    """Lines with commas under a heading, which may come again where a log was continued.

    ``heading`` is the one of a log that has none, ``moment`` reads the column ``timestamp``.
    """

    def __init__(
        self, table: Mapping[str, Column], moment: Callable[[str], int], heading: str | None = None
    ) -> None:
        self._table, self._moment = table, moment
        self._places: Places | None = None
        self._time = 0
        self.unused: tuple[str, ...] = ()
        if heading is not None:
            self._read_heading(_cells(heading))

    def row(self, line: str) -> Row | None:
        """The row of a line; None for a heading and a blank line. Raises ``ValueError``."""
        cells = _cells(line)
        if _TIME in cells:
            self._read_heading(cells)
            return None
        if cells == [""]:
            return None
        if self._places is None:
            raise ValueError(f"comes before a heading with the column {_TIME}")
        fields = self._places.fields(cells)
        return Row(self._moment(cells[self._time]), fields)

    def _read_heading(self, cells: list[str]) -> None:
        self._places = None  # what follows a heading that is wrong cannot be read
        found = [_heading(cell) for cell in cells]
        names = [one["name"] if one else cell for one, cell in zip(found, cells, strict=True)]
        if _TIME not in names:
            raise ValueError(f"no column {_TIME}")
        for one in found:
            column = self._table.get(one["name"]) if one else None
            if one and column and one["unit"] not in (None, column.unit):
                raise ValueError(f"{one[0]}: expected {column.unit or 'no unit'}")
        self._places, self._time = Places(names, self._table), names.index(_TIME)
        self.unused = self._places.unused


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(",")]

"""Reads logs of JSON: objects line by line, one after another, or in an array, also of those that a cut-off
file has; and columns of values, as pandas writes a table.

Each object becomes a line of its own with names and values, in which a name has the names above it before it:
``system.gpu.0.gpu``, as Weights & Biases writes it. An object with a list of GPUs becomes one line a GPU.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from dutycycle.imports.csv_log import CsvReader
from dutycycle.imports.quantities import Row
from dutycycle.imports.spellings import read_meaning

_decoder = json.JSONDecoder(strict=False)  # a name of a process may have any character
_NO_JSON = (ValueError, RecursionError)
_VALUE = re.compile(r"[^\s,\[\]]")
_NEXT = re.compile(r"\n\s*(?=\{)")
_LIST_OF_GPUS = re.compile(r"gpus?|devices?|cards?", re.IGNORECASE).fullmatch
_IDENTITY = ("index", "uuid")
is_json = re.compile(r'[\[{]\s*($|[{"\]}])').match
"""Tells whether a log that begins with this line is of JSON."""


def flat_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Give a line for each GPU of each object: its names and values. What is no JSON stays as it is.

    Objects on a line of their own are read one by one; of all else the whole log is held.
    """
    whole = _joined(lines)
    number, first = next(whole)
    try:
        value = _decoder.decode(first)
    except _NO_JSON:
        yield from _of_text("".join(chain([first], (line for _, line in whole))), number)
        return
    yield from _of_value(value, number)
    for number, line in whole:
        try:
            value = _decoder.decode(line)
        except _NO_JSON:
            yield number, line
            continue
        yield from _of_value(value, number)


def _joined(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Give lines that a limit has cut in one piece."""
    text, begun = "", 0
    for number, line in lines:
        begun = begun if text else number
        text += line
        if line.endswith("\n"):
            if not text.isspace():
                yield begun, text
            text = ""
    if text:
        yield begun, text


def _of_text(text: str, number: int) -> Iterator[tuple[int, str]]:
    at = counted = 0
    while begin := _VALUE.search(text, at):
        at = begin.start()
        number += text.count("\n", counted, at)
        counted = at
        try:
            value, end = _decoder.raw_decode(text, at)
        except _NO_JSON:
            yield number, text[at:].partition("\n")[0] + "\n"
            following = _NEXT.search(text, at)
            at = following.end() if following else len(text)
            continue
        yield from _of_value(value, number)
        at = end


def _of_value(value: Any, number: int) -> Iterator[tuple[int, str]]:
    if isinstance(value, list):
        for part in value:
            yield from _of_value(part, number)
        return
    for record in _records(value):
        yield number, json.dumps(record) + "\n"


def _records(value: Any) -> Iterator[Any]:
    """Give flat objects; what is none as it is."""
    if not isinstance(value, dict):
        yield value
    elif (columns := _columns(value)) is not None:
        names = list(value)
        for row in zip(*columns, strict=True):
            yield from _records(dict(zip(names, row, strict=True)))
    else:
        flat, lists = dict[str, Any](), dict[str, list[Any]]()
        _flatten("", value, flat, lists)
        gpus = [lists.pop(name) for name in list(lists) if _LIST_OF_GPUS(name.rpartition(".")[2])]
        flat |= dict.fromkeys(lists)  # their names are told as those of what is not used
        if not gpus:
            yield flat
        for place, member in chain.from_iterable(map(enumerate, gpus)):
            of_gpu, inner_lists = dict[str, Any](), dict[str, list[Any]]()
            _flatten("", member, of_gpu, inner_lists)
            if not any((meaning := read_meaning(name)) and meaning.field in _IDENTITY for name in of_gpu):
                of_gpu["index"] = of_gpu.pop("id", place)
            yield flat | of_gpu | dict.fromkeys(inner_lists)


def _columns(value: Mapping[str, Any]) -> list[list[Any]] | None:
    """Give the columns of a table that was written column by column, by the number of each row or without it;
    None for any other object."""
    parts = list(value.values())
    rows = [*parts[0]] if parts and isinstance(parts[0], dict) else []
    is_numbered = all(isinstance(part, dict) and [*part] == rows for part in parts) and all(
        key.isdecimal() for key in rows
    )
    columns = [list(part.values()) for part in parts] if rows and is_numbered else parts
    are_rows = columns and all(
        isinstance(column, list) and len(column) == len(columns[0]) > 1
        and not any(isinstance(cell, dict) for cell in column)
        for column in columns
    )  # fmt: skip
    return columns if are_rows else None


def _flatten(name: str, value: Any, flat: dict[str, Any], lists: dict[str, list[Any]]) -> None:
    if isinstance(value, dict):
        for inner, part in value.items():
            _flatten(f"{name}.{inner}" if name else inner, part, flat, lists)
    elif isinstance(value, list) and value and all(isinstance(part, dict) for part in value):
        lists[name] = value
    else:
        flat[name] = value


class JsonReader:
    """Reads such lines by the reader of tables, whose columns are the ``names`` of all lines."""

    def __init__(self, table: CsvReader, names: Mapping[str, None] | None = None) -> None:
        self.notes = table.notes
        self.names = dict(names or {})
        self._table = table
        self._has_heading = False

    def note_names(self, line: str) -> None:
        """Take the names of a line; a line that is wrong has none."""
        try:
            self.names |= dict.fromkeys(_record(line))
        except ValueError:  # whoever reads it says so
            return

    def note_shares(self, line: str) -> None:
        """Let the percentages of a line tell whether they are shares of 1."""
        try:
            self._read_heading()
            self._table.note_shares(self._cells(line))
        except ValueError:
            return

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line. Raises ``ValueError``."""
        if not line.strip():
            return []
        self._read_heading()
        return self._table.read_cells(self._cells(line))

    def _read_heading(self) -> None:
        if not self._has_heading:
            self._table.read_heading(list(self.names), ",")
            self._has_heading = True

    def _cells(self, line: str) -> list[str]:
        record = _record(line)
        return [_text(record.get(name)) for name in self.names]


def _record(line: str) -> Mapping[str, Any]:
    """Read a line. Raises ``ValueError``, also for what is no object."""
    try:
        record = json.loads(line)
    except _NO_JSON as error:
        raise ValueError(f"is no JSON: {error}") from error
    if isinstance(record, dict):
        return record
    raise ValueError(f"is no object of JSON: {line.strip()[:60]}")


def _text(value: Any) -> str:
    return "" if value is None else value.strip() if isinstance(value, str) else json.dumps(value)

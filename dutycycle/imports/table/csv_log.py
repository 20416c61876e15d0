"""Reads logs of lines of values under a heading: of nvidia-smi, and of scripts around it and around NVML."""

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutycycle.contract.units import NAME_PATTERN
from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import HELD_COUNTERS, HeldShares, Row, complete, read_cells
from dutycycle.imports.table.heading import (
    ColumnChoice,
    Heading,
    HeadingReader,
    WholeLog,
    split_cells,
    with_usual_widths,
)

_IDENTITY = ("node", "uuid", "index", "pid")
_COMMA = re.compile(r"(?<=\d),(?=\d)")
"""In a time: before the parts of its second."""
_PARTED = re.compile(r"\d['’\s]\d{3}(?!\d)").search
"""A line in which a number may have its thousands parted by a space or an apostrophe."""
_MOST_MOMENTS = 10_000
_LEAST_DOUBLES = 3
_IS_A_NAME = re.compile(r"[A-Za-z].*|\d+(?:\.\d+){3}(?::\d+)?").fullmatch
_IS_A_NUMBER = re.compile(r"\d\d?").fullmatch
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass
class _RowsApart:
    """Finds a column that is not used, and whose names, or small numbers, set rows of one GPU and moment
    apart: they are of several machines, or slices, perhaps. ``columns``: those that are not used, by their
    place."""

    columns: Mapping[int, str] = field(default_factory=dict)
    _cells: dict[Hashable, Sequence[str]] = field(default_factory=dict)
    _names: dict[int, list[str]] = field(default_factory=dict)
    """By column, of the rows that are such: both names."""

    def begin(self, columns: Mapping[int, str]) -> None:
        """Begin below another heading."""
        self.columns = columns
        self._cells.clear()
        self._names = {position: [] for position in columns}

    def take(self, row: Hashable, cells: Sequence[str], *, is_of_gpu: bool) -> str | None:
        """Take a row, of the GPU and moment that ``row`` is; return what there is to say, once.

        ``is_of_gpu``: the row says of which GPU it is.
        """
        if not self._names or len(self._cells) >= _MOST_MOMENTS:
            return None
        before = self._cells.setdefault(row, cells)
        if before is cells:
            return None
        for position, names in list(self._names.items()):
            cell = cells[position]
            if before[position] == cell or not (_IS_A_NAME(cell) or _IS_A_NUMBER(cell)):
                del self._names[position]
            else:
                names += [before[position], cells[position]]
        recurring = [
            position for position, names in self._names.items()
            if len(names) >= 2 * _LEAST_DOUBLES and _recur(names)
        ]  # fmt: skip
        if not recurring:
            return None
        self._names.clear()
        name, cell = self.columns[recurring[0]], cells[recurring[0]]
        if not is_of_gpu:
            return (
                f"rows of one moment have another {name}, which is not used: if it tells the GPU, give "
                f"--columns index={name}, and if it is the machine, node={name}"
            )
        what = "it is the machine, give --columns node"
        if cell.startswith(("GPU-", "MIG-")):
            what = "it tells the GPU, or its slice, give --columns uuid"
        return (
            f"rows of one GPU and moment have another {name}, which is not used: they count as one GPU; if "
            f"{what}={name}"
        )


def _recur(names: Sequence[str]) -> bool:
    """Tell whether pairs of names come again: of what each row has another, such as a text, none does, and of
    figures not each time the same ones."""
    if not all(map(str.isdecimal, names)):
        return len(set(names)) < len(names)
    pairs = list(zip(names[::2], names[1::2], strict=True))
    return len(set(names[::2])) == 1 and 2 * len(set(pairs)) <= len(pairs)


@dataclass
class _TimeAbove:
    """Holds a time that stands on a line of its own, and which GPUs and processes had a row below it."""

    text: str
    _subjects: set[Hashable] = field(default_factory=set)

    def take(self, subject: Hashable) -> None:
        """Take a row. Raises ``ValueError`` for one that was written later: a loop writes all of its rows
        below the time at which it began."""
        if subject in self._subjects:
            raise ValueError(
                f"a GPU comes again below one time, {self.text}, so when is not known: have each row written "
                "with its time, or take the lines of times out and give --start and --interval"
            )
        self._subjects.add(subject)


class CsvReader:
    """Reads lines with commas, semicolons, tabs, bars or spaces under a heading, which may come again.

    Full-width digits, signs and commas are as the others.
    Columns that no spelling knows, or with a unit that their quantity does not have, are left out and noted.
    A name with a number, ``gpu0_util``, is of that GPU: one line then has several rows. Without a column of
    time it is that which stands above a row on a line of its own, else those of ``ticks``. ``whole``: as
    ``look_through`` has found it.
    """

    def __init__(
        self, clock: Clock, ticks: Ticks, choice: ColumnChoice | None = None,
        whole: WholeLog | None = None,
    ) -> None:  # fmt: skip
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        whole = whole or WholeLog()
        self._headings = HeadingReader(self.notes, choice, whole, has_start=ticks.has_start)
        self._decimal = whole.decimal
        # One alone, with --start beside it, is when the log began.
        self._has_moments = whole.moments > ticks.has_start
        if self._decimal.remark:
            self.notes.remarks[self._decimal.remark] = None
        self._held = HeldShares()
        self._apart = _RowsApart()
        self._heading: Heading | None = None
        self._above: _TimeAbove | None = None
        if choice and choice.heading is not None:
            self.read_heading(split_cells(choice.heading, ","))

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line; none for a heading and a blank line. Raises ``ValueError``."""
        if not line.strip():
            return []
        line = with_usual_widths(line)
        names, delimiter = self._headings.find(line, self._heading)
        if names is not None:
            self.read_heading(names, delimiter)
            return []
        heading = self._current_heading()
        cells = heading.split_row(line)
        if len(cells) != heading.width:
            raise ValueError(f"{len(cells)} values for {heading.width} columns")
        if heading.delimiter != "," or '"' in line or self._decimal.mark == "," or _PARTED(line):
            return self.read_cells(cells)
        # No cell has a mark that has to be written otherwise, as in most lines.
        return self._read_cells(heading, cells)

    def is_heading(self, line: str) -> bool:
        """Tell whether lines of values may follow."""
        return self._headings.find(with_usual_widths(line), self._heading)[0] is not None

    @property
    def has_heading(self) -> bool:
        """Tell whether rows of values can be read."""
        return self._heading is not None

    def begin_moment(self, text: str) -> None:
        """Take a time that stands above rows, on a line of its own."""
        if self._has_moments:
            self._above = _TimeAbove(text)

    def read_heading(self, names: Sequence[str], delimiter: str = ",") -> None:
        """Take the names of the columns of what follows, which cannot be read if they are wrong.

        Raises ``ValueError`` where none is known.
        """
        self._heading = None
        self._heading = self._headings.read(names, delimiter)
        self._apart.begin(self._heading.unused)

    def read_cells(self, cells: Sequence[str]) -> list[Row]:
        """Give the rows of a line's cells, below a heading. Raises ``ValueError``."""
        heading = self._current_heading()
        rewritten = [
            self._decimal.rewrite(cell) if position in heading.amounts else _COMMA.sub(".", cell)
            for position, cell in enumerate(cells)
        ]
        return self._read_cells(heading, rewritten)

    def _current_heading(self) -> Heading:
        if self._heading is not None:
            return self._heading
        if self.notes.columns:
            raise ValueError("stands below a heading that cannot be read")
        raise ValueError(
            "comes before a heading with columns such as timestamp, utilization.gpu [%]: for a log that "
            "has none, give --columns"
        )

    def _read_cells(self, heading: Heading, cells: Sequence[str]) -> list[Row]:
        known = [(column, cells[position]) for _, position, column in heading.figures]
        fields_of_gpus: dict[int | None, dict[str, Any]] = {gpu: {} for gpu in heading.columns}
        for (gpu, _, column), value in zip(heading.figures, read_cells(known, self.notes), strict=True):
            fields_of_gpus[gpu][column.field] = value
        shared = fields_of_gpus.pop(None, {})
        ts_ms = self._read_time(heading, cells, shared, is_of_gpus=bool(fields_of_gpus))
        machine, node = shared.pop("node", None), None
        if machine is not None:
            # Such as ``10.0.0.1:9400`` or ``Server 1``.
            node = _NOT_IN_NAMES.sub("-", machine).strip("._-")
            if not re.fullmatch(NAME_PATTERN, node):
                raise ValueError(f"{machine!r} cannot name a node: give --node")
            self.notes.nodes.add(node)
        if fields_of_gpus:
            rows = [
                {"model": shared.get("model"), **fields, "index": gpu}
                for gpu, fields in fields_of_gpus.items()
                if any(value is not None for value in fields.values())
            ]
        else:
            _check_identity(heading, shared, cells)
            rows = [shared]
        subject = tuple(shared.get(name) for name in ("uuid", "index", "pid"))
        is_of_gpu = bool(fields_of_gpus) or subject != (None, None, None)
        if remark := self._apart.take((ts_ms, node, subject), cells, is_of_gpu=is_of_gpu):
            self.notes.remarks[remark] = None
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
        for row in rows:
            complete(row)
            gpu_on_node = f"{node} {row.get('uuid', row.get('index'))}"
            for name in HELD_COUNTERS.keys() & row.keys():
                # A counter of what held the clocks down becomes a share of the time.
                share = self._held.share_pct(gpu_on_node, name, 1000 * row.pop(name), ts_ms)
                if share is not None:
                    row[HELD_COUNTERS[name]] = share
        return [Row(ts_ms, row, node) for row in rows]

    def _read_time(
        self, heading: Heading, cells: Sequence[str], shared: dict[str, Any], *, is_of_gpus: bool
    ) -> int:
        """Give the milliseconds of a row, from its ``shared`` fields; the day is taken from them.

        ``is_of_gpus``: its columns name the GPUs. Raises ``ValueError``.
        """
        day = shared.pop("date", None)
        subject = tuple(shared.get(name) for name in _IDENTITY)
        if "time" in heading.shared:
            position, column = heading.shared["time"]
            text = cells[position] if day is None else f"{day} {cells[position]}"
            return self._clock.read_ms(text, column.unit, subject)
        if self._above is None:
            return self._ticks.next_ms(shared.get("uuid", shared.get("index")))
        if is_of_gpus or subject != (None,) * len(subject):
            self._above.take(subject)
        return self._clock.read_ms(self._above.text)


def _check_identity(heading: Heading, fields: Mapping[str, object], cells: Sequence[str]) -> None:
    """Refuse a row that has the columns that tell its GPU, or its process, and nothing in them."""
    for names, what in ((("index", "uuid"), "GPU"), (("pid",), "process")):
        values = [fields[name] for name in names if name in fields]
        if values and all(value is None for value in values):
            columns = [heading.shared[name] for name in names if name in heading.shared]
            known_names = ", ".join(f"{column.name} {cells[position]!r}" for position, column in columns)
            raise ValueError(f"is of no known {what}: {known_names}")

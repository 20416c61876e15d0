"""Reads logs of lines of values under a heading: of nvidia-smi, and of scripts around it and around NVML."""

import csv
import re
import shlex
import unicodedata
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from dutycycle.contract.units import NAME_PATTERN
from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import (
    HELD_COUNTERS,
    TEXTS,
    Column,
    HeldShares,
    Row,
    complete,
    is_measured,
    read_cells,
    read_words,
)
from dutycycle.imports.spellings import (
    KEYS,
    DecimalMark,
    Meaning,
    is_share_of_memory,
    may_be_share_of_memory,
    read_gpu_number,
    read_meaning,
    split_unit,
)
from dutycycle.words import listed

_LONGEST_NAME = 60
MOST_NAMES = 20
"""Of a table's columns in a message."""
_OF_NO_GPU = 100
"""Beside ``gpu_usage``, ``usage`` is of something else."""
_NO_FIGURES = frozenset({"time", "date", "node", "uuid", "index", "model", "pid", "process_name"})
_IDENTITY = ("node", "uuid", "index", "pid")
_DELIMITERS = (",", ";", "\t", "|", "、")
_SPACES = " "
_ROUNDED_PCT, _SOME_MEMORY = 0.51, 0.02
_COMMA = re.compile(r"(?<=\d),(?=\d)")
"""In a time: before the parts of its second."""
_TIME_BEFORE_PARTS = re.compile(r".*\d\d:\d\d:\d\d").fullmatch
_PARTS_OF_SECOND = re.compile(r"(?:\d{3}|\d{6})\]?").fullmatch
_PARTED = re.compile(r"\d['’\s]\d{3}(?!\d)").search
"""A line in which a number may have its thousands parted by a space or an apostrophe."""
_BEGINS_LIKE_A_NUMBER = re.compile(r"[-+.]?\d").match
_NAMES_A_RUN = re.compile(r" - (?:system[./]|_[a-z])").search
_MOST_MOMENTS = 10_000
_LEAST_DOUBLES = 3
_IS_A_NAME = re.compile(r"[A-Za-z].*|\d+(?:\.\d+){3}(?::\d+)?").fullmatch
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_NO_TIME = "no column of time: name it (--columns time=NAME,…), or give --start, when the log begins"


@dataclass(frozen=True, slots=True)
class ColumnChoice:
    """Holds what ``--columns`` says: the heading of a log that has none, or which column is which field.

    ``heading`` is absent where the log has its own. ``names``: the column of each key, which may come again
    for another GPU.
    """

    heading: str | None = None
    names: Sequence[tuple[str, str]] = ()


def read_column_choice(text: str) -> ColumnChoice:
    """Read ``timestamp,index,…`` or ``util=NAME,power=NAME[W],…``. Raises ``ValueError``."""
    cells = _split(text, ",")
    if not any("=" in cell for cell in cells):
        return ColumnChoice(heading=text)
    names: list[tuple[str, str]] = []
    for cell in cells:
        key, equals, name = (part.strip() for part in cell.partition("="))
        if not equals or not name:
            raise ValueError(f"{cell!r}: expected KEY=NAME, as in util=gpu_load,power=draw[W]")
        if key not in KEYS and key not in KEYS.values():
            raise ValueError(f"{key!r} is no key: expected one of {', '.join(KEYS)}")
        if (key, read_gpu_number(name)) in [(other, read_gpu_number(column)) for other, column in names]:
            raise ValueError(f"{key} is given twice: a column of another GPU has its number in its name")
        names.append((key, name))
    return ColumnChoice(names=names)


@dataclass
class WholeLog:
    """Holds what all lines of a log tell together, found before its values are read.

    ``shares``: columns of percentages that are shares of 1. ``of_memory``: columns such as ``mem_util`` that
    are the memory in use, as the amounts beside them tell. ``names``: of the values of a log of JSON.
    """

    decimal: DecimalMark = field(default_factory=DecimalMark)
    shares: Set[str] = frozenset()
    of_memory: Set[str] = frozenset()
    names: Mapping[str, None] = field(default_factory=dict)


@dataclass
class _MemoryShare:
    """Compares a column with the share of memory in use beside it: ``differs`` in some row; ``is_seen`` to be
    the same where it is no 0."""

    differs: bool = False
    is_seen: bool = False

    def compare(self, value: float | None, used: float | None, total: float | None) -> None:
        """Take a row. Either may be rounded to whole percent."""
        if value is None or used is None or not total:
            return
        share = used / total
        is_same = abs(value - 100 * share) <= _ROUNDED_PCT or abs(value - share) <= _ROUNDED_PCT / 100
        self.differs = self.differs or not is_same
        self.is_seen = self.is_seen or (is_same and share >= _SOME_MEMORY)


@dataclass
class _RowsApart:
    """Finds a column that is not used, and whose names set rows of one GPU and moment apart: they are of
    several machines, perhaps. ``columns``: those that are not used, by their place."""

    columns: dict[int, str] = field(default_factory=dict)
    _cells: dict[Hashable, Sequence[str]] = field(default_factory=dict)
    _names: dict[int, list[str]] = field(default_factory=dict)
    """By column, of the rows that are such: both names."""

    def begin(self, columns: dict[int, str]) -> None:
        """Begin below another heading."""
        self.columns = columns
        self._cells.clear()
        self._names = {position: [] for position in columns}

    def take(self, row: Hashable, cells: Sequence[str]) -> str | None:
        """Take a row, of the GPU and moment that ``row`` is; return what there is to say, once."""
        if not self._names or len(self._cells) >= _MOST_MOMENTS:
            return None
        before = self._cells.setdefault(row, cells)
        if before is cells:
            return None
        for position, names in list(self._names.items()):
            if before[position] == cells[position] or not _IS_A_NAME(cells[position]):
                del self._names[position]
            else:
                names += [before[position], cells[position]]
        # Of what each row has another, such as a text, no name comes again.
        recurring = [
            position for position, names in self._names.items()
            if len(names) >= 2 * _LEAST_DOUBLES and len(set(names)) < len(names)
        ]  # fmt: skip
        if not recurring:
            return None
        self._names.clear()
        name = self.columns[recurring[0]]
        return (
            f"rows of one GPU and moment have another {name}, which is not used: they count as one GPU; if "
            f"it is the machine, give --columns node={name}"
        )


class CsvReader:
    """Reads lines with commas, semicolons, tabs, bars or spaces under a heading, which may come again.

    Full-width digits, signs and commas are as the others.
    Columns that no spelling knows, or with a unit that their quantity does not have, are left out and noted.
    A name with a number, ``gpu0_util``, is of that GPU: one line then has several rows. Without a column of
    time the times are those of ``ticks``. ``whole``: as ``look_through`` has found it.
    """

    def __init__(
        self, clock: Clock, ticks: Ticks, choice: ColumnChoice | None = None,
        whole: WholeLog | None = None,
    ) -> None:  # fmt: skip
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        self._names = choice.names if choice else ()
        self._delimiter: str | None = None
        self._width = 0
        self._whole = whole or WholeLog()
        self._decimal = self._whole.decimal
        if self._decimal.remark:
            self.notes.remarks[self._decimal.remark] = None
        self._amounts: set[int] = set()
        self._held = HeldShares()
        self._apart = _RowsApart()
        self._doubtful: list[tuple[int, Column]] = []
        self._memory_shares: dict[str, _MemoryShare] = {}
        self._columns: dict[int | None, list[tuple[int, Column]]] = {}
        self._figures: list[tuple[int | None, int, Column]] = []
        if choice and choice.heading is not None:
            cells = _split(choice.heading, ",")
            self.read_heading(cells, ",")

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line; none for a heading and a blank line. Raises ``ValueError``."""
        if not line.strip():
            return []
        line = _halved(line)
        heading, delimiter = self._find_heading(line)
        if heading is not None:
            self.read_heading(heading, delimiter)
            return []
        if not self._columns:
            if self.notes.columns:
                raise ValueError("stands below a heading that cannot be read")
            raise ValueError(
                "comes before a heading with columns such as timestamp, utilization.gpu [%]: for a log that "
                "has none, give --columns"
            )
        cells = self._split_row(line)
        if len(cells) != self._width:
            raise ValueError(f"{len(cells)} values for {self._width} columns")
        if self._delimiter != "," or '"' in line or self._decimal.mark == "," or _PARTED(line):
            return self.read_cells(cells)
        # No cell has a mark that has to be written otherwise, as in most lines.
        return self._read_cells(cells)

    def read_cells(self, cells: Sequence[str]) -> list[Row]:
        """Give the rows of a line's cells, below a heading. Raises ``ValueError``."""
        return self._read_cells(
            [
                self._decimal.rewrite(cell) if position in self._amounts else _COMMA.sub(".", cell)
                for position, cell in enumerate(cells)
            ]
        )

    def note_amounts(self, line: str) -> None:
        """Let the amounts of a line tell what ``find_whole`` gives; a line that is wrong has none."""
        is_plain = self._delimiter == "," and line[:1].isdigit() and line.isascii() and '"' not in line
        if is_plain and not self._doubtful and not self._memory_shares:
            return  # no heading, and no amount with a comma: most lines
        line = _halved(line)
        heading, delimiter = self._find_heading(line)
        if heading is not None:
            try:
                self.read_heading(heading, delimiter)
            except ValueError:  # whoever reads it says so
                return
        elif self._columns:
            cells = self._split_row(line)
            if len(cells) != self._width:
                return
            if not is_plain:
                for position in self._amounts:
                    self._decimal.note_amount(cells[position])
            self.note_shares([cell.replace(",", ".") for cell in cells])

    def note_shares(self, cells: Sequence[str]) -> None:
        """Let the percentages of a line's cells tell whether they are shares, and of what."""
        for position, column in self._doubtful:
            _read_or_none(column, cells[position])
        if not self._memory_shares:
            return
        shared = dict(self._columns_by_field(None))
        for gpu in self._columns:
            of_gpu = shared | self._columns_by_field(gpu)
            copy = of_gpu.get("mem_copy_util_pct")
            if copy is not None and copy[1].name in self._memory_shares:
                value, used, total = (
                    _read_or_none(of_gpu[name][1], cells[of_gpu[name][0]]) if name in of_gpu else None
                    for name in ("mem_copy_util_pct", "mem_used_bytes", "mem_total_bytes")
                )
                self._memory_shares[copy[1].name].compare(value, used, total)

    def _columns_by_field(self, gpu: int | None) -> dict[str, tuple[int, Column]]:
        return {column.field: (position, column) for position, column in self._columns.get(gpu, ())}

    def find_whole(self) -> WholeLog:
        """Give what the lines that were noted tell."""
        of_memory = {
            name for name, share in self._memory_shares.items() if share.is_seen and not share.differs
        }
        return WholeLog(self._decimal, self.notes.shares_of_one(), of_memory)

    @property
    def delimiter(self) -> str | None:
        """Return what stands between the values; None before a heading was read."""
        return self._delimiter

    def is_heading(self, line: str) -> bool:
        """Tell whether lines of values may follow."""
        return self._find_heading(_halved(line))[0] is not None

    def _find_heading(self, line: str) -> tuple[list[str] | None, str]:
        """Find the cells of a heading: a line without a number that names what is known.

        The first line of names counts in any case: that it names nothing known is said in the end. A single
        name between rows of several values is a word of another program.
        """
        best: tuple[int, list[str], str] = (0, [], ",")
        if _is_like_a_number(line.lstrip(' "')):
            return None, ","
        for delimiter in _DELIMITERS:
            cells = _split(line, delimiter)
            if any(map(_is_like_a_number, cells)) or not any(map(is_measured, cells)):
                continue
            known = sum(
                any(name in (cell, split_unit(cell)[0]) for _, name in self._names)
                or read_meaning(cell) is not None
                for cell in cells
            )  # fmt: skip
            if known > best[0] or (known == best[0] and len(cells) > len(best[1])):
                best = (known, cells, delimiter)
        known, cells, delimiter = best
        if len(cells) == 1 and not self._columns:
            words = line.split()  # a sentence has words that mean nothing here, a heading has not
            if len(words) > 1 and all(read_meaning(word) is not None for word in words):
                return words, _SPACES
        if (known and (len(cells) > 1 or self._width < 2)) or (not self.notes.columns and len(cells) > 1):
            return cells, delimiter
        return None, delimiter

    def read_heading(self, cells: list[str], delimiter: str) -> None:
        """Take the names of the columns. Raises ``ValueError`` where none is known."""
        self._columns = {}  # what follows a heading that is wrong cannot be read
        self._delimiter, self._width = delimiter, len(cells)
        self.notes.columns = tuple(read_words(cell)[:_LONGEST_NAME] for cell in cells if cell)
        chosen = self._chosen(cells)
        meanings = self._find_meanings(cells, chosen)
        if not meanings:
            names = listed(self.notes.columns, MOST_NAMES)
            raise ValueError(
                f"no column is known of {names}: say which is which: --columns time=NAME,util=NAME"
            )
        if not self._ticks.has_start and not {"time", "date"} & {
            meaning.field for meaning in meanings.values()
        }:
            raise ValueError(f"{_NO_TIME}; there are {listed(self.notes.columns, MOST_NAMES)}")
        columns: dict[int | None, dict[str, tuple[int, int, Column]]] = {}
        for position, meaning in meanings.items():
            of_gpu = columns.setdefault(meaning.gpu, {})
            rank = meaning.rank + (0 if meaning.names_gpu else _OF_NO_GPU)
            if meaning.field in of_gpu and of_gpu[meaning.field][0] <= rank:
                continue
            try:
                column = Column(cells[position], meaning.field, meaning.unit, self.notes)
            except ValueError as error:
                reason = f"{cells[position]}: {error}"
                if position in chosen:
                    raise ValueError(reason) from error
                self.notes.remarks[f"{reason}: the column is left out"] = None
                continue
            of_gpu[meaning.field] = (rank, position, column)
        if "date" in columns.get(None, {}) and "time" not in columns[None]:
            rank, position, column = columns[None].pop("date")
            columns[None]["time"] = rank, position, Column(column.name, "time", None, self.notes)
        self.notes.figures = tuple(
            column.name for of_gpu in columns.values() for field, (_, _, column) in of_gpu.items()
            if field not in _NO_FIGURES
        )  # fmt: skip
        for of_gpu in columns.values():
            known = of_gpu.keys() | columns.get(None, {}).keys()
            if "mem_used_pct" in of_gpu and not known & {"mem_used_bytes", "mem_total_bytes"}:
                name = of_gpu["mem_used_pct"][2].name
                remark = (
                    f"{name}: a share of the memory, of which no column tells how much there is: not used"
                )
                self.notes.remarks[remark] = None
        used = {position for of_gpu in columns.values() for _, position, _ in of_gpu.values()}
        self.notes.unused = tuple(
            split_unit(cell)[0] for position, cell in enumerate(cells) if position not in used and cell
        )
        self._apart.begin({
            position: split_unit(cell)[0] for position, cell in enumerate(cells)
            if position not in used and cell and columns.keys() == {None}
        })  # fmt: skip
        self._columns = {
            gpu: [(position, column) for _, position, column in of_gpu.values()]
            for gpu, of_gpu in columns.items()
        }
        self._figures = [
            (gpu, position, column) for gpu, of_gpu in self._columns.items() for position, column in of_gpu
            if column.field != "time"
        ]  # fmt: skip
        every = [column for of_gpu in self._columns.values() for column in of_gpu]
        self._doubtful = [
            (position, column) for position, column in every
            if column.unit is None and column.field.endswith("_pct")
        ]  # fmt: skip
        self._memory_shares = {
            column.name: self._memory_shares.get(column.name, _MemoryShare())
            for position, column in every
            if column.field == "mem_copy_util_pct" and position not in chosen
            and may_be_share_of_memory(column.name)
        }  # fmt: skip
        self._amounts = {
            position for of_gpu in self._columns.values() for position, column in of_gpu
            if column.field not in TEXTS
        }  # fmt: skip

    def _as_share(self, name: str, meaning: Meaning) -> Meaning:
        """Give the meaning of a column that no choice names, as its values tell it."""
        if meaning.field == "mem_copy_util_pct" and (
            is_share_of_memory(name) or name in self._whole.of_memory
        ):
            meaning = replace(meaning, field="mem_used_pct")
        if meaning.unit is None and name in self._whole.shares:
            remark = (
                f"{name} has no unit and no value above 1, and is taken for a share of 1: if it is in "
                f"percent, give it: --columns {meaning.field}={name}[%]"
            )
            self.notes.remarks[remark] = None
            meaning = replace(meaning, unit="ratio")
        return meaning

    def _find_meanings(self, cells: list[str], by_position: Mapping[int, Meaning]) -> dict[int, Meaning]:
        """Find what each column means: as it was chosen, else by its name and what the whole log tells."""
        meanings = dict(by_position)
        chosen = {meaning.field for meaning in meanings.values()}
        for position, cell in enumerate(cells):
            # Of GPUtil ``id`` is the GPU's number, elsewhere as often the row's.
            meaning = read_meaning("gpu_id" if cell == "id" and "memoryUtil" in cells else cell)
            if position not in meanings and meaning is not None and meaning.field not in chosen:
                meanings[position] = self._as_share(cell, meaning)
        _keep_one_run(cells, meanings, {meaning.run for meaning in by_position.values()} - {None})
        memory = {at: meaning for at, meaning in meanings.items() if meaning.field.startswith("mem_")}
        if any(meaning.names_gpu and meaning.field != "mem_copy_util_pct" for meaning in memory.values()):
            for (
                position,
                meaning,
            ) in memory.items():  # beside ``gpu_memory`` plain ``memory`` is the machine's
                if not meaning.names_gpu and meaning.field not in chosen:
                    del meanings[position]
        return meanings

    def _chosen(self, cells: list[str]) -> dict[int, Meaning]:
        """Find the columns that ``--columns`` names, in full or without their unit."""
        meanings: dict[int, Meaning] = {}
        for key, name in self._names:
            bare, unit = split_unit(name)
            names = [cell if cell in (name, bare) else split_unit(cell)[0] for cell in cells]
            wanted = name if name in names else bare
            if wanted not in names:
                raise ValueError(
                    f"--columns {key}={name}: no such column: there are {listed(cells, MOST_NAMES)}"
                )
            position = names.index(wanted)
            own = read_meaning(cells[position])
            unit = unit or split_unit(cells[position])[1] or (own.unit if own else None)
            run = own.run if own else None
            meanings[position] = Meaning(KEYS.get(key, key), unit, read_gpu_number(name), run=run)
        return meanings

    def _read_cells(self, cells: Sequence[str]) -> list[Row]:
        known = [(column, cells[position]) for _, position, column in self._figures]
        fields_of_gpus: dict[int | None, dict[str, Any]] = {gpu: {} for gpu in self._columns}
        for (gpu, _, column), value in zip(self._figures, read_cells(known, self.notes), strict=True):
            fields_of_gpus[gpu][column.field] = value
        shared = fields_of_gpus.pop(None, {})
        ts_ms = self._read_time(cells, shared)
        node = shared.pop("node", None)
        if node is not None:
            node = _name_of(node)
            self.notes.nodes.add(node)
        if fields_of_gpus:
            rows = [
                {"model": shared.get("model"), **fields, "index": gpu}
                for gpu, fields in fields_of_gpus.items()
                if any(value is not None for value in fields.values())
            ]
        else:
            self._check_identity(shared, cells)
            rows = [shared]
            subject = tuple(shared.get(name) for name in ("uuid", "index", "pid"))
            if remark := self._apart.take((ts_ms, node, subject), cells):
                self.notes.remarks[remark] = None
        rows = [{name: value for name, value in row.items() if value is not None} for row in rows]
        for row in rows:
            complete(row)
            self._take_held_shares(row, node, ts_ms)
        return [Row(ts_ms, row, node) for row in rows]

    def _take_held_shares(self, row: dict[str, Any], node: str | None, ts_ms: int) -> None:
        """Put shares of the time in place of the counters of what held the clocks down."""
        gpu = f"{node} {row.get('uuid', row.get('index'))}"
        for name in HELD_COUNTERS.keys() & row.keys():
            share = self._held.share_pct(gpu, name, 1000 * row.pop(name), ts_ms)
            if share is not None:
                row[HELD_COUNTERS[name]] = share

    def _split_row(self, line: str) -> list[str]:
        """Give the cells of a row; of another number than columns where it is wrong."""
        delimiter = self._delimiter or ","
        cells = _split(line, delimiter)
        while len(cells) > self._width and not cells[-1]:  # a script ends each line with a delimiter
            cells.pop()
        if len(cells) > self._width:
            cells = self._with_parts_of_seconds(cells)
        if len(cells) > self._width and delimiter != _SPACES and '"' not in line:
            cells = self._with_whole_text(cells, line.split(delimiter))
        return cells

    def _with_whole_text(self, cells: list[str], raw: list[str]) -> list[str]:
        """Join a text that was cut at its commas: nvidia-smi quotes neither ``process_name`` nor ``name``.

        ``raw``: the cells with the spaces around them. A comma before decimals is none of a text: without a
        space where the others have one it stands in the text, and no number may follow any other.
        """
        columns = self._columns_by_field(None)
        place = columns.get("process_name", columns.get("model"))
        surplus = len(cells) - self._width
        if place is None or len(raw) != len(cells):
            return cells
        at = place[0]
        end = at + surplus + 1
        tight = {position for position in range(1, len(raw)) if not raw[position].startswith(" ")}
        inside = set(range(at + 1, end))
        is_apart = len(tight) < len(raw) - 1 and tight <= inside
        if any(_is_like_a_number(cells[position]) for position in inside - (tight if is_apart else set())):
            return cells
        joined = [*cells[:at], (self._delimiter or ",").join(raw[at:end]).strip(), *cells[end:]]
        figures = [joined[position] for position in self._amounts if position > at]
        is_whole = all(_is_like_a_number(cell) or not is_measured(cell) for cell in figures)
        return joined if is_whole else cells

    def _with_parts_of_seconds(self, cells: list[str]) -> list[str]:
        """Join a time that was cut at its comma, as Python's logging writes it: ``10:00:00,412``."""
        times = [position for position, column in self._columns.get(None, ()) if column.field == "time"]
        for position in times:
            time, parts = cells[position : position + 2]
            if _TIME_BEFORE_PARTS(time) and _PARTS_OF_SECOND(parts):
                return [*cells[:position], f"{time}.{parts}", *cells[position + 2 :]]
        return cells

    def _check_identity(self, fields: Mapping[str, object], cells: Sequence[str]) -> None:
        """Refuse a row that has the columns that tell its GPU, or its process, and nothing in them."""
        for names, what in ((("uuid", "index"), "GPU"), (("pid",), "process")):
            values = [fields[name] for name in names if name in fields]
            if values and all(value is None for value in values):
                known_names = ", ".join(
                    f"{column.name} {cells[position]!r}"
                    for position, column in self._columns[None] if column.field in names
                )  # fmt: skip
                raise ValueError(f"is of no known {what}: {known_names}")

    def _read_time(self, cells: Sequence[str], shared: dict[str, object]) -> int:
        day = shared.pop("date", None)
        for position, column in self._columns.get(None, ()):
            if column.field == "time":
                text = cells[position] if day is None else f"{day} {cells[position]}"
                subject = tuple(shared.get(name) for name in _IDENTITY)
                return self._clock.read_ms(text, column.unit, subject)
        return self._ticks.next_ms(shared.get("uuid", shared.get("index")))


def _read_or_none(column: Column, cell: str) -> float | None:
    """Return the amount of a cell; None for one that is wrong, which whoever reads it says."""
    try:
        value: float | None = column.read_value(cell)
    except ValueError:
        return None
    return value


def _name_of(machine: str) -> str:
    """Give the name of a node for what a column calls a machine, such as ``10.0.0.1:9400`` or ``Server 1``.
    Raises ``ValueError``."""
    node = _NOT_IN_NAMES.sub("-", machine).strip("._-")
    if not re.fullmatch(NAME_PATTERN, node):
        raise ValueError(f"{machine!r} cannot name a node: give --node")
    return node


def _keep_one_run(cells: Sequence[str], meanings: dict[int, Meaning], chosen: Set[str | None]) -> None:
    """Take the columns of other runs of W&B than were ``chosen`` from ``meanings``: GPU 0 of each is another.

    Raises ``ValueError`` where there are several and none was chosen.
    """
    runs = sorted({meaning.run for meaning in meanings.values() if meaning.run is not None})
    if len(runs) > 1 and not chosen:
        of_first = [(at, meaning) for at, meaning in meanings.items() if meaning.run == runs[0]]
        of_first.sort(key=lambda column: -column[1].rank)  # so that of two for one field the better is left
        columns = {(meaning.field, meaning.gpu): at for at, meaning in of_first}
        keys = {field: key for key, field in reversed(KEYS.items())}
        names = [
            f"{keys[field]}={cells[at]}" for (field, _), at in sorted(columns.items(), key=itemgetter(1))
        ]
        line = ",".join(f'"{name}"' if "," in name else name for name in names)
        raise ValueError(
            f"its columns are of {len(runs)} runs, {', '.join(runs)}: choose those of one, as in --columns "
            f"{shlex.quote(line)}"
        )
    for at in [at for at, meaning in meanings.items() if meaning.run not in (None, *(chosen or runs))]:
        del meanings[at]


def _is_like_a_number(cell: str) -> bool:
    """Tell whether it is a number: a name such as ``7b-sft - system/gpu.0.gpu`` is none."""
    return _BEGINS_LIKE_A_NUMBER(cell) is not None and _NAMES_A_RUN(cell) is None


def _halved(line: str) -> str:
    """Give a line with the usual forms of full-width characters."""
    return line if line.isascii() else unicodedata.normalize("NFKC", line)


def _split(line: str, delimiter: str) -> list[str]:
    if delimiter == _SPACES:
        return line.split()
    if '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
    return [cell.strip() for cell in line.split(delimiter)]

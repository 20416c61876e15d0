"""Reads the heading of a table: which column is which field, in which unit, and of which GPU."""

import csv
import re
import shlex
import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import itemgetter

from dutycycle.imports.moments import EPOCH
from dutycycle.imports.quantities import TEXTS, Column, Notes, is_measured, read_words
from dutycycle.imports.table.spellings import (
    KEYS,
    RANK_OF_EPOCH,
    RUNS_OF_WANDB,
    DecimalMark,
    Meaning,
    is_share_of_memory,
    match_wandb,
    may_be_share_of_memory,
    read_gpu_number,
    read_meaning,
    split_unit,
)
from dutycycle.words import listed

MOST_NAMES = 20
"""Of a table's columns in a message."""
_LONGEST_NAME = 60
_OF_NO_GPU = 100
"""Beside ``gpu_usage``, ``usage`` is of something else."""
_NO_FIGURES = frozenset({"time", "date", "node", "uuid", "index", "model", "pid", "process_name"})
_SUBJECTS = frozenset({"index", "uuid", "pid"})
_PARTS_OF_MEMORY = {
    "mem_used_pct": "a share of", "mem_free_bytes": "a part of", "mem_reserved_bytes": "a part of",
}  # fmt: skip
_DELIMITERS = (",", ";", "\t", "|", "、")
_SPACES = " "
_TIME_BEFORE_PARTS = re.compile(r".*\d\d:\d\d:\d\d").fullmatch
_PARTS_OF_SECOND = re.compile(r"\d{3}(?:\d{3}){0,2}(?:\]|Z|[-+]\d\d:?\d\d)?").fullmatch
_COMMENT = re.compile(r"#+\s*(?:\w+: )?")
"""What may stand before a heading: ``# ``, ``# Fields: ``."""
_BEGINS_LIKE_A_NUMBER = re.compile(r"[-+.]?\d").match
_NAMES_A_RUN = re.compile(r" - (?:system[./]|_[a-z])").search
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
    cells = split_cells(text, ",")
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
    are the memory in use, as the amounts beside them tell. ``loads``: columns ``GPU`` that are the
    utilization, with their unit. ``epochs``: columns that are times since 1970, and no epochs of a
    training. ``names``: of the values of a log of JSON. ``moments``: how many lines that are a time and
    no more stand above the rows of that time.
    """

    decimal: DecimalMark = field(default_factory=DecimalMark)
    shares: Set[str] = frozenset()
    of_memory: Set[str] = frozenset()
    loads: Mapping[str, str] = field(default_factory=dict)
    epochs: Set[str] = frozenset()
    names: Mapping[str, None] = field(default_factory=dict)
    moments: int = 0


@dataclass(frozen=True)
class Heading:
    """Holds the columns of a table, each with its place in a row.

    ``columns``: by the GPU that their names tell; those without one, at None, are of the row's GPU, or of all
    that the others name. ``unused``: names by their place. ``chosen``: the places that ``--columns`` names.
    """

    delimiter: str
    width: int
    columns: Mapping[int | None, Mapping[str, tuple[int, Column]]]
    unused: Mapping[int, str]
    chosen: Set[int]

    @property
    def shared(self) -> Mapping[str, tuple[int, Column]]:
        """Return the columns whose names tell no GPU, by their field."""
        return self.columns.get(None, {})

    @cached_property
    def figures(self) -> Sequence[tuple[int | None, int, Column]]:
        """Return all columns but that of time: their GPU, place and column."""
        return [
            (gpu, position, column)
            for gpu, of_gpu in self.columns.items() for position, column in of_gpu.values()
            if column.field != "time"
        ]  # fmt: skip

    @cached_property
    def amounts(self) -> Set[int]:
        """Return the places of the columns with numbers, but of time."""
        return {position for _, position, column in self.figures if column.field not in TEXTS}

    @cached_property
    def bare_percentages(self) -> Sequence[tuple[int, Column]]:
        """Return the columns of percentages without a unit, which may be shares of 1."""
        return [
            (position, column) for _, position, column in self.figures
            if column.unit is None and column.field.endswith("_pct")
        ]  # fmt: skip

    @cached_property
    def unused_epochs(self) -> Mapping[int, str]:
        """Return the columns that are the time if their values are since 1970, by their place."""
        return {
            position: name for position, name in self.unused.items()
            if (meaning := read_meaning(name)) is not None and meaning.unit == EPOCH
        }  # fmt: skip

    @cached_property
    def possible_load(self) -> tuple[int, Column] | None:
        """Return the column ``GPU`` where it may be the utilization, which no other column tells."""
        column = self.shared.get("index")
        has_load = any("gpu_util_pct" in of_gpu for of_gpu in self.columns.values())
        if column is None or has_load or column[0] in self.chosen or column[1].name.lower() != "gpu":
            return None
        return column

    @cached_property
    def tells_subject(self) -> bool:
        """Return whether rows say which GPU, or process, they are of."""
        return self.columns.keys() != {None} or not _SUBJECTS.isdisjoint(self.shared)

    @cached_property
    def shares_of_memory(self) -> Sequence[Mapping[str, tuple[int, Column]]]:
        """Return the columns of each GPU with one such as ``mem_util``, which may be the memory in use."""
        return [
            of_gpu for of_gpu in ({**self.shared, **of_gpu} for of_gpu in self.columns.values())
            if "mem_copy_util_pct" in of_gpu and of_gpu["mem_copy_util_pct"][0] not in self.chosen
            and may_be_share_of_memory(of_gpu["mem_copy_util_pct"][1].name)
        ]  # fmt: skip

    def split_row(self, line: str) -> list[str]:
        """Give the cells of a row; of another number than columns where it is wrong."""
        cells = split_cells(line, self.delimiter)
        while len(cells) > self.width and not cells[-1]:  # a script ends each line with a delimiter
            cells.pop()
        if len(cells) > self.width and "time" in self.shared:
            # A time may be cut at its comma, as Python's logging and ``date --iso-8601=ns`` write it.
            position = self.shared["time"][0]
            time, parts = cells[position : position + 2]
            if _TIME_BEFORE_PARTS(time) and _PARTS_OF_SECOND(parts):
                cells[position : position + 2] = [f"{time}.{parts}"]
        if len(cells) <= self.width or self.delimiter == _SPACES or '"' in line:
            return cells
        # A text may be cut at its commas: nvidia-smi quotes neither ``process_name`` nor ``name``. A comma
        # before decimals is none of a text: without a space where the others have one it stands in the text,
        # and no number may follow any other.
        text, raw = self.shared.get("process_name", self.shared.get("model")), line.split(self.delimiter)
        if text is None or len(raw) != len(cells):
            return cells
        begin = text[0]
        end = begin + len(cells) - self.width + 1
        tight = {position for position in range(1, len(raw)) if not raw[position].startswith(" ")}
        inside = set(range(begin + 1, end))
        is_apart = len(tight) < len(raw) - 1 and tight <= inside
        if any(is_like_a_number(cells[position]) for position in inside - (tight if is_apart else set())):
            return cells
        joined = [*cells[:begin], self.delimiter.join(raw[begin:end]).strip(), *cells[end:]]
        figures = [joined[position] for position in self.amounts if position > begin]
        is_whole = all(is_like_a_number(cell) or not is_measured(cell) for cell in figures)
        return joined if is_whole else cells


class HeadingReader:
    """Finds headings among the lines of one log, and reads them.

    ``notes`` get the names of the last one, what is not used, and what is doubtful. ``whole``: what all lines
    tell. ``has_start``: without a column of time the log's times are known.
    """

    def __init__(
        self, notes: Notes, choice: ColumnChoice | None, whole: WholeLog, *, has_start: bool
    ) -> None:
        self._notes, self._whole, self._has_start = notes, whole, has_start or whole.moments > 0
        self._names = choice.names if choice else ()

    def find(self, line: str, before: Heading | None) -> tuple[list[str] | None, str]:
        """Find the cells of a heading: a line without a number that names what is known.

        ``before``: the heading above it. The first line of names counts in any case: that it names nothing
        known is said in the end. A single name between rows of several values is a word of another program.
        """
        best: tuple[int, list[str], str] = (0, [], ",")
        if line.startswith("#"):
            line = _COMMENT.sub("", line, count=1)
        if is_like_a_number(line.lstrip(' "')):
            return None, ","
        for delimiter in _DELIMITERS:
            cells = split_cells(line, delimiter)
            if any(map(is_like_a_number, cells)) or not any(map(is_measured, cells)):
                continue
            known = sum(
                any(name in (cell, split_unit(cell)[0]) for _, name in self._names)
                or read_meaning(cell) is not None
                for cell in cells
            )  # fmt: skip
            if known > best[0] or (known == best[0] and len(cells) > len(best[1])):
                best = (known, cells, delimiter)
        known, cells, delimiter = best
        if len(cells) == 1 and before is None:
            words = line.split()  # a sentence has words that mean nothing here, a heading has not
            if len(words) > 1 and all(read_meaning(word) is not None for word in words):
                return words, _SPACES
        may_be_single = before is None or before.width == 1
        if (known and (len(cells) > 1 or may_be_single)) or (not self._notes.columns and len(cells) > 1):
            return cells, delimiter
        return None, delimiter

    def read(self, cells: Sequence[str], delimiter: str) -> Heading:
        """Read the names of the columns. Raises ``ValueError`` where none is known, or none is of time."""
        self._notes.columns = tuple(read_words(cell)[:_LONGEST_NAME] for cell in cells if cell)
        # The columns that ``--columns`` names, in full or without their unit.
        chosen: dict[int, Meaning] = {}
        for key, name in self._names:
            bare, unit = split_unit(name)
            titles = [cell if cell in (name, bare) else split_unit(cell)[0] for cell in cells]
            wanted = name if name in titles else bare
            if wanted not in titles:
                raise ValueError(
                    f"--columns {key}={name}: no such column: there are {listed(cells, MOST_NAMES)}"
                )
            position = titles.index(wanted)
            own = read_meaning(cells[position])
            unit = unit or split_unit(cells[position])[1] or (own.unit if own else None)
            run = own.run if own else None
            chosen[position] = Meaning(KEYS.get(key, key), unit, read_gpu_number(name), run=run)
        meanings = self._find_meanings(cells, chosen)
        names = listed(self._notes.columns, MOST_NAMES)
        if not meanings:
            raise ValueError(
                f"no column is known of {names}: say which is which: --columns time=NAME,util=NAME"
            )
        if not self._has_start and {"time", "date"}.isdisjoint(
            meaning.field for meaning in meanings.values()
        ):
            raise ValueError(f"{_NO_TIME}; there are {names}")
        columns = self._make_columns(cells, meanings, chosen.keys())
        figures = []
        for of_gpu in columns.values():
            known = of_gpu.keys() | columns.get(None, {}).keys()
            has_whole = not known.isdisjoint({"mem_used_bytes", "mem_total_bytes"})
            for name, (_, column) in of_gpu.items():
                if name in _PARTS_OF_MEMORY and not has_whole:
                    remark = (
                        f"{column.name}: {_PARTS_OF_MEMORY[name]} the memory, of which no column tells how "
                        "much there is: not used"
                    )
                    self._notes.remarks[remark] = None
                elif name not in _NO_FIGURES:
                    figures.append(column.name)
        used = {position for of_gpu in columns.values() for position, _ in of_gpu.values()}
        unused = {
            position: split_unit(cell)[0]
            for position, cell in enumerate(cells) if position not in used and cell
        }  # fmt: skip
        self._notes.figures, self._notes.unused = tuple(figures), tuple(unused.values())
        return Heading(delimiter, len(cells), columns, unused, chosen.keys())

    def _find_meanings(self, cells: Sequence[str], chosen: Mapping[int, Meaning]) -> dict[int, Meaning]:
        """Find what each column means: as it was chosen, else by its name and what the whole log tells."""
        meanings = dict(chosen)
        chosen_fields = {meaning.field for meaning in chosen.values()}
        for position, meaning in enumerate(self._read_names(cells)):
            cell = cells[position]
            if position in chosen or meaning is None or meaning.field in chosen_fields:
                continue
            is_of_memory = is_share_of_memory(cell) or cell in self._whole.of_memory
            if meaning.field == "mem_copy_util_pct" and is_of_memory:
                meaning = replace(meaning, field="mem_used_pct")
            if meaning.unit is None and cell in self._whole.shares:
                remark = (
                    f"{cell} has no unit and no value above 1, and is taken for a share of 1: if it is in "
                    f"percent, give it: --columns {meaning.field}={cell}[%]"
                )
                self._notes.remarks[remark] = None
                meaning = replace(meaning, unit="ratio")
            if cell in self._whole.epochs:
                meaning = replace(meaning, unit=None, rank=meaning.rank - RANK_OF_EPOCH)
            if cell in self._whole.loads:
                remark = (
                    f"{cell} has values that no GPU has as its number, and is taken for the utilization: if "
                    f"it is not, give --columns index={cell}"
                )
                self._notes.remarks[remark] = None
                meaning = Meaning("gpu_util_pct", self._whole.loads[cell])
            meanings[position] = meaning
        _keep_one_run(cells, meanings, {meaning.run for meaning in chosen.values()} - {None})
        memory = {at: meaning for at, meaning in meanings.items() if meaning.field.startswith("mem_")}
        if any(meaning.names_gpu and meaning.field != "mem_copy_util_pct" for meaning in memory.values()):
            # Beside ``gpu_memory`` plain ``memory`` is the machine's.
            for position, meaning in memory.items():
                if not meaning.names_gpu and meaning.field not in chosen_fields:
                    del meanings[position]
        return meanings

    def _read_names(self, cells: Sequence[str]) -> list[Meaning | None]:
        """Tell what each column's name means beside the others; None for one that means nothing."""
        meanings = [read_meaning(cell) for cell in cells]
        if "memoryUtil" in cells and "id" in cells:  # GPUtil's is the GPU's number, elsewhere it is the row's
            meanings[cells.index("id")] = read_meaning("gpu_id")
        if any(map(match_wandb, cells)):
            for position, cell in enumerate(cells):
                if cell.startswith("gpu."):  # what W&B knows by another meaning: ``gpu.0.memory``
                    meanings[position] = read_meaning(f"system.{cell}") or meanings[position]
            # GPU 0 of each run is another one, as it is of each machine.
            names = [cell.lower() for cell in cells]
            runs = [names.index(run) for run in RUNS_OF_WANDB if run in names]
            has_host = any(meaning is not None and meaning.field == "node" for meaning in meanings)
            for rank, position in enumerate(runs):
                meanings[position] = None if rank or has_host else Meaning("node", None)
        return meanings

    def _make_columns(
        self, cells: Sequence[str], meanings: Mapping[int, Meaning], chosen: Set[int]
    ) -> dict[int | None, dict[str, tuple[int, Column]]]:
        """Make the columns by GPU and field, of several for one the best spelling; a day alone is the time.

        A column with a unit that its quantity does not have is left out, and noted. Raises ``ValueError`` for
        such a one that was chosen.
        """
        columns: dict[int | None, dict[str, tuple[int, Column]]] = {}
        ranks: dict[tuple[int | None, str], int] = {}
        for position, meaning in meanings.items():
            rank = meaning.rank + (0 if meaning.names_gpu else _OF_NO_GPU)
            if ranks.get((meaning.gpu, meaning.field), rank + 1) <= rank:
                continue
            try:
                column = Column(cells[position], meaning.field, meaning.unit, self._notes)
            except ValueError as error:
                reason = f"{cells[position]}: {error}"
                if position in chosen:
                    raise ValueError(reason) from error
                self._notes.remarks[f"{reason}: the column is left out"] = None
                continue
            ranks[meaning.gpu, meaning.field] = rank
            columns.setdefault(meaning.gpu, {})[meaning.field] = position, column
        shared = columns.get(None, {})
        if "date" in shared and "time" not in shared:
            position, day = shared.pop("date")
            shared["time"] = position, Column(day.name, "time", None, self._notes)
        return columns


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


def is_like_a_number(cell: str) -> bool:
    """Tell whether it is a number: a name such as ``7b-sft - system/gpu.0.gpu`` is none."""
    return _BEGINS_LIKE_A_NUMBER(cell) is not None and _NAMES_A_RUN(cell) is None


def with_usual_widths(line: str) -> str:
    """Give a line with the usual forms of full-width characters."""
    return line if line.isascii() else unicodedata.normalize("NFKC", line)


def split_cells(line: str, delimiter: str) -> list[str]:
    """Give the cells of a line, without the spaces and quotes around them."""
    if delimiter == _SPACES:
        return line.split()
    if '"' in line:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True))]
    return [cell.strip() for cell in line.split(delimiter)]

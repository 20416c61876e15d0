"""Reads what ``dcgmi dmon``, ``nvidia-smi dmon`` and ``pmon`` write: a heading now and then, a row a GPU and
tick.

The rows of dcgmi have no time: a tick is the interval of dmon (``-d``, 1000 ms by default) after the one
before. So a pause cannot be seen, and the times drift by what dmon needs itself. The format is that of
dcgmi/DeviceMonitor.cpp, names and units are those of dcgmlib/src/dcgm_fields.cpp, of
https://github.com/NVIDIA/DCGM (4.6). Those of nvidia-smi have times with ``-o DT``; see nvidia-smi(1).
"""

import re
from collections.abc import Container, Mapping, Sequence
from typing import Any

from dutycycle.contract.catalogue import GPU_ROWS, HELD_METRICS
from dutycycle.contract.health import logged
from dutycycle.contract.records.samples import MigDevice
from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import Column, HeldShares, Notes, Row, complete, is_measured, read_cells

_HELD = {name: row.field for row in GPU_ROWS if row.field in HELD_METRICS for name in row.dcgmi}
_ENGINE = "GRACT"
"""The time with any engine busy: of a slice, which has no GPUTL, that is its utilization."""
_DCGM_FIELDS = {
    name: (row.field, unit)
    for row in GPU_ROWS
    if row.field not in HELD_METRICS
    for name, unit in row.dcgmi.items()
} | {
    "DVCCTR": ("throttle", None),
    "FBFRE": ("mem_free_bytes", "MiB"),
    **{name: (field, None) for name, field in logged.DCGMI.items()},
}
_SLICES = 7
"""Slices that a GPU has at most; DCGM numbers those of a GPU from so many times its own number on."""
_OF_A_SLICE = frozenset(MigDevice.__struct_fields__) - {"uuid", "profile"}
_SMI_FIELDS = {name: (row.field, unit) for row in GPU_ROWS for name, unit in row.smi_dmon.items()} | {
    name: (field, None) for name, field in logged.SMI_DMON.items()
}
_SMI_UNITS = ("idx", "yyyymmdd", "hh:mm:ss")
_IDENTITY = frozenset({"gpu", "date", "time", "pid", "command", "name"})
_STOPPED = "dmon was stopped"
_entity = re.compile(r"(?P<kind>[A-Za-z][A-Za-z-]*) (?P<number>\S+)(?P<values>.*)").fullmatch


def _make_columns(
    names: Sequence[str],
    fields: Mapping[str, tuple[str, str | None]],
    others: Container[str],
    notes: Notes,
) -> list[Column | None]:
    """Make the columns of a heading, and note its names: None is one of no field, which is used if it is
    among ``others``."""
    notes.columns = tuple(names)
    notes.unused = tuple(name for name in names if name not in fields and name not in others)
    return [Column(name, *fields[name], notes) if name in fields else None for name in names]


def _read_figures(cells: Sequence[tuple[Column, str]], notes: Notes) -> dict[str, Any]:
    """Read what of a row was measured, by field. Raises ``ValueError``, as ``read_cells``."""
    values = zip(cells, read_cells(cells, notes), strict=True)
    return {column.field: value for (column, _), value in values if value is not None}


class DcgmDmonReader:
    """Reads a log of dcgmi, whose times ``ticks`` gives."""

    def __init__(self, ticks: Ticks) -> None:
        self.notes = Notes()
        self._ticks = ticks
        self._columns: list[Column | None] | None = None
        self._by_rank: list[tuple[int, Column]] = []
        """Of two columns for one field (a requested limit of power, and the enforced one) the last counts."""
        self._names: list[str] = []
        self._held = HeldShares()
        self._engine = Column(_ENGINE, "gpu_util_pct", "ratio", self.notes)

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a GPU or MIG slice; none for a heading, its units, and the end. Raises
        ``ValueError``."""
        text = line.strip()
        if text.startswith("#"):
            entity_name, *names = text.lstrip("# ").split() or [""]
            self._columns = None
            if entity_name == "Entity":
                self._names = names
                self._columns = _make_columns(names, _DCGM_FIELDS, _HELD, self.notes)
                ranks = {name: rank for rank, name in enumerate(_DCGM_FIELDS)}
                columns = [(at, column) for at, column in enumerate(self._columns) if column is not None]
                self._by_rank = sorted(columns, key=lambda pair: ranks[pair[1].name])
            return []
        if not text or text.split()[0].upper() == "ID" or text.startswith(_STOPPED):
            return []
        entity = _entity(text)
        if entity is None or not entity["number"].isdecimal() or entity["kind"] not in ("GPU", "GPU-I"):
            before = " and comes before a heading with #Entity: nvidia-smi's dmon is of the format nvidia-smi"
            raise ValueError("is of no GPU and no MIG slice" + before * (self._columns is None))
        kind, number = entity["kind"], int(entity["number"])
        # Also of a wrong line: what follows it keeps its time.
        ts_ms = self._ticks.next_ms(str(number) if kind == "GPU" else f"{kind} {number}")
        if self._columns is None:
            raise ValueError("comes before a heading with #Entity")
        cells = entity["values"].split()
        if len(cells) != len(self._columns):
            raise ValueError(f"{len(cells)} values for {len(self._columns)} columns")
        known = [(column, cells[position]) for position, column in self._by_rank]
        if kind != "GPU" and _ENGINE in self._names:
            known.append((self._engine, cells[self._names.index(_ENGINE)]))
        figures = _read_figures(known, self.notes)
        complete(figures)
        if kind == "GPU":
            return [Row(ts_ms, {"index": number} | figures | self._held_shares(number, cells, ts_ms))]
        # What a slice of a GPU has of its own. The log does not name the GPU: its number tells.
        index = number // _SLICES
        self.notes.remarks[
            f"MIG slices (GPU-I) are counted to GPUs by their numbers, {_SLICES} to each: right for A100, "
            "H100 and newer, wrong for A30, which has 4"
        ] = None
        measured = {name: value for name, value in figures.items() if name in _OF_A_SLICE}
        self.notes.unused = tuple(name for name in self.notes.unused if name != _ENGINE)
        return [Row(ts_ms, {"index": index, "mig": [{"uuid": f"MIG-{index}/{number}/0"} | measured]})]

    def _held_shares(self, gpu: int, cells: list[str], ts_ms: int) -> dict[str, float]:
        """Give for what share of the time something held the clocks down; of two names the first counts."""
        shares: dict[str, float] = {}
        for name, cell in zip(self._names, cells, strict=True):
            if name not in _HELD or not is_measured(cell):
                continue
            if not cell.isdecimal():
                self.notes.count_unreadable(name, f"{cell!r} is no {name}")
                continue
            share = self._held.share_pct(f"{gpu} {name}", _HELD[name], int(cell), ts_ms)
            if share is not None:
                shares.setdefault(_HELD[name], share)
        return shares


class SmiDmonReader:
    """Reads a log of nvidia-smi. Without ``-o DT`` its times are those of ``ticks``.

    A row of ``pmon`` is one process of a GPU: what it tells is the process's, not the GPU's.
    """

    def __init__(self, clock: Clock, ticks: Ticks) -> None:
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        self._names: list[str] = []
        self._columns: list[Column | None] = []

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a GPU; none for a heading and its units. Raises ``ValueError``."""
        text = line.strip()
        cells = re.split(r"[,\s]+", text.lstrip("# "))
        if text.startswith("#"):
            names = [cell.lower() for cell in cells]
            if names[0] not in _SMI_UNITS:
                self._names = names
                self._columns = _make_columns(names, _SMI_FIELDS, _IDENTITY, self.notes)
                self.notes.figures = tuple(name for name in names if name in _SMI_FIELDS)
            return []
        if not text:
            return []
        if self._names[-1:] in (["command"], ["name"]):
            cells = re.split(r"[,\s]+", text, maxsplit=len(self._names) - 1)
        if len(cells) != len(self._names):
            raise ValueError(f"{len(cells)} values for {len(self._names)} columns")
        texts = dict(zip(self._names, cells, strict=True))
        if not texts.get("gpu", "").isdecimal():
            raise ValueError(f"is of no known GPU: gpu {texts.get('gpu')!r}")
        index = int(texts["gpu"])
        if "time" in texts:
            moment = f"{texts.get('date', '')} {texts['time']}".strip()
            moment = re.sub(r"^(\d{4})(\d\d)(\d\d) ", r"\1-\2-\3 ", moment)
            ts_ms = self._clock.read_ms(moment, subject=(index, texts.get("pid")))
        else:
            ts_ms = self._ticks.next_ms((index, texts.get("pid")))
        known = [
            (column, cell) for column, cell in zip(self._columns, cells, strict=True) if column is not None
        ]
        measured = _read_figures(known, self.notes)
        if "pid" in texts:
            pid = texts["pid"]
            if pid != "-" and not pid.isdecimal():
                raise ValueError(f"is of no known process: pid {pid!r}")
            process = (
                {"pid": int(pid), "name": texts.get("command", texts.get("name")), **measured}
                if pid != "-"
                else None
            )
            measured = {"processes": [process] if process else []}
        return [Row(ts_ms, {"index": index, **measured})]

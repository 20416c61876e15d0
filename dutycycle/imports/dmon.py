"""What ``dcgmi dmon``, ``nvidia-smi dmon`` and ``pmon`` write: a heading now and then, a row a GPU and tick.

The rows of dcgmi have no time: a tick is the interval of dmon (``-d``, 1000 ms by default) after the one
before. So a pause cannot be seen, and the times drift by what dmon needs itself. The format is that of
dcgmi/DeviceMonitor.cpp, names and units are those of dcgmlib/src/dcgm_fields.cpp, of
https://github.com/NVIDIA/DCGM (4.6). Those of nvidia-smi have times with ``-o DT``; see nvidia-smi(1).
"""

import re
from typing import Any

from dutycycle.contract.health import logged
from dutycycle.contract.metrics import GPU_ROWS
from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import Column, Notes, Row

_DCGM_FIELDS = {name: (row.field, unit) for row in GPU_ROWS for name, unit in row.dcgmi.items()} | {
    "DVCCTR": ("throttle", None),
    **{name: (field, None) for name, field in logged.DCGMI.items()},
}
_SMI_FIELDS = {name: (row.field, unit) for row in GPU_ROWS for name, unit in row.smi_dmon.items()} | {
    name: (field, None) for name, field in logged.SMI_DMON.items()
}
_SMI_UNITS = ("idx", "yyyymmdd", "hh:mm:ss")
_IDENTITY = frozenset({"gpu", "date", "time", "pid", "command", "name"})
_STOPPED = "dmon was stopped"
_entity = re.compile(r"(?P<kind>[A-Za-z][A-Za-z-]*) (?P<number>\S+)(?P<values>.*)").fullmatch


class DcgmDmonReader:
    """Reads a log of dcgmi, whose times ``ticks`` gives."""

    def __init__(self, ticks: Ticks) -> None:
        self.notes = Notes()
        self._ticks = ticks
        self._columns: list[Column | None] | None = None
        self._by_rank: list[tuple[int, Column]] = []
        """Of two columns for one field (a requested limit of power, and the enforced one) the last counts."""

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a GPU; none for a heading, its units, and the end. Raises ``ValueError``."""
        text = line.strip()
        if text.startswith("#"):
            names = text.lstrip("# ").split()
            self._columns = None
            if names[:1] == ["Entity"]:
                self._columns = [
                    Column(name, *_DCGM_FIELDS[name], self.notes) if name in _DCGM_FIELDS else None
                    for name in names[1:]
                ]
                ranks = {name: rank for rank, name in enumerate(_DCGM_FIELDS)}
                known = [(at, column) for at, column in enumerate(self._columns) if column is not None]
                self._by_rank = sorted(known, key=lambda pair: ranks[pair[1].name])
                self.notes.columns = tuple(names[1:])
                self.notes.unused = tuple(name for name in names[1:] if name not in _DCGM_FIELDS)
            return []
        if not text or text.split()[0].upper() == "ID" or text.startswith(_STOPPED):
            return []
        entity = _entity(text)
        if entity is None or not entity["number"].isdecimal() or entity["kind"] != "GPU":
            before = " and comes before a heading with #Entity: nvidia-smi's dmon is of the format nvidia-smi"
            raise ValueError("is not of a whole GPU" + before * (self._columns is None))
        ts_ms = self._ticks.next_ms(entity["number"])  # also of a wrong line: what follows it keeps its time
        if self._columns is None:
            raise ValueError("comes before a heading with #Entity")
        cells = entity["values"].split()
        if len(cells) != len(self._columns):
            raise ValueError(f"{len(cells)} values for {len(self._columns)} columns")
        measured: dict[str, Any] = {"index": int(entity["number"])}
        for position, column in self._by_rank:
            if (value := column.read_value(cells[position])) is not None:
                measured[column.field] = value
        return [Row(ts_ms, measured)]


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
                self._columns = [
                    Column(name, *_SMI_FIELDS[name], self.notes) if name in _SMI_FIELDS else None
                    for name in names
                ]
                self.notes.columns = tuple(names)
                self.notes.figures = tuple(name for name in names if name in _SMI_FIELDS)
                self.notes.unused = tuple(
                    name for name in names if name not in _SMI_FIELDS and name not in _IDENTITY
                )
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
        values = {
            column.field: column.read_value(cell)
            for column, cell in zip(self._columns, cells, strict=True) if column is not None
        }  # fmt: skip
        measured: dict[str, Any] = {name: value for name, value in values.items() if value is not None}
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

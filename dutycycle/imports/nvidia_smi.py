"""Reads what nvidia-smi writes: ``--query-gpu=… --format=csv``, also by a script; its table, ``dmon``,
``pmon``, and ``-q`` (``smi_query``).

The names of the columns are those of ``nvidia-smi --help-query-gpu``; the heading has them in full
(``clocks.current.sm`` for ``clocks.sm``), with the unit in brackets, also with ``nounits``. The timestamp is
``2020/11/12 13:48:11.412`` in the time of the machine, without its zone. What is not there is ``[N/A]``,
``[Not Supported]`` or ``[Unknown Error]``. See nvidia-smi(1), https://docs.nvidia.com/deploy/nvidia-smi/, and
of real output https://github.com/enkore/i3pystatus/pull/776 and /850.

The table is made for people: it changed with driver 535, which has wider cells, and with MIG. Of a GPU it has
two lines, of a MIG slice and of a process one.
"""

import re
from contextlib import suppress
from dataclasses import replace
from typing import Any

from dutycycle.imports.dmon import SmiDmonReader
from dutycycle.imports.gpustat import GpustatReader, is_gpustat
from dutycycle.imports.log_file import LogFile
from dutycycle.imports.moments import Clock, Ticks, find_moment
from dutycycle.imports.quantities import Column, Reader, Row, is_measured, read_cells, read_uuid, read_words
from dutycycle.imports.smi_query import SmiQueryReader, is_query
from dutycycle.imports.table import json_log
from dutycycle.imports.table.csv_log import CsvReader
from dutycycle.imports.table.heading import ColumnChoice, WholeLog
from dutycycle.imports.table.sniffer import Sniffer
from dutycycle.imports.table.spellings import DecimalMark
from dutycycle.imports.tegrastats import TegrastatsReader, is_tegrastats

_DMON = re.compile(
    r"# *(?:Date[ ,]+)?(?:Time[ ,]+)?gpu[ ,].*\b(?:pwr|sm|mem|enc|mclk|fb|rxpci|pviol|sbecc|gract|pid)\b"
).match
_DCGMI = re.compile(r"# *Entity\b").match
_FAILURE = re.compile(
    r"\D{0,100}(?:\d+: )?(?:No devices were found|NVIDIA-SMI (?:has failed|couldn't)"
    r"|Failed to (?:initialize|shut down) NVML|NVML library version:"
    r"|Field \".{0,200}\" is not a valid field to query"
    r"|GPU access blocked by the operating system|Unable to determine the device handle"
    r"|nvidia-smi\S{0,100} .{0,200}(?:not found|No such file)|.{0,200}version mismatch)"
).match
"""What nvidia-smi, or the shell that does not find it, writes where figures should be."""
_DATE = re.compile(r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]* +[A-Z][a-z]{2} +\d[^,;\t|]*").fullmatch
"""Of a table: a cell of a row has others behind it."""
_GPU = re.compile(r"(?P<index>\d+) +(?P<model>\S.*?) +(?:On|Off|N/A|WDDM|TCC|MCDM|ERR!|Unknown)").fullmatch
_BUS = re.compile(r"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]", re.IGNORECASE).match
_POWER = re.compile(r"(?P<draw>\S+) */ *(?P<limit>\S+)$").search
_MEMORY = re.compile(r"N/A|Not Supported|(?P<used>\S+) */ *(?P<total>\S+)").fullmatch
"""A GPU that shares the host's memory has none of its own, such as a GB10's."""
_TEMP = re.compile(r"(?<!\S)(\d+C)(?!\S)").search
_SLICE = re.compile(r"(?P<index>\d+) +(?P<gi>\d+) +(?P<ci>\d+) +(?P<device>\d+)").fullmatch
_PROCESS = re.compile(
    r"(?P<index>\d+) +(?:(?:\d+|N/A) +(?:\d+|N/A) +)?(?P<pid>\d+) +(?P<type>[CGM+]+) +"
    r"(?P<name>.*?)(?: +(?P<memory>\S+))?"
).fullmatch


def look_through(log: LogFile, sniffer: Sniffer, mark: DecimalMark) -> WholeLog:
    """Find what all amounts of a log tell: its decimal ``mark``, if it was not given, and which percentages
    are shares; of JSON the names of its values, too.

    Raises ``DutycycleError`` where the amounts do not tell the mark, and it was not given.
    """
    names: dict[str, None] = {}
    for _, line in log.read_lines():
        if log.is_json:
            with suppress(ValueError):  # whoever reads it says so
                names |= dict.fromkeys(json_log.read_names(line))
            continue
        if _FAILURE(line):
            continue
        if is_query(line):
            return WholeLog(mark)
        if not line.startswith(("|", "+")):  # a table of nvidia-smi
            sniffer.take_line(line)
    if names:
        sniffer.take_heading(list(names))
        for _, line in log.read_lines():
            with suppress(ValueError):
                sniffer.take_cells(json_log.read_cells(line, names))
    mark.decide(log.path, sniffer.delimiter)
    return replace(sniffer.find_whole(), names=names)


class SmiReader:
    """Reads what nvidia-smi writes, of any kind: a line says itself of which it is."""

    def __init__(
        self, clock: Clock, ticks: Ticks, choice: ColumnChoice | None = None,
        whole: WholeLog | None = None,
    ) -> None:  # fmt: skip
        self.notes = clock.notes
        self._csv, self._table = CsvReader(clock, ticks, choice, whole), TableReader(clock, ticks)
        self._dmon = SmiDmonReader(clock, ticks)
        self._query = SmiQueryReader(clock)
        self._gpustat, self._tegrastats = GpustatReader(clock, ticks), TegrastatsReader(clock, ticks)
        self._current: Reader = self._csv

    def read_rows(self, line: str) -> list[Row]:
        """Give the rows of a line. Raises ``ValueError``."""
        text = line.strip()
        if _FAILURE(text):
            raise ValueError(f"is a failure of nvidia-smi, and no measurement: {text!r}")
        if (_DATE(text) is not None or find_moment(text) is not None) and not is_query(text):
            return self._begin_moment(text)
        if text:
            self._current = self._choose(line, text)
        return self._current.read_rows(line)

    def _choose(self, line: str, text: str) -> Reader:
        """Return what reads a line. Raises ``ValueError`` where nothing does."""
        if text.startswith(("+-", "|", "+=")):
            return self._table
        if is_query(text):
            return self._query
        if self._current is self._query:
            return self._query  # a name of its tree may be the heading of another log
        if is_gpustat(text):
            return self._gpustat
        if is_tegrastats(text):
            return self._tegrastats
        if _DMON(text) or (self._current is self._dmon and text.startswith("#")):
            return self._dmon
        if self._csv.is_heading(line):
            return self._csv
        if _DCGMI(text):
            raise ValueError("is the heading of dcgmi dmon: the format dcgm-dmon reads it")
        if self._current is self._table:
            raise ValueError("is no part of a table of nvidia-smi")
        return self._current

    def _begin_moment(self, text: str) -> list[Row]:
        """Take a time on a line of its own, of the table or the rows below it. Raises ``ValueError``."""
        if (moment := find_moment(text)) is not None:
            self._csv.begin_moment(moment)
        if _DATE(text) is None:
            return []
        if not self._csv.has_heading:
            self._current = self._table
        return self._table.read_rows(text)


class TableReader:
    """Reads the table that nvidia-smi shows without a query.

    Each table stands below a line with its date. Without one the times are those of ``ticks``. A GPU's row is
    given at the second of its lines; what is cut between them is a wrong line.
    """

    def __init__(self, clock: Clock, ticks: Ticks) -> None:
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        self._ts_ms: int | None = None
        self._first_line: dict[str, Any] | None = None
        self._part = "gpus"
        self._columns = {
            field: Column(name, field, None, self.notes)
            for field, name in {
                "index": "GPU", "gpu_util_pct": "GPU-Util", "mem_used_bytes": "Memory-Usage",
                "mem_total_bytes": "Memory-Usage", "power_w": "Pwr:Usage", "power_limit_w": "Pwr:Cap",
                "temp_c": "Temp", "pid": "PID",
            }.items()
        }  # fmt: skip

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a GPU, a slice or a process; none for what is between. Raises ``ValueError``."""
        text = line.strip()
        if _DATE(text):
            self._ts_ms = None
            self._ts_ms = self._clock.read_ms(text)
            return []
        if not text.startswith("|") or text.startswith(("|-", "|=")):
            return []
        if not text.endswith("|") or text == "|":
            self._first_line, self.notes.unfinished = None, ""
            raise ValueError("the line of the table is cut off")
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if cells[0].startswith(("GPU  ", "MIG devices", "Processes")):
            self._part = {"MIG": "mig", "Pro": "processes"}.get(cells[0][:3], self._part)
            if "Name" in cells[0] and "Bus-Id" in text:
                self._part, self.notes.columns = "gpus", ("those of the table of nvidia-smi",)
            return []
        if self._part == "gpus":
            return self._read_gpu(cells)
        if self._part == "mig":
            match = _SLICE(cells[0])
            memory = _MEMORY(cells[1]) if len(cells) == 4 else None
            if match is None or memory is None:
                return []
            part = {
                "uuid": f"gpu-{match['index']}/gi-{match['gi']}/ci-{match['ci']}",
                **self._values(mem_used_bytes=memory["used"] or "", mem_total_bytes=memory["total"] or ""),
            }
        else:
            match = _PROCESS(cells[0])
            if match is None:
                return []
            part = {
                "name": read_words(match["name"]) or None,
                **self._values(pid=match["pid"], mem_used_bytes=match["memory"] or ""),
            }
        known = {name: value for name, value in part.items() if value is not None}
        return self._row({"index": int(match["index"]), self._part: [known]})

    def _read_gpu(self, cells: list[str]) -> list[Row]:
        match = _GPU(cells[0])
        first_line, self._first_line = self._first_line, None
        self.notes.unfinished = ""
        if match is not None and len(cells) == 3:
            bus = _BUS(cells[1])
            self._first_line = {
                **self._values(index=match["index"]),
                "model": read_words(match["model"]) if is_measured(match["model"]) else None,
                "uuid": read_uuid(bus[0]) if bus else None,
            }
            self.notes.unfinished = f"the second line of GPU {match['index']} is missing at the end"
        if first_line is None:
            # Of a table whose beginning is lost, a GPU's second line and those below it may come first.
            is_second_line = not cells[0] or (len(cells) == 3 and _MEMORY(cells[1]) is not None)
            if match is None and len(cells) > 1 and not is_second_line and not self.notes.columns:
                raise ValueError(
                    "is of a table of another program: take the bars at the ends of its lines away"
                )
            return []
        memory = _MEMORY(cells[1]) if len(cells) == 3 else None
        if match is not None or memory is None:
            raise ValueError(
                f"the line before it, of GPU {first_line['index']}, has no second one with figures"
            )
        power, temp = _POWER(cells[0]), _TEMP(cells[0])
        figures = self._values(
            temp_c=temp[1] if temp else "",
            power_w=power["draw"] if power else "",
            power_limit_w=power["limit"] if power else "",
            mem_used_bytes=memory["used"] or "",
            mem_total_bytes=memory["total"] or "",
            gpu_util_pct=cells[2].split()[0] if cells[2] else "",
        )
        return self._row(first_line | figures)

    def _values(self, **texts: str) -> dict[str, Any]:
        cells = [(self._columns[field], text) for field, text in texts.items()]
        return dict(zip(texts, read_cells(cells, self.notes), strict=True))

    def _row(self, fields: dict[str, Any]) -> list[Row]:
        measured = {name: value for name, value in fields.items() if value is not None}
        seen = measured.get("index"), str(measured.get("mig")), str(measured.get("processes"))
        ts_ms = self._ts_ms if self._ts_ms is not None else self._ticks.next_ms(seen)
        return [Row(ts_ms, measured)]

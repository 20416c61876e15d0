"""Reads the text of ``tegrastats`` of a Jetson: a line at each moment, of its one GPU. New releases write
the time first, as month, day and year.

``GR3D_FREQ`` is the GPU's load, with its clock behind ``@``. Power is that of a rail that feeds the GPU
alone, in mW, now and its mean. The memory is the machine's, which CPUs and GPU share, and the GPU's part of
it is not told. See https://docs.nvidia.com/jetson/, tegrastats utility.
"""

import re

from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import Column, Row, read_cells

_LINE = re.compile(r"(?:(?P<time>\d\d-\d\d-\d{4} \d\d:\d\d:\d\d) )?RAM \d+/\d+MB\b").match
_LOAD = re.compile(r"\bGR3D_FREQ (?P<load>\d+%)(?:@\[?(?P<clock>\d+))?").search
_TEMP = re.compile(r"\bGPU@(\d+(?:\.\d+)?)C", re.IGNORECASE).search
"""What is off is below 0."""
_POWER = re.compile(r"\b(?:POM_5V_GPU|VDD_SYS_GPU|VDD_GPU|GPU) (\d+)(?:mW)?/").search
_SHARED = "RAM is that of CPUs and GPU together: not used; nor is the power of what feeds other parts, too"


def is_tegrastats(text: str) -> bool:
    """Tell whether a line is of tegrastats."""
    return _LINE(text) is not None


class TegrastatsReader:
    """Reads its lines. Without times in them the times are those of ``ticks``."""

    def __init__(self, clock: Clock, ticks: Ticks) -> None:
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        self._columns = [
            Column("GR3D_FREQ", "gpu_util_pct", "%", self.notes),
            Column("GR3D_FREQ@", "sm_clock_mhz", "MHz", self.notes),
            Column("GPU@", "temp_c", "C", self.notes),
            Column("VDD_GPU", "power_w", "mW", self.notes),
        ]

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a line. Raises ``ValueError``."""
        text = line.strip()
        if not text:
            return []
        begin = _LINE(text)
        if begin is None:
            raise ValueError("is no line of tegrastats")
        self.notes.columns = ("those of tegrastats",)
        self.notes.remarks[_SHARED] = None
        # Some releases leave out the load, and each may leave out what is switched off.
        load, temp, power = _LOAD(text), _TEMP(text), _POWER(text)
        cells = [
            load["load"] if load else "", (load["clock"] or "") if load else "",
            temp[1] if temp else "", power[1] if power else "",
        ]  # fmt: skip
        values = read_cells(list(zip(self._columns, cells, strict=True)), self.notes)
        figures = {
            column.field: value
            for column, value in zip(self._columns, values, strict=True) if value is not None
        }  # fmt: skip
        ts_ms = self._clock.read_ms(begin["time"], "mdy") if begin["time"] else self._ticks.next_ms(0)
        return [Row(ts_ms, {"index": 0, **figures})]

"""Meters CPU time and memory of a node's pods, and what its host uses beyond them."""

from typing import Any

import numpy as np

from dutycycle.contract.records.hours import PodHour
from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import Series
from streams.operators.columns.tick import Layout
from streams.operators.rounding import tidy
from streams.operators.usage.table import HourTable, OnGpu

FIGURES = 5
_CHANGED, _SECONDS, _CPU, _CPU_KNOWN, _MEMORY, _MEMORY_KNOWN = range(FIGURES + 1)
"""Columns of the hour, in seconds and byte-seconds."""
_HOST = ("",)


@entry("void(float64[:, ::1], float64[:, ::1], float64[::1], int64[::1], int64[:, ::1])")
def _add(hour: Floats, values: Floats, seconds: Floats, rows: Ints, columns: Ints) -> None:
    """Add ticks, of which each counts for its ``seconds``; ``columns`` (n, 2): CPU and memory of ``rows``."""
    for tick in range(len(seconds)):
        for at in range(len(rows)):
            row, cpu, memory = rows[at], values[tick, columns[at, 0]], values[tick, columns[at, 1]]
            hour[row, _CHANGED] = 1
            hour[row, _SECONDS] += seconds[tick]
            if not np.isnan(cpu):
                hour[row, _CPU] += cpu / 100 * seconds[tick]
                hour[row, _CPU_KNOWN] = 1
            if not np.isnan(memory):
                hour[row, _MEMORY] += memory * seconds[tick]
                hour[row, _MEMORY_KNOWN] = 1


class PodMeter:
    """Meters the host and the pods of one node."""

    def __init__(self) -> None:
        self._hour = HourTable(FIGURES)
        self._layout: Layout | None = None
        self._rows: Ints = np.zeros(0, np.int64)
        self._columns: Ints = np.zeros((0, 2), np.int64)

    def add(self, block: TickBlock, seconds: Floats) -> None:
        """Add ticks as ``GpuMeter.add``. After a gap, a rate counts for no more time than its tick does."""
        if block.layout is not self._layout:
            # Lay out rows anew, for other pods than before, or another hour. The member of the host is
            # empty, and so is its key.
            column = {column_series: at for at, column_series in enumerate(block.layout.series)}
            members = dict.fromkeys(
                (column_series.kind, column_series.member) for column_series in block.layout.series
            )
            cells = [
                [column[Series(*member, metric)] for metric in ("cpu_util_pct", "mem_used_bytes")]
                for member in members
            ]
            self._columns = np.array(cells, np.int64).reshape(-1, 2)
            self._rows = self._hour.rows([(member,) for _, member in members])
            self._layout = block.layout
        _add(self._hour.figures, block.values, seconds, self._rows, self._columns)

    def changed(self, *, keep: bool = False) -> tuple[PodHour, ...]:
        """Return the rows that changed since they were written (see ``HourTable``); of the host, what its
        pods so far leave of it."""
        keys = self._hour.keys
        every = self._hour.figures[: len(keys)]
        of_pods = every[[key != _HOST for key in keys]].sum(axis=0)
        rows = []
        for key, figures in self._hour.changed(keep=keep):
            if key == _HOST:
                figures[_CPU - 1] = max(0.0, figures[_CPU - 1] - float(of_pods[_CPU]))
                figures[_MEMORY - 1] = max(0.0, figures[_MEMORY - 1] - float(of_pods[_MEMORY]))
            seconds, cpu, cpu_known, memory, memory_known = figures
            row = PodHour(
                pod_uid=key[0] or None,
                seconds=tidy(seconds),
                cpu_s=tidy(cpu) if cpu_known else None,
                mem_byte_s=tidy(memory) if memory_known else None,
            )
            rows.append(row)
        return tuple(rows)

    def sums(self) -> dict[OnGpu, dict[str, float]]:
        """Return what each pod used in the hour so far."""
        return {
            (uid, ""): {"cpu_s": figures[_CPU]}
            for (uid,), figures in zip(self._hour.keys, self._hour.figures.tolist(), strict=False)
            if uid and figures[_CPU_KNOWN]
        }

    def begin(self) -> None:
        """Begin another hour."""
        self._hour.clear()
        self._layout = None

    def hour(self) -> dict[str, Any]:
        """Do as ``GpuMeter.hour``."""
        return self.snapshot()

    def go_on(self, hour: dict[str, Any]) -> None:
        """Do as ``GpuMeter.go_on``."""
        self.restore(hour)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {"hour": self._hour.snapshot()}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._hour.restore(plain["hour"])

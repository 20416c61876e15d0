"""Reads the text of gpustat, also of ``gpustat -i`` and with ``-F``, ``-e`` and ``-P``: a line with the
machine and the time, and below it one of each GPU:

``[0] NVIDIA A40 | 60'C,  68 %,  250 / 300 W | 3712 /  7982 MB | root(3709M)``

What it could not measure is ``??``. See https://github.com/wookayin/gpustat.
"""

import re
from typing import Any

from dutycycle.imports.moments import Clock, Ticks
from dutycycle.imports.quantities import Column, Row, read_cells

_HEADING = re.compile(
    r"(?P<node>[\w.-]+) +(?P<time>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]* .*?\d{1,2}:\d\d:\d\d.*?)"
    r"(?:  +\d{3}\.\d+(?:\.\d+)*)?"
).fullmatch
_GPU = re.compile(
    r"\[(?P<index>\d+)\] (?P<model>.*?) *\| *(?P<temp>\S+?) ?['°]C(?P<figures>[^|]*)\| *"
    r"(?P<used>\S+) */ *(?P<total>\S+) MB(?: *\|.*)?"
).fullmatch
_CODEC = re.compile(r"\([^)]*\)")
_SHARES = re.compile(r"(\d+|\?+) ?%").findall
"""The fan's speed stands before the utilization, where it is shown; without a fan it is ``??``."""
_POWER = re.compile(r"(?P<draw>\d+|\?+)(?: */ *(?P<limit>\d+|\?+))? ?W").search


def is_gpustat(text: str) -> bool:
    """Tell whether a line is of gpustat."""
    return _GPU(text) is not None or (len(text) < 200 and _HEADING(text) is not None)


class GpustatReader:
    """Reads its lines. Without lines of the machine (``--no-header``) the times are those of ``ticks``."""

    def __init__(self, clock: Clock, ticks: Ticks) -> None:
        self.notes = clock.notes
        self._clock, self._ticks = clock, ticks
        self._ts_ms: int | None = None
        self._node: str | None = None
        self._columns = {
            name: Column(name, name, unit, self.notes)
            for name, unit in {
                "temp_c": "C", "gpu_util_pct": "%", "power_w": "W", "power_limit_w": "W",
                "mem_used_bytes": "MiB", "mem_total_bytes": "MiB",
            }.items()
        }  # fmt: skip

    def read_rows(self, line: str) -> list[Row]:
        """Give the row of a GPU; none for a line of the machine. Raises ``ValueError``."""
        text = line.strip()
        if not text:
            return []
        match = _GPU(text)
        if match is None:
            heading = _HEADING(text)
            if heading is None:
                raise ValueError("is no line of gpustat")
            self._node, self._ts_ms = heading["node"], None
            self.notes.nodes.add(heading["node"])
            self._ts_ms = self._clock.read_ms(heading["time"].strip())
            return []
        if self._node is not None and self._ts_ms is None:
            raise ValueError("stands below a time that cannot be read")
        self.notes.columns = ("those of gpustat",)
        shares = _SHARES(_CODEC.sub("", match["figures"]))
        power = _POWER(match["figures"])
        texts = {
            "temp_c": match["temp"].strip("?"),
            "gpu_util_pct": shares[-1].strip("?") if shares else "",
            "power_w": power["draw"].strip("?") if power else "",
            "power_limit_w": (power["limit"] or "").strip("?") if power else "",
            "mem_used_bytes": match["used"].strip("?"),
            "mem_total_bytes": match["total"].strip("?"),
        }
        values = read_cells([(self._columns[name], cell) for name, cell in texts.items()], self.notes)
        figures: dict[str, Any] = {"index": int(match["index"]), "model": match["model"]}
        figures |= {name: value for name, value in zip(texts, values, strict=True) if value is not None}
        ts_ms = self._ts_ms if self._ts_ms is not None else self._ticks.next_ms(figures["index"])
        return [Row(ts_ms, figures, self._node)]

"""What ``dcgmi dmon -e …`` writes: a heading again every 15 ticks, and a row for each GPU and tick.

The rows have no time: a tick is the interval of dmon (``-d``, 1000 ms by default) after the one before. So a
pause cannot be seen, and the times drift by what dmon needs itself. The format is that of
dcgmi/DeviceMonitor.cpp, names and units are those of dcgmlib/src/dcgm_fields.cpp, of
https://github.com/NVIDIA/DCGM (4.6).
"""

import re

from collectors.throttle import throttle_names
from dutycycle.imports.columns import Column, Places, Row, mib, number


def _joules(text: str) -> float:
    return number(text) / 1000


def _throttle(text: str) -> tuple[str, ...]:
    return throttle_names(int(text))


_TABLE = {
    "GPUTL": Column("gpu_util_pct"),
    "MCUTL": Column("mem_copy_util_pct"),
    "FBUSD": Column("mem_used_bytes", read=mib),
    "FBTTL": Column("mem_total_bytes", read=mib),
    "POWER": Column("power_w"),
    "PMLMT": Column("power_limit_w"),
    "TOTEC": Column("energy_j", read=_joules),
    "TMPTR": Column("temp_c"),
    "SMCLK": Column("sm_clock_mhz"),
    "MMCLK": Column("mem_clock_mhz"),
    "PCIRX": Column("pcie_rx_bytes_per_s"),
    "PCITX": Column("pcie_tx_bytes_per_s"),
    "PCILG": Column("pcie_gen"),
    "PCILW": Column("pcie_width"),
    "DVCCTR": Column("throttle", read=_throttle),
}
_STOPPED = "dmon was stopped"
_entity = re.compile(r"(?P<kind>[A-Za-z][A-Za-z-]*) (?P<number>\S+)(?P<values>.*)").fullmatch


class DmonReader:
    """Of a log whose first tick was at ``start_ms``."""

    def __init__(self, start_ms: int, interval_ms: int) -> None:
        self._ts_ms, self._interval_ms = start_ms, interval_ms
        self._seen: set[str] = set()
        self._places: Places | None = None
        self.unused: tuple[str, ...] = ()

    def row(self, line: str) -> Row | None:
        """The row of a GPU; None for a heading, its units, and the end. Raises ``ValueError``."""
        text = line.strip()
        if text.startswith("#"):
            names = text.lstrip("# ").split()
            self._places = Places(names[1:], _TABLE) if names[:1] == ["Entity"] else None
            self.unused = self._places.unused if self._places else ()
            return None
        if not text or text.split()[0].upper() == "ID" or text.startswith(_STOPPED):
            return None
        entity = _entity(text)
        if entity is None or not entity["number"].isdecimal() or entity["kind"] != "GPU":
            raise ValueError("is not of a whole GPU")
        index = entity["number"]
        if index in self._seen:  # also of a wrong line: what follows it keeps its time
            self._seen.clear()
            self._ts_ms += self._interval_ms
        self._seen.add(index)
        if self._places is None:
            raise ValueError("comes before a heading with #Entity")
        return Row(self._ts_ms, {"index": int(index), **self._places.fields(entity["values"].split())})

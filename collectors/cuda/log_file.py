"""Reads the log of one library: its counters as they are now, and their rates."""

import os
from dataclasses import dataclass
from pathlib import Path

from collectors.cuda.counters import CudaLog
from collectors.rates import Rate

_MOST_BYTES = 64 * 1024
"""What is read of a log: its end holds the newest of each counter."""
_SILENT_S = 60.0
"""A log that was not written for so long tells nothing any more: its process is gone, or hangs."""


@dataclass(frozen=True, slots=True)
class CudaUse:
    """Holds the use by one log at one tick. Rates are absent at first, and after the counters began anew."""

    launches_per_s: float | None
    burst_us_per_s: float | None
    copies_per_s: float | None
    mem_used_bytes: int | None
    bad_lines: int


class PolledLog:
    """Reads the whole file at each tick: so one that was rotated, cut or written anew is no special case."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._text = ""
        self._pid: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._launches, self._burst, self._copies = Rate(), Rate(), Rate()

    def use(self, now_s: float, wall_s: float) -> CudaUse | None:
        """Return the use since the last tick; None for a log that is empty, or was not written for a minute.

        ``now_s`` is monotonic, ``wall_s`` the time of files. Raises ``OSError``.
        """
        with self._path.open("rb") as file:
            status = os.fstat(file.fileno())
            cut = max(0, status.st_size - _MOST_BYTES)
            file.seek(cut)
            end = file.read(_MOST_BYTES)
        lines = end[: end.rfind(b"\n") + 1]  # the last line may be half written
        text = (lines.partition(b"\n")[2] if cut else lines).decode(errors="replace")
        if not text or wall_s - status.st_mtime > _SILENT_S:
            return None
        log, seen = CudaLog(), CudaLog()
        log.read(text)
        if text.startswith(self._text):  # lines that were counted before are not counted again
            seen.read(self._text)
        self._text = text
        if (pid := log.values.get("pid")) != self._pid:  # another process, whose counters began at 0
            self._pid = pid
            self._begin()
        return CudaUse(
            _rate(self._launches, log.launches, now_s),
            _rate(self._burst, log.burst_us, now_s),
            _rate(self._copies, log.copies, now_s),
            log.mem_used_bytes,
            max(0, log.bad_lines - seen.bad_lines),
        )


def _rate(rate: Rate, value: int | None, now_s: float) -> float | None:
    """Return the rate of a counter. One that is not in the file this time keeps its beginning."""
    return None if value is None else rate.per_s(value, now_s)

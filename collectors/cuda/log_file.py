"""Reads the log of one CUDA intercept library: its counters as they are now, and their rates.

A log has ``key:value`` pairs, in lines or with commas or spaces between them, in one of two forms:

    pid:4711                              name:cuLaunchKernel,count:186804,burst:1414970
    kernel-cnt:97068                      name:cuMemcpyH2D,count:4,burst:134
    mem-used:1048576
    burst-tm:1414970

All are totals since the process started: calls, bytes allocated, and microseconds of bursts. So the last
value of each counts, whether the library writes its file anew each time or goes on at its end.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from collectors.rates import Rate

_LAUNCHES = frozenset({"cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel"})
_COPIES = "cuMemcpy"
_WHOLE = ("pid", "kernel-cnt", "mem-used", "burst-tm", "token-cnt", "count", "burst", "start")
"""Keys whose values are whole numbers; a key that is not here is passed over."""
_PARTS = re.compile(r"[,\s]+")
_KEY = re.compile(r"[A-Za-z][\w-]*")
_NUMBER = re.compile(r"-?\d{1,19}")
_MOST = 2**63


@dataclass(slots=True)
class CudaLog:
    """Keeps the values that were read last, and how many lines could not be (``bad_lines``)."""

    values: dict[str, int] = field(default_factory=dict)
    calls: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the name of the function: ``count`` and ``burst``."""
    bad_lines: int = 0
    _function: str | None = None

    def read(self, text: str) -> None:
        """Take lines. A bad one is counted, and the others go on."""
        for line in text.splitlines():
            parts = [part for part in _PARTS.split(line.strip()) if part]
            if not all(self._take(*part.partition(":")) for part in parts):
                self.bad_lines += 1

    def _take(self, key: str, colon: str, value: str) -> bool:
        if not colon or not _KEY.fullmatch(key):
            return False
        if key == "name":
            self._function = value if _KEY.fullmatch(value) else None
            return self._function is not None
        if key not in _WHOLE:
            return True
        if not _NUMBER.fullmatch(value) or (key != "pid" and not 0 <= int(value) < _MOST):
            return False
        if key not in ("count", "burst"):
            self.values[key] = int(value)
        elif self._function is None:
            return False
        else:
            self.calls.setdefault(self._function, {})[key] = int(value)
        return True

    @property
    def launches(self) -> int | None:
        """Return how many kernels were launched; None where the log does not say."""
        return self._known("kernel-cnt", "count")

    @property
    def burst_us(self) -> int | None:
        """Return the microseconds of bursts of kernels; None where the log does not say."""
        return self._known("burst-tm", "burst")

    @property
    def copies(self) -> int | None:
        """Return how many copies between host and device there were; None where the log does not say."""
        counts = [
            of["count"] for name, of in self.calls.items() if name.startswith(_COPIES) and "count" in of
        ]
        return sum(counts) if counts else None

    @property
    def mem_used_bytes(self) -> int | None:
        """Return the bytes of device memory that are allocated; None where the log does not say."""
        return self.values.get("mem-used")

    def _known(self, key: str, of_call: str) -> int | None:
        each = [of[of_call] for name, of in self.calls.items() if name in _LAUNCHES and of_call in of]
        return sum(each) if each else self.values.get(key)


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

"""Reads what a CUDA intercept library wrote in its log. Pure.

A log has ``key:value`` pairs, in lines or with commas or spaces between them, in one of two forms:

    pid:4711                              name:cuLaunchKernel,count:186804,burst:1414970
    kernel-cnt:97068                      name:cuMemcpyH2D,count:4,burst:134
    mem-used:1048576
    burst-tm:1414970

All are totals since the process started: calls, bytes allocated, and microseconds of bursts. So the last
value of each counts, whether the library writes its file anew each time or goes on at its end.
"""

import re
from dataclasses import dataclass, field

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

"""Puts the driver's time stamps on the wall clock. NVML calls them "CPU time" and does not say of which
clock.

Most drivers stamp in Unix microseconds, some in microseconds since the machine's start
(polarsignals/gpu-metrics-agent#36), so each batch is compared with the clocks that there are.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeVar

_AHEAD_US = 1_000_000
_DAY_US = 86_400_000_000
"""A stamp may be a second ahead (clocks are read one after the other) and, of an idle GPU, a day old."""

_Sample = TypeVar("_Sample", bound=tuple[Any, ...])


class Now(NamedTuple):
    """Holds one moment on each clock that a driver may use, microseconds."""

    wall_us: int
    boot_us: int
    monotonic_us: int

    @classmethod
    def read(cls) -> "Now":
        """Return this moment."""
        return cls(
            time.time_ns() // 1000,
            time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000,
            time.monotonic_ns() // 1000,
        )


def wall_shift_us(newest_us: int, now: Now) -> int | None:
    """Return what to add to stamps to get Unix microseconds, judged by the newest; None: of no clock we know.

    Of the clocks by which ``newest_us`` is not in the future and at most a day old, the one that makes it
    the youngest.
    """
    fitting = [clock for clock in now if -_AHEAD_US <= clock - newest_us <= _DAY_US]
    return now.wall_us - min(fitting) if fitting else None


class Cursor:
    """Remembers up to which stamp a buffer has been read; 0 before anything was.

    It moves by returned stamps only: the driver adds samples late, and in its own time.
    """

    def __init__(self) -> None:
        self.last_us = 0

    def after_us(self, now: Now) -> int:
        """Return what to give to the driver: samples newer than this are new."""
        if _AHEAD_US < self.last_us - now.wall_us < _DAY_US:
            # The clock was set back: all that is new has older stamps than this.
            self.last_us = 0
        return self.last_us

    def new_of(self, samples: Iterable[_Sample], stamp: int, now: Now) -> list[_Sample]:
        """Return those of a batch that are new, by the item ``stamp`` of each; one from before the clock
        was set back never is."""
        last_us, soon_us, day_us = self.last_us, now.wall_us + _AHEAD_US, now.wall_us + _DAY_US
        return [
            sample for sample in samples if sample[stamp] > last_us and not soon_us < sample[stamp] < day_us
        ]

"""How much of a GPU each process used since the last tick, as the driver samples it."""

from collections.abc import Mapping

from collectors.nvml import gate
from collectors.nvml.clock import Cursor, Now, wall_shift_us
from collectors.nvml.query import Asker
from collectors.nvml.types import Handle, Share

_PERIOD_US = 1_000_000
"""The longest time between two of the driver's samples: it averages over 1/6 to 1 s."""


class Shares:
    """One answer: the newest share of each process that did something.

    The driver leaves out a process that did nothing. So no share is 0 percent, but only if the answer
    covers a whole period of its sampling (``covers_period``); else it is unknown.
    """

    def __init__(self, by_pid: Mapping[int, Share], *, covers_period: bool) -> None:
        self.by_pid = by_pid
        self.covers_period = covers_period

    def of(self, pid: int) -> tuple[float | None, float | None]:
        """Percent of time with a kernel of ``pid`` running, and with memory copied for it; None: unknown."""
        share = self.by_pid.get(pid)
        if share is not None:
            return min(share.sm_pct, 100), min(share.mem_copy_pct, 100)
        return (0, 0) if self.covers_period else (None, None)


class ShareReader:
    """Asks one GPU once a tick, from the last stamp returned: its buffer holds what is seconds old, too."""

    def __init__(self) -> None:
        self._cursor = Cursor()
        self._moved_at_us = 0

    def read(self, asker: Asker, now: Now, interval_ms: int) -> Shares | None:
        """Shares since the last read (at first: of one interval), or None where they cannot be had."""
        after_us = self._cursor.after_us(now)
        found = asker.ask("process_util", lambda handle: self._new(handle, after_us, now))
        if found is None:
            return None
        quiet_us = self._age_us(after_us, now) if after_us else _PERIOD_US
        if found:
            self._cursor.last_us = max(share.stamp_us for share in found)
            self._moved_at_us = now.monotonic_us
        if found and not after_us:
            return self._first(found, interval_ms, now)
        return Shares({share.pid: share for share in found}, covers_period=quiet_us >= _PERIOD_US)

    def _first(self, found: list[Share], interval_ms: int, now: Now) -> Shares:
        """Of the first answer, which holds seconds of the past, the shares of one interval."""
        shift_us = wall_shift_us(self._cursor.last_us, now)
        if shift_us is None:
            # Of a clock that we do not know: nothing tells how old these are.
            return Shares({}, covers_period=False)
        oldest_us = now.wall_us - shift_us - max(interval_ms * 1000, _PERIOD_US)
        recent = {share.pid: share for share in found if share.stamp_us >= oldest_us}
        return Shares(recent, covers_period=True)

    def _new(self, handle: Handle, after_us: int, now: Now) -> list[Share]:
        return [s for s in gate.shares(handle, after_us) if self._cursor.is_new(s.stamp_us, now)]

    def _age_us(self, stamp_us: int, now: Now) -> int:
        shift_us = wall_shift_us(stamp_us, now)
        if shift_us is None:
            return now.monotonic_us - self._moved_at_us
        return now.wall_us - stamp_us - shift_us

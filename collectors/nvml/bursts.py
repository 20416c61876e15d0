"""The driver's own samples between two ticks: a 1 Hz poll cannot see a training step, its buffers can."""

from collections.abc import Callable

from collectors.nvml import gate
from collectors.nvml.clock import Cursor, Now, wall_shift_us
from collectors.nvml.query import Asker
from collectors.nvml.types import Buffer, Handle, Stamped
from contract.units import Amount

Burst = tuple[tuple[int, Amount], ...]
"""Pairs of (milliseconds from the tick's ``ts_ms``, value in the record's unit)."""


class BurstReader:
    """Reads one ring buffer of one GPU, each sample once.

    ``what`` names it where it is not supported; ``to_unit`` turns the driver's value into the record's.
    """

    def __init__(self, buffer: Buffer, what: str, to_unit: Callable[[float], float]) -> None:
        self._buffer = buffer
        self._what = what
        self._to_unit = to_unit
        self._cursor = Cursor()

    def read(self, asker: Asker, now: Now, ts_ms: int, interval_ms: int) -> Burst | None:
        """Samples since the last read, as (ms from ``ts_ms``, value); at first those of one interval.

        None: there are none, as in the buffers of an idle GPU, which run dry.
        """
        after_us = self._cursor.after_us(now)
        found = asker.ask(self._what, lambda handle: self._new(handle, after_us, now))
        if not found:
            return None
        newest_us = self._cursor.last_us = found[-1].stamp_us
        shift_us = wall_shift_us(newest_us, now)
        if shift_us is None and not after_us:
            # Of a clock that we do not know: nothing tells how old this first batch is.
            return None
        if shift_us is None:
            shift_us = now.wall_us - newest_us
        oldest_ms = 0 if after_us else ts_ms - interval_ms
        dated = [(round((one.stamp_us + shift_us) / 1000), self._to_unit(one.value)) for one in found]
        return tuple((at_ms - ts_ms, value) for at_ms, value in dated if at_ms > oldest_ms) or None

    def _new(self, handle: Handle, after_us: int, now: Now) -> list[Stamped]:
        found = gate.samples(handle, self._buffer, after_us)
        return [one for one in found if self._cursor.is_new(one.stamp_us, now)]

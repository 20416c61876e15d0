"""Reads the driver's own samples between two ticks, from its ring buffers.

A training step lasts 0.05-2 s: a poll of 1 Hz cannot see it, the buffers can.
"""

from collectors.nvml import gate
from collectors.nvml.clock import Cursor, Now, wall_shift_us
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import BufferedSample, Handle, SampleBuffer
from dutycycle.contract.units import Amount

_Burst = tuple[tuple[int, Amount], ...]


class BurstReader:
    """Reads one ring buffer of one GPU, each sample once.

    ``what`` names it where it is not supported; ``per_unit``: how many of the driver's units are one of the
    record's. Values outside ``limits`` are left out.
    """

    def __init__(self, buffer: SampleBuffer, what: str, per_unit: int, limits: tuple[float, float]) -> None:
        self._limits = limits
        self._buffer = buffer
        self._samples = gate.buffered_samples(buffer)
        self._what = what
        self._per_unit = per_unit
        self._cursor = Cursor()
        self._has_room = False

    def ask(self, query: DeviceQuery, now: Now) -> None:
        """Ask the driver for what ``read`` reads next."""
        if self._has_room:
            self._samples.after_us.value = self._cursor.after_us(now)
            query.begin(self._what, self._samples)

    def read(self, query: DeviceQuery, now: Now, ts_ms: int, interval_ms: int) -> _Burst | None:
        """Return samples since the last read as (ms from ``ts_ms``, value in the record's unit), oldest
        first.

        At first those of one interval. None: there are none, as in the buffers of an idle GPU.
        """
        after_us = self._cursor.after_us(now)
        self._samples.after_us.value = after_us
        samples = query.ask(self._what, lambda handle: self._new(handle, now))
        if not samples:
            return None
        newest_us = self._cursor.last_us = samples[-1][0]
        shift_us = wall_shift_us(newest_us, now)
        if shift_us is None and not after_us:
            # The stamps are of an unknown clock: nothing says how old this first batch is.
            return None
        if shift_us is None:
            shift_us = now.wall_us - newest_us
        from_tick_us = shift_us - ts_ms * 1000 + 500  # half a millisecond more: // rounds down
        oldest_ms = -ts_ms if after_us else -interval_ms
        per_unit, (low, high) = self._per_unit, self._limits
        burst = [
            (at_ms, value / per_unit if per_unit > 1 else value)
            for stamp_us, value in samples
            if (at_ms := (stamp_us + from_tick_us) // 1000) > oldest_ms
        ]
        impossible = [value for _, value in burst if not low <= value <= high]
        if impossible:
            for value in impossible:
                query.possible(self._what, value, self._limits)
            burst = [sample for sample in burst if low <= sample[1] <= high]
        return tuple(burst) or None

    def _new(self, handle: Handle, now: Now) -> list[BufferedSample]:
        if not self._has_room:
            self._samples.make_room(gate.buffer_size(handle, self._buffer) + 1)
        samples = self._samples(handle)
        self._has_room = len(samples) < self._samples.room  # else it is larger than it said
        return self._cursor.new_of(samples, 0, now)

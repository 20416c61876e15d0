"""Bytes per second over PCIe, from the driver's byte counters.

``nvmlDeviceGetPcieThroughput`` is not used where these counters are missing: it blocks for 20 ms a
direction, and those 20 ms say little about a second. There, the rates are absent.
"""

import time

from collectors.nvml import gate
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import (
    CounterValue,
    DeviceLostError,
    DriverUnavailableError,
    NvmlError,
    PcieField,
    UnsupportedError,
)

_LEAST_BITS = 63
"""A 32-bit counter of bytes wraps many times a second on a fast link: it has no rate."""


class PcieReader:
    """Rates of one GPU, over the time that really passed between two reads."""

    def __init__(self) -> None:
        self._fields = list(PcieField)
        self._last: dict[PcieField, tuple[float, int]] = {}

    def read(self, query: DeviceQuery) -> dict[PcieField, float]:
        """Bytes per second by direction: none at first, after a reset of the counter, or if unsupported."""
        if not self._fields:
            return {}
        at_s = time.monotonic()
        fields = tuple(self._fields)
        found = query.ask("pcie_bytes", lambda handle: gate.counters(handle, fields)) or []
        rates = {}
        for field, answer in zip(fields, found, strict=False):
            value = self._value(field, answer, query)
            if value is not None and (rate := self._rate(field, at_s, value)) is not None:
                rates[field] = rate
        return rates

    def _value(self, field: PcieField, answer: CounterValue | NvmlError, query: DeviceQuery) -> int | None:
        if isinstance(answer, CounterValue) and answer.bits < _LEAST_BITS:
            answer = UnsupportedError("counter_too_narrow")
        if isinstance(answer, CounterValue):
            return answer.value
        if isinstance(answer, DeviceLostError | DriverUnavailableError):
            raise answer
        what = field.name.lower() + "_bytes"
        if isinstance(answer, UnsupportedError) or answer.reason == "invalid_argument":
            # To a driver that does not know a field, its number is an invalid argument.
            self._fields.remove(field)
            query.count_once(what, answer)
        else:
            query.count(what, answer)
        return None

    def _rate(self, field: PcieField, at_s: float, value: int) -> float | None:
        last = self._last.get(field)
        self._last[field] = at_s, value
        if last is None or at_s <= last[0] or value < last[1]:
            return None
        return round((value - last[1]) / (at_s - last[0]))

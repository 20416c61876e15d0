"""Reads what the driver tells by the ids of fields: all in one call, each with its own answer or error.

The catalogue has the ids. NVLink's counters are asked for where GPM does not tell the same. A counter of
bytes is read as a rate, one of nanoseconds as a share of the time. ``nvmlDeviceGetPcieThroughput`` is not
used where the counters of bytes are missing: it blocks for 20 ms a direction, and those 20 ms say little
about a second. There, the rates are absent.
"""

import time
from collections import defaultdict
from collections.abc import Collection
from typing import NamedTuple

from collectors.nvml import gate
from collectors.nvml.query import DeviceQuery
from collectors.nvml.types import FieldValue, NvmlError, UnsupportedError, is_refused
from collectors.rates import Rate, rounded
from dutycycle.contract.catalogue import GPU_ROWS

_NS_PER_S = 1e9
_Id = int | tuple[int, int]
"""Of a field, with its scope where it has one."""
_MILLI: dict[_Id, str] = {83: "energy_j", 185: "power_w"}
"""Thousandths. What a GPU refuses of these (185: before Ampere, and GA100) has a call of its own."""
_NAMES = _MILLI | {row.nvml: row.field for row in GPU_ROWS if isinstance(row.nvml, int)}
"""The fields of ``Gpu`` by id."""
_ALL_LINKS, _KIB = 0xFFFFFFFF, 1024
_BEFORE_GPM: dict[_Id, str] = {
    (row.before_gpm, _ALL_LINKS): row.field for row in GPU_ROWS if row.before_gpm is not None
}
"""Counters of KiB."""
_RATES = frozenset(
    name for name in (*_NAMES.values(), *_BEFORE_GPM.values()) if name.endswith(("_per_s", "_pct"))
)
_LEAST_BITS = 63
"""A 32-bit counter of bytes wraps many times a second on a fast link: it has no rate."""


class _NamedFields(NamedTuple):
    """Names in a record by the fields' ids, and the question for all of them."""

    names: dict[_Id, str]
    question: gate.DriverCall[list[FieldValue | NvmlError]]


class FieldReader:
    """Reads fields of one GPU; rates are over the time that really passed between two reads."""

    def __init__(self, activity: Collection[str] = ()) -> None:
        """Read a GPU's fields. ``activity``: the fields that are read of what the GPU really does, where it
        has no GPM."""
        self._before_gpm = {number: name for number, name in _BEFORE_GPM.items() if name in activity}
        self._refused: set[_Id] = set()
        self._rates: defaultdict[str, Rate] = defaultdict(Rate)
        self._questions: dict[bool, _NamedFields] = {}
        """Of what is not refused, before GPM and with it."""
        self._last_read: _NamedFields | None = None
        self._asked_s: float | None = None

    def forget(self) -> None:
        """Ask again for what was refused: the library was opened anew, or the GPU's MIG mode changed. That a
        counter is at 0 then is no failure."""
        self._refused.clear()
        self._rates.clear()
        self._questions.clear()
        self._last_read = self._asked_s = None

    def ask(self, query: DeviceQuery) -> None:
        """Ask the driver for what ``read`` reads next, if that is what it read last."""
        if self._last_read is not None:
            self._asked_s = time.monotonic()
            query.begin("fields", self._last_read.question)

    def read(self, query: DeviceQuery, *, before_gpm: bool) -> dict[str, float]:
        """Give the values by fields of ``Gpu``. What the GPU does not tell is left out; a rate also at first
        and after a reset of its counter. ``before_gpm``: GPM does not tell of this GPU."""
        if (fields := self._questions.get(before_gpm)) is None:
            names = _NAMES | self._before_gpm if before_gpm else _NAMES
            names = {number: name for number, name in names.items() if number not in self._refused}
            fields = self._questions[before_gpm] = _NamedFields(names, gate.field_values(names))
        self._last_read = fields if fields.names else None
        if not fields.names:
            return {}
        at_s, self._asked_s = self._asked_s or time.monotonic(), None
        answers = query.ask("fields", fields.question) or []
        values: dict[str, float] = {}
        for (number, name), answer in zip(fields.names.items(), answers, strict=False):
            value = self._value(number, name, answer, query)
            if value is not None and name in _RATES:
                per_s = self._rates[name].per_s(value, at_s)
                if per_s is not None and name.endswith("_pct"):
                    # Counter and clock are not read at one instant: the whole time may be a little more.
                    value = tenths(min(100 * per_s / _NS_PER_S, 100.0))
                else:
                    value = rounded(per_s)
            if value is not None:
                values[name] = value
        return values

    def _value(
        self, number: _Id, name: str, answer: FieldValue | NvmlError, query: DeviceQuery
    ) -> float | None:
        if isinstance(answer, FieldValue) and name in _RATES and answer.bits < _LEAST_BITS:
            answer = UnsupportedError("counter_too_narrow")
        if isinstance(answer, FieldValue):
            if number in _MILLI:
                return answer.value / 1000
            return answer.value * _KIB if number in _BEFORE_GPM else answer.value
        what = name.removesuffix("_per_s")
        if is_refused(answer):
            self._refused.add(number)
            self._questions.clear()
            self._last_read = None
            if number not in _MILLI:
                query.count_once(what, answer)
        elif number not in _MILLI:
            query.count(what, answer)
        return None


def tenths(pct: float) -> float:
    """Round to a tenth; what is whole then has no point, as most shares of time are 0 and each is written."""
    whole = round(10 * pct)
    return whole / 10 if whole % 10 else whole // 10

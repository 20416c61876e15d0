"""Asks one GPU. What it does not support is counted once and never asked again."""

from collections.abc import Callable
from typing import Any, TypeVar

from collectors.nvml.gate import DriverCall
from collectors.nvml.types import Handle, NoDataError, NvmlError, TransientError, UnsupportedError
from dutycycle.contract.catalogue import LIMITS
from dutycycle.telemetry.events import NOT_MEASURED, Telemetry

MOST_BYTES = LIMITS["mem_total_bytes"][1]
_T = TypeVar("_T")


class DeviceQuery:
    """Queries the GPU behind ``handle``, which changes when the library is opened again.

    ``label`` names the GPU in log lines. ``DeviceLostError`` and ``DriverUnavailableError`` pass through,
    because they are about more than one call. Every other error is None, "absent".
    """

    def __init__(self, handle: Handle, label: str, telemetry: Telemetry) -> None:
        self.handle = handle
        self.label = label
        self._telemetry = telemetry
        self._unsupported: dict[str, int] = {}
        """How many of the calls for a quantity are not supported."""
        self._reported: set[tuple[str, str]] = set()

    def ask(self, what: str, *calls: Callable[[Handle], _T], of: Handle | None = None) -> _T | None:
        """Return the answer of the first supported call; None is "absent".

        ``calls`` go from the newest API to the oldest. ``of``: a MIG slice of this GPU to ask instead.
        """
        for number in range(self._unsupported.get(what, 0), len(calls)):
            try:
                return calls[number](self.handle if of is None else of)
            except NoDataError:
                return None
            except TransientError as error:
                self.count(what, error)
                return None
            except UnsupportedError as error:
                self._unsupported[what] = number + 1
                if number + 1 == len(calls):
                    self.count_once(what, error)
        return None

    def supports(self, what: str) -> bool:
        """Tell whether the newest of the calls for a quantity has not been refused."""
        return not self._unsupported.get(what)

    def begin(self, what: str, question: DriverCall[Any]) -> None:
        """Have the driver asked what is the first of the calls for a quantity; ``ask`` gives the answer."""
        question.drop()
        if self.supports(what):
            question.ask(self.handle)

    def possible(self, what: str, value: float | None, limits: tuple[float, float]) -> float | None:
        """Return the value, or None, which is counted, where the driver's is outside of what a GPU can
        have."""
        if value is None or limits[0] <= value <= limits[1]:
            return value
        detail = f"{what} of {self.label} is {value:g}, which no GPU has: it is left out"
        self._telemetry.emit(NOT_MEASURED, detail, what=what, reason="out_of_range")
        return None

    def possible_memory(self, what: str, memory: tuple[int, int] | None) -> tuple[int | None, int | None]:
        """Return bytes used and in total. Absent, and counted, is the total where it is 0 or more than a GPU
        has, with what is used of it; and what is used where it is more than there is."""
        if memory is None:
            return None, None
        used, total = memory
        if self.possible(what, total, (1, MOST_BYTES)) is None:
            return None, None
        return (None if self.possible(what, used, (0, total)) is None else used), total

    def count_once(self, what: str, error: NvmlError) -> None:
        """Count, once for this GPU and reason, that ``what`` cannot be measured."""
        if (what, error.reason) not in self._reported:
            self._reported.add((what, error.reason))
            self.count(what, error)

    def count(self, what: str, error: NvmlError) -> None:
        """Count that ``what`` was not measured this time."""
        detail = f"{what} of {self.label} is left out"
        self._telemetry.emit(NOT_MEASURED, detail, what=what, reason=error.reason)

    def forget(self, *names: str) -> None:
        """Ask again for what was refused, for all without ``names``: the GPU's MIG mode changed, and with it
        what the GPU supports, or the library was opened anew."""
        for name in names or [*self._unsupported]:
            self._unsupported.pop(name, None)

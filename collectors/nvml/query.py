"""Asks one GPU, and remembers what it cannot answer: said once, never asked again."""

from collections.abc import Callable
from typing import TypeVar

from collectors.nvml.errors import Hiccup, Nothing, Refused, Unsupported
from collectors.nvml.types import Handle
from telemetry.events import NOT_MEASURED, Telemetry

T = TypeVar("T")


class Asker:
    """Asks the GPU behind ``handle``, which may be renewed. ``label`` names the GPU in what is logged.

    ``Lost`` and ``Away`` go through to the caller: they are about the whole device or driver. Every other
    refusal is None, "absent". What a device can answer changes with its MIG mode: then ``forget``.
    """

    def __init__(self, handle: Handle, label: str, telemetry: Telemetry) -> None:
        self.handle = handle
        self.label = label
        self._telemetry = telemetry
        self._refused: dict[str, int] = {}
        self._said: set[tuple[str, str]] = set()

    def ask(self, what: str, *ways: Callable[[Handle], T], of: Handle | None = None) -> T | None:
        """The first of ``ways`` that answers for this GPU, or for its MIG slice ``of``; None is "absent"."""
        first = self._refused.get(what, 0)
        for number, way in enumerate(ways[first:], start=first):
            try:
                return way(self.handle if of is None else of)
            except Nothing:
                return None
            except Hiccup as refusal:
                self.count(what, refusal)
                return None
            except Unsupported as refusal:
                self._refused[what] = number + 1
                if number + 1 == len(ways):
                    self.say(what, refusal)
        return None

    def say(self, what: str, refusal: Refused) -> None:
        """Say, once for this GPU, that ``what`` cannot be measured."""
        if (what, refusal.reason) not in self._said:
            self._said.add((what, refusal.reason))
            self.count(what, refusal)

    def count(self, what: str, refusal: Refused) -> None:
        """Count that ``what`` was not measured this time."""
        detail = f"{what} of {self.label} is left out"
        self._telemetry.emit(NOT_MEASURED, detail, what=what, reason=refusal.reason)

    def forget(self) -> None:
        """Ask everything again: the device was set up anew."""
        self._refused.clear()

"""Writes what stands beside annotations: Leases, labels and Events. One request at a time, and none that is
repeated: a later look says more than one that failed."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import BusyError, GoneError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import WRITE_RETRIED, Telemetry
from sinks.annotations.forbidden import RETRY_S
from sinks.permissions import MissingPermissions

NEVER = float("-inf")
T = TypeVar("T")


class BesideWriter(ABC, Generic[T]):
    """Writes what is due. ``sink``: whose metrics count a failure.

    A server that is busy or hangs holds all back; what it cannot do for one object alone, such as an Event
    that a webhook of its namespace should admit and does not, holds that one.
    """

    kind: Kind
    look_s = 1.0
    most: int | None = None
    """So many at one look, at most; None for all."""

    def __init__(
        self, server: ApiServer, sink: str, telemetry: Telemetry, clock: Callable[[], float]
    ) -> None:
        self._server, self._sink, self._telemetry, self._clock = server, sink, telemetry, clock
        self._lacking = MissingPermissions(self.kind.name, telemetry)
        self._held_until = NEVER
        self._postponed: dict[str, float] = {}
        """Says before which moment what is due is not tried, by its label."""

    def sampled(self, node: str, ts_ms: int) -> None:
        """Note that a sample of the node was measured at ``ts_ms``."""

    def take(self, record: Any) -> None:
        """Note what a record says."""

    async def run(self, may_write: Callable[[], bool]) -> None:
        """Write what is due, until cancelled."""
        while True:
            await self.write_due(may_write)
            await asyncio.sleep(self.look_s)

    async def write_due(self, may_write: Callable[[], bool]) -> None:
        """Write what is due now."""
        now, tried = self._clock(), 0
        self._postponed = {label: until for label, until in self._postponed.items() if now < until}
        for due in self._due():
            if not may_write() or self._clock() < self._held_until or tried == self.most:
                return
            label = self._label(due)
            if label in self._postponed:
                continue
            tried += 1
            try:
                await self._write(due)
            except BusyError as error:
                self._telemetry.emit(WRITE_RETRIED, f"{label}: {error}", sink=self._sink, reason=error.reason)
                until = self._postponed[label] = self._clock() + (error.retry_after_s or RETRY_S)
                if error.everything or error.reason == "timeout":
                    self._held_until = until
                    self._postponed[label] += RETRY_S  # if it was this one alone, the others go first
            except (GoneError, RefusedError) as error:
                self._refused(due, error)

    def forget(self) -> None:
        """Forget the objects, which are another worker's now."""
        self._lacking.clear("another worker may write them now")
        self._postponed.clear()

    @abstractmethod
    def _due(self) -> Iterable[T]: ...

    @abstractmethod
    def _label(self, due: T) -> str: ...

    @abstractmethod
    async def _write(self, due: T) -> None: ...

    @abstractmethod
    def _refused(self, due: T, error: GoneError | RefusedError) -> None: ...

"""Writes Kubernetes Events: what is in one says ``kube.events``, and which are due ``core.occurrences``.

One request at a time, and so many a second. Nothing is held for long: while a pod is idle its records go on
to say so. A fault that hit a pod is told once, and waits for half an hour.
"""

import asyncio
import time
from collections.abc import Callable

from dutycycle.contract.records.health import GpuEvent, NodeHealth
from dutycycle.contract.records.parts import JobInsight, PodInsight
from dutycycle.kube.errors import BusyError, GoneError, RefusedError
from dutycycle.kube.events import EVENT, new_event, repetition
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import WRITE_RETRIED, Telemetry
from sinks.annotations.core.occurrences import Due, Occurrences
from sinks.annotations.forbidden import RETRY_S
from sinks.events import EVENT_FAILED
from sinks.permissions import MissingPermissions

_LOOK_S = 1.0
AT_ONCE = 5
"""So many Events at one look, at most: beside the limit of all requests."""
_THERE_ALREADY = "409"
_NEVER = float("-inf")


class ObjectEvents:
    """Writes the Events of pods, jobs and nodes. ``sink``: whose metrics count a failure; ``wall``: Unix
    seconds."""

    def __init__(
        self,
        server: ApiServer,
        sink: str,
        telemetry: Telemetry,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._server = server
        self._sink = sink
        self._telemetry = telemetry
        self._clock = clock
        self._wall = wall
        self.occurrences = Occurrences()
        self._held_until = _NEVER
        self._lacking = MissingPermissions(EVENT.name, telemetry)

    def take(self, record: PodInsight | JobInsight | NodeHealth | GpuEvent) -> None:
        """Note what holds of a pod, a job or a node, and what hit a pod."""
        self.occurrences.take(record)

    async def run(self, may_write: Callable[[], bool]) -> None:
        """Write what is due, until cancelled."""
        while True:
            await self.write_due(may_write)
            await asyncio.sleep(_LOOK_S)

    async def write_due(self, may_write: Callable[[], bool]) -> None:
        """Write what is due now, as far as the limit goes."""
        every = self.occurrences.due(round(self._wall() * 1000))
        if count := self.occurrences.given_up:
            self.occurrences.given_up = 0
            self._telemetry.emit(EVENT_FAILED, "faults of GPUs that hit pods, half an hour ago", count=count)
        for due in every[:AT_ONCE]:
            if not may_write() or self._clock() < self._held_until:
                return
            await self._write_or_hold(due)

    def forget(self) -> None:
        """Forget the objects, which are another worker's now."""
        self.occurrences.clear()
        self._lacking.clear("another worker may write them now")

    async def _write_or_hold(self, due: Due) -> None:
        try:
            await self._write(due)
        except BusyError as error:
            self._telemetry.emit(
                WRITE_RETRIED, f"Event {due.occurrence.name}: {error}", sink=self._sink, reason=error.reason
            )
            self._held_until = self._clock() + (error.retry_after_s or RETRY_S)
        except (GoneError, RefusedError) as error:
            self._refused(due, error)
        else:
            self.occurrences.done(due)

    async def _write(self, due: Due) -> None:
        """Make an Event the first time, later go on with its series; make it too where Kubernetes has
        forgotten it."""
        occurrence, namespace = due.occurrence, due.occurrence.namespace
        if due.count > 1:
            try:
                await self._server.merge(EVENT, occurrence.name, namespace, repetition(due.count, due.at_ms))
            except GoneError:
                self._lacking.clear("allowed now", "patch ")
            else:
                self._lacking.clear("allowed now", "patch ")
                return
        try:
            await self._server.create(EVENT, new_event(occurrence, due.at_ms))
        except BusyError as error:
            if error.reason != _THERE_ALREADY:
                raise
        self._lacking.clear("allowed now", "create ")

    def _refused(self, due: Due, error: GoneError | RefusedError) -> None:
        if self._lacking.add(error):
            self._held_until = self._clock() + RETRY_S
            return
        self._telemetry.emit(EVENT_FAILED, f"{due.occurrence.reason} of {due.target}: {error}")
        self.occurrences.done(due)

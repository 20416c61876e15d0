"""Writes Kubernetes Events: what is in one says ``kube.events``, and which are due ``core.occurrences``.

Only so many a second. Nothing is held for long: while a pod is idle its records go on to say so. A fault that
hit a pod is told once, and waits for half an hour.
"""

import time
from collections.abc import Callable
from typing import Any

from dutycycle.contract.records.health import GpuEvent, NodeHealth
from dutycycle.contract.records.parts import JobInsight, PodInsight
from dutycycle.kube.errors import BusyError, GoneError, RefusedError
from dutycycle.kube.events import EVENT, new_event, repetition
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.beside import BesideWriter
from sinks.annotations.core.occurrences import Due, Occurrences
from sinks.annotations.forbidden import RETRY_S
from sinks.events import EVENT_FAILED

AT_ONCE = 5
"""So many Events at one look: beside the limit of all requests."""
_THERE_ALREADY = "409"


class ObjectEvents(BesideWriter[Due]):
    """Writes the Events of pods, jobs and nodes. ``wall``: Unix seconds."""

    kind, most = EVENT, AT_ONCE

    def __init__(
        self, server: ApiServer, sink: str, telemetry: Telemetry, clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(server, sink, telemetry, clock)
        self._wall = wall
        self.occurrences = Occurrences()

    def take(self, record: Any) -> None:
        """Note what holds of a pod, a job or a node, and what hit a pod."""
        if isinstance(record, PodInsight | JobInsight | NodeHealth | GpuEvent):
            self.occurrences.take(record)

    def forget(self) -> None:
        """Forget the objects, which are another worker's now."""
        super().forget()
        self.occurrences.clear()

    def _due(self) -> list[Due]:
        """Return what is due now."""
        every = self.occurrences.due(round(self._wall() * 1000))
        if count := self.occurrences.given_up:
            self.occurrences.given_up = 0
            self._telemetry.emit(EVENT_FAILED, "faults of GPUs that hit pods, half an hour ago", count=count)
        return every

    def _label(self, due: Due) -> str:
        return f"Event {due.occurrence.name}"

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
                self.occurrences.done(due)
                return
        try:
            await self._server.create(EVENT, new_event(occurrence, due.at_ms))
        except BusyError as error:
            if error.reason != _THERE_ALREADY:
                raise
        self._lacking.clear("allowed now", "create ")
        self.occurrences.done(due)

    def _refused(self, due: Due, error: GoneError | RefusedError) -> None:
        if self._lacking.add(error):
            self._held_until = self._clock() + RETRY_S
            return
        self._telemetry.emit(EVENT_FAILED, f"{due.occurrence.reason} of {due.target}: {error}")
        self.occurrences.done(due)

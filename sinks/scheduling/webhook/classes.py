"""Keeps a PriorityClass for each priority that a pod may get now, and deletes those that none can get."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from dutycycle.kube.discovery import PRIORITY_CLASS
from dutycycle.kube.errors import BusyError, GoneError, KubeError
from dutycycle.kube.heartbeat import LABELS
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import PRIORITY_CLASSES
from sinks.events import PRIORITY_CLASSES_AWAY
from sinks.scheduling.core import classes
from sinks.scheduling.core.policy import Policy
from sinks.scheduling.webhook.admission import CLASS_PREFIX

OURS = {**LABELS, "app.kubernetes.io/component": "webhook"}
_SELECTOR = ",".join(f"{name}={value}" for name, value in OURS.items())
_MANAGER = "dutycycle-webhook"
_EVERY_S = 10.0
_SETTLE_S = 2.0
_KEPT_S = 600.0
"""So long a class stays that none can get any more: another replica may still give it."""


class PriorityClasses:
    """Makes and deletes the classes of ``policy``. ``wall``: Unix seconds.

    An API server refuses a pod whose class it does not know yet, and learns of classes by a watch. So a class
    is made ahead of time, and given only when it has been there for a round.
    """

    def __init__(
        self, server: ApiServer, policy: Policy, telemetry: Telemetry, *,
        wall: Callable[[], float] = time.time, kept_s: float = _KEPT_S,
    ) -> None:  # fmt: skip
        self._server, self._policy, self._telemetry, self._wall = server, policy, telemetry, wall
        self._kept_s = kept_s
        self._seen: set[int] = set()
        """By the round before."""
        self._settled: list[int] = []
        self._useless_since: dict[int, float] = {}
        self._listed_s = float("-inf")
        self.ready = asyncio.Event()
        """Set when there are classes to give."""

    def name(self, user_class: str, priority: int) -> str | None:
        """Return the class for a wanted priority; None while there is none in the band of the user's class,
        or it is not known which there are."""
        if not self._current():
            return None
        value = classes.nearest(self._settled, self._policy.band(user_class), priority)
        return None if value is None else f"{CLASS_PREFIX}{value}"

    def readiness_error(self) -> str | None:
        """Return None once there are classes, and while it is known which."""
        if not self.ready.is_set():
            return "PriorityClasses are being made"
        return None if self._current() else "it is not known which PriorityClasses there are by now"

    def _current(self) -> bool:
        """Tell whether the list is new enough: what was listed long ago may have been deleted by another
        replica: its pod would be refused."""
        return self._wall() - self._listed_s < self._kept_s / 2

    async def run(self) -> None:
        """Make and delete classes until cancelled; an API server that is away is waited for."""
        while True:
            try:
                await self.refresh()
            except KubeError as error:
                self._telemetry.raise_condition(PRIORITY_CLASSES_AWAY, "classes", f"{error}; trying again")
            else:
                self._telemetry.clear_condition(PRIORITY_CLASSES_AWAY, "classes", "they are up to date")
            await asyncio.sleep(_EVERY_S if self.ready.is_set() else _SETTLE_S)

    async def refresh(self) -> None:
        """Make once what is wanted, and delete what has been useless for a while. Raises ``KubeError``."""
        now_s = self._wall()
        # Our classes by their priority: the metadata. A class that somebody changed is none.
        there = {
            priority_class["value"]: priority_class["metadata"]
            async for priority_class in self._server.whole(PRIORITY_CLASS, selector=_SELECTOR)
            if priority_class["metadata"]["name"] == f"{CLASS_PREFIX}{priority_class['value']}"
            and priority_class.get("preemptionPolicy") == "Never"
        }
        self._listed_s = now_s
        self._settled = sorted(
            value for value in there if value in self._seen and classes.usable(self._policy, value, now_s)
        )
        self._telemetry.metrics.gauge(PRIORITY_CLASSES).set(len(self._settled))
        if self._settled:
            self.ready.set()
        self._seen = set(there)
        for priority in sorted(classes.wanted(self._policy, now_s) - there.keys(), reverse=True):
            try:
                await self._server.submit(PRIORITY_CLASS, self._class(priority), _MANAGER)
            except BusyError as error:
                if error.reason != "409":  # else another replica has just made it
                    raise
            else:
                self._seen.add(priority)
        # Pods whose class is deleted keep their priority: the API server never looks at the class again.
        useless = {value for value in there if not classes.usable(self._policy, value, now_s)}
        self._useless_since = {value: self._useless_since.get(value, now_s) for value in useless}
        for priority, since_s in self._useless_since.items():
            if now_s - since_s >= self._kept_s:
                meta = there[priority]
                with suppress(GoneError):  # another replica was faster
                    await self._server.delete(PRIORITY_CLASS, meta["name"], None, meta["uid"], "Background")

    def _class(self, priority: int) -> dict[str, Any]:
        band = next(
            possible_band
            for possible_band in self._policy.bands.values()
            if possible_band.low <= priority <= possible_band.high
        )
        moment_s = self._policy.epoch_s + (band.high - priority) * self._policy.quantum_s
        moment = datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return {
            "apiVersion": PRIORITY_CLASS.api_version, "kind": PRIORITY_CLASS.name,
            "metadata": {"name": f"{CLASS_PREFIX}{priority}", "labels": OURS},
            "value": priority, "preemptionPolicy": "Never", "globalDefault": False,
            "description": f"Dutycycle gives and deletes it. Place in the queue: {moment}",
        }  # fmt: skip

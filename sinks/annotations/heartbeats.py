"""Renews the Lease of each node that samples come of: what is in it, and why, says ``kube.heartbeat``.

One request at a time, and none that is repeated: the next renewal says more than one that failed.
"""

import asyncio
import time
from collections.abc import Callable

from dutycycle.contract.metering import heard_ms
from dutycycle.kube.errors import BusyError, GoneError, RefusedError
from dutycycle.kube.heartbeat import LEASE, new_lease, renewal
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.telemetry.events import WRITE_RETRIED, Telemetry
from sinks.annotations.forbidden import RETRY_S
from sinks.events import HEARTBEAT_FAILED
from sinks.permissions import MissingPermissions

_LOOK_S = 1.0
_SILENT = 5
"""After so many periods without a sample, nothing is said of a node any more."""
_NEVER = float("-inf")


class Heartbeats:
    """Keeps the newest sample of each node, until its Lease says it. ``sink``: whose metrics count a failure;
    ``wall``: Unix seconds."""

    def __init__(
        self,
        server: ApiServer,
        period_s: float,
        sink: str,
        telemetry: Telemetry,
        clock: Callable[[], float],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._wall = wall
        self._server = server
        self._period_s = period_s
        self._sink = sink
        self._telemetry = telemetry
        self._clock = clock
        self._sampled_ms: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._failing: dict[str, float] = {}
        """Nodes whose Lease is refused, and when that was tried last."""
        self._lacking = MissingPermissions(LEASE.name, telemetry)
        self._held_until = _NEVER
        self._no_create_until = _NEVER

    def sampled(self, node: str, ts_ms: int) -> None:
        """Note that a sample of the node was measured at ``ts_ms``; the Lease of a dead node must run out."""
        self._sampled_ms[node] = heard_ms(ts_ms, self._wall())

    async def run(self, may_write: Callable[[], bool]) -> None:
        """Renew what is due, until cancelled. A period of 0: nothing ever is."""
        while self._period_s:
            await self.renew_due(may_write)
            await asyncio.sleep(_LOOK_S)

    async def renew_due(self, may_write: Callable[[], bool]) -> None:
        """Renew what is due now."""
        for node in self._due():
            if not may_write() or self._clock() < self._held_until:
                return
            await self._renew(node)

    def forget(self) -> None:
        """Forget the nodes, which are another worker's now."""
        for node in list(self._failing):
            self._recovered(node, "another worker may renew it now")
        self._lacking.clear("another worker may renew them now")
        self._sampled_ms.clear()
        self._not_before.clear()

    def _due(self) -> list[str]:
        now = self._clock()
        self._not_before = {node: at for node, at in self._not_before.items() if now < at}
        for node, at in list(self._failing.items()):
            if now > at + _SILENT * self._period_s:
                self._recovered(node, "no samples come of it any more")
        return [node for node in self._sampled_ms if node not in self._not_before]

    async def _renew(self, node: str) -> None:
        sampled_ms = self._sampled_ms.pop(node, None)
        if sampled_ms is None:  # forgotten during the renewal before
            return
        self._not_before[node] = self._clock() + self._period_s
        try:
            await self._write(node, sampled_ms)
        except BusyError as error:
            self._telemetry.emit(
                WRITE_RETRIED, f"Lease {node}: {error}", sink=self._sink, reason=error.reason
            )
            self._held_until = self._clock() + (error.retry_after_s or RETRY_S)
        except (GoneError, RefusedError) as error:
            self._refused(node, error)
        else:
            self._recovered(node, "renewed")

    async def _write(self, node: str, sampled_ms: int) -> None:
        """Renew the Lease, or make it: only then it is asked for the Node."""
        try:
            await self._server.merge(LEASE, node, self._server.namespace, renewal(sampled_ms, self._period_s))
        except GoneError:
            self._lacking.clear("allowed now", "patch ")
            if self._clock() < self._no_create_until:
                raise
        else:
            self._lacking.clear("allowed now", "patch ")
            return
        uid = (await self._server.metadata(ObjectRef("v1", "Node", node)))["uid"]
        lease = new_lease(node, uid, self._server.namespace, sampled_ms, self._period_s)
        await self._server.create(LEASE, lease)
        self._lacking.clear("allowed now")

    def _refused(self, node: str, error: GoneError | RefusedError) -> None:
        lacks = self._lacking.add(error)
        if lacks.startswith("patch "):
            self._held_until = self._clock() + RETRY_S
        elif lacks:
            self._no_create_until = self._clock() + RETRY_S
        elif not self._lacking:
            self._failing[node] = self._clock()
            self._telemetry.raise_condition(HEARTBEAT_FAILED, node, f"{error}; annotations go on")

    def _recovered(self, node: str, detail: str) -> None:
        if self._failing.pop(node, None) is not None:
            self._telemetry.clear_condition(HEARTBEAT_FAILED, node, detail)

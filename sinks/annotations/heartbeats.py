"""Renews the Lease of each node that samples come of: what is in it, and why, says ``kube.heartbeat``."""

import time
from collections.abc import Callable, Iterator

from dutycycle.contract.metering import heard_ms
from dutycycle.kube.errors import GoneError, RefusedError
from dutycycle.kube.heartbeat import LEASE, new_lease, renewal
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.beside import NEVER, BesideWriter
from sinks.annotations.forbidden import RETRY_S
from sinks.events import HEARTBEAT_FAILED

_SILENT = 5
"""After so many periods without a sample, nothing is said of a node any more."""


class Heartbeats(BesideWriter[str]):
    """Keeps the newest sample of each node, until its Lease says it. ``wall``: Unix seconds."""

    kind = LEASE

    def __init__(
        self, server: ApiServer, period_s: float, sink: str, telemetry: Telemetry,
        clock: Callable[[], float], wall: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        super().__init__(server, sink, telemetry, clock)
        self._wall, self._period_s = wall, period_s
        self._sampled_ms: dict[str, int] = {}
        self._not_before: dict[str, float] = {}
        self._failing: dict[str, float] = {}
        """Nodes whose Lease is refused, and when that was tried last."""
        self._no_create_until = NEVER

    def sampled(self, node: str, ts_ms: int) -> None:
        """Note that a sample of the node was measured at ``ts_ms``; the Lease of a dead node must run out."""
        self._sampled_ms[node] = heard_ms(ts_ms, self._wall())

    def forget(self) -> None:
        """Forget the nodes, which are another worker's now."""
        super().forget()
        for node in list(self._failing):
            self._recovered(node, "another worker may renew it now")
        self._sampled_ms.clear()
        self._not_before.clear()

    def _due(self) -> Iterator[str]:
        now = self._clock()
        self._not_before = {node: at for node, at in self._not_before.items() if now < at}
        for node, at in list(self._failing.items()):
            if now > at + _SILENT * self._period_s:
                self._recovered(node, "no samples come of it any more")
        for node in list(self._sampled_ms):
            if node in self._sampled_ms and node not in self._not_before:  # else forgotten meanwhile
                yield node

    def _label(self, due: str) -> str:
        return f"Lease {due}"

    async def _write(self, due: str) -> None:
        """Renew the Lease, or make it: only then it is asked for the Node."""
        sampled_ms = self._sampled_ms.pop(due)
        self._not_before[due] = self._clock() + self._period_s
        try:
            await self._server.merge(LEASE, due, self._server.namespace, renewal(sampled_ms, self._period_s))
        except GoneError:
            self._lacking.clear("allowed now", "patch ")
            if self._clock() < self._no_create_until:
                raise
            uid = (await self._server.metadata(ObjectRef("v1", "Node", due)))["uid"]
            lease = new_lease(due, uid, self._server.namespace, sampled_ms, self._period_s)
            await self._server.create(LEASE, lease)
            self._lacking.clear("allowed now")
        else:
            self._lacking.clear("allowed now", "patch ")
        self._recovered(due, "renewed")

    def _refused(self, due: str, error: GoneError | RefusedError) -> None:
        lacks = self._lacking.add(error)
        if lacks.startswith("patch "):
            self._held_until = self._clock() + RETRY_S
        elif lacks:
            self._no_create_until = self._clock() + RETRY_S
        elif not self._lacking:
            self._failing[due] = self._clock()
            self._telemetry.raise_condition(HEARTBEAT_FAILED, due, f"{error}; annotations go on")

    def _recovered(self, node: str, detail: str) -> None:
        if self._failing.pop(node, None) is not None:
            self._telemetry.clear_condition(HEARTBEAT_FAILED, node, detail)

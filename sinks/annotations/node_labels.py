"""Keeps three labels on each node that samples come of: whether its GPUs are idle, throttled, unhealthy.

Labels are what schedulers and people select nodes by. One request at a time, and only what has changed.
"""

import asyncio
from collections.abc import Callable, Mapping

from dutycycle.kube.discovery import NODE
from dutycycle.kube.errors import BusyError, GoneError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import WRITE_RETRIED, Telemetry
from sinks.annotations.core.node import CONDITIONS, GPU_THROTTLED
from sinks.annotations.forbidden import RETRY_S
from sinks.events import NODE_LABELS_FAILED
from sinks.permissions import MissingPermissions

_LOOK_S = 5.0
_SILENT_S = 600.0
"""After so long without a sample nothing is known of a node any more: its labels are taken away."""
_CALM_S = 300.0
"""A node counts as throttled for so long after the last sample that says it: clocks go up and down."""
_NEVER = float("-inf")
_UNKNOWN: Mapping[str, bool] = {}


class NodeLabels:
    """Writes labels on nodes. ``conditions``: what holds of a node now, by name. ``sink``: whose metrics
    count a failure."""

    def __init__(
        self, server: ApiServer, prefix: str, conditions: Callable[[str], Mapping[str, bool]], sink: str,
        telemetry: Telemetry, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        self._server, self._prefix, self._conditions = server, prefix, conditions
        self._sink, self._telemetry, self._clock = sink, telemetry, clock
        self._sampled_at: dict[str, float] = {}
        self._throttled_at: dict[str, float] = {}
        self._written: dict[str, Mapping[str, bool]] = {}
        self._not_before: dict[str, float] = {}
        self._held_until = _NEVER
        self._lacking = MissingPermissions(NODE.name, telemetry)

    def sampled(self, node: str) -> None:
        """Note that a sample of the node has come."""
        self._sampled_at[node] = self._clock()

    async def run(self, may_write: Callable[[], bool]) -> None:
        """Write what has changed, until cancelled."""
        while True:
            await self.write_due(may_write)
            await asyncio.sleep(_LOOK_S)

    async def write_due(self, may_write: Callable[[], bool]) -> None:
        """Write what has changed now."""
        for node in list(self._sampled_at):
            if not may_write() or self._clock() < self._held_until:
                return
            wanted = self._wanted(node)
            if self._written.get(node) != wanted and self._clock() >= self._not_before.get(node, _NEVER):
                await self._write(node, wanted)

    def forget(self) -> None:
        """Forget the nodes, which are another worker's now."""
        self._lacking.clear("another worker may write them")
        for known in (self._sampled_at, self._throttled_at, self._written, self._not_before):
            known.clear()

    def _wanted(self, node: str) -> Mapping[str, bool]:
        now = self._clock()
        if now - self._sampled_at[node] > _SILENT_S:
            return _UNKNOWN
        holds = dict(self._conditions(node))
        if holds.get(GPU_THROTTLED):
            self._throttled_at[node] = now
        elif GPU_THROTTLED in holds and now - self._throttled_at.get(node, _NEVER) < _CALM_S:
            holds[GPU_THROTTLED] = True
        return holds

    async def _write(self, node: str, wanted: Mapping[str, bool]) -> None:
        labels = {
            f"{self._prefix}/{name}": str(wanted[name]).lower() if name in wanted else None
            for name in CONDITIONS
        }
        try:
            await self._server.merge(NODE, node, "", {"metadata": {"labels": labels}})
        except BusyError as error:
            self._telemetry.emit(
                WRITE_RETRIED, f"labels of {node}: {error}", sink=self._sink, reason=error.reason
            )
            self._held_until = self._clock() + (error.retry_after_s or RETRY_S)
        except (GoneError, RefusedError) as error:
            self._refused(node, error)
        else:
            self._succeeded(node, wanted)

    def _refused(self, node: str, error: GoneError | RefusedError) -> None:
        self._not_before[node] = self._clock() + RETRY_S
        if self._lacking.add(error):
            self._held_until = self._clock() + RETRY_S
        elif isinstance(error, RefusedError):
            self._telemetry.raise_condition(NODE_LABELS_FAILED, node, f"{error}; annotations go on")

    def _succeeded(self, node: str, wanted: Mapping[str, bool]) -> None:
        self._written[node] = wanted
        self._telemetry.clear_condition(NODE_LABELS_FAILED, node, "written")
        self._lacking.clear("allowed now")
        if wanted is _UNKNOWN:
            for known in (self._sampled_at, self._throttled_at, self._written, self._not_before):
                known.pop(node, None)

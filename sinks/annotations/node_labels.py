"""Keeps three labels on each node that samples come of: whether its GPUs are idle, throttled, unhealthy.

Labels are what schedulers and people select nodes by. Only what has changed is written; now and
then all of it, as the node may be a new one.
"""

from collections.abc import Callable, Iterator, Mapping

from dutycycle.kube.discovery import NODE
from dutycycle.kube.errors import GoneError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.beside import NEVER, BesideWriter
from sinks.annotations.core.node import CONDITIONS, GPU_THROTTLED
from sinks.annotations.core.targets import NODE_FRESH_S
from sinks.annotations.forbidden import RETRY_S
from sinks.events import NODE_LABELS_FAILED

_SILENT_S = 600.0
"""After so long without a sample nothing is known of a node any more: its labels are taken away."""
_CALM_S = 300.0
"""A node counts as throttled for so long after the last sample that says it: clocks go up and down."""
_UNKNOWN: Mapping[str, bool] = {}
_Labels = tuple[str, Mapping[str, bool]]
"""A node, and what holds of it."""


class NodeLabels(BesideWriter[_Labels]):
    """Writes labels on nodes. ``conditions``: what holds of a node now, by name."""

    kind, look_s = NODE, 5.0

    def __init__(
        self, server: ApiServer, prefix: str, conditions: Callable[[str], Mapping[str, bool]], sink: str,
        telemetry: Telemetry, clock: Callable[[], float],
    ) -> None:  # fmt: skip
        super().__init__(server, sink, telemetry, clock)
        self._prefix, self._conditions = prefix, conditions
        self._sampled_at: dict[str, float] = {}
        self._throttled_at: dict[str, float] = {}
        self._written: dict[str, tuple[Mapping[str, bool], float]] = {}
        """Holds the labels of a node, and until when they count as being there."""
        self._not_before: dict[str, float] = {}

    def sampled(self, node: str, ts_ms: int) -> None:
        """Note that a sample of the node has come."""
        self._sampled_at[node] = self._clock()

    def forget(self) -> None:
        """Forget the nodes, which are another worker's now."""
        super().forget()
        for known in (self._sampled_at, self._throttled_at, self._written, self._not_before):
            known.clear()

    def _due(self) -> Iterator[_Labels]:
        for node in list(self._sampled_at):
            if node not in self._sampled_at or self._clock() < self._not_before.get(node, NEVER):
                continue
            wanted = self._wanted(node)
            written, until = self._written.get(node, (None, NEVER))
            if written != wanted or self._clock() > until:
                yield node, wanted

    def _wanted(self, node: str) -> Mapping[str, bool]:
        now = self._clock()
        if now - self._sampled_at[node] > _SILENT_S:
            return _UNKNOWN
        holds = dict(self._conditions(node))
        if holds.get(GPU_THROTTLED):
            self._throttled_at[node] = now
        elif GPU_THROTTLED in holds and now - self._throttled_at.get(node, NEVER) < _CALM_S:
            holds[GPU_THROTTLED] = True
        return holds

    def _label(self, due: _Labels) -> str:
        return f"labels of {due[0]}"

    async def _write(self, due: _Labels) -> None:
        node, wanted = due
        labels = {
            f"{self._prefix}/{name}": str(wanted[name]).lower() if name in wanted else None
            for name in CONDITIONS
        }
        await self._server.merge(NODE, node, "", {"metadata": {"labels": labels}})
        self._written[node] = wanted, self._clock() + NODE_FRESH_S
        self._telemetry.clear_condition(NODE_LABELS_FAILED, node, "written")
        self._lacking.clear("allowed now")
        if wanted is _UNKNOWN:
            for known in (self._sampled_at, self._throttled_at, self._written, self._not_before):
                known.pop(node, None)

    def _refused(self, due: _Labels, error: GoneError | RefusedError) -> None:
        self._not_before[due[0]] = self._clock() + RETRY_S
        if self._lacking.add(error):
            self._held_until = self._clock() + RETRY_S
        elif isinstance(error, RefusedError):
            self._telemetry.raise_condition(NODE_LABELS_FAILED, due[0], f"{error}; annotations go on")

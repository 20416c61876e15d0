"""Reads which pool each node is of: a label of the node says it, and the API server has that."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from dutycycle.kube.client import Limits
from dutycycle.kube.discovery import NODE
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer, connect

KNOWN = "known"
KNOWN_LABELS = (
    "cloud.google.com/gke-nodepool", "eks.amazonaws.com/nodegroup", "karpenter.sh/nodepool",
    "kubernetes.azure.com/agentpool",
)  # fmt: skip
"""What ``KNOWN`` stands for: the labels of GKE, EKS, Karpenter and AKS."""
NO_POOL = "(none)"
"""The pool of a node without any of the labels."""
_EVERY_S = 60.0
"""A node keeps its pool; new ones are seen after so long."""
_LIMITS = Limits(answer_s=30.0)


class NodePools:
    """Knows the pools as they were read last. ``labels``: those that name one, the first that a node has
    counts; none: no node is read. ``refused`` hears of what the API server does not answer, or refuses."""

    def __init__(self, labels: Sequence[str], refused: Callable[[KubeError], object]) -> None:
        self._setting = f"DUTYCYCLE_WEB_POOLS={','.join(labels)}"
        self._labels = tuple(
            key for label in labels for key in (KNOWN_LABELS if label == KNOWN else (label,))
        )
        self._refused = refused
        self._reading: asyncio.Task[None] | None = None
        self._server: ApiServer | None = None
        self.of_node: Mapping[str, str] = {}
        self.problem = ""
        """Why the pools are not known, or not those of now."""

    async def open(self) -> None:
        """Find the API server, and read from it until closed. Raises ``SettingError`` where there is none."""
        if self._labels and self._server is None:
            self._server = await connect(
                "on", asked_by=self._setting, limits=_LIMITS, user_agent="dutycycle-web"
            )
            assert self._server is not None  # noqa: S101 - "on" finds one, or raises
            self._reading = asyncio.create_task(self._read(self._server))

    async def close(self) -> None:
        """Disconnect from it."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading
        if self._server is not None:
            await self._server.close()

    async def _read(self, server: ApiServer) -> None:
        while True:
            try:
                nodes = [metadata async for metadata in server.each(NODE)]
            except KubeError as error:
                self._refused(error)
                self.problem = f"the API server does not tell of nodes: {error}"
            else:
                labels = {node["name"]: node.get("labels") or {} for node in nodes}
                self.of_node = {
                    name: next((str(given[key]) for key in self._labels if given.get(key)), NO_POOL)
                    for name, given in labels.items()
                }
                self.problem = ""
            await asyncio.sleep(_EVERY_S)

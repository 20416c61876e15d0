"""Writes one object's annotations: what is there is read once, then known from each answer."""

from typing import Protocol

from sinks.annotation_diff import Patch, Present, diff, is_enough, split
from sinks.annotation_keys import PODS_OMITTED
from sinks.annotation_targets import Target
from sinks.annotations import Annotations
from sinks.events import PODS_OMITTED as SOME_OMITTED
from sinks.kube_errors import BusyError, RefusedError
from wire.events import Telemetry

_MAY_BE_ANOTHER = frozenset({"409", "422"})
"""How an API server answers a patch with the uid of another object: 422 in Kubernetes 1.36."""


class Server(Protocol):
    """What is needed of the API server: ``sinks.kube.Kube`` in life."""

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        ...

    async def annotations(self, target: Target) -> dict[str, str]:
        """All annotations of the object."""
        ...

    async def annotate(self, target: Target, patch: Patch) -> dict[str, str]:
        """Merge a patch; all annotations after it."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


class AnnotationWriter:
    """Knows what each object carries, from its own reading and writing."""

    def __init__(self, server: Server, prefix: str, annotations: Annotations, telemetry: Telemetry) -> None:
        self._server = server
        self._prefix = prefix
        self._annotations = annotations
        self._telemetry = telemetry
        self._present: dict[Target, Present] = {}

    async def write(self, target: Target, *, exact: bool) -> bool:
        """Write what differs if it is worth it, or with ``exact`` in any case. False: it was not worth it.

        Raises the errors of ``kube_errors``.
        """
        present = await self._known(target)
        wanted = self._annotations.wanted(target, present)
        patch = diff(target.kind, self._prefix, wanted, present.ours)
        if not patch:
            return True
        if not exact and not is_enough(patch, present.ours):
            return False
        if f"{self._prefix}/{PODS_OMITTED}" in patch:
            self._telemetry.emit(SOME_OMITTED, str(target))
        self._present[target] = split(self._prefix, await self._patch(target, patch))
        return True

    def forget(self, target: Target) -> None:
        """Read the object anew the next time."""
        self._present.pop(target, None)

    def clear(self) -> None:
        """Read every object anew."""
        self._present.clear()

    async def _known(self, target: Target) -> Present:
        known = self._present.get(target)
        if known is None:
            known = split(self._prefix, await self._server.annotations(target))
            self._annotations.adopt(target, known)
            self._present[target] = known
        return known

    async def _patch(self, target: Target, patch: Patch) -> dict[str, str]:
        try:
            return await self._server.annotate(target, patch)
        except (BusyError, RefusedError) as error:
            self.forget(target)
            if target.uid is not None and error.reason in _MAY_BE_ANOTHER:
                await self._server.annotations(target)  # raises GoneError for another uid
            raise

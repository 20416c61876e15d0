"""Writes one object's annotations: what is there is read once, then known from each answer."""

from collections.abc import Collection
from dataclasses import dataclass

from dutycycle.kube.errors import BusyError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Patch
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import Present, changed, diff, goes_back, has_figures, split
from sinks.annotations.core.keys import PODS_OMITTED
from sinks.annotations.core.schedule import ChangeThreshold
from sinks.annotations.core.targets import Target
from sinks.annotations.forbidden import ForbiddenKindError, ForbiddenKinds
from sinks.events import ANNOTATIONS_FULL
from sinks.events import PODS_OMITTED as SOME_OMITTED

_MAY_BE_ANOTHER = frozenset({"409", "422"})
"""How an API server answers a patch with the uid of another object: 422 in Kubernetes 1.36."""

_FORBIDDEN = "403"


@dataclass(frozen=True, slots=True)
class Written:
    """The object carries what it should. ``sent``: by a patch, in which ``changed`` differed by much."""

    sent: bool
    changed: frozenset[str] = frozenset()


class AnnotationWriter:
    """Knows what each object carries, from its own reading and writing."""

    def __init__(
        self,
        server: ApiServer,
        prefix: str,
        annotations: Annotations,
        forbidden: ForbiddenKinds,
        telemetry: Telemetry,
    ) -> None:
        self._server = server
        self._forbidden = forbidden
        self._prefix = prefix
        self._annotations = annotations
        self._telemetry = telemetry
        self._present: dict[Target, Present] = {}
        self._full: set[Target] = set()
        """Of which it was told that not all fits."""
        self._generation = 0

    async def write(
        self, target: Target, threshold: ChangeThreshold, damped: Collection[str] = ()
    ) -> Written | None:
        """Write what differs if as much as ``threshold`` says has changed; None: it was not that much.

        With the threshold MUCH, something that is not ``damped`` has to have changed.

        Raises ``KubeError``.
        """
        present = await self._known(target)
        wanted = self._annotations.wanted(target, present)
        count = self._annotations.left_out(target, wanted)
        if not count:
            self._full.discard(target)
        elif target not in self._full:
            self._full.add(target)
            detail = f"{target}: {count} keys do not fit beside its other annotations, of 256 KiB in all"
            self._telemetry.emit(ANNOTATIONS_FULL, detail, kind=target.kind)
        surplus = self._annotations.surplus(target, present, wanted)
        patch = diff(target.kind, self._prefix, wanted, present.ours, surplus)
        if not patch:
            return Written(sent=False)
        older = threshold is not ChangeThreshold.TIME_STAMP and goes_back(self._prefix, wanted, present.ours)
        differs = changed(target.kind, patch, present.ours)
        if older or not _is_enough(patch, differs.difference(damped), threshold):
            return None
        if f"{self._prefix}/{PODS_OMITTED}" in patch:
            self._telemetry.emit(SOME_OMITTED, str(target))
        generation = self._generation
        self._learn(target, await self._patch(target, patch), generation)
        self._forbidden.allowed(target, "patch")
        return Written(sent=True, changed=differs)

    def forget(self, target: Target) -> None:
        """Read the object anew the next time."""
        self._present.pop(target, None)
        self._full.discard(target)

    def clear(self) -> None:
        """Read every object anew; what is under way is not learnt any more, as others may write next."""
        self._generation += 1
        self._present.clear()
        self._full.clear()

    async def _known(self, target: Target) -> Present:
        known = self._present.get(target)
        if known is None:
            generation = self._generation
            known = self._learn(target, await self._read(target), generation)
            self._forbidden.allowed(target, "get")
            self._annotations.adopt(target, known)
        return known

    async def _read(self, target: Target) -> dict[str, str]:
        try:
            return await self._server.annotations(target.ref)
        except RefusedError as error:
            if target.kind == "job" and error.reason == _FORBIDDEN:
                raise ForbiddenKindError(str(error)) from error
            raise

    def _learn(self, target: Target, annotations: dict[str, str], generation: int) -> Present:
        present = split(self._prefix, annotations)
        if generation == self._generation:
            self._present[target] = present
        return present

    async def _patch(self, target: Target, patch: Patch) -> dict[str, str]:
        try:
            return await self._server.annotate(target.ref, patch)
        except (BusyError, RefusedError) as error:
            self.forget(target)
            if target.uid is not None and error.reason in _MAY_BE_ANOTHER:
                await self._server.annotations(target.ref)  # raises GoneError for another uid
            raise


def _is_enough(patch: Patch, differs: Collection[str], threshold: ChangeThreshold) -> bool:
    if threshold is ChangeThreshold.MUCH:
        return bool(differs)
    return threshold is ChangeThreshold.TIME_STAMP or bool(differs) or has_figures(patch)

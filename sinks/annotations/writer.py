"""Writes one object's annotations: what is there is read once, then known from each answer; of a node it is
read again where none has come for a while."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from dutycycle.kube.errors import BusyError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import Present, diff, split, worth_writing
from sinks.annotations.core.keys import PODS_OMITTED
from sinks.annotations.core.schedule import DueWrite
from sinks.annotations.core.targets import NODE_FRESH_S, Target
from sinks.annotations.forbidden import ForbiddenKindError, Refusals
from sinks.events import ANNOTATIONS_FULL
from sinks.events import PODS_OMITTED as SOME_OMITTED

_MAY_BE_ANOTHER = frozenset({"409", "422"})
"""How an API server answers a patch with the uid of another object: 422 in Kubernetes 1.36."""

_FORBIDDEN = "403"


@dataclass(frozen=True, slots=True)
class Written:
    """Says that the object carries what it should. ``sent``: by a patch, in which ``changed`` differed by
    much."""

    sent: bool
    changed: frozenset[str] = frozenset()


class AnnotationWriter:
    """Knows what each object carries, from its own reading and writing."""

    def __init__(
        self,
        server: ApiServer,
        prefix: str,
        annotations: Annotations,
        refusals: Refusals,
        telemetry: Telemetry,
        clock: Callable[[], float],
    ) -> None:
        self._server = server
        self._refusals = refusals
        self._prefix = prefix
        self._annotations = annotations
        self._telemetry = telemetry
        self._clock = clock
        self._present: dict[Target, Present] = {}
        self._fresh_until: dict[Target, float] = {}
        """Says of nodes until when what they carry is not read again."""
        self._full: set[Target] = set()
        """Of which it was told that not all fits."""
        self._generation = 0

    async def write(self, due: DueWrite) -> Written | None:
        """Write what differs if enough has changed; None: it was not that much. Raises ``KubeError``."""
        target = due.target
        present = self._present.get(target)
        if present is None or self._clock() > self._fresh_until.get(target, inf):
            generation = self._generation
            try:
                annotations = await self._server.annotations(target.ref)
            except RefusedError as error:
                if target.kind == "job" and error.reason == _FORBIDDEN:
                    raise ForbiddenKindError(str(error)) from error
                raise
            present = self._learn(target, annotations, generation)
            self._refusals.allowed(target, "get")
            self._annotations.adopt(target, present)
        wanted = self._annotations.wanted(target, present)
        if wanted.left_out and target not in self._full:
            detail = (
                f"{target}: {wanted.left_out} keys do not fit beside its other annotations, of 256 KiB in all"
            )
            self._telemetry.emit(ANNOTATIONS_FULL, detail, kind=target.kind)
        (self._full.add if wanted.left_out else self._full.discard)(target)
        kind, prefix, texts = target.kind, self._prefix, wanted.texts
        patch = diff(kind, prefix, texts, present.ours, wanted.surplus)
        if not patch:
            return Written(sent=False)
        changed = worth_writing(kind, prefix, patch, texts, present.ours, due.threshold, due.damped)
        if changed is None:
            return None
        if f"{prefix}/{PODS_OMITTED}" in patch:
            self._telemetry.emit(SOME_OMITTED, str(target))
        generation = self._generation
        try:
            annotations = await self._server.annotate(target.ref, patch)
        except (BusyError, RefusedError) as error:
            self.forget(target)
            if target.uid is not None and error.reason in _MAY_BE_ANOTHER:
                await self._server.annotations(target.ref)  # raises GoneError for another uid
            raise
        self._learn(target, annotations, generation)
        self._refusals.allowed(target, "patch")
        return Written(sent=True, changed=changed)

    def forget(self, target: Target) -> None:
        """Read the object anew the next time."""
        self._present.pop(target, None)
        self._fresh_until.pop(target, None)
        self._full.discard(target)

    def clear(self) -> None:
        """Read every object anew; what is under way is not learnt any more, as others may write next."""
        self._generation += 1
        self._present.clear()
        self._fresh_until.clear()
        self._full.clear()

    def _learn(self, target: Target, annotations: dict[str, str], generation: int) -> Present:
        present = split(self._prefix, annotations)
        if generation == self._generation:
            self._present[target] = present
            if target.kind == "node":
                self._fresh_until[target] = self._clock() + NODE_FRESH_S
        return present

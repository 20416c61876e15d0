"""Finds the job of a pod: walks up the owner references, over owners that were read a while ago.

A job of a hundred pods so costs one walk and not a hundred.
"""

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.telemetry.events import OWNER_FORBIDDEN, Telemetry

_FORBIDDEN = "403"
_MOST_LEVELS = 16  # bounds what a chain of owners that never ends would read
_NO_JOBS = frozenset({"Node"})
"""Owners that are no job: a static pod belongs to its node."""

ReadOwner = Callable[[ObjectRef], Awaitable[Metadata | None]]
"""The metadata of an owner, or None where it is not known: it may not be read, or is gone."""


def controller_of(meta: Metadata, namespace: str) -> ObjectRef | None:
    """Return the owner that manages an object of this namespace: the one marked so, else the first."""
    references = meta.get("ownerReferences") or ()
    managing = [reference for reference in references if reference.get("controller")] or list(references)
    if not managing:
        return None
    version, kind, name, uid = (managing[0].get(key, "") for key in ("apiVersion", "kind", "name", "uid"))
    return ObjectRef(version, kind, name, namespace, uid)


async def topmost_owner(pod: Metadata, read: ReadOwner) -> ObjectRef | None:
    """Return the topmost owner that can be read; the one that the pod itself names where not even that can.

    An owner whose uid is not the one referred to is another object of the same name: it counts as gone.
    Owners that own each other end the walk at the last new one. What ``read`` raises passes through.
    """
    namespace = pod.get("namespace", "")
    at = controller_of(pod, namespace)
    if at is None or at.kind in _NO_JOBS:
        return None
    top, seen = at, {at.uid}
    while len(seen) <= _MOST_LEVELS:
        meta = await read(at)
        if meta is None or meta.get("uid") != at.uid:
            break
        top, at = at, controller_of(meta, namespace) or at
        if at.uid in seen:
            break
        seen.add(at.uid)
    return top


@dataclass(frozen=True, slots=True)
class _OwnerEntry:
    """Holds what is known of an owner, and when it was asked for last; ``meta`` is None for one never
    read."""

    asked_s: float
    meta: Metadata | None
    forbidden: bool


class OwnerCache:
    """Reads owners, and remembers ``kept`` of them by uid, those too that could not be read.

    After ``fresh_s`` the next walk reads an owner again: it may have been adopted, or a role permits it now.
    """

    def __init__(
        self,
        api: ApiServer,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.monotonic,
        *,
        fresh_s: float = 300.0,
        kept: int = 10_000,
    ) -> None:
        self._api = api
        self._telemetry = telemetry
        self._clock = clock
        self._fresh_s = fresh_s
        self._kept = kept
        self._known: OrderedDict[str | None, _OwnerEntry] = OrderedDict()

    async def job_of(self, pod: Metadata) -> tuple[ObjectRef | None, bool]:
        """Return the pod's topmost owner, and whether a permission lacks to read further. Raises as
        ``read``."""
        asked: list[ObjectRef] = []

        async def read(owner: ObjectRef) -> Metadata | None:
            asked.append(owner)
            return await self.read(owner)

        top = await topmost_owner(pod, read)
        return top, bool(asked) and self._known[asked[-1].uid].forbidden

    async def read(self, owner: ObjectRef) -> Metadata | None:
        """Return the owner's metadata, as last read; None for one that never was: gone before, or forbidden.

        An owner that was read and is gone is still who it was: the garbage collector deletes owners first,
        and their pods belong to the same job to their end.

        Raises ``KubeError`` where the server has not answered for this owner yet.
        """
        now, known = self._clock(), self._known.get(owner.uid)
        if known is not None and now - known.asked_s < self._fresh_s:
            return known.meta
        before = known.meta if known is not None else None
        try:
            metadata: Metadata | None = await self._api.metadata(owner)
        except GoneError:
            metadata = before
        except KubeError as error:
            if error.reason != _FORBIDDEN:
                if known is None:
                    raise
                return before
            about = f"{owner.api_version} {owner.kind}"
            below = "pods below it count for the last owner that can be read, or that they name"
            self._telemetry.emit(OWNER_FORBIDDEN, f"{error.detail}; {below}", about=about, kind=owner.kind)
            return self._remember(owner, _OwnerEntry(now, before, forbidden=True))
        return self._remember(owner, _OwnerEntry(now, metadata, forbidden=False))

    def _remember(self, owner: ObjectRef, known: _OwnerEntry) -> Metadata | None:
        self._known[owner.uid] = known
        self._known.move_to_end(owner.uid)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)
        return known.meta

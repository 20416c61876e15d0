"""Owners that were read a while ago, so that a job of a hundred pods costs one walk and not a hundred."""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from collectors.pods.api import ApiError, ApiServer
from collectors.pods.owner import Meta, Owner, topmost_owner
from telemetry.events import OWNER_FORBIDDEN, Telemetry

_FORBIDDEN = 403
_KEPT = 10_000
_FRESH_S = 300.0
"""After this the next walk reads an owner again: it may have been adopted, or be permitted to be read."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of an owner, and when it was last asked for; ``meta`` is None for one never read."""

    asked_s: float
    meta: Meta | None
    forbidden: bool


class OwnerCache:
    """Reads owners through a cache by uid; what could not be read is remembered, too."""

    def __init__(
        self, api: ApiServer, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._telemetry = telemetry
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def job_of(self, pod: Meta) -> tuple[Owner | None, bool]:
        """The pod's topmost owner, and whether a permission lacks to look above it. Raises as ``read``."""
        asked: list[Owner] = []

        def read(namespace: str, owner: Owner) -> Meta | None:
            asked.append(owner)
            return self.read(namespace, owner)

        top = topmost_owner(pod, read)
        return top, bool(asked) and self._known[asked[-1].uid].forbidden

    def read(self, namespace: str, owner: Owner) -> Meta | None:
        """The owner's metadata, as last read; None for one that never was: gone before, or forbidden.

        An owner that was read and is gone is still who it was: the garbage collector deletes owners first,
        and their pods belong to the same job to their end.

        Raises ``ApiError`` where the server has not answered for this owner yet.
        """
        now, known = self._clock(), self._known.get(owner.uid)
        if known is not None and now - known.asked_s < _FRESH_S:
            return known.meta
        before = known.meta if known is not None else None
        try:
            found = self._api.owner(namespace, owner)
        except ApiError as error:
            if error.status != _FORBIDDEN:
                if known is None:
                    raise
                return before
            self._say_forbidden(owner, error)
            return self._remember(owner, _Known(now, before, forbidden=True))
        is_it = found is not None and found.get("uid") == owner.uid
        return self._remember(owner, _Known(now, found if is_it else before, forbidden=False))

    def _say_forbidden(self, owner: Owner, error: ApiError) -> None:
        detail = f"{error.reason}; pods below it count for the last owner that can be read, or that they name"
        resource = f"{owner.api_version} {owner.kind}"
        self._telemetry.emit(OWNER_FORBIDDEN, detail, about=resource, kind=owner.kind)

    def _remember(self, owner: Owner, known: _Known) -> Meta | None:
        self._known[owner.uid] = known
        self._known.move_to_end(owner.uid)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return known.meta

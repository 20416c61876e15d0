"""Owners that were read a while ago, so that a job of a hundred pods costs one walk and not a hundred."""

import time
from collections import OrderedDict
from collections.abc import Callable

from collectors.pods_api import ApiError, ApiServer
from collectors.pods_owner import Meta, Owner
from wire.events import OWNER_FORBIDDEN, Telemetry

_FORBIDDEN = 403
_KEPT = 10_000
_FRESH_S = 300.0
"""After this an owner is read again: it may have been adopted, or the permission to read it given."""


class OwnerCache:
    """Reads owners through a cache by uid; what could not be read is remembered, too."""

    def __init__(
        self, api: ApiServer, telemetry: Telemetry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._api = api
        self._telemetry = telemetry
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Meta | None]] = OrderedDict()

    def read(self, namespace: str, owner: Owner) -> Meta | None:
        """As ``ApiServer.owner``; None as well where that is forbidden. While the server is away, as before.

        Raises ``ApiError`` for one that was never read.
        """
        now = self._clock()
        read_s, meta = self._known.get(owner.uid, (float("-inf"), None))
        if now - read_s < _FRESH_S:
            return meta
        try:
            meta = self._api.owner(namespace, owner)
        except ApiError as error:
            if error.status == _FORBIDDEN:
                detail = f"{error.reason}; pods below it count for the last owner that can be read"
                resource = f"{owner.api_version} {owner.kind}"
                self._telemetry.emit(OWNER_FORBIDDEN, detail, about=resource, kind=owner.kind)
                return self._remember(owner, now, None)
            if owner.uid not in self._known:
                raise
            return meta
        return self._remember(owner, now, meta)

    def _remember(self, owner: Owner, now: float, meta: Meta | None) -> Meta | None:
        self._known[owner.uid] = (now, meta)
        self._known.move_to_end(owner.uid)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return meta

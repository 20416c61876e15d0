"""Owners that were read a while ago, so that a job of a hundred pods costs one walk and not a hundred."""

import time
from collections import OrderedDict
from collections.abc import Callable

from collectors.pods_api import ApiError, ApiServer
from collectors.pods_owner import Meta, Owner

_KEPT = 10_000
_FRESH_S = 300.0
"""After this an owner is read again: it may have been adopted, or the permission to read it given."""


class OwnerCache:
    """Reads owners through a cache by uid; what could not be read is remembered, too."""

    def __init__(self, api: ApiServer, clock: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._clock = clock
        self._known: OrderedDict[str, tuple[float, Meta | None]] = OrderedDict()

    def read(self, namespace: str, owner: Owner) -> Meta | None:
        """As ``ApiServer.owner``; while the server is away, what was known last.

        Raises ``ApiError`` for one that was never read.
        """
        now = self._clock()
        read_s, meta = self._known.get(owner.uid, (float("-inf"), None))
        if now - read_s < _FRESH_S:
            return meta
        try:
            meta = self._api.owner(namespace, owner)
        except ApiError:
            if owner.uid not in self._known:
                raise
            return meta
        self._known[owner.uid] = (now, meta)
        self._known.move_to_end(owner.uid)
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return meta

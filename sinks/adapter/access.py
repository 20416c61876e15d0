"""Asks what a user may, by the API server's own word: a SubjectAccessReview, remembered for a few seconds."""

import time
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from dutycycle.kube.discovery import Kind
from dutycycle.kube.objects import ApiServer
from sinks.adapter.front_proxy import User
from sinks.permissions import MissingPermissions

_REVIEW = Kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
_EVERYTHING = "system:masters"
"""A group that may everything: no webhook or role can take it away, so nobody is asked."""
_REMEMBERED_S = 10.0
ALLOWED = "allowed now"
_MOST = 10_000


class AccessReviewer:
    """Asks ``server``, and says when ``lacking`` is over. Raises ``KubeError`` where it does not answer."""

    def __init__(
        self, server: ApiServer, lacking: MissingPermissions, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._server = server
        self._lacking = lacking
        self._clock = clock
        self._known: dict[bytes, tuple[bool, float]] = {}

    async def allows(self, user: User, attributes: Mapping[str, Any]) -> bool:
        """Tell whether a user may do what is asked. ``attributes``: ``resourceAttributes`` or
        ``nonResourceAttributes`` of the review."""
        if _EVERYTHING in user.groups:
            return True
        spec = {
            "user": user.name, "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()}, **attributes,
        }  # fmt: skip
        question = orjson.dumps(spec)
        allowed, until_s = self._known.get(question, (False, 0.0))
        if until_s <= self._clock():
            allowed = bool((await self._server.review(_REVIEW, spec)).get("allowed"))
            self._lacking.clear(ALLOWED, "create ")
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[question] = allowed, self._clock() + _REMEMBERED_S
        return allowed

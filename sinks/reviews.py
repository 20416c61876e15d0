"""Whose a token is, and what a user may, by the API server's own word, which is remembered for a while."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson

from dutycycle.kube.discovery import Kind
from dutycycle.kube.objects import ApiServer

_ACCESS = Kind("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)
_TOKEN = Kind("authentication.k8s.io/v1", "TokenReview", "tokenreviews", namespaced=False)
_EVERYTHING = "system:masters"
"""A group that may everything: no webhook or role can take it away, so nobody is asked."""
_REMEMBERED_S = 10.0
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class User:
    """Somebody whom the API server, or who asks for him, has authenticated."""

    name: str
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)


class Reviewer:
    """Asks ``server``. Raises ``KubeError`` where it does not answer. ``heard``: is called when it has."""

    def __init__(
        self,
        server: ApiServer,
        heard: Callable[[], None] = lambda: None,
        remembered_s: float = _REMEMBERED_S,
    ) -> None:
        self._server = server
        self._heard = heard
        self._remembered_s = remembered_s
        self._known: dict[bytes, tuple[Mapping[str, Any], float]] = {}

    async def allows(self, user: User, attributes: Mapping[str, Any]) -> bool:
        """``attributes``: ``resourceAttributes`` or ``nonResourceAttributes`` of the review."""
        if _EVERYTHING in user.groups:
            return True
        spec = {
            "user": user.name, "groups": list(user.groups),
            "extra": {name: list(values) for name, values in user.extra.items()}, **attributes,
        }  # fmt: skip
        return bool((await self._status(_ACCESS, spec)).get("allowed"))

    async def user_of(self, token: str) -> User | None:
        """Return whose the bearer token is; None of one that the API server does not know."""
        status = await self._status(_TOKEN, {"token": token})
        user = status.get("user") or {}
        if not status.get("authenticated") or not user.get("username"):
            return None
        extra = {name: tuple(values or ()) for name, values in (user.get("extra") or {}).items()}
        return User(user["username"], tuple(user.get("groups") or ()), extra)

    async def _status(self, kind: Kind, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        # No token is kept.
        question = sha256(orjson.dumps((kind.name, spec))).digest()
        status, until_s = self._known.get(question, ({}, 0.0))
        if until_s <= time.monotonic():
            status = await self._server.review(kind, spec)
            self._heard()
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[question] = status, time.monotonic() + self._remembered_s
        return status

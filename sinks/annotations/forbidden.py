"""Remembers objects that are not to be written now: those that are gone, and those that no role lets us
write.

A kind of jobs that we may not read was left out on purpose: that is no error.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from dutycycle.kube.errors import GoneError, KubeError
from dutycycle.telemetry.events import Event, Telemetry
from sinks.annotations.core.targets import Target
from sinks.events import KIND_FORBIDDEN, OBJECT_GONE, PERMISSION_MISSING
from sinks.permissions import missing_permission

RETRY_S = 25.0
"""How often one object of a kind is tried: when the permission is given, all are written within a minute."""
NODE_S = 60.0
"""A Node may be registered later under the same name."""
UID_S = 3600.0
"""A uid is never given twice. Records of it go on for a while, of a static pod as long as that runs."""
_Scope = tuple[str, str, str | None]


class ForbiddenKindError(GoneError):
    """Says that no role lets us read the job: its kind is not one to be annotated. Asked again after a
    while."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "403")


@dataclass(slots=True)
class Refusal:
    """Says why an object is not written (``event``): it is gone, or a permission lacks; and when it is tried
    next."""

    event: Event
    permission: str
    until: float


class Refusals:
    """Remembers kinds by namespace, as a role may be of one alone: each permission is one condition. Of what
    is not there it remembers each object: none is asked for again with each record that names it."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._refusals: dict[_Scope, Refusal] = {}
        self._gone_until: dict[Target, float] = {}

    def refusal(self, target: Target) -> Refusal | None:
        """Tell why an object is not tried now. None: it is, and where a permission lacked no other of its
        kind for a while."""
        now = self._clock()
        if now < (until := self._gone_until.get(target, -inf)):
            return Refusal(OBJECT_GONE, "", until)
        refusal = self._refusals.get(_scope(target))
        if refusal is None or now < refusal.until:
            return refusal
        refusal.until = now + RETRY_S
        return None

    def add(self, target: Target, error: KubeError) -> bool:
        """Note that the API server refused ``target`` for want of a permission; tell whether that is new."""
        event = KIND_FORBIDDEN if isinstance(error, ForbiddenKindError) else PERMISSION_MISSING
        permission = missing_permission(str(error)) or f"get {target.api_kind}"
        known = self._refusals.get(_scope(target))
        if known is not None and known.permission != permission:
            self._clear(_scope(target), "allowed now")
        self._refusals[_scope(target)] = Refusal(event, permission, self._clock() + RETRY_S)
        detail = f"{error}; none of its objects is annotated where no role allows get and patch"
        self._telemetry.raise_condition(event, permission, detail, kind=target.api_kind)
        return known is None or known.permission != permission

    def add_gone(self, target: Target) -> None:
        """Note that the API server has no such object."""
        self.allowed(target, "get")
        now = self._clock()
        self._gone_until = {gone: until for gone, until in self._gone_until.items() if now < until}
        self._gone_until[target] = now + (NODE_S if target.uid is None else UID_S)

    def allowed(self, target: Target, verb: str) -> None:
        """Note that an object of this kind could be read (``get``) or written (``patch``)."""
        refusal = self._refusals.get(_scope(target))
        if refusal is not None and refusal.permission.startswith(f"{verb} "):
            self._clear(_scope(target), "allowed now")

    def forget(self) -> None:
        """Forget the refusals: the objects are another worker's now."""
        self._gone_until.clear()
        for scope in list(self._refusals):
            self._clear(scope, "another worker may write these objects now")

    def _clear(self, scope: _Scope, detail: str) -> None:
        cleared = self._refusals.pop(scope)
        if all(refusal.permission != cleared.permission for refusal in self._refusals.values()):
            self._telemetry.clear_condition(cleared.event, cleared.permission, detail)


def _scope(target: Target) -> _Scope:
    return target.api_version, target.api_kind, target.namespace

"""What no role lets us do. A kind of jobs that we may not read was left out on purpose: that is no error."""

import re
from collections.abc import Callable

from kube.errors import GoneError, KubeError
from sinks.annotations.core.targets import Target
from sinks.events import KIND_FORBIDDEN
from telemetry.events import Telemetry

FORBIDDEN_S = 300.0
"""How long a kind that may not be read counts as such: the permission may be given later."""
_CANNOT = re.compile(r'cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?')


class ForbiddenKindError(GoneError):
    """No role lets us read the job: its kind is not one to be annotated. Asked again after a while."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "403")


class ForbiddenKinds:
    """Remembers them by namespace, as a role may be of one alone; reports each kind once."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._until: dict[tuple[str, str, str | None], float] = {}
        self._reported: set[tuple[str, str]] = set()

    def has(self, target: Target) -> bool:
        """Whether an object of its kind was refused a while ago."""
        return self._clock() < self._until.get(_scope(target), float("-inf"))

    def add(self, target: Target, error: KubeError) -> None:
        """Reading ``target`` was refused."""
        now = self._clock()
        self._until = {scope: until for scope, until in self._until.items() if now < until}
        self._until[_scope(target)] = now + FORBIDDEN_S
        kind = target.api_version, target.api_kind
        if kind not in self._reported:
            self._reported.add(kind)
            detail = f"{error}; none of its objects is annotated where no role allows get and patch"
            self._telemetry.emit(KIND_FORBIDDEN, detail, about=" ".join(kind), kind=target.api_kind)


def _scope(target: Target) -> tuple[str, str, str | None]:
    return target.api_version, target.api_kind, target.namespace


def missing_permission(message: str) -> str:
    """Verb, resource and API group that we have no right to, as the server says; "" if it does not."""
    found = _CANNOT.search(message)
    return " ".join(one for one in found.groups() if one) if found else ""

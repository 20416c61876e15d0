"""Kinds of jobs that no role lets us read: somebody chose not to have them annotated, so that is no error."""

from collections.abc import Callable

from kube.errors import KubeError
from sinks.annotations.core.targets import Target
from sinks.events import KIND_FORBIDDEN
from telemetry.events import Telemetry

FORBIDDEN_S = 300.0
"""How long a kind that may not be read counts as such: the permission may be given later."""


class ForbiddenKinds:
    """Remembers them by namespace, as a role may be of one alone; tells of each kind once."""

    def __init__(self, telemetry: Telemetry, clock: Callable[[], float]) -> None:
        self._telemetry = telemetry
        self._clock = clock
        self._until: dict[tuple[str, str, str | None], float] = {}
        self._told: set[tuple[str, str]] = set()

    def has(self, target: Target) -> bool:
        """Whether an object of its kind was refused a while ago."""
        return self._clock() < self._until.get(_place(target), float("-inf"))

    def add(self, target: Target, error: KubeError) -> None:
        """Reading ``target`` was refused."""
        now = self._clock()
        self._until = {place: until for place, until in self._until.items() if now < until}
        self._until[_place(target)] = now + FORBIDDEN_S
        kind = target.api_version, target.api_kind
        if kind not in self._told:
            self._told.add(kind)
            detail = f"{error}; none of its objects is annotated where no role allows get and patch"
            self._telemetry.emit(KIND_FORBIDDEN, detail, about=" ".join(kind), kind=target.api_kind)


def _place(target: Target) -> tuple[str, str, str | None]:
    return target.api_version, target.api_kind, target.namespace

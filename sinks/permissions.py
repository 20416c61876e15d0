"""Keeps permissions that no role gives: the API server says which, and they are a condition until it admits
us."""

import re

from dutycycle.kube.errors import KubeError
from dutycycle.telemetry.events import Telemetry
from sinks.events import PERMISSION_MISSING

_CANNOT = re.compile(r'cannot (\w+) resource "([^"]+)"(?: in API group "([^"]*)")?')


class MissingPermissions:
    """Keeps those for one ``kind`` of what is read or written: each is one condition while it lacks.
    ``meanwhile``: what becomes of the rest."""

    def __init__(self, kind: str, telemetry: Telemetry, meanwhile: str = "annotations go on") -> None:
        self._kind = kind
        self._meanwhile = meanwhile
        self._telemetry = telemetry
        self._lacking: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._lacking)

    def add(self, error: KubeError) -> str:
        """Note that the API server refused a request; the permission that lacks, "" where none does."""
        lacks = missing_permission(str(error)) if error.reason == "403" else ""
        if lacks:
            self._lacking.add(lacks)
            detail = f"{error}; {self._meanwhile}"
            self._telemetry.raise_condition(PERMISSION_MISSING, lacks, detail, kind=self._kind)
        return lacks

    def clear(self, detail: str, beginning: str = "") -> None:
        """Note that the permissions that begin so are there, or are another worker's."""
        for permission in [lacking for lacking in self._lacking if lacking.startswith(beginning)]:
            self._lacking.remove(permission)
            self._telemetry.clear_condition(PERMISSION_MISSING, permission, detail)


def missing_permission(message: str) -> str:
    """Return verb, resource and API group that we have no right to, as the server says; "" if it does not."""
    match = _CANNOT.search(message)
    return " ".join(group for group in match.groups() if group) if match else ""

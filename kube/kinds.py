"""Where the API server keeps the objects of a kind, by discovery. One code path serves every kind.

A kind that is not served is remembered for a while, and asked for again after it: its definition may be
installed later. Where the version that an owner reference names is not served any more, another version of
the same group is used: objects are the same in all of them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kube.errors import GoneError, NoKindError

MISSING_S = 300.0
"""How long a kind that is not served counts as such."""
Get = Callable[[str], Awaitable[dict[str, Any]]]
"""The JSON object at a path."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind as the API serves it: ``group`` is the beginning of its paths."""

    api_version: str
    name: str
    plural: str
    namespaced: bool
    verbs: frozenset[str] = frozenset()

    def path(self, name: str | None = None, namespace: str | None = None) -> str:
        """Of one object, of all in a namespace, or of all there are."""
        begin = group_path(self.api_version)
        place = f"/namespaces/{namespace}" if self.namespaced and namespace is not None else ""
        return f"{begin}{place}/{self.plural}" + (f"/{name}" if name is not None else "")


def group_path(api_version: str) -> str:
    """Where a version of a group is served."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Kinds:
    """The kinds that were asked for so far."""

    def __init__(self, get: Get, clock: Callable[[], float]) -> None:
        self._get = get
        self._clock = clock
        self._served: dict[str, dict[str, Kind]] = {}
        self._missing: dict[tuple[str, str], float] = {}
        self._elsewhere: dict[tuple[str, str], Kind] = {}

    async def find(self, api_version: str, kind: str) -> Kind:
        """The kind, of this version or of another. Raises ``NoKindError`` where no version is served."""
        who = api_version, kind
        if who in self._elsewhere:
            return self._elsewhere[who]
        if self._clock() < self._missing.get(who, float("-inf")):
            raise NoKindError(f"{api_version} has no kind {kind}")
        found = (await self.of_version(api_version)).get(kind)
        if found is None:
            found = await self._of_another(api_version, kind)
        return found

    async def of_version(self, api_version: str) -> dict[str, Kind]:
        """All kinds of a version, by name; none where it is not served. Asked once, if it has some."""
        if api_version not in self._served:
            found = await self._ask(api_version)
            if not found:
                return {}
            self._served[api_version] = found
        return self._served[api_version]

    async def every(self) -> AsyncIterator[Kind]:
        """Every kind that the API server has, each in one version: the one it prefers, where that has it."""
        groups = (await self._get("/apis")).get("groups") or ()
        versions = ["v1"]
        for group in groups:
            preferred = group["preferredVersion"]["groupVersion"]
            others = (one["groupVersion"] for one in group["versions"])
            versions += [preferred, *(one for one in others if one != preferred)]
        seen: set[tuple[str, str]] = set()
        for version in versions:
            for kind in (await self.of_version(version)).values():
                who = version.rpartition("/")[0], kind.name
                if who not in seen:
                    seen.add(who)
                    yield kind

    async def _of_another(self, api_version: str, kind: str) -> Kind:
        self._served.pop(api_version, None)  # it may be installed a moment later
        group, slash, _ = api_version.rpartition("/")
        for other in await self._versions(group) if slash else ():
            if other != api_version and kind in (await self.of_version(other)):
                self._elsewhere[api_version, kind] = self._served[other][kind]
                return self._elsewhere[api_version, kind]
        self._missing[api_version, kind] = self._clock() + MISSING_S
        raise NoKindError(f"{api_version} has no kind {kind}")

    async def _versions(self, group: str) -> list[str]:
        try:
            found = await self._get(f"/apis/{group}")
        except GoneError:
            return []
        return [one["groupVersion"] for one in found.get("versions") or ()]

    async def _ask(self, api_version: str) -> dict[str, Kind]:
        try:
            found = await self._get(group_path(api_version))
        except GoneError:
            return {}
        return {
            one["kind"]: Kind(
                api_version,
                one["kind"],
                one["name"],
                bool(one["namespaced"]),
                frozenset(one.get("verbs") or ()),
            )
            for one in found.get("resources") or ()
            if "/" not in one["name"]
        }

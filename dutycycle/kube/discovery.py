"""Finds which kinds of objects the API server has, and where. One code path serves every kind.

A kind that is not served is remembered for a while, and asked for again after it: its definition may be
installed later. Where the version that an owner reference names is not served any more, another version of
the same group is used: objects are the same in all of them.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from dutycycle.kube.errors import GoneError, NoKindError
from dutycycle.kube.references import JSON

MISSING_S = 300.0
"""How long a kind that is not served counts as such."""
AGGREGATED = f"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,{JSON}"
"""All groups in one answer, since Kubernetes 1.30; an older server answers with the names of the groups.

https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery
"""


class Get(Protocol):
    """Reads the JSON object at a path; raises ``GoneError`` where there is none."""

    def __call__(self, path: str, *, accept: str = JSON) -> Awaitable[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """Describes one kind as the API serves it. ``plural`` is its name in paths and in roles.

    ``short_names`` are what people may type for it, such as ``deploy``.
    """

    api_version: str
    name: str
    plural: str
    namespaced: bool = True
    verbs: frozenset[str] = frozenset()
    short_names: frozenset[str] = frozenset()

    @property
    def group(self) -> str:
        """Return its API group, which is empty for the core."""
        return group_of(self.api_version)

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, name: str | None = None, namespace: str | None = None) -> str:
        """Return the path of one object, of all in a namespace, or of all there are."""
        place = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        path = f"{version_path(self.api_version)}{place}/{self.plural}"
        return path if name is None else f"{path}/{quote(name, safe='')}"


POD = Kind("v1", "Pod", "pods", short_names=frozenset({"po"}))
NODE = Kind("v1", "Node", "nodes", namespaced=False, short_names=frozenset({"no"}))
EVENT = Kind("v1", "Event", "events")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
PRIORITY_CLASS = Kind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", namespaced=False)


PODS_NOT_ENDED = "status.phase!=Succeeded,status.phase!=Failed"
"""Selects pods by their fields."""


def group_of(api_version: str) -> str:
    """Return the API group of a version, which is empty for the core."""
    return api_version.rpartition("/")[0]


def version_path(api_version: str) -> str:
    """Tell where a version of a group is served."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


class Kinds:
    """Remembers the kinds that were asked for so far."""

    def __init__(self, get: Get, clock: Callable[[], float]) -> None:
        self._get = get
        self._clock = clock
        self._served: dict[str, dict[str, Kind]] = {}
        self._missing: dict[tuple[str, str], float] = {}
        self._elsewhere: dict[tuple[str, str], Kind] = {}

    async def find(self, api_version: str, kind: str) -> Kind:
        """Give the kind, of this version or of another. Raises ``NoKindError`` where no version is served."""
        who = api_version, kind
        if who in self._elsewhere:
            return self._elsewhere[who]
        if self._clock() < self._missing.get(who, float("-inf")):
            raise NoKindError(f"{api_version} has no kind {kind}")
        if kind_of_version := (await self._of_version(api_version)).get(kind):
            return kind_of_version
        self._served.pop(api_version, None)  # it may be installed a moment later
        group = group_of(api_version)
        versions: list[str] = []
        if group:
            with suppress(GoneError):
                versions = _versions(await self._get(f"/apis/{group}"))
        for other in versions:
            if other != api_version and kind in (kinds := await self._of_version(other)):
                self._elsewhere[who] = kinds[kind]
                return kinds[kind]
        self._missing[who] = self._clock() + MISSING_S
        raise NoKindError(f"{api_version} has no kind {kind}")

    def forget(self, api_version: str) -> None:
        """Ask anew for all versions of this group: one that was served may be gone."""
        group = group_of(api_version)
        for version in [version for version in self._served if group_of(version) == group]:
            del self._served[version]
        for who in [who for who in self._elsewhere if group_of(who[0]) == group]:
            del self._elsewhere[who]

    async def every(self) -> tuple[Kind, ...]:
        """Return every kind that the API server has, each in one version: the one it prefers, where that has
        it."""
        first: dict[tuple[str, str], Kind] = {}
        for root in ("/api", "/apis"):
            answer = await self._get(root, accept=AGGREGATED)
            kinds = list(_aggregated(answer)) if "items" in answer else []
            # An older server tells its versions, and the kinds of one at a time.
            versions: list[str] = list(answer.get("versions") or ())
            for group in answer.get("groups") or ():
                preferred = group["preferredVersion"]["groupVersion"]
                versions += [preferred, *(version for version in _versions(group) if version != preferred)]
            for version in versions:
                kinds += (await self._of_version(version)).values()
            for kind in kinds:
                first.setdefault((kind.group, kind.name), kind)
                self._served.setdefault(kind.api_version, {})[kind.name] = kind
        return tuple(first.values())

    async def _of_version(self, api_version: str) -> dict[str, Kind]:
        """Return all kinds of a version, by name; none where it is not served. Asked once, if it has some."""
        if api_version not in self._served:
            try:
                answer = await self._get(version_path(api_version))
            except GoneError:
                return {}
            # A name with a slash is a part of an object, such as ``pods/status``.
            kinds = {
                resource["kind"]: Kind(
                    api_version, resource["kind"], resource["name"], bool(resource["namespaced"]),
                    *_verbs_and_names(resource),
                )
                for resource in answer.get("resources") or () if "/" not in resource["name"]
            }  # fmt: skip
            if not kinds:
                return {}
            self._served[api_version] = kinds
        return self._served[api_version]


def _versions(group: Mapping[str, Any]) -> list[str]:
    return [version["groupVersion"] for version in group.get("versions") or ()]


def _aggregated(answer: Mapping[str, Any]) -> Iterator[Kind]:
    """Yield the kinds of an ``APIGroupDiscoveryList``, whose versions begin with the one that the group
    prefers."""
    for group in answer["items"]:
        name = (group.get("metadata") or {}).get("name")
        for version in group["versions"]:
            api_version = f"{name}/{version['version']}" if name else version["version"]
            for resource in (
                version.get("resources") or ()
            ):  # none of a server behind it that is away just now
                kind = (resource.get("responseKind") or {}).get("kind")
                if kind:
                    namespaced = resource["scope"] == "Namespaced"
                    yield Kind(
                        api_version, kind, resource["resource"], namespaced, *_verbs_and_names(resource)
                    )


def _verbs_and_names(resource: Mapping[str, Any]) -> tuple[frozenset[str], frozenset[str]]:
    return frozenset(resource.get("verbs") or ()), frozenset(resource.get("shortNames") or ())

"""Takes away what was made in a cluster while we ran: annotations, PriorityClasses, Leases and Events.

What Helm or ``kubectl apply`` made goes with them, and what users wrote is theirs.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, TypeVar

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import DutycycleError
from dutycycle.kube.discovery import EVENT, NODE, PRIORITY_CLASS, Kind
from dutycycle.kube.errors import BusyError, GoneError, KubeError
from dutycycle.kube.events import CONTROLLER, CULLER
from dutycycle.kube.heartbeat import LEASE, SELECTOR
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from sinks.annotations.core.node import CONDITIONS

T = TypeVar("T")
_TRIES = 4
_PAUSE_S = 1.0
_LONGEST_S = 60.0
_AT_ONCE = 8
_NOT_WORKLOADS = frozenset({"policy", "autoscaling", "extensions"})
_CORE = frozenset({"Node", "Pod", "ReplicationController"})
_COPIES = frozenset({"ReplicaSet", "ControllerRevision"})
"""Kubernetes copies to them what their owner carries; to a ReplicaSet each time that either changes."""
_NEEDED = frozenset({"list", "patch"})
_WRITTEN_BY_USERS = frozenset({"trial"})
"""Keys with our prefix by which a user asks for something: they stay (docs/scheduling.md)."""


class Made(NamedTuple):
    """Names objects that are ours altogether, by a selector of their labels or fields."""

    kind: Kind
    labels: str | None = None
    fields: str | None = None


_MADE = (
    Made(PRIORITY_CLASS, labels=SELECTOR),
    Made(LEASE, labels=SELECTOR),
    Made(EVENT, fields=f"reportingComponent={CONTROLLER}"),
    Made(EVENT, fields=f"reportingComponent={CULLER}"),
)


class ServerAwayError(DutycycleError):
    """Says that the API server cannot even say which kinds it has."""


@dataclass(slots=True)
class Removal:
    """Counts what was done: annotated objects by kind, keys in all, deleted objects by kind; and what
    failed."""

    objects: Counter[str] = field(default_factory=Counter)
    keys: int = 0
    deleted: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)


Say = Callable[[str, list[str]], None]
"""Called for each object before anything is done: with its keys of ours, or none if it goes as a whole."""


def may_carry(kind: Kind, namespace: str | None) -> bool:
    """Tell whether objects of the kind can be a node, a pod or what owns pods, and lie in ``namespace`` if
    given.

    Whatever owns a pod at the top is its job, so every kind of somebody's own counts. Of Kubernetes' own
    groups, which end in ``.k8s.io`` but for those of its projects (``.x-k8s.io``), none owns pods.
    """
    if not kind.verbs >= _NEEDED or (namespace is not None and not kind.namespaced):
        return False
    group, slash, _ = kind.api_version.rpartition("/")
    if not slash:
        return kind.name in _CORE
    of_kubernetes = group.endswith(".k8s.io") and not group.endswith(".x-k8s.io")
    return not of_kubernetes and group not in _NOT_WORKLOADS


@dataclass(slots=True)
class _Remover:
    """Does it: each object is said before, and one that fails does not stop the rest."""

    server: ApiServer
    say: Say
    dry_run: bool
    done: Removal = field(default_factory=Removal)

    async def attempt(
        self, verb: str, thing: str, keys: list[str], request: Callable[[], Awaitable[object]]
    ) -> bool:
        """Say what is done with a thing, and do it; tell whether it is. False, too, where it was deleted
        meanwhile."""
        self.say(thing, keys)
        try:
            if not self.dry_run:
                await patiently(request)
        except GoneError:
            return False
        except KubeError as error:
            self.note(verb, thing, error)
            return False
        return True

    def note(self, verb: str, thing: str, error: KubeError) -> None:
        """Note a failure."""
        hint = " (a role must allow it)" if error.reason == "403" else ""
        self.done.failures.append(f"{verb} {thing}: {error}{hint}")

    async def clear_kind(self, kind: Kind, namespace: str | None, prefix: str) -> None:
        """Take our keys from the objects of one kind, a few at a time."""
        waiting: list[Metadata] = []
        try:
            async for metadata in self.server.each(kind, namespace):
                if _our_keys(metadata, prefix):
                    waiting.append(metadata)
                if len(waiting) == _AT_ONCE:
                    await asyncio.gather(*(self._clear(kind, there, prefix) for there in waiting))
                    waiting = []
        except KubeError as error:
            self.note("list", kind.plural, error)
        await asyncio.gather(*(self._clear(kind, there, prefix) for there in waiting))

    async def _clear(self, kind: Kind, metadata: Metadata, prefix: str) -> None:
        ref, keys = _ref(kind, metadata), _our_keys(metadata, prefix)
        request = partial(self.server.annotate, ref, dict.fromkeys(keys))
        if await self.attempt("patch", str(ref), keys, request):
            self.done.objects[kind.name] += 1
            self.done.keys += len(keys)

    async def clear_labels(self, prefix: str) -> None:
        """Take away the labels that nodes have by a switch."""
        ours = [f"{prefix}/{name}" for name in CONDITIONS]
        try:
            nodes = [node async for node in self.server.each(NODE)]
        except KubeError as error:
            self.note("list", NODE.plural, error)
            return
        for node in nodes:
            name, keys = node["name"], [key for key in ours if key in (node.get("labels") or {})]
            change = {"metadata": {"labels": dict.fromkeys(keys)}}
            request = partial(self.server.merge, NODE, name, "", change)
            if keys and await self.attempt("patch", f"Node {name}, labels", keys, request):
                self.done.keys += len(keys)

    async def delete(self, made: Made, namespace: str | None) -> None:
        """Delete every object of one kind that was made."""
        kind = made.kind

        async def delete(metadata: Metadata) -> None:
            ref = _ref(kind, metadata)
            request = partial(
                self.server.delete, kind, ref.name, ref.namespace, metadata["uid"], "Background"
            )
            self.done.deleted[kind.name] += await self.attempt("delete", str(ref), [], request)

        try:
            objects = self.server.each(kind, namespace, made.labels, made.fields)
            there = [metadata async for metadata in objects]
        except GoneError:  # the server has no such kind, and so none of these
            return
        except KubeError as error:
            self.note("list", kind.plural, error)
            return
        for first in range(0, len(there), _AT_ONCE):
            await asyncio.gather(*map(delete, there[first : first + _AT_ONCE]))


async def remove(
    server: ApiServer, prefix: str, namespace: str | None, say: Say, *, dry_run: bool
) -> Removal:
    """Take every key that begins with ``prefix/`` from every object, and delete what was made. With
    ``namespace`` nothing outside of it is touched.

    Raises ``ServerAwayError`` where not even the kinds can be asked for.
    """
    remover = _Remover(server, say, dry_run)
    try:
        kinds = [kind for kind in await server.kinds.every() if may_carry(kind, namespace)]
    except KubeError as error:
        raise ServerAwayError(f"the API server's kinds cannot be read: {error}") from error
    for kind in sorted(kinds, key=lambda kind_to_clear: kind_to_clear.name in _COPIES):
        await remover.clear_kind(kind, namespace, prefix)
    if namespace is None:
        await remover.clear_labels(prefix)
    for made in _MADE:
        if namespace is None or made.kind.namespaced:
            await remover.delete(made, namespace)
    return remover.done


def _our_keys(metadata: Metadata, prefix: str) -> list[str]:
    return [
        key
        for key in metadata.get("annotations") or {}
        if key.startswith(f"{prefix}/") and key.partition("/")[2] not in _WRITTEN_BY_USERS
    ]


def _ref(kind: Kind, metadata: Metadata) -> ObjectRef:
    namespace = metadata.get("namespace")
    return ObjectRef(kind.api_version, kind.name, metadata["name"], namespace, metadata.get("uid"))


async def patiently(request: Callable[[], Awaitable[T]]) -> T:
    """Ask again, four times in all, where that may help; as much later as the API server says."""
    backoff = Backoff(2 * _PAUSE_S, _LONGEST_S, spread=0)
    for _ in range(1, _TRIES):
        try:
            return await request()
        except BusyError as error:
            pause_s = backoff.next_s()
            await asyncio.sleep(
                pause_s if error.retry_after_s is None else min(error.retry_after_s, _LONGEST_S)
            )
    return await request()

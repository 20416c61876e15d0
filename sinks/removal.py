"""Takes away what was made in a cluster while we ran: annotations, PriorityClasses, Leases and Events.

What Helm or ``kubectl apply`` made goes with them, and what users wrote is theirs.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
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
from dutycycle.kube.references import Metadata
from sinks.annotations.core.node import CONDITIONS
from sinks.annotations.core.targets import Target

T = TypeVar("T")
TRIES = 4
_PAUSE_S = 1.0
_LONGEST_S = 60.0
_AT_ONCE = 8
_NOT_WORKLOADS = frozenset({"policy", "autoscaling", "extensions"})
_CORE = frozenset({"Node", "Pod", "ReplicationController"})
_COPIES = frozenset({"ReplicaSet", "ControllerRevision"})
"""Kubernetes copies to them what their owner carries; to a ReplicaSet each time that either changes."""
_NEEDED = frozenset({"list", "patch"})
WRITTEN_BY_USERS = frozenset({"trial"})
"""Keys with our prefix by which a user asks for something: they stay (docs/scheduling.md)."""


class Made(NamedTuple):
    """Names objects that are ours altogether, by a selector of their labels or fields."""

    kind: Kind
    labels: str | None = None
    fields: str | None = None


MADE = (
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


async def remove(
    server: ApiServer, prefix: str, namespace: str | None, say: Say, *, dry_run: bool
) -> Removal:
    """Take every key that begins with ``prefix/`` from every object, and delete what was made; one that
    fails does not stop the rest. With ``namespace`` nothing outside of it is touched.

    Raises ``ServerAwayError`` where not even the kinds can be asked for.
    """
    done = Removal()
    try:
        kinds = [kind for kind in await server.kinds.every() if may_carry(kind, namespace)]
    except KubeError as error:
        raise ServerAwayError(f"the API server's kinds cannot be read: {error}") from error
    for kind in sorted(kinds, key=lambda kind_to_clear: kind_to_clear.name in _COPIES):
        try:
            async for page in _pages(server, kind, namespace, prefix):
                await asyncio.gather(
                    *(_clear(server, target, keys, say, done, dry_run) for target, keys in page)
                )
        except KubeError as error:
            done.failures.append(_failure("list", kind.plural, error))
    if namespace is None:
        await _clear_labels(server, prefix, say, done, dry_run)
    for made in MADE:
        if namespace is None or made.kind.namespaced:
            await _delete(server, made, namespace, say, done, dry_run)
    return done


async def _delete(
    server: ApiServer, made: Made, namespace: str | None, say: Say, done: Removal, dry_run: bool
) -> None:
    """Delete every object of one kind that was made."""
    kind = made.kind

    async def delete(metadata: Metadata) -> None:
        target = _target(kind, metadata)
        say(str(target), [])
        try:
            if not dry_run:
                await patiently(
                    lambda: server.delete(kind, target.name, target.namespace, metadata["uid"], "Background")
                )
        except GoneError:
            return
        except KubeError as error:
            done.failures.append(_failure("delete", str(target), error))
        else:
            done.deleted[kind.name] += 1

    try:
        there = [metadata async for metadata in server.each(kind, namespace, made.labels, made.fields)]
    except GoneError:  # the server has no such kind, and so none of these
        return
    except KubeError as error:
        done.failures.append(_failure("list", kind.plural, error))
        return
    for first in range(0, len(there), _AT_ONCE):
        await asyncio.gather(*map(delete, there[first : first + _AT_ONCE]))


async def _pages(
    server: ApiServer, kind: Kind, namespace: str | None, prefix: str
) -> AsyncIterator[list[tuple[Target, list[str]]]]:
    """Yield the objects that carry keys of ours, a few at a time."""
    page: list[tuple[Target, list[str]]] = []
    async for metadata in server.each(kind, namespace):
        keys = [
            key
            for key in metadata.get("annotations") or {}
            if key.startswith(f"{prefix}/") and key.partition("/")[2] not in WRITTEN_BY_USERS
        ]
        if keys:
            page.append((_target(kind, metadata), keys))
        if len(page) == _AT_ONCE:
            yield page
            page = []
    yield page


def _target(kind: Kind, metadata: Metadata) -> Target:
    ours = {"Node": "node", "Pod": "pod"}.get(kind.name, "job")
    namespace = metadata.get("namespace")
    return Target(ours, kind.api_version, kind.name, metadata["name"], namespace, metadata.get("uid"))


async def _clear(
    server: ApiServer, target: Target, keys: list[str], say: Say, done: Removal, dry_run: bool
) -> None:
    say(str(target), keys)
    try:
        if not dry_run:
            await patiently(lambda: server.annotate(target.ref, dict.fromkeys(keys)))
    except GoneError:
        return  # deleted meanwhile, and its annotations with it
    except KubeError as error:
        done.failures.append(_failure("patch", str(target), error))
    else:
        done.objects[target.api_kind] += 1
        done.keys += len(keys)


async def _clear_labels(server: ApiServer, prefix: str, say: Say, done: Removal, dry_run: bool) -> None:
    """Take away the labels that nodes have by a switch."""
    ours = [f"{prefix}/{name}" for name in CONDITIONS]
    try:
        nodes = [node async for node in server.each(NODE)]
    except KubeError as error:
        done.failures.append(_failure("list", NODE.plural, error))
        return
    for node in nodes:
        name, keys = node["name"], [key for key in ours if key in (node.get("labels") or {})]
        if not keys:
            continue
        say(f"Node {name}, labels", keys)
        try:
            if not dry_run:
                change = {"metadata": {"labels": dict.fromkeys(keys)}}
                await patiently(partial(server.merge, NODE, name, "", change))
        except GoneError:
            continue  # deleted meanwhile, and its labels with it
        except KubeError as error:
            done.failures.append(_failure("patch", f"Node {name}", error))
        else:
            done.keys += len(keys)


async def patiently(request: Callable[[], Awaitable[T]]) -> T:
    """Ask again, four times in all, where that may help; as much later as the API server says."""
    backoff = Backoff(2 * _PAUSE_S, _LONGEST_S, spread=0)
    for _ in range(1, TRIES):
        try:
            return await request()
        except BusyError as error:
            pause_s = backoff.next_s()
            await asyncio.sleep(
                pause_s if error.retry_after_s is None else min(error.retry_after_s, _LONGEST_S)
            )
    return await request()


def _failure(verb: str, what: str, error: KubeError) -> str:
    hint = " (a role must allow it)" if error.reason == "403" else ""
    return f"{verb} {what}: {error}{hint}"

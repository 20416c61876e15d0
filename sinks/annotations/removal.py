"""Takes our annotations away again, from everything that can carry them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import DutycycleError
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import BusyError, GoneError, KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata
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


class ServerAwayError(DutycycleError):
    """The API server cannot even say which kinds it has."""


@dataclass(slots=True)
class AnnotationRemoval:
    """What was done: objects by kind, keys in all, and what could not be done."""

    objects: Counter[str] = field(default_factory=Counter)
    keys: int = 0
    failures: list[str] = field(default_factory=list)


Found = Callable[[Target, list[str]], None]
"""Called for each object that carries keys of ours, before they are taken away."""


def may_carry(kind: Kind, namespace: str | None) -> bool:
    """Whether objects of the kind can be a node, a pod or what owns pods, and lie in ``namespace`` if given.

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
    server: ApiServer, prefix: str, namespace: str | None, found: Found, *, dry_run: bool
) -> AnnotationRemoval:
    """Take every key that begins with ``prefix/`` from every object; one that fails does not stop the rest.

    Raises ``ServerAwayError`` where not even the kinds can be asked for.
    """
    done = AnnotationRemoval()
    try:
        kinds = [kind for kind in await server.kinds.every() if may_carry(kind, namespace)]
    except KubeError as error:
        raise ServerAwayError(f"the API server's kinds cannot be read: {error}") from error
    for kind in sorted(kinds, key=lambda one: one.name in _COPIES):
        try:
            async for page in _pages(server, kind, namespace, prefix):
                await asyncio.gather(*(_clear(server, one, keys, found, done, dry_run) for one, keys in page))
        except KubeError as error:
            done.failures.append(_failure("list", kind.plural, error))
    return done


async def _pages(
    server: ApiServer, kind: Kind, namespace: str | None, prefix: str
) -> AsyncIterator[list[tuple[Target, list[str]]]]:
    """The objects that carry keys of ours, a few at a time."""
    page: list[tuple[Target, list[str]]] = []
    async for metadata in server.each(kind, namespace):
        keys = [key for key in metadata.get("annotations") or {} if key.startswith(f"{prefix}/")]
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
    server: ApiServer, target: Target, keys: list[str], found: Found, done: AnnotationRemoval, dry_run: bool
) -> None:
    found(target, keys)
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

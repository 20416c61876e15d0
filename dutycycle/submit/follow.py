"""Follows the objects of a run and their pods at the API server, also over the times when it is away."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import aclosing

from collectors.pods.owners import topmost_owner
from dutycycle.contract.backoff import Backoff
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import GoneError, KubeError, RefusedError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import KubeObject, Metadata, ObjectRef
from dutycycle.submit.objects import Entry, explained
from dutycycle.submit.outcome import held_back
from dutycycle.submit.states import JobPodState, state_of

_POLL_S = 1.0
_EVENTS_S = 3.0
_WATCH_S = 60
_ASKED_ABOUT = 8
"""Of so many pods that wait the events are read."""
_EXPIRED = "410"

ReadOwner = Callable[[ObjectRef], Awaitable[Metadata]]


class Owners:
    """Finds to which of the objects ``roots`` (uids) a pod belongs, by the references to its owners.

    ``read``: an owner's metadata; ``refused``: what may not be read.
    """

    def __init__(self, roots: Collection[str], read: ReadOwner) -> None:
        self._roots = roots
        self._read = read
        self._known: dict[str | None, Metadata | None] = {}
        self.refused: str | None = None

    async def root_of(self, meta: Metadata) -> str | None:
        """Return the uid of that object; the pod may be it itself. None for a pod of somebody else."""
        if meta["uid"] in self._roots:
            return str(meta["uid"])
        top = await topmost_owner(meta, self._owner)
        return top.uid if top is not None and top.uid in self._roots else None

    async def _owner(self, ref: ObjectRef) -> Metadata | None:
        if ref.uid in self._roots:
            return {"uid": ref.uid}  # what owns it in turn does not matter
        if ref.uid not in self._known:
            try:
                self._known[ref.uid] = await self._read(ref)
            except RefusedError as error:  # perhaps of a pod that is not ours
                self.refused = error.detail
                self._known[ref.uid] = None
            except GoneError:
                self._known[ref.uid] = None
        return self._known[ref.uid]


class JobFollower:
    """Keeps what is known of the objects ``entries`` and their pods, by uid. ``away``: why nothing new is
    heard."""

    def __init__(self, server: ApiServer, entries: Sequence[Entry]) -> None:
        self._server = server
        self.entries = [entry for entry in entries if entry.document.has_pods and entry.namespace]
        self.things: dict[str, KubeObject] = {}
        self.lost: set[str] = set()
        """Objects of ours that somebody has deleted."""
        self.pods: dict[str, KubeObject] = {}
        self.gone: set[str] = set()
        """Pods that are not there any more."""
        self.root: dict[str, str] = {}
        """From a pod to the object that it belongs to."""
        self.away: dict[str, str] = {}
        self._events: dict[str, list[KubeObject]] = {}
        self._owners = Owners({str(entry.uid) for entry in self.entries}, lambda ref: server.metadata(ref))

    async def run(self) -> None:
        """Follow pods, objects and events until it is cancelled. Raises ``CannotRunError`` for what may not
        be read."""
        namespaces = {entry.namespace for entry in self.entries if entry.namespace}
        try:
            async with asyncio.TaskGroup() as tasks:
                for namespace in namespaces:
                    tasks.create_task(self._follow_pods(namespace))
                tasks.create_task(self._follow_objects())
                tasks.create_task(self._read_events())
        except ExceptionGroup as group:  # what one of them raised has ended the others
            raise group.exceptions[0] from group

    def pods_of(self, entry: Entry) -> list[KubeObject]:
        """Return all that it had, oldest first."""
        mine = [pod for uid, pod in self.pods.items() if self.root[uid] == entry.uid]
        return sorted(mine, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))

    def state(self, pod: KubeObject) -> JobPodState:
        """Tell how a pod is."""
        uid = pod["metadata"]["uid"]
        state = state_of(pod, self._events.get(uid, ()))
        if uid in self.gone and not state.ended:
            return JobPodState("deleted", state.started, ended=True)
        return state

    def why_no_pods(self, entry: Entry) -> str:
        """Say why an object has no pod, or too few."""
        says = held_back(self.things.get(str(entry.uid), {}))
        refused = [
            event for event in self._events.get(str(entry.uid), ()) if event.get("reason") == "FailedCreate"
        ]
        if says is None and refused:
            says = f"its pods are refused: {' '.join(str(refused[-1].get('message')).split())}"
        if says is None and self._owners.refused:
            says = f"which pods are its own cannot be seen: {self._owners.refused}"
        return says or "no pod was made for it yet"

    async def _follow_pods(self, namespace: str) -> None:
        backoff = Backoff(0.5, 10.0)
        while True:
            try:
                items, version = await self._server.list_all(POD, "", namespace)
                for pod in items:
                    await self._take(pod)
                there = {pod["metadata"]["uid"] for pod in items}
                self.gone |= {
                    uid for uid, pod in self.pods.items()
                    if uid not in there and pod["metadata"]["namespace"] == namespace
                }  # fmt: skip
                self.away.pop("pods", None)
                backoff.reset()
                async with aclosing(self._server.watch(POD, "", version, _WATCH_S, namespace)) as events:
                    async for event in events:
                        if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                            await self._take(event["object"])
                        if event.get("type") == "DELETED":
                            self.gone.add(event["object"]["metadata"]["uid"])
            except KubeError as error:
                if error.reason != _EXPIRED:
                    await self._failed("pods", f"watch pods in namespace {namespace}", error, backoff)

    async def _take(self, pod: KubeObject) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self.root:
            root = await self._owners.root_of(pod["metadata"])
            if root is None:
                return
            self.root[uid] = root
        self.pods[uid] = pod

    async def _follow_objects(self) -> None:
        backoff = Backoff(0.5, 10.0)
        while True:
            for entry in self.entries:
                uid, name = str(entry.uid), entry.document.name
                try:
                    thing = await self._server.read(entry.kind, name, entry.namespace)
                    if thing["metadata"]["uid"] == uid:
                        self.things[uid] = thing
                    else:
                        self.lost.add(uid)
                except GoneError:
                    self.lost.add(uid)
                except KubeError as error:
                    await self._failed("objects", f"get {entry}", error, backoff)
                else:
                    self.away.pop("objects", None)
                    backoff.reset()
            await asyncio.sleep(_POLL_S)

    async def _read_events(self) -> None:
        """Read events, which tell why something waits. A user who may not read events does without."""
        while True:
            waiting = [pod["metadata"] for pod in self.pods.values() if not self.state(pod).started]
            about = [(owner["namespace"], owner["uid"]) for owner in waiting[:_ASKED_ABOUT]]
            about += [
                (str(entry.namespace), str(entry.uid)) for entry in self.entries if not self.pods_of(entry)
            ]
            for namespace, uid in about:
                try:
                    events = await self._server.events(namespace, f"involvedObject.uid={uid}")
                except RefusedError:
                    return
                except KubeError:  # it is said by those who follow pods and objects
                    continue
                self._events[uid] = sorted(
                    events,
                    key=lambda event: str(
                        event.get("lastTimestamp")
                        or event.get("eventTime")
                        or event["metadata"]["creationTimestamp"]
                    ),
                )
            await asyncio.sleep(_EVENTS_S)

    async def _failed(self, whose: str, what: str, error: KubeError, backoff: Backoff) -> None:
        if isinstance(error, RefusedError):
            raise explained(error, what, self._server) from error
        self.away[whose] = str(error)
        await asyncio.sleep(max(backoff.next_s(), min(error.retry_after_s or 0.0, 10.0)))

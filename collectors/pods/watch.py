"""Watches pods, in a thread of its own: list, follow, and list again where that alone can help."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

from collectors.pods.convert import job_ref, records
from collectors.pods.owners import OwnerCache
from collectors.pods.table import PodTable
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.records.pods import Pod
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import Metadata, ObjectRef
from dutycycle.telemetry.events import COLLECTOR_FAILED, KUBERNETES_AWAY, Telemetry

_RETRY_OWNERS_S = 2
_LONGEST_WAIT_S = 60.0
_EXPIRED = "410"


@dataclass(frozen=True, slots=True)
class RefreshPolicy:
    """Says how often what is known is asked for again.

    A watch is renewed after ``watch_s``: a connection that died unnoticed costs no more. Of the pods whose
    job no role let us read, ``walked_again`` are then looked at again. An owner is read again
    after ``fresh_s``.
    """

    watch_s: int = 60
    walked_again: int = 100
    fresh_s: float = 300.0


class PodWatch:
    """Keeps a ``PodTable`` of one node's pods (``node`` None: of all nodes') up to date.

    ``stop`` may be called from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        node: str | None,
        telemetry: Telemetry,
        *,
        retire_s: float,
        label_keys: Sequence[str] = (),
        refresh: RefreshPolicy | None = None,
        backoff: Callable[[], Backoff] = lambda: Backoff(1.0, 30.0),
    ) -> None:
        self._api = api
        self._fields = f"spec.nodeName={node}" if node else "spec.nodeName!="
        self._telemetry = telemetry
        self._backoff = backoff
        self._refresh = refresh or RefreshPolicy()
        self._owners = OwnerCache(api, telemetry, fresh_s=self._refresh.fresh_s)
        self.table = PodTable(retire_s)
        self.lock = threading.Lock()
        """Is held by whoever reads or changes ``table``."""
        self._label_keys = label_keys
        self._running: tuple[asyncio.AbstractEventLoop, asyncio.Task[None]] | None = None
        self._stopping = False
        self._uids: dict[str, tuple[str, ...]] = {}
        self._unowned: dict[str, Mapping[str, Any]] = {}
        self._forbidden: dict[str, Metadata] = {}

    def stop(self) -> None:
        """Make ``run`` return soon; from any thread."""
        self._stopping = True
        if self._running is not None:
            loop, task = self._running
            with suppress(RuntimeError):  # it has ended in this moment
                loop.call_soon_threadsafe(task.cancel)

    def run(self) -> None:
        """List and follow until stopped; while the server is away, try again with growing pauses."""
        asyncio.run(self._until_stopped())

    async def _until_stopped(self) -> None:
        following = asyncio.create_task(self._list_and_follow())
        self._running = asyncio.get_running_loop(), following
        if self._stopping:
            following.cancel()
        try:
            await following
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        finally:
            await self._api.close()

    async def _list_and_follow(self) -> None:
        waits = self._backoff()
        while True:
            try:
                pods, version = await self._api.list_all(POD, self._fields)
                self._telemetry.clear_condition(KUBERNETES_AWAY, "pods", "the API server answers")
                self._uids, self._unowned, self._forbidden = {}, {}, {}
                for pod in pods:
                    await self._put(pod)
                with self.lock:
                    self.table.keep_only(uid for uids in self._uids.values() for uid in uids)
                waits = self._backoff()
                await self._follow(version)
            except KubeError as error:
                await self._fail(error, waits)

    async def _follow(self, version: str) -> None:
        """Watch from ``version`` on, again and again; returns when only a new list can help."""
        waits = self._backoff()
        while True:
            try:
                async with aclosing(self._versions(version)) as versions:
                    async for reached in versions:
                        version, waits = reached, self._backoff()
                # A server that hangs up at once must not be asked in a circle.
                await asyncio.sleep(min(waits.next_s(), 1.0))
                for pod in list(self._unowned.values()):
                    await self._put(pod)
                # Of the pods that wait longest for a role that lets us read their job: there may be one now.
                for uid, meta in list(islice(self._forbidden.items(), self._refresh.walked_again)):
                    try:
                        job = job_ref(await self._walk(uid, meta), meta.get("labels") or {})
                    except KubeError:
                        self._forbidden[uid] = self._forbidden.pop(uid)
                        break
                    with self.lock:
                        for pod_uid in self._uids.get(uid, ()):
                            self.table.assign(pod_uid, job)
            except KubeError as error:
                if error.reason == _EXPIRED:
                    return
                await self._fail(error, waits)

    async def _versions(self, version: str) -> AsyncGenerator[str, None]:
        """Watch once, and take what comes; the version after each event."""
        seconds = _RETRY_OWNERS_S if self._unowned else self._refresh.watch_s
        async with aclosing(self._api.watch(POD, self._fields, version, seconds)) as events:
            async for event in events:
                thing = event.get("object") or {}
                meta = thing.get("metadata") or {}
                if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
                    await self._put(thing)
                if event.get("type") == "DELETED":
                    with self.lock:
                        for uid in self._uids.pop(meta.get("uid", ""), ()):
                            self.table.remove(uid)
                    self._unowned.pop(meta.get("uid", ""), None)
                    self._forbidden.pop(meta.get("uid", ""), None)
                version = meta.get("resourceVersion") or version
                self._telemetry.clear_condition(KUBERNETES_AWAY, "pods", "the API server answers")
                yield version
                if self._unowned and seconds == self._refresh.watch_s:
                    return

    async def _put(self, pod: Mapping[str, Any]) -> None:
        """Take a pod as it is now."""
        try:
            meta, owner = pod["metadata"], None
            try:
                owner = await self._walk(meta["uid"], meta)
            except KubeError:  # its job is not known while it cannot be read, which is tried again soon
                self._unowned[meta["uid"]] = pod
            else:
                self._unowned.pop(meta["uid"], None)
            pod_records = list(records(pod, owner, self._label_keys))
            for record in pod_records:  # what cannot be written or read costs no other pod
                decode(Pod, encode(record), "pods")
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"a pod that is none: {type(error).__name__}: {error}"
            self._telemetry.emit(COLLECTOR_FAILED, detail, collector="pods", reason="bad_pod")
            return
        uids = tuple(record.uid for record in pod_records)
        self._uids[uids[0]] = uids
        with self.lock:
            for record in pod_records:
                self.table.put(record)

    async def _walk(self, uid: str, meta: Metadata) -> ObjectRef | None:
        """Return the topmost owner; what a permission hid is noted, to walk again. Raises ``KubeError``."""
        owner, is_forbidden = await self._owners.job_of(meta)
        self._forbidden.pop(uid, None)
        if is_forbidden:  # a whole pod would be a hundred times as much to keep
            self._forbidden[uid] = {key: meta.get(key) for key in ("namespace", "labels", "ownerReferences")}
        return owner

    async def _fail(self, error: KubeError, waits: Backoff) -> None:
        says = f"{error}; what was read before stays, and it is tried again"
        self._telemetry.raise_condition(KUBERNETES_AWAY, "pods", says)
        await asyncio.sleep(max(waits.next_s(), min(error.retry_after_s or 0.0, _LONGEST_WAIT_S)))

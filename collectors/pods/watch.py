"""The watch of pods, in a thread of its own: list, follow, and list again when told to."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Any

from bus.kafka.backoff import pauses
from collectors.pods.api import ApiError, ApiServer
from collectors.pods.convert import job_ref, records
from collectors.pods.owner import Meta, Owner
from collectors.pods.owners import OwnerCache
from collectors.pods.table import PodTable
from telemetry.events import COLLECTOR_FAILED, KUBERNETES_AWAY, Telemetry

_WATCH_S = 60
"""A watch is renewed as often: a connection that died unnoticed costs no more."""
_RETRY_OWNERS_S = 2
_WALKED_AGAIN = 100
"""Pods whose job no role let us read are looked at again when a watch is renewed, so many at a time."""
_LONGEST_WAIT_S = 60
_EXPIRED = 410

Pauses = Callable[[], Iterator[float]]


def _patient() -> Iterator[float]:
    return pauses(1.0, 30.0)


class PodWatch:
    """Keeps a ``PodTable`` of one node's pods (``node`` None: of all nodes') up to date.

    ``drain`` may be called from any thread.
    """

    def __init__(
        self,
        api: ApiServer,
        node: str | None,
        telemetry: Telemetry,
        *,
        retire_s: float,
        back_off: Pauses = _patient,
    ) -> None:
        self._api = api
        self._node = node
        self._telemetry = telemetry
        self._back_off = back_off
        self._owners = OwnerCache(api, telemetry)
        self._table = PodTable(retire_s)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._uids: dict[str, tuple[str, ...]] = {}
        self._unowned: dict[str, Mapping[str, Any]] = {}
        self._forbidden: dict[str, Meta] = {}

    def drain(self, now_s: float, now_ms: int) -> Sequence[tuple[str, bytes | None]]:
        """As ``PodTable.drain``."""
        with self._lock:
            return list(self._table.drain(now_s, now_ms))

    def uid_of(self, namespace: str, name: str) -> str | None:
        """As ``PodTable.uid_of``; from any thread."""
        with self._lock:
            return self._table.uid_of(namespace, name)

    def stop(self) -> None:
        """Make ``run`` return soon."""
        self._stop.set()
        self._api.break_off()

    def close(self) -> None:
        """Give the connections back, once ``run`` has returned."""
        self._api.close()

    def run(self) -> None:
        """List and follow until stopped; while the server is away, try again with growing pauses."""
        waits = self._back_off()
        while not self._stop.is_set():
            try:
                version = self._list()
                waits = self._back_off()
                self._follow(version)
            except ApiError as error:
                self._fail(error, waits)

    def _list(self) -> str:
        pods, version = self._api.list_pods(self._node)
        self._telemetry.clear_condition(KUBERNETES_AWAY, "pods", "the API server answers")
        self._uids, self._unowned, self._forbidden = {}, {}, {}
        for pod in pods:
            self._put(pod)
        with self._lock:
            self._table.keep_only(uid for uids in self._uids.values() for uid in uids)
        return version

    def _follow(self, version: str) -> None:
        """Watch from ``version`` on, again and again; returns when only a new list can help."""
        waits = self._back_off()
        while not self._stop.is_set():
            try:
                for reached in self._versions(version):
                    version, waits = reached, self._back_off()
                # A server that hangs up at once must not be asked in a circle.
                self._stop.wait(min(next(waits), 1.0))
                self._read_owners_again()
                self._walk_again()
            except ApiError as error:
                if error.status == _EXPIRED:
                    return
                self._fail(error, waits)

    def _versions(self, version: str) -> Iterator[str]:
        """Watch once, and take what comes; the version after each event."""
        seconds = _RETRY_OWNERS_S if self._unowned else _WATCH_S
        with closing(self._api.watch_pods(self._node, version, seconds)) as events:
            for event in events:
                version = self._apply(event) or version
                self._telemetry.clear_condition(KUBERNETES_AWAY, "pods", "the API server answers")
                yield version
                if self._unowned and seconds == _WATCH_S:
                    return

    def _apply(self, event: Mapping[str, Any]) -> str | None:
        """Take one event; the version that a new watch goes on from."""
        thing = event.get("object") or {}
        if event.get("type") == "ERROR":
            raise ApiError(int(thing.get("code") or 0), str(thing.get("message") or "the watch failed"))
        meta = thing.get("metadata") or {}
        if event.get("type") in ("ADDED", "MODIFIED", "DELETED"):
            self._put(thing)
        if event.get("type") == "DELETED":
            with self._lock:
                for uid in self._uids.pop(meta.get("uid", ""), ()):
                    self._table.remove(uid)
            self._unowned.pop(meta.get("uid", ""), None)
            self._forbidden.pop(meta.get("uid", ""), None)
        version: str | None = meta.get("resourceVersion")
        return version

    def _put(self, pod: Mapping[str, Any]) -> None:
        """Take a pod as it is now."""
        try:
            found = list(records(pod, self._owner(pod)))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            detail = f"a pod that is none: {type(error).__name__}: {error}"
            self._telemetry.emit(COLLECTOR_FAILED, detail, collector="pods", reason="bad_pod")
            return
        uids = tuple(record.uid for record in found)
        self._uids[uids[0]] = uids
        with self._lock:
            for record in found:
                self._table.put(record)

    def _owner(self, pod: Mapping[str, Any]) -> Owner | None:
        """The pod's job; None as well while it cannot be read, which is tried again soon."""
        meta = pod["metadata"]
        try:
            owner = self._walk(meta["uid"], meta)
        except ApiError:
            self._unowned[meta["uid"]] = pod
            return None
        self._unowned.pop(meta["uid"], None)
        return owner

    def _walk(self, uid: str, meta: Meta) -> Owner | None:
        """The topmost owner; what a permission hid is noted, to walk again. Raises ``ApiError``."""
        owner, is_forbidden = self._owners.job_of(meta)
        self._forbidden.pop(uid, None)
        if is_forbidden:  # a whole pod would be a hundred times as much to keep
            self._forbidden[uid] = {key: meta.get(key) for key in ("namespace", "labels", "ownerReferences")}
        return owner

    def _read_owners_again(self) -> None:
        for pod in list(self._unowned.values()):
            self._put(pod)

    def _walk_again(self) -> None:
        """Of the pods whose job no role let us read, those that wait longest: a role may let us now."""
        for uid, meta in list(islice(self._forbidden.items(), _WALKED_AGAIN)):
            try:
                job = job_ref(self._walk(uid, meta), meta.get("labels") or {})
            except ApiError:
                self._forbidden[uid] = self._forbidden.pop(uid)
                return
            with self._lock:
                for one in self._uids.get(uid, ()):
                    self._table.assign(one, job)

    def _fail(self, error: ApiError, waits: Iterator[float]) -> None:
        if self._stop.is_set():
            return
        detail = f"{error}; what was read before stays, and it is tried again"
        self._telemetry.raise_condition(KUBERNETES_AWAY, "pods", detail)
        self._stop.wait(max(next(waits), min(error.retry_after_s, _LONGEST_WAIT_S)))

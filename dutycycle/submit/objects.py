"""Makes the objects of a job, and deletes those that it has made; never one that was there before.

An object is deleted if its uid is the one that the API server answered with when we made it. Where that
answer was lost, it is deleted if it carries the mark of this very run.
"""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.kube.client import Limits
from dutycycle.kube.config import UnusableConfigError, of_user
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import BusyError, GoneError, KubeError, NoKindError, RefusedError, explain
from dutycycle.kube.objects import ApiServer, opened
from dutycycle.kube.references import Metadata
from dutycycle.process import stopped_within
from dutycycle.submit.documents import ManifestDocument

MANAGER = "dutycycle-run"
MARK = "dutycycle.io/run"
"""Annotation of the objects of a run: which run has made them."""
_POLL_S = 0.5
_LIMITS = Limits(answer_s=30.0)
_HOPELESS = frozenset({"401", "certificate"})
T = TypeVar("T")


class CannotRunError(DutycycleError):
    """Says in one line why the job cannot be run, or not any further."""


@dataclass(slots=True)
class Entry:
    """Holds an object of the job. ``tried``: we have begun to make it; ``uid``: known once it is there."""

    document: ManifestDocument
    kind: Kind
    namespace: str | None
    there_before: bool = False
    tried: bool = False
    uid: str | None = None

    def __str__(self) -> str:
        return f"{self.kind.name.lower()}/{self.document.name}"

    @property
    def place(self) -> str:
        """Return the namespace for messages; empty where it has none."""
        return f" in namespace {self.namespace}" if self.namespace else ""

    def kubectl(self, verb: str) -> str:
        """Return the command of kubectl that does so."""
        place = f" -n {self.namespace}" if self.namespace else ""
        return f"kubectl {verb} {self.kind}{place} {self.document.name}"

    @property
    def thing(self) -> dict[str, Any]:
        """Return the object as it is sent, without a mark."""
        meta = dict(self.document.thing["metadata"])
        meta.pop("generateName", None)
        if self.namespace is not None:
            meta["namespace"] = self.namespace
        return {**self.document.thing, "metadata": meta}

    def marked(self, run: str) -> dict[str, Any]:
        """Return the object as it is made: with the mark of the run."""
        thing = self.thing
        annotations = thing["metadata"].get("annotations") or {}
        return thing | {"metadata": thing["metadata"] | {"annotations": {**annotations, MARK: run}}}


@dataclass(slots=True)
class Objects:
    """Makes and deletes the objects of one run. ``patience_s``: how long an API server that is away is waited
    for."""

    server: ApiServer
    stop: asyncio.Event
    say: Callable[[str], None]
    patience_s: float = 120.0
    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    entries: list[Entry] = field(default_factory=list)

    async def find(
        self, documents: Sequence[ManifestDocument], namespace: str | None, *, update: bool
    ) -> None:
        """Find what kinds they are, and whether they are there. Makes nothing. Raises ``CannotRunError``."""
        for document in documents:
            wanted = f"{document.kind} of {document.api_version}"
            try:
                kind = await self.server.kinds.find(document.api_version, document.kind)
            except NoKindError as error:
                raise CannotRunError(f"{document.where}: the cluster has no {wanted}") from error
            except KubeError as error:
                raise explained(error, f"look for {document}", self.server) from error
            if kind.api_version != document.api_version:
                raise CannotRunError(
                    f"{document.where}: the cluster has no {wanted}, but one of {kind.api_version}"
                )
            if kind.namespaced and namespace and document.namespace and namespace != document.namespace:
                raise SettingError(
                    f"--namespace {namespace}: {document.where} is for the namespace {document.namespace}"
                )
            in_namespace = document.namespace or namespace or self.server.namespace
            entry = Entry(document, kind, in_namespace if kind.namespaced else None)
            try:
                entry.there_before = await self._read(entry) is not None
            except KubeError as error:
                raise explained(error, f"look for {document}", self.server) from error
            self.entries.append(entry)
            if entry.there_before and not update:
                raise CannotRunError(
                    f"{entry} is there already{entry.place}: delete it, give it another name, "
                    "or use --update, which changes it and does not delete it at the end"
                )

    async def make(self) -> None:
        """Make what is missing, update the others; until ``stop``. Raises ``CannotRunError``."""
        for entry in self.entries:
            if self.stop.is_set():
                return
            if entry.there_before:
                meta = await self._answered(f"update {entry}", partial(self._apply, entry))
                self.say(f"{entry}: updated; it was there before, and stays")
            else:
                entry.tried = True
                meta = await self._answered(f"create {entry}", partial(self._create, entry))
                self.say(f"{entry}: created{entry.place}")
            entry.uid = str(meta["uid"])

    async def delete(self, hurry: asyncio.Event) -> list[Entry]:
        """Delete what this run has made, the last first, and wait until it is gone; what is left.

        ``hurry``: do not wait any longer.
        """
        until, backoff = time.monotonic() + self.patience_s, Backoff(_POLL_S, 5.0)
        waiting = [entry for entry in reversed(self.entries) if entry.tried]
        asked: set[str] = set()
        errors: dict[str, KubeError] = {}  # of what is left, by where it stands in a file
        while waiting:
            errors = {}
            for left in list(waiting):
                try:
                    if not await self._is_left(left, asked):
                        waiting.remove(left)
                except KubeError as error:
                    errors[left.document.where] = error
            is_hopeless = all(isinstance(errors.get(left.document.where), RefusedError) for left in waiting)
            if is_hopeless or hurry.is_set() or time.monotonic() > until:
                break
            if not errors:
                backoff.reset()
            seconds = backoff.next_s() if errors else _POLL_S
            await stopped_within(hurry, seconds)
        for left in waiting:
            how = "is being deleted" if left.uid in asked else "is not deleted"
            last_error = errors.get(left.document.where)
            why = "" if last_error is None else f": {last_error}"
            self.say(f"{left} {how}{why}; see: {left.kubectl('get')}")
        return waiting

    def keep(self) -> None:
        """Say how what was made can be deleted later."""
        for entry in self.entries:
            if entry.tried:
                self.say(f"{entry}: kept; to delete it: {entry.kubectl('delete')}")

    async def _is_left(self, entry: Entry, asked: set[str]) -> bool:
        """Tell whether what we have made is there still; it is asked to go, once."""
        meta = await self._read(entry)
        if meta is None or not self._is_ours(entry, meta):
            if entry.uid in asked:
                self.say(f"{entry}: deleted")
            return False
        entry.uid = str(meta["uid"])
        if entry.uid not in asked:
            try:
                await self.server.delete(entry.kind, entry.document.name, entry.namespace, entry.uid)
            except GoneError:
                return False
            asked.add(entry.uid)
        return True

    def _is_ours(self, entry: Entry, meta: Metadata) -> bool:
        if entry.uid is not None:
            return bool(meta["uid"] == entry.uid)
        return (meta.get("annotations") or {}).get(MARK) == self.run

    async def _create(self, entry: Entry) -> Metadata:
        try:
            return await self.server.submit(entry.kind, entry.marked(self.run), MANAGER)
        except BusyError as error:
            if error.reason != "409":
                raise
            meta = await self._read(entry)
            if meta is None:  # a conflict of another kind, such as two changes of one quota
                raise
            if self._is_ours(entry, meta):  # the answer was lost, and this is the second request
                return meta
            raise CannotRunError(f"{entry}: somebody else has made it in this moment") from error

    async def _apply(self, entry: Entry) -> Metadata:
        try:
            return await self.server.apply(entry.kind, entry.thing, MANAGER)
        except BusyError as error:
            if error.reason != "409":
                raise
            raise CannotRunError(f"{entry} cannot be updated: {error.detail}") from error

    async def _read(self, entry: Entry) -> Metadata | None:
        try:
            thing = await self.server.read(entry.kind, entry.document.name, entry.namespace)
        except GoneError:
            return None
        return dict(thing["metadata"])

    async def _answered(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Return what is answered, once the API server answers at all. Raises ``CannotRunError``."""
        backoff, until = Backoff(_POLL_S, 5.0), time.monotonic() + self.patience_s
        while True:
            try:
                return await ask()
            except BusyError as error:
                if error.reason in _HOPELESS or self.stop.is_set() or time.monotonic() > until:
                    raise explained(error, what, self.server) from error
                await asyncio.sleep(max(backoff.next_s(), min(error.retry_after_s or 0.0, 10.0)))
            except KubeError as error:
                raise explained(error, what, self.server) from error


async def cluster_of(kubeconfig: str | None, context: str | None, user_agent: str) -> ApiServer:
    """Open the cluster that kubectl would find. Raises ``CannotRunError``."""
    try:
        return await opened(of_user(kubeconfig, context), limits=_LIMITS, user_agent=user_agent)
    except UnusableConfigError as error:
        raise CannotRunError(
            f"no access to a cluster: {error}; see --kubeconfig, KUBECONFIG and --context"
        ) from error


def explained(error: KubeError, what: str, server: ApiServer) -> CannotRunError:
    """Return the error that a user reads: ``what`` was wanted, and this came instead."""
    return CannotRunError(explain(error, what, server.address))

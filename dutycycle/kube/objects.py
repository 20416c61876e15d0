"""Reads and changes the objects of an API server: their metadata is read, listed and merged into; pods are
listed and watched."""

import asyncio
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import orjson

from dutycycle.contract.errors import SettingError
from dutycycle.kube.client import APPLY, MERGE_PATCH, Client, Limits
from dutycycle.kube.config import ConfigSource, UnusableConfigError, of_service
from dutycycle.kube.discovery import EVENT, POD, Kind, Kinds
from dutycycle.kube.errors import BusyError, GoneError, NotServedError, error_of_answer
from dutycycle.kube.references import JSON, Metadata, ObjectRef, Patch
from dutycycle.kube.remote_command import output_of

# Of ten thousand pods the specs and states would be a hundred megabytes; the annotations are a tenth of that.
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
_TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
_PAGE = 500  # as large as kubectl's


@dataclass(frozen=True, slots=True)
class TableRow:
    """Holds an object as kubectl prints it: a cell for each column, by its name such as ``Node``.

    ``is_completed``: it has ended, in success or failure.
    https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables
    """

    metadata: Metadata
    cells: Mapping[str, Any]
    is_completed: bool


def rows_of(table: Mapping[str, Any]) -> Iterator[TableRow]:
    """Yield the rows of a ``Table``."""
    names = [column["name"] for column in table.get("columnDefinitions") or ()]
    for row in table.get("rows") or ():
        cells = dict(zip(names, row["cells"], strict=True))
        states = {condition["type"]: condition["status"] for condition in row.get("conditions") or ()}
        yield TableRow(row["object"]["metadata"], cells, states.get("Completed") == "True")


class ApiServer:
    """Asks one API server. Raises ``KubeError``."""

    def __init__(self, client: Client, page: int = _PAGE) -> None:
        self._client = client
        self._page = page
        self.kinds = Kinds(client.get, time.monotonic)

    @property
    def address(self) -> str:
        """Return where it is, for messages."""
        return self._client.access.address

    @property
    def answered(self) -> int:
        """Return how many requests it has answered as they were meant."""
        return self._client.answered

    @property
    def namespace(self) -> str:
        """Return the namespace that is meant where none is named."""
        return self._client.access.namespace

    async def metadata(self, ref: ObjectRef) -> Metadata:
        """Return what the object carries. ``GoneError`` also when another one has its name now."""
        return self._checked(
            ref, await self._at(ref, lambda path: self._client.get(path, accept=_METADATA.format("")))
        )

    async def annotations(self, ref: ObjectRef) -> dict[str, str]:
        """Return all annotations of the object."""
        return _annotations(await self.metadata(ref))

    async def annotate(self, ref: ObjectRef, patch: Patch) -> dict[str, str]:
        """Merge ``patch`` into the object's annotations; answers with all that are there then.

        The uid in the patch makes the API server refuse another object of the same name.
        """
        metadata: dict[str, Any] = {"annotations": patch}
        if ref.uid is not None:
            metadata["uid"] = ref.uid
        answer = await self._at(
            ref,
            lambda path: self._client.change(
                "PATCH", path, {"metadata": metadata}, content=MERGE_PATCH, accept=_METADATA.format("")
            ),
        )
        return _annotations(self._checked(ref, answer))

    async def merge(self, kind: Kind, name: str, namespace: str, change: Mapping[str, Any]) -> None:
        """Merge ``change`` into an object that exists."""
        await self._client.change("PATCH", kind.path(name, namespace), change, content=MERGE_PATCH)

    async def create(self, kind: Kind, thing: Mapping[str, Any]) -> None:
        """Make an object of a namespace. ``BusyError`` (409) where there is one of its name."""
        await self._client.change("POST", kind.path(namespace=thing["metadata"]["namespace"]), thing)

    async def submit(self, kind: Kind, thing: Mapping[str, Any], manager: str) -> Metadata:
        """Make an object as a user would: a field that its kind does not have is refused. Its metadata."""
        path = kind.path(namespace=thing["metadata"].get("namespace"))
        return dict((await self._client.change("POST", path, thing, _strict(manager)))["metadata"])

    async def apply(self, kind: Kind, thing: Mapping[str, Any], manager: str) -> Metadata:
        """Apply on the server, which makes or changes the object. ``BusyError`` (409): others own a field."""
        meta = thing["metadata"]
        path = kind.path(meta["name"], meta.get("namespace"))
        answer = await self._client.change("PATCH", path, thing, _strict(manager), content=APPLY)
        return dict(answer["metadata"])

    async def delete(
        self, kind: Kind, name: str, namespace: str | None, uid: str, propagation: str = "Foreground"
    ) -> None:
        """Begin to delete this very object and what it owns; it is there until all of that is gone
        (``Foreground``), or gone at once (``Background``).

        ``BusyError`` (409) where another object has its name now.
        """
        options = {"preconditions": {"uid": uid}, "propagationPolicy": propagation}
        await self._client.change("DELETE", kind.path(name, namespace), options, {})

    async def events(self, namespace: str, fields: str) -> list[dict[str, Any]]:
        """Return the events of a namespace that a field selector picks, 50 at most."""
        query = {"fieldSelector": fields, "limit": "50"}
        return list((await self._client.get(EVENT.path(namespace=namespace), query)).get("items") or ())

    def logs(self, namespace: str, pod: str, container: str) -> AsyncGenerator[bytes, None]:
        """Return what a container of a pod writes, line by line, from its beginning to its end."""
        query = {"container": container, "follow": "true"}
        return self._client.lines(f"{POD.path(pod, namespace)}/log", query)

    def output_of(
        self, namespace: str, pod: str, container: str, command: Sequence[str]
    ) -> AsyncGenerator[bytes, None]:
        """Yield what a command writes that is run in a container, in pieces; ``CommandFailedError`` if it
        fails."""
        return output_of(self._client, namespace, pod, container, command)

    async def read(self, kind: Kind, name: str, namespace: str | None = None) -> Mapping[str, Any]:
        """Return one object, with all that it has."""
        return await self._client.get(kind.path(name, namespace))

    async def review(self, kind: Kind, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the status of a review, such as a ``SubjectAccessReview``: a question in the form of an
        object."""
        body = {"apiVersion": kind.api_version, "kind": kind.name, "spec": spec}
        return dict((await self._client.change("POST", kind.path(), body)).get("status") or {})

    async def each(
        self,
        kind: Kind,
        namespace: str | None = None,
        selector: str | None = None,
        fields: str | None = None,
    ) -> AsyncIterator[Metadata]:
        """Yield the metadata of every object of a kind, page by page; with ``selector`` only of these labels,
        with ``fields`` only of these values of fields."""
        async for answer in self._pages(kind, namespace, selector, _METADATA.format("List"), fields):
            for item in answer.get("items") or ():  # an empty list of metadata is null
                yield item["metadata"]

    async def whole(
        self, kind: Kind, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Yield every object of a kind, with all that it has."""
        async for answer in self._pages(kind, namespace, selector, JSON):
            for item in answer.get("items") or ():
                yield item

    async def rows(
        self, kind: Kind, namespace: str | None = None, selector: str | None = None
    ) -> AsyncIterator[TableRow]:
        """Yield every object of a kind as a row of the table that kubectl prints."""
        async for answer in self._pages(kind, namespace, selector, _TABLE):
            for row in rows_of(answer):
                yield row

    async def row(self, ref: ObjectRef) -> TableRow:
        """Return the same of one object."""
        (row,) = rows_of(await self._at(ref, lambda path: self._client.get(path, accept=_TABLE)))
        return row

    async def _pages(
        self, kind: Kind, namespace: str | None, selector: str | None, accept: str, fields: str | None = None
    ) -> AsyncIterator[Mapping[str, Any]]:
        query = {"limit": str(self._page)} | ({"labelSelector": selector} if selector else {})
        query |= {"fieldSelector": fields} if fields else {}
        while True:
            answer = await self._client.get(kind.path(namespace=namespace), query, accept)
            yield answer
            query["continue"] = (answer.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return

    async def list_all(
        self, kind: Kind, fields: str, namespace: str | None = None
    ) -> tuple[list[dict[str, Any]], str]:
        """Return the whole objects that a field selector picks, and the version that a watch goes on from."""
        answer = await self._client.get(kind.path(namespace=namespace), {"fieldSelector": fields})
        return answer["items"], answer["metadata"]["resourceVersion"]

    async def watch(
        self, kind: Kind, fields: str, version: str, seconds: int, namespace: str | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what happens to these objects after ``version``, for about ``seconds``; may break off any
        time."""
        query = {
            "fieldSelector": fields, "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": version, "timeoutSeconds": str(seconds),
        }  # fmt: skip
        async with aclosing(self._client.stream(kind.path(namespace=namespace), query, seconds)) as events:
            async for event in events:
                thing = event.get("object") or {}
                if event.get("type") == "ERROR":
                    raise error_of_answer(int(thing.get("code") or 500), {}, orjson.dumps(thing))
                yield event

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()

    async def _at(self, ref: ObjectRef, ask: Callable[[str], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Return what ``ask`` does at the object's path, which moves where its version is served no more."""
        path = await self._path(ref)
        try:
            return await ask(path)
        except NotServedError:
            self.kinds.forget(ref.api_version)
            moved = await self._path(ref)
            if moved == path:
                raise
            return await ask(moved)

    async def _path(self, ref: ObjectRef) -> str:
        return (await self.kinds.find(ref.api_version, ref.kind)).path(ref.name, ref.namespace)

    def _checked(self, ref: ObjectRef, answer: Mapping[str, Any]) -> Metadata:
        metadata = answer.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations") or {}, dict):
            raise BusyError("answer", f"{self.address}: what came back is no object of Kubernetes")
        if ref.uid is not None and metadata.get("uid") != ref.uid:
            raise GoneError(f"{ref} has another uid now")
        return metadata


def _strict(manager: str) -> dict[str, str]:
    return {"fieldManager": manager, "fieldValidation": "Strict"}


def _annotations(metadata: Metadata) -> dict[str, str]:
    return {str(key): str(value) for key, value in (metadata.get("annotations") or {}).items()}


async def connect(
    mode: str, *, asked_by: str = "", limits: Limits | None = None, user_agent: str = ""
) -> ApiServer | None:
    """Open the API server of the setting ``kubernetes``: ``auto``, ``on`` or ``off``; None where there is
    none.

    ``config.of_service`` says where it is looked for. Raises ``SettingError`` where ``on`` finds none, or
    what is there cannot be used. The error names ``asked_by``: a setting with its value, by default
    ``kubernetes``, or a command that needs it.
    """
    source = of_service(mode)
    if source is None:
        return None
    try:
        return await opened(source, limits=limits, user_agent=user_agent)
    except UnusableConfigError as error:
        asked_by = asked_by or f"DUTYCYCLE_KUBERNETES={mode}"
        setting, is_setting, _ = asked_by.partition("=")
        raise SettingError(
            f"{asked_by}: the API server's configuration cannot be used: {error}; "
            "give KUBECONFIG a good file" + (f", or set {setting}=off" if is_setting else "")
        ) from error


async def opened(source: ConfigSource, *, limits: Limits | None = None, user_agent: str = "") -> ApiServer:
    """Return the API server of a configuration. Raises ``UnusableConfigError``."""
    access = await asyncio.to_thread(source.read)  # a credential helper may take seconds
    return ApiServer(Client(access, source=source, limits=limits, user_agent=user_agent))

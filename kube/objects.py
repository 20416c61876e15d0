"""The Kubernetes API server as the annotations need it: read an object's metadata, and merge into it.

With ``kube_config`` the only importer of the Kubernetes client here. Answers stay plain JSON. Every request
waits its turn; one that fails for credentials or certificates is sent once more, with those now on the disk.
"""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import orjson
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import OpenApiException

from contract.errors import SettingError
from kube.config import Load, UnusableConfigError, loader
from kube.errors import BusyError, GoneError, KubeError, error_of
from kube.kinds import Kind, Kinds
from sinks.annotations.core.diff import Patch
from sinks.annotations.core.policy import TokenBucket
from sinks.annotations.core.targets import Target

TIMEOUT_S = 15.0
REQUESTS_PER_S = 50.0
_MERGE_PATCH = "application/merge-patch+json"
_METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
_FIELD_MANAGER = "dutycycle"
_PAGE = 500
_STALE = frozenset({"401", "certificate"})
"""What may be mended by reading credentials and certificates anew: a pod's are replaced while it runs."""


@dataclass(frozen=True, slots=True)
class _Request:
    """With a body a merge patch, without one a question."""

    path: str
    body: Mapping[str, Any] | None = None
    query: list[tuple[str, str]] = field(default_factory=list)
    accept: str = "application/json"


class Kube:
    """One API server, with the credentials of its configuration. Raises the errors of ``kube_errors``."""

    def __init__(
        self,
        configuration: Configuration,
        *,
        load: Load | None = None,
        timeout_s: float = TIMEOUT_S,
        requests_per_s: float = REQUESTS_PER_S,
    ) -> None:
        self._client = _client(configuration)
        self._load = load
        self._retired: list[ApiClient] = []
        self._renewing = asyncio.Lock()
        self._timeout_s = timeout_s
        self._bucket = TokenBucket(requests_per_s)
        self.kinds = Kinds(self._get, time.monotonic)

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        return str(self._client.configuration.host)

    async def annotations(self, target: Target) -> dict[str, str]:
        """All annotations of the object. ``GoneError`` also when another one has its name now."""
        return self._annotations(target, await self._call(_Request(await self._path(target))))

    async def annotate(self, target: Target, patch: Patch) -> dict[str, str]:
        """Merge ``patch`` into the object's annotations; answers with all that are there then.

        A merge patch never creates the object, and the uid in it refuses another one of the same name.
        """
        metadata: dict[str, Any] = {"annotations": patch}
        if target.uid is not None:
            metadata["uid"] = target.uid
        path = await self._path(target)
        return self._annotations(target, await self._call(_Request(path, {"metadata": metadata})))

    async def each(self, kind: Kind, namespace: str | None = None) -> AsyncIterator[dict[str, Any]]:
        """The metadata of every object of a kind, page by page."""
        more = ""
        while True:
            query = [("limit", str(_PAGE))] + ([("continue", more)] if more else [])
            found = await self._call(_Request(kind.path(namespace=namespace), None, query, _METADATA_ONLY))
            for one in found.get("items") or ():
                yield one["metadata"]
            more = (found.get("metadata") or {}).get("continue") or ""
            if not more:
                return

    async def close(self) -> None:
        """Give the connections back."""
        for client in (*self._retired, self._client):
            await client.close()  # type: ignore[no-untyped-call]  # the library's gap

    async def _path(self, target: Target) -> str:
        kind = await self.kinds.find(target.api_version, target.api_kind)
        return kind.path(target.name, target.namespace)

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._call(_Request(path))

    async def _call(self, request: "_Request") -> dict[str, Any]:
        client = self._client
        try:
            return await self._send(client, request)
        except KubeError as error:
            if error.reason not in _STALE or not await self._renew(client):
                raise
        return await self._send(self._client, request)

    async def _renew(self, used: ApiClient) -> bool:
        """Read credentials and certificates anew. False where there is no file that they came from."""
        if self._load is None:
            return False
        async with self._renewing:
            if self._client is used:  # else another request has renewed them meanwhile
                configuration = Configuration()
                try:
                    await self._load(configuration)
                    fresh = _client(configuration)
                except (UnusableConfigError, OSError) as error:
                    raise BusyError(
                        "401", f"{self.address}: credentials cannot be read: {error}", everything=True
                    ) from error
                for one in self._retired:
                    await one.close()  # type: ignore[no-untyped-call]  # the library's gap
                self._retired, self._client = [used], fresh  # requests may still be under way on the old one
        return True

    async def _send(self, client: ApiClient, request: "_Request") -> dict[str, Any]:
        await asyncio.sleep(self._bucket.turn(time.monotonic()))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask(client, request)
        except TimeoutError as error:
            raise BusyError("timeout", f"{self.address}: no answer within {self._timeout_s:g} s") from error
        except (ssl.SSLError, aiohttp.ClientSSLError) as error:
            says = f"{self.address}: no TLS connection; check the certificate authority it is given: {error}"
            raise BusyError("certificate", says, everything=True) from error
        except (aiohttp.ClientError, OSError, OpenApiException, config.ConfigException) as error:
            raise BusyError("connection", f"{self.address}: {error!r}", everything=True) from error

    async def _ask(self, client: ApiClient, request: "_Request") -> dict[str, Any]:
        # Strategic merge, the client's default, is refused for custom resources (415).
        headers = {"Accept": request.accept} | ({"Content-Type": _MERGE_PATCH} if request.body else {})
        manager = [("fieldManager", _FIELD_MANAGER)] if request.body else []
        arguments = await client.param_serialize(
            "PATCH" if request.body else "GET",
            request.path,
            query_params=request.query + manager,
            header_params=headers,
            body=request.body,
            auth_settings=["BearerToken"],
        )
        answer = await client.call_api(*arguments)
        text = await answer.read()  # type: ignore[no-untyped-call]  # the library's gap
        if answer.status != 200:
            raise error_of(answer.status, answer.headers, text)
        try:
            return dict(orjson.loads(text))
        except (ValueError, TypeError) as error:
            raise BusyError("answer", f"{self.address}: no JSON object came back") from error

    def _annotations(self, target: Target, found: Mapping[str, Any]) -> dict[str, str]:
        metadata = found.get("metadata")
        annotations = metadata.get("annotations") or {} if isinstance(metadata, dict) else None
        if not isinstance(metadata, dict) or not isinstance(annotations, dict):
            raise BusyError("answer", f"{self.address}: what came back is no object of Kubernetes")
        if target.uid is not None and metadata.get("uid") != target.uid:
            raise GoneError(f"{target} has another uid now")
        return {str(key): str(value) for key, value in annotations.items()}


def _client(configuration: Configuration) -> ApiClient:
    client = ApiClient(configuration)
    client.user_agent = "dutycycle-sink"
    return client


async def connect(mode: str, *, asked_by: str = "", requests_per_s: float = REQUESTS_PER_S) -> Kube | None:
    """The API server of the setting ``kubernetes``: ``auto``, ``on`` or ``off``; None where there is none.

    Looked for in this order: the pod's service account, ``KUBECONFIG``, and with ``on`` the user's own
    ``~/.kube/config``. Raises ``SettingError`` where ``on`` finds none, or what is there cannot be used. It
    names ``asked_by``: a setting with its value, by default ``kubernetes``, or a command that needs it.
    """
    load = None if mode == "off" else loader(mode)
    if load is None:
        return None
    configuration = Configuration()
    try:
        await load(configuration)
        return Kube(configuration, load=load, requests_per_s=requests_per_s)
    except (UnusableConfigError, OSError) as error:
        asked_by = asked_by or f"DUTYCYCLE_KUBERNETES={mode}"
        setting, is_setting, _ = asked_by.partition("=")
        raise SettingError(
            f"{asked_by}: the API server's configuration cannot be used: {error}; "
            "give KUBECONFIG a good file" + (f", or set {setting}=off" if is_setting else "")
        ) from error

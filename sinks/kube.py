"""The Kubernetes API server as the annotations need it: read an object's metadata, and merge into it.

The only importer of the Kubernetes client here. One code path serves every kind: the plural of a kind comes
from the API's discovery. Answers stay plain JSON.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import OpenApiException

from sinks.annotation_diff import Patch
from sinks.annotation_targets import Target
from sinks.kube_errors import BusyError, GoneError, error_of
from wire.errors import SettingError

TIMEOUT_S = 15.0
_MERGE_PATCH = "application/merge-patch+json"
_FIELD_MANAGER = "dutycycle"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class Kube:
    """One API server, with the credentials of its configuration. Raises the errors of ``kube_errors``."""

    def __init__(self, configuration: Configuration, *, timeout_s: float = TIMEOUT_S) -> None:
        self._client = ApiClient(configuration)
        self._client.user_agent = "dutycycle-sink"
        self._timeout_s = timeout_s
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        return str(self._client.configuration.host)

    async def annotations(self, target: Target) -> dict[str, str]:
        """All annotations of the object. ``GoneError`` also when another one has its name now."""
        return _annotations(target, await self._call("GET", await self._path(target)))

    async def annotate(self, target: Target, patch: Patch) -> dict[str, str]:
        """Merge ``patch`` into the object's annotations; answers with all that are there then.

        A merge patch never creates the object, and the uid in it refuses another one of the same name.
        """
        metadata: dict[str, Any] = {"annotations": patch}
        if target.uid is not None:
            metadata["uid"] = target.uid
        path = await self._path(target)
        return _annotations(target, await self._call("PATCH", path, {"metadata": metadata}))

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()  # type: ignore[no-untyped-call]  # the library's gap

    async def _path(self, target: Target) -> str:
        plural, namespaced = await self._plural(target)
        place = f"/namespaces/{target.namespace}" if namespaced else ""
        return f"{_group(target.api_version)}{place}/{plural}/{target.name}"

    async def _plural(self, target: Target) -> tuple[str, bool]:
        """How the API's paths name a kind, and whether it lives in a namespace; asked once per version."""
        version = target.api_version
        if version not in self._plurals:
            served = (await self._call("GET", _group(version))).get("resources") or ()
            self._plurals[version] = {
                one["kind"]: (one["name"], bool(one["namespaced"]))
                for one in served
                if "/" not in one["name"]
            }
        found = self._plurals[version].get(target.api_kind)
        if found is None:
            self._plurals.pop(version)  # it may be installed a moment later
            raise GoneError(f"{version} has no kind {target.api_kind}")
        return found

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._ask(method, path, body)
        except TimeoutError as error:
            raise BusyError("timeout", f"{self.address}: no answer within {self._timeout_s:g} s") from error
        except (aiohttp.ClientError, OSError, OpenApiException, config.ConfigException) as error:
            raise BusyError("connection", f"{self.address}: {error!r}", everything=True) from error

    async def _ask(self, method: str, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        request = await self._client.param_serialize(
            method,
            path,
            query_params=[("fieldManager", _FIELD_MANAGER)] if body else [],
            # Strategic merge, the client's default, is refused for custom resources (415).
            header_params={"Accept": "application/json"} | ({"Content-Type": _MERGE_PATCH} if body else {}),
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(*request)
        text = await answer.read()  # type: ignore[no-untyped-call]  # the library's gap
        if answer.status != 200:
            raise error_of(answer.status, answer.headers.get("Retry-After"), text)
        try:
            return dict(orjson.loads(text))
        except (ValueError, TypeError) as error:
            raise BusyError("answer", f"{self.address}: no JSON object came back") from error


def _annotations(target: Target, found: Mapping[str, Any]) -> dict[str, str]:
    metadata = found.get("metadata") or {}
    if target.uid is not None and metadata.get("uid") != target.uid:
        raise GoneError(f"{target} has another uid now")
    return dict(metadata.get("annotations") or {})


def _group(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


async def connect(mode: str) -> Kube | None:
    """The API server of the setting ``kubernetes``: ``auto``, ``on`` or ``off``; None where there is none.

    Looked for in this order: the pod's service account, ``KUBECONFIG``, and with ``on`` the user's own
    ``~/.kube/config``. Raises ``SettingError`` where ``on`` finds none, or what is there cannot be used.
    """
    load = None if mode == "off" else _loader(mode)
    if load is None:
        return None
    configuration = Configuration()
    try:
        await load(configuration)
        return Kube(configuration)
    except (config.ConfigException, OSError) as error:
        raise SettingError(
            f"DUTYCYCLE_KUBERNETES={mode}: the API server's configuration cannot be used: {error}; "
            "give KUBECONFIG a good file, or set DUTYCYCLE_KUBERNETES=off"
        ) from error


def _loader(mode: str) -> Callable[[Configuration], Awaitable[None]] | None:
    if os.environ.get("KUBERNETES_SERVICE_HOST") and _SERVICE_ACCOUNT.exists():
        return _in_cluster
    file = os.environ.get("KUBECONFIG") or None
    return partial(_kubeconfig, file) if file or mode == "on" else None


async def _in_cluster(configuration: Configuration) -> None:
    config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's gap


async def _kubeconfig(file: str | None, configuration: Configuration) -> None:
    await config.load_kube_config(file, client_configuration=configuration)  # type: ignore[no-untyped-call]  # as above

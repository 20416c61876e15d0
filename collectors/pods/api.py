"""The Kubernetes API server as the pods collector needs it: list, watch, and read an owner.

Answers stay plain JSON: of a pod a tenth is used, and models of all of it would cost more than the rest.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException

from collectors.pods.owner import Owner
from contract.errors import SettingError

_CONNECT_S = 5.0
_ANSWER_S = 20.0
_GRACE_S = 15.0
"""How much longer than its own end a watch is waited for; then the connection counts as dead."""
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")


class ApiError(Exception):
    """The API server answered with an error (``status``), or not at all (``status`` 0).

    ``retry_after_s`` is what it asked to wait, 0 for nothing.
    """

    def __init__(self, status: int, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(f"{status} {reason}" if status else reason)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class ApiServer:
    """One API server, with the credentials of its configuration. Raises ``ApiError``."""

    def __init__(self, configuration: Configuration) -> None:
        configuration.retries = False  # the watch backs off by itself, and hears Retry-After
        self._client = ApiClient(configuration)
        self._plurals: dict[str, dict[str, tuple[str, bool]]] = {}
        self._watching: Any = None

    @property
    def address(self) -> str:
        """Where it is, for messages."""
        return str(self._client.configuration.host)

    def list_pods(self, node: str | None) -> tuple[list[dict[str, Any]], str]:
        """The pods bound to a node (None: to any), and the version that a watch goes on from."""
        answer = self._get("/api/v1/pods", {"fieldSelector": _bound_to(node)})
        return answer["items"], answer["metadata"]["resourceVersion"]

    def watch_pods(
        self, node: str | None, version: str, seconds: int
    ) -> Generator[dict[str, Any], None, None]:
        """What happens to these pods after ``version``, for about ``seconds``; may break off any time."""
        query = {
            "fieldSelector": _bound_to(node), "watch": "true", "allowWatchBookmarks": "true",
            "resourceVersion": version, "timeoutSeconds": str(seconds),
        }  # fmt: skip
        response = self._open("/api/v1/pods", query, seconds + _GRACE_S)
        self._watching = response
        try:
            yield from _events(response)
        except (urllib3.exceptions.HTTPError, OSError, orjson.JSONDecodeError) as error:
            raise ApiError(0, f"the watch broke off: {error}") from error
        finally:
            self._watching = None
            response.close()

    def owner(self, namespace: str, owner: Owner) -> Mapping[str, Any] | None:
        """The metadata of an owner; None where it, or its kind, is not there. Not allowed: status 403."""
        try:
            plural, namespaced = self._plural(owner.api_version, owner.kind)
            place = f"/namespaces/{namespace}" if namespaced else ""
            found = self._get(f"{_group(owner.api_version)}{place}/{plural}/{owner.name}")
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        meta: Mapping[str, Any] = found.get("metadata") or {}
        return meta

    def break_off(self) -> None:
        """End the watch that runs in another thread."""
        if (watching := self._watching) is not None:
            try:
                watching.shutdown()
            except (ValueError, RuntimeError, OSError):  # it ended by itself in this moment
                watching.close()

    def close(self) -> None:
        """Give the connections back."""
        self._client.close()  # type: ignore[no-untyped-call]  # the library's gap

    def _plural(self, api_version: str, kind: str) -> tuple[str, bool]:
        """How the API's paths name a kind, and whether it lives in a namespace; 404 for one not served."""
        if api_version not in self._plurals:
            served = self._get(_group(api_version))["resources"]
            self._plurals[api_version] = {
                one["kind"]: (one["name"], bool(one["namespaced"]))
                for one in served
                if "/" not in one["name"]
            }
        if kind not in self._plurals[api_version]:
            self._plurals.pop(api_version)  # it may be installed a moment later
            raise ApiError(404, f"{api_version} has no kind {kind}")
        return self._plurals[api_version][kind]

    def _get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        response = self._open(path, query or {}, _ANSWER_S)
        try:
            answer = orjson.loads(response.read())
        except (urllib3.exceptions.HTTPError, OSError, orjson.JSONDecodeError) as error:
            raise ApiError(0, f"the answer to {path} broke off: {error}") from error
        finally:
            response.release_conn()
        return dict(answer)

    def _open(self, path: str, query: dict[str, str], read_s: float) -> Any:
        request = self._client.param_serialize(
            "GET", path, query_params=list(query.items()), auth_settings=["BearerToken"],
            header_params={"Accept": "application/json"},
        )  # fmt: skip
        try:
            answer = self._client.call_api(*request, _request_timeout=(_CONNECT_S, read_s))
        except (ApiException, urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, f"{self.address} does not answer: {error}") from error
        response = answer.response
        if response.status != 200:
            text = response.read(2000, decode_content=True)
            response.close()
            raise ApiError(response.status, _message(response.reason, text), _retry_after_s(response))
        return response


def connect(mode: str) -> ApiServer | None:
    """The API server of the setting ``kubernetes``: ``auto``, ``on`` or ``off``; None where there is none.

    Looked for in this order: the pod's service account, ``KUBECONFIG``, and with ``on`` the user's own
    ``~/.kube/config``. Raises ``SettingError`` where ``on`` finds none, or what is there cannot be used.
    """
    loader = None if mode == "off" else _loader(mode)
    if loader is None:
        return None
    configuration = Configuration()
    try:
        loader(configuration)
    except Exception as error:  # the library lets through what YAML, base64 and files raise
        detail = " ".join(str(error).split())
        raise SettingError(
            f"DUTYCYCLE_KUBERNETES={mode}: the API server's configuration cannot be used: {detail}; "
            "give KUBECONFIG a good file, or set DUTYCYCLE_KUBERNETES=off"
        ) from error
    return ApiServer(configuration)


def _loader(mode: str) -> Callable[[Configuration], None] | None:
    if os.environ.get("KUBERNETES_SERVICE_HOST") and _SERVICE_ACCOUNT.exists():
        return _in_cluster
    file = os.environ.get("KUBECONFIG") or None
    if file or mode == "on":
        return partial(_kubeconfig, file)
    return None


def _in_cluster(configuration: Configuration) -> None:
    config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's gap


def _kubeconfig(file: str | None, configuration: Configuration) -> None:
    config.load_kube_config(file, client_configuration=configuration)  # type: ignore[no-untyped-call]  # as above


def _bound_to(node: str | None) -> str:
    return f"spec.nodeName={node}" if node else "spec.nodeName!="


def _group(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _events(response: Any) -> Iterator[dict[str, Any]]:
    rest = b""
    for chunk in response.stream(decode_content=True):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (orjson.loads(line) for line in lines if line.strip())


def _message(reason: str, text: bytes) -> str:
    """What the server's ``Status`` object says, which is more than the HTTP reason."""
    try:
        return str(orjson.loads(text)["message"])[:300]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return reason


def _retry_after_s(response: Any) -> float:
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isdigit() else 0.0

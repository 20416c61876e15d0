"""The API server as the plugin needs it: metadata alone, of one object or of a list, page by page.

It uses what kubectl uses: the kubeconfig with its contexts, or the service account of a pod.
"""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import orjson
import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration

from dutycycle.kubectl.kinds import NODE, Kind
from wire.errors import DutycycleError

_ANSWER_S = 30.0
_PAGE = 500
# Of ten thousand pods the specs and states would be a hundred megabytes; the annotations are a tenth of that.
_METADATA = "application/json;as=PartialObjectMetadata{0};g=meta.k8s.io;v=v1,application/json"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Meta = Mapping[str, Any]
"""The ``metadata`` of an object, as JSON."""


class KubectlError(DutycycleError):
    """What the user has to know instead of an answer; one line."""


class ForbiddenError(KubectlError):
    """The API server does not let this user do that."""


class NotThereError(KubectlError):
    """No such object, or no such kind."""


@dataclass(frozen=True, slots=True)
class Access:
    """Where to look and as whom: the flags that kubectl has, too. None is what kubectl would take."""

    kubeconfig: str | None = None
    context: str | None = None


class Api:
    """One API server. Raises ``KubectlError``."""

    def __init__(self, access: Access) -> None:
        configuration = Configuration()
        configuration.retries = False
        self.namespace = _load(access, configuration)
        self._client = ApiClient(configuration)

    def list(self, kind: Kind, namespace: str | None, selector: str | None = None) -> Iterator[Meta]:
        """All objects of a kind in a namespace, or in all."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            found = self._get(_path(kind, namespace), query, "List", f"list {kind}{_where(kind, namespace)}")
            yield from (one["metadata"] for one in found["items"] or ())  # an empty list of metadata is null
            more = found["metadata"].get("continue")
            if not more:
                return
            query["continue"] = more

    def read(self, kind: Kind, namespace: str | None, name: str) -> Meta:
        """One object."""
        path = f"{_path(kind, namespace)}/{name}"
        meta: Meta = self._get(path, {}, "", f"get {kind}{_where(kind, namespace)}")["metadata"]
        return meta

    def groups(self) -> dict[str, str]:
        """The API groups that are served, each with the version that the server prefers."""
        found = self._get("/apis", {}, None, "ask which kinds there are")
        return {one["name"]: one["preferredVersion"]["version"] for one in found["groups"]}

    def _get(self, path: str, query: Mapping[str, str], form: str | None, what: str) -> dict[str, Any]:
        accept = "application/json" if form is None else _METADATA.format(form)
        request = self._client.param_serialize(
            "GET", f"{path}?{urlencode(query)}" if query else path,
            header_params={"Accept": accept}, auth_settings=["BearerToken"],
        )  # fmt: skip
        address = self._client.configuration.host
        try:
            response = self._client.call_api(*request, _request_timeout=_ANSWER_S).response
            text = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubectlError(
                f"no answer from {address}: {_cause(error)}; check the cluster and --context"
            ) from error
        if response.status != 200:
            raise _refusal(response.status, text, what, address)
        try:
            return dict(orjson.loads(text))
        except (ValueError, TypeError) as error:
            raise KubectlError(f"{address} does not answer as an API server does") from error


def _refusal(status: int, text: bytes, what: str, address: str) -> KubectlError:
    if status == 401:
        return KubectlError(
            f"{address} does not accept your credentials (401): log in anew, or check --context"
        )
    if status == 403:
        return ForbiddenError(
            f"you may not {what}: ask for that permission, which the ClusterRole dutycycle-reader has"
        )
    try:
        said = str(orjson.loads(text)["message"])
    except (ValueError, KeyError, TypeError):
        said = text.decode("utf-8", "replace")
    said = " ".join(said.split())[:300]
    return NotThereError(said) if status == 404 else KubectlError(f"cannot {what}: {status} {said}")


def _cause(error: BaseException) -> str:
    """The innermost words: urllib3 wraps what the system said three times."""
    reason = getattr(error, "reason", None) or error
    words = str(reason).rpartition(": ")[2]
    return re.sub(r"^\[Errno \d+\] ", "", words) or type(reason).__name__


def _path(kind: Kind, namespace: str | None) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    return f"{root}/namespaces/{namespace}/{kind.plural}" if namespace else f"{root}/{kind.plural}"


def _where(kind: Kind, namespace: str | None) -> str:
    if kind == NODE:
        return ""
    return f" in namespace {namespace}" if namespace else " in the whole cluster"


def _load(access: Access, configuration: Configuration) -> str:
    """Fill in ``configuration``; answers with the context's namespace."""
    file = access.kubeconfig or os.environ.get("KUBECONFIG") or str(Path.home() / ".kube" / "config")
    files = [one for one in file.split(os.pathsep) if one]
    if not any(Path(one).exists() for one in files):
        if access.kubeconfig is None and _SERVICE_ACCOUNT.exists():
            config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's gap
            return (_SERVICE_ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
        raise KubectlError(f"no cluster: there is no {file}; give --kubeconfig or set KUBECONFIG")
    try:
        config.load_kube_config(file, access.context, configuration)  # type: ignore[no-untyped-call]  # as above
        contexts, active = config.list_kube_config_contexts(file)  # type: ignore[no-untyped-call]  # as above
    except Exception as error:  # the library lets through what YAML, base64 and files raise
        raise KubectlError(f"{file} cannot be used: {' '.join(str(error).split())}") from error
    used = next((one for one in contexts if one["name"] == access.context), active)
    return str(used["context"].get("namespace") or "default")

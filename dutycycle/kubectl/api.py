"""The API server as the plugin needs it: metadata alone, of one object or of a list, page by page.

It uses what kubectl uses: the kubeconfig with its contexts, or the service account of a pod.
"""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import orjson
import urllib3
from kubernetes import config
from kubernetes.client import ApiClient, Configuration
from kubernetes.client.exceptions import ApiException
from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger

from dutycycle.kubectl import discovery
from dutycycle.kubectl.errors import KubectlError, cause, no_tls, one_line, refusal
from dutycycle.kubectl.kinds import NODE, Kind

_ANSWER_S = 30.0
_PAGE = 500
# Of ten thousand pods the specs and states would be a hundred megabytes; the annotations are a tenth of that.
_METADATA = "application/json;as=PartialObjectMetadata{0};g=meta.k8s.io;v=v1,application/json"
_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_CREDENTIALS = ("exec", "auth-provider", "token", "tokenFile", "username", "client-certificate",
                "client-certificate-data")  # fmt: skip
"""What a kubeconfig's user may have."""

Meta = Mapping[str, Any]
"""The ``metadata`` of an object, as JSON."""


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
        if not configuration.verify_ssl:  # the user's own wish: kubectl does not warn of it either
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)
        self._client = ApiClient(configuration)

    def list(self, kind: Kind, namespace: str | None, selector: str | None = None) -> Iterator[Meta]:
        """All objects of a kind in a namespace, or in all."""
        query = {"limit": str(_PAGE)} | ({"labelSelector": selector} if selector else {})
        while True:
            form = _METADATA.format("List")
            found = self._get(_path(kind, namespace), query, form, f"list {kind}{where(kind, namespace)}")
            yield from (one["metadata"] for one in found["items"] or ())  # an empty list of metadata is null
            more = found["metadata"].get("continue")
            if not more:
                return
            query["continue"] = more

    def read(self, kind: Kind, namespace: str | None, name: str) -> Meta:
        """One object."""
        path = f"{_path(kind, namespace)}/{quote(name, safe='')}"
        what = f"get {kind}{where(kind, namespace)}"
        meta: Meta = self._get(path, {}, _METADATA.format(""), what)["metadata"]
        return meta

    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that are served below a namespace, without those of the core. One request."""
        what = "ask which kinds there are"
        found = self._get("/apis", {}, discovery.ACCEPT, what)
        try:
            return discovery.kinds(found)
        except KeyError as error:
            address = self._client.configuration.host
            raise KubectlError(
                f"cannot {what}: {address} has no aggregated discovery, as Kubernetes 1.30 and newer has"
            ) from error

    def _get(self, path: str, query: Mapping[str, str], accept: str, what: str) -> dict[str, Any]:
        request = self._client.param_serialize(
            "GET", f"{path}?{urlencode(query)}" if query else path,
            header_params={"Accept": accept}, auth_settings=["BearerToken"],
        )  # fmt: skip
        address = self._client.configuration.host
        try:
            response = self._client.call_api(*request, _request_timeout=_ANSWER_S).response
            text = response.read()
        except ApiException as error:  # the client's word for urllib3's SSLError, and for nothing else
            raise no_tls(address, str(error.reason)) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise KubectlError(
                f"no answer from {address}: {cause(error)}; check the cluster and --context"
            ) from error
        if response.status != 200:
            raise refusal(response.status, text, what, address)
        try:
            return dict(orjson.loads(text))
        except (ValueError, TypeError) as error:
            raise KubectlError(f"{address} does not answer as an API server does") from error


def _path(kind: Kind, namespace: str | None) -> str:
    root = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    place = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{place}/{kind.plural}"


def where(kind: Kind, namespace: str | None) -> str:
    """``in namespace x``, with a space before; empty where namespaces have nothing to do with it."""
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
        merged = KubeConfigMerger(file)  # type: ignore[no-untyped-call]  # the library's gap
        loader = KubeConfigLoader(  # type: ignore[no-untyped-call]  # the library's gap
            merged.config, access.context, config_base_path=None, config_persister=merged.save_changes
        )
        with _complaints() as complaints:
            loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # as above
        used = loader.current_context["context"]
        named = merged.config["users"].get_with_name(used.get("user"), safe=True)
        given = None if named is None else named["user"].value
    except Exception as error:  # the library lets through what YAML, base64 and files raise
        raise KubectlError(f"{file} cannot be used: {one_line(str(error))}") from error
    _check_credentials(used.get("user"), given, configuration, complaints)
    return str(used.get("namespace") or "default")


class _Complaints(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.heard: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.heard.append(record.getMessage())


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """What the library complains of meanwhile. It would log that on the screen, and go on as nobody."""
    handler = _Complaints()
    logging.getLogger().addHandler(handler)
    try:
        yield handler.heard
    finally:
        logging.getLogger().removeHandler(handler)


def _check_credentials(
    user: str | None, given: Mapping[str, Any] | None, configuration: Configuration, complaints: list[str]
) -> None:
    """Raises ``KubectlError`` where the kubeconfig says who the user is, and that cannot be shown."""
    has = [one for one in _CREDENTIALS if one in (given or {})]
    reason = ""
    if complaints:
        reason = one_line(complaints[0])
    elif user and given is None:
        reason = f"the kubeconfig has no user {user}"
    elif has and not (configuration.api_key or configuration.cert_file) and _by_tls(configuration):
        reason = f"{' and '.join(has)} of user {user} gives none that can be used here"
    if reason:
        raise KubectlError(f"credentials cannot be got: {reason}; see the kubeconfig's user, or --context")


def _by_tls(configuration: Configuration) -> bool:
    return str(configuration.host).startswith("https:")  # without it certificates are for nothing

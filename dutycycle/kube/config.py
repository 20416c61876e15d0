"""Finds the API server and our credentials. Read at the start, and again when they are refused."""

import binascii
import logging
import os
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dutycycle.contract.errors import NotInstalledError
from dutycycle.contract.settings.secret import Secret, authorization

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_USERS_OWN = "~/.kube/config"
_CREDENTIALS = ("exec", "auth-provider", "token", "tokenFile", "username", "client-certificate",
                "client-certificate-data")  # fmt: skip
"""What a kubeconfig may say of a user, so that the API server knows who it is."""
_LEFT_OUT = ("DATA+OMITTED", "REDACTED")
"""What kubectl prints in place of certificates, keys and tokens."""


class UnusableConfigError(Exception):
    """Says in one line that there is no configuration where it was looked for, or why it cannot be used."""


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Names somebody else, as whom the API server is to take us, if it lets us.

    https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
    """

    user: str
    groups: tuple[str, ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        """Return the headers of a request; one for each group."""
        return [("Impersonate-User", self.user), *(("Impersonate-Group", group) for group in self.groups)]


@dataclass(frozen=True, slots=True)
class Access:
    """Holds an API server and how to speak to it. ``namespace`` is the one meant where none is named."""

    address: str
    authorization: Callable[[], str | None] = lambda: None
    """The header of that name, asked for with each request."""
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str | None = None
    namespace: str = "default"
    act_as: Impersonation | None = None


@dataclass(frozen=True, slots=True)
class ConfigSource:
    """Names the files that an ``Access`` is read from: kubeconfigs, as in ``KUBECONFIG``, or a pod's own.

    ``name`` is what messages call it.
    """

    name: str
    kubeconfig: str | None = None
    context: str | None = None
    service_account: Path = _SERVICE_ACCOUNT
    act_as: Impersonation | None = None

    def read(self) -> Access:
        """Read the files as they are now; a credential helper is run and waited for. Raises
        ``UnusableConfigError``."""
        try:
            if self.kubeconfig is None:
                access = _of_service_account(self.service_account)
            else:
                access = _of_kubeconfig(self.kubeconfig, self.context)
        except Exception as error:  # the library lets through what YAML, base64 and files raise
            what = ""
            if isinstance(error, (AttributeError, TypeError)):  # as of what is no kubeconfig
                what = "is not as a kubeconfig should be: "
            elif isinstance(error, binascii.Error):
                what = "a field that ends in -data is no base64: "
            raise UnusableConfigError(f"{self.name}: {what}{_one_line(error)}") from error
        return replace(access, act_as=self.act_as or access.act_as)


def of_service(mode: str) -> ConfigSource | None:
    """Return the source for the setting ``kubernetes``; None where nothing is configured.

    The pod's service account comes first, then ``KUBECONFIG``, and with ``on`` the user's own file.
    """
    if mode == "off":
        return None
    if os.environ.get("KUBERNETES_SERVICE_HOST") and (_SERVICE_ACCOUNT / "token").exists():
        return ConfigSource("the pod's service account")
    if files := os.environ.get("KUBECONFIG"):
        return ConfigSource(f"KUBECONFIG={files}", files)
    return ConfigSource(f"KUBECONFIG is not set, and {_USERS_OWN}", _USERS_OWN) if mode == "on" else None


def of_user(kubeconfig: str | None, context: str | None, act_as: Impersonation | None = None) -> ConfigSource:
    """Return the source where kubectl looks for it: the file that is named, ``KUBECONFIG``, the user's own,
    the pod's."""
    files = kubeconfig or os.environ.get("KUBECONFIG") or _USERS_OWN
    if kubeconfig is None and not _exists(files) and _SERVICE_ACCOUNT.exists():
        return ConfigSource("the pod's service account", act_as=act_as)
    return ConfigSource(files, files, context, act_as=act_as)


def _of_service_account(folder: Path) -> Access:
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if not host or not port:
        raise UnusableConfigError("KUBERNETES_SERVICE_HOST or KUBERNETES_SERVICE_PORT is not set")
    # The kubelet replaces the token within the hour.
    token = Secret((folder / "token").read_text(encoding="utf-8").strip(), str(folder / "token"))
    return Access(
        f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        partial(authorization, None, None, token),
        _trusting(str(folder / "ca.crt")),
        namespace=(folder / "namespace").read_text(encoding="utf-8").strip(),
    )


def _of_kubeconfig(files: str, context: str | None) -> Access:
    # Here, not above: a pod does not need it, and its image does not have it.
    try:
        from kubernetes.client import Configuration
        from kubernetes.config.kube_config import KubeConfigLoader, KubeConfigMerger
    except ModuleNotFoundError as error:
        raise UnusableConfigError(str(NotInstalledError("kubernetes"))) from error

    if not _exists(files):
        raise UnusableConfigError("no such file")
    configuration = Configuration()
    merged = KubeConfigMerger(files)  # type: ignore[no-untyped-call]  # the library's gap

    def keep_refreshed_token() -> None:
        with suppress(OSError):  # a kubeconfig on a read-only volume: the token is used all the same
            merged.save_changes()  # type: ignore[no-untyped-call]  # the library's gap

    _check_context(merged.config, context)
    loader = KubeConfigLoader(  # type: ignore[no-untyped-call]  # the library's gap
        merged.config, context, config_base_path=None, config_persister=keep_refreshed_token
    )
    with _complaints() as complaints:
        loader.load_and_set(configuration)  # type: ignore[no-untyped-call]  # the library's gap
    used = loader.current_context["context"]
    # A kubeconfig may name a user, and no credentials of theirs: we would go on as nobody.
    user, problem = used.get("user"), None
    entry = merged.config["users"].get_with_name(user, safe=True) if user else None
    given: Mapping[str, Any] = {} if entry is None else entry["user"].value
    cluster = merged.config["clusters"].get_with_name(used["cluster"])["cluster"].value
    named = [credential for credential in _CREDENTIALS if credential in given]
    is_anonymous = not (configuration.api_key or configuration.cert_file)
    if any(value in _LEFT_OUT for value in (*given.values(), *cluster.values())):
        problem = "they are left out: write the file by kubectl config view --raw"
    elif complaints:
        problem = complaints[0]
    elif user and entry is None:
        problem = f"the kubeconfig has no user {user}"
    elif named and is_anonymous and configuration.host.startswith("https:"):  # certificates need TLS
        problem = f"{' and '.join(named)} of user {user} gives none that can be used here"
    if problem is not None:
        raise UnusableConfigError(f"credentials cannot be got: {problem}")
    if not configuration.host.startswith(("http://", "https://")):
        raise UnusableConfigError(f"its server {configuration.host!r} is no URL such as https://host:6443")
    return Access(
        str(configuration.host),
        lambda: (configuration.api_key.get("BearerToken") or "").strip() or None,  # with a block's line end
        _tls_of(configuration),
        configuration.tls_server_name,
        _proxy_of(loader),
        str(used.get("namespace") or "default"),
        Impersonation(given["as"], tuple(given.get("as-groups") or ())) if given.get("as") else None,
    )


def _check_context(config: Any, context: str | None) -> None:
    """Raise ``UnusableConfigError`` where a kubeconfig has not the context that is meant."""
    name = context or config.safe_get("current-context")
    names = [getattr(entry, "value", entry)["name"] for entry in config.value.get("contexts") or ()]
    known = f"it has {', '.join(names)}" if names else "it has none"
    if name and name not in names:
        raise UnusableConfigError(f"there is no context {name} in it: {known}")
    if not name:
        raise UnusableConfigError(
            f"no current-context is set in it: kubectl config use-context NAME; {known}"
        )


def _proxy_of(loader: Any) -> str | None:
    """Return the proxy that a kubeconfig names; aiohttp reads the environment's itself. Raises
    ``UnusableConfigError`` for one that aiohttp does not speak to."""
    proxy: str | None = getattr(loader, "proxy", None)
    if proxy is None or proxy.startswith(("http://", "https://")):
        return proxy
    raise UnusableConfigError(
        f"its proxy-url is of {proxy.partition(':')[0]}, and only proxies of HTTP can be used: give one, or "
        "as server a port that ssh -L forwards to the API server, with its tls-server-name"
    )


def _tls_of(configuration: Any) -> ssl.SSLContext:
    """Return whom a kubeconfig trusts, and its own certificate. Raises ``UnusableConfigError`` with the name
    of the field that has none."""
    field = "certificate-authority"
    try:
        tls = _trusting(configuration.ssl_ca_cert)
        if configuration.cert_file:
            field = "client-certificate"
            tls.load_cert_chain(configuration.cert_file, configuration.key_file)
    except ssl.SSLError as error:
        raise UnusableConfigError(f"{field} is no certificate in PEM, or has no key: {error}") from error
    if not configuration.verify_ssl:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def _trusting(authority: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=authority)
    # Authorities that clusters make for themselves often lack what RFC 5280 asks for; kubectl accepts them.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _exists(files: str) -> bool:
    """Tell whether any of the files does: the library then reads that one."""
    return any(Path(path).expanduser().exists() for path in files.split(os.pathsep) if path)


def _one_line(what: object) -> str:
    return " ".join(str(what).split())[:400]


@contextmanager
def _complaints() -> Iterator[list[str]]:
    """Collect what the library logs on the root logger, instead of raising it, when a credential helper
    fails."""
    complaints: list[str] = []
    root, thread = logging.getLogger(), threading.get_ident()

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR or record.thread != thread:
            return True
        complaints.append(_one_line(record.getMessage()))
        return False

    root.addFilter(keep)
    try:
        yield complaints
    finally:
        root.removeFilter(keep)

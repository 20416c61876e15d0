"""Where the API server and our credentials are found. Read at start, and again when they seem out of date."""

import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_USERS_OWN = "~/.kube/config"
_LIBRARY = logging.getLogger("kubernetes.aio.config.kube_config")
Load = Callable[[Configuration], Awaitable[None]]
"""Fills in a configuration from the files of this moment. Raises ``UnusableConfigError`` and nothing else."""


class UnusableConfigError(Exception):
    """There is no configuration where it was looked for, or it cannot be used. Says what, in one line."""


def loader(mode: str) -> Load | None:
    """For ``auto`` or ``on``: the pod's service account, ``KUBECONFIG``, with ``on`` the user's own file."""
    if os.environ.get("KUBERNETES_SERVICE_HOST") and _SERVICE_ACCOUNT.exists():
        return _in_cluster
    files = os.environ.get("KUBECONFIG") or None
    if files:
        return partial(_kubeconfig, files, f"KUBECONFIG={files}")
    return (
        partial(_kubeconfig, _USERS_OWN, f"KUBECONFIG is not set, and {_USERS_OWN}") if mode == "on" else None
    )


async def _in_cluster(configuration: Configuration) -> None:
    with _one_line("the pod's service account"):
        config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's gap


async def _kubeconfig(files: str, name: str, configuration: Configuration) -> None:
    if not _exist(files):
        raise UnusableConfigError(f"{name}: no such file")
    with _one_line(name), _said() as said:
        await config.load_kube_config(files, client_configuration=configuration)  # type: ignore[no-untyped-call]
    if said:  # it goes on as nobody, for whom the API server has another error
        raise UnusableConfigError(f"{name}: credentials cannot be got: {'; '.join(said)}")


def _exist(files: str) -> bool:
    """Whether any of the files is there: the library then reads that one."""
    return any(Path(one).expanduser().exists() for one in files.split(os.pathsep) if one)


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the library lets through what YAML, base64 and files raise
        raise UnusableConfigError(f"{name}: {' '.join(str(error).split())}") from error


@contextmanager
def _said() -> Iterator[list[str]]:
    """What the library logs, instead of raising it, when a credential helper fails."""
    said: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno < logging.ERROR:
            return True
        said.append(" ".join(record.getMessage().split()))
        return False

    _LIBRARY.addFilter(keep)
    try:
        yield said
    finally:
        _LIBRARY.removeFilter(keep)

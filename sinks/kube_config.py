"""Where the API server and our credentials are found. Read at start, and again when they seem out of date."""

import os
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from kubernetes.aio import config
from kubernetes.aio.client import Configuration

_SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
Load = Callable[[Configuration], Awaitable[None]]
"""Fills in a configuration from the files of this moment."""


def loader(mode: str) -> Load | None:
    """For ``auto`` or ``on``: the pod's service account, ``KUBECONFIG``, with ``on`` the user's own file."""
    if os.environ.get("KUBERNETES_SERVICE_HOST") and _SERVICE_ACCOUNT.exists():
        return _in_cluster
    file = os.environ.get("KUBECONFIG") or None
    return partial(_kubeconfig, file) if file or mode == "on" else None


async def _in_cluster(configuration: Configuration) -> None:
    config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # the library's gap


async def _kubeconfig(file: str | None, configuration: Configuration) -> None:
    await config.load_kube_config(file, client_configuration=configuration)  # type: ignore[no-untyped-call]  # as above

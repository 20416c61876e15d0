"""The plugin's user, and pods for them."""

from pathlib import Path

import pytest

from tests.support.kubectl.plugin_user import BUSY, IDLE, User, install, lease, pod
from tests.support.processes import warm
from tests.support.servers.kube.server import Kube


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with the plugin."""
    path = install(tmp_path)
    warm.install(tmp_path, "kubectl-dutycycle", "dutycycle.kubectl.cli")
    return path


@pytest.fixture
def heartbeat(kube: Kube, namespace: str) -> None:
    """There is one, of a node on which no pod of a test runs."""
    kube.admin.create(lease(namespace, f"other-{namespace}", 0))


@pytest.fixture
def user(kube: Kube, path: str, heartbeat: None) -> User:
    return User(kube, kube.admin.kubeconfig, path)


@pytest.fixture
def pods(kube: Kube, namespace: str, heartbeat: None) -> str:
    for one in (pod(namespace, "plain"), pod(namespace, "idle", **IDLE), pod(namespace, "busy", **BUSY)):
        kube.admin.create(one)
    return namespace

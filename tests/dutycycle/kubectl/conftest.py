"""The plugin's user, and pods for them."""

import pytest

from tests.support.kubectl.plugin_user import BUSY, IDLE, User, lease, pod
from tests.support.servers.kube.server import Kube


@pytest.fixture
def heartbeat(kube: Kube, namespace: str) -> None:
    """There is one, of a node on which no pod of a test runs."""
    kube.admin.create(lease(namespace, f"other-{namespace}", 0))


@pytest.fixture
def user(kube: Kube, heartbeat: None) -> User:
    return User(kube.admin.kubeconfig)


@pytest.fixture
def pods(kube: Kube, namespace: str, heartbeat: None) -> str:
    for one in (pod(namespace, "plain"), pod(namespace, "idle", **IDLE), pod(namespace, "busy", **BUSY)):
        kube.admin.create(one)
    return namespace

"""``kubectl dutycycle`` where the way to the API server is the trouble: TLS, credentials, versions."""

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dutycycle.kube import discovery
from dutycycle.kubectl.api import Api
from tests.support.kubectl.plugin_user import User, thing
from tests.support.servers.kube.crds import Kind, manifest
from tests.support.servers.kube.server import Kube
from tests.support.waiting import wait_until

Config = dict[str, Any]
RUNTIME = Kind("trainer.kubeflow.org", ("v1",), "TrainingRuntime", "trainingruntimes")


@pytest.fixture
def newer_neighbour(kube: Kube) -> Iterator[None]:
    """Beside ``trainjobs``, in v1alpha1, another kind of their group, in v1: the group prefers that."""
    made = kube.admin.create(manifest(RUNTIME))
    wait_until(lambda: _preferred(kube) == "v1")
    yield
    kube.admin.delete(made)
    wait_until(lambda: _preferred(kube) == "v1alpha1")


def _preferred(kube: Kube) -> str:
    found = kube.admin.request("GET", f"/apis/{RUNTIME.group}")
    return str(found["preferredVersion"]["version"])


@pytest.mark.usefixtures("newer_neighbour")
def test_a_kind_that_is_not_served_in_the_version_that_its_group_prefers(
    kube: Kube, user: User, namespace: str
) -> None:
    kube.admin.create(
        thing(f"{RUNTIME.group}/v1alpha1", "TrainJob", namespace, "bert", bert__0='{"cpu_util":7}')
    )
    assert [row[:2] for row in user.lines("top", "jobs", "-n", namespace)[1:]] == [["bert", "TrainJob"]]
    for name in ("bert", "trainjob/bert"):
        assert user.lines("peaks", name, "-n", namespace)[1][0] == "bert-0"
    assert user.completes("peaks", "-n", namespace, "") == ["bert"]


@pytest.fixture
def changed(kube: Kube, tmp_path: Path) -> Callable[[Callable[[Config], object]], User]:
    """A user whose kubeconfig is the administrator's, changed."""
    config = yaml.safe_load(kube.admin.kubeconfig.read_text())

    def change(by: Callable[[Config], object]) -> User:
        mine = copy.deepcopy(config)
        by(mine)
        (tmp_path / "config").write_text(yaml.safe_dump(mine))
        return User(tmp_path / "config")

    return change


def _cluster(config: Config) -> Config:
    return dict_of(config["clusters"][0]["cluster"])


def dict_of(value: Any) -> Config:
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda config: _cluster(config).pop("certificate-authority"), "certificate"),
        (lambda config: _cluster(config).update({"tls-server-name": "elsewhere.org"}), "elsewhere.org"),
    ],
)
def test_no_tls_connection_is_one_clear_line(
    kube: Kube, changed: Callable[[Callable[[Config], object]], User], change: Any, says: str
) -> None:
    somebody = changed(change)
    status, stdout, stderr = somebody.run("top", "pods")
    assert (status, stdout, stderr.count("\n")) == (1, "", 1)
    assert f"no TLS connection to https://127.0.0.1:{kube.port}: " in stderr
    assert says in stderr
    assert "check the certificate authority" in stderr
    assert somebody.completes("why", "") == []


HELPER = {"apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Never"}


@pytest.mark.parametrize(
    ("users", "says"),
    [
        ([{"exec": HELPER | {"command": "/nowhere/helper"}}], "/nowhere/helper"),
        ([{"exec": HELPER | {"command": "sh", "args": ["-c", "echo log in >&2; exit 3"]}}], "log in"),
        ([{"exec": HELPER | {"command": "echo", "args": ["{}"]}}], "missing key"),
        ([{"auth-provider": {"name": "azure", "config": {}}}], "auth-provider"),
        ([{"token": ""}], "token"),
        ([], ""),
    ],
)
def test_credentials_that_cannot_be_got_are_told_with_the_reason(
    changed: Callable[[Callable[[Config], object]], User], users: list[Config], says: str
) -> None:
    def change(config: Config) -> None:
        config["users"] = [{"name": config["users"][0]["name"], "user": user} for user in users]

    somebody = changed(change)
    status, stdout, stderr = somebody.run("top", "pods")
    assert (status, stdout, stderr.count("\n")) == (1, "", 1)
    assert f"no access to a cluster: {somebody.env['KUBECONFIG']}: credentials cannot be got: " in stderr
    assert says in stderr
    assert somebody.completes("why", "") == []


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("way", ["a helper that works", "an unchecked certificate"])
def test_what_the_kubeconfig_says_is_enough(
    kube: Kube, pods: str, changed: Callable[[Callable[[Config], object]], User], way: str
) -> None:
    answer = (
        '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential",'
        f'"status":{{"token":"{kube.admin.access.token}"}}}}'
    )

    def change(config: Config) -> None:
        if way == "a helper that works":
            config["users"][0]["user"] = {"exec": HELPER | {"command": "echo", "args": [answer]}}
        else:
            del _cluster(config)["certificate-authority"]
            _cluster(config)["insecure-skip-tls-verify"] = True

    assert len(changed(change).lines("top", "pods", "-n", pods)) == 3


def test_a_server_without_aggregated_discovery_is_asked_version_by_version(
    kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Api(str(kube.admin.kubeconfig)) as api:
        aggregated = api.kinds()
    monkeypatch.setattr(discovery, "AGGREGATED", "application/json")  # as if it did not know the other form
    with Api(str(kube.admin.kubeconfig)) as api:
        assert {*api.kinds()} == {*aggregated}

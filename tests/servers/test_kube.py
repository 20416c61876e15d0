"""The API server of the tests is a real one: what it admits and refuses, and what kubectl says of it."""

import json
import os
from pathlib import Path

import pytest

from tests.support.servers.kube import build
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.client import Object, Refused
from tests.support.servers.kube.crds import KINDS, Kind
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import ServerMissingError

READ_PODS: list[Object] = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]


def test_kubectl_reaches_it_and_it_is_of_the_pinned_version(kube: Kube) -> None:
    served = json.loads(kube.admin.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    if "KUBEBUILDER_ASSETS" not in os.environ:
        assert served == build.pinned_version()


def test_an_account_may_what_a_role_says_and_no_more(kube: Kube, namespace: str) -> None:
    account = service_account(kube, namespace, "reader")
    with pytest.raises(Refused, match='cannot list resource \\\\"pods') as denied:
        account.request("GET", "/api/v1/pods")
    assert denied.value.status == 403
    grant(kube, account, namespace, "reader", READ_PODS)
    assert account.request("GET", "/api/v1/pods")["kind"] == "PodList"
    assert "yes" in account.kubectl("auth", "can-i", "watch", "pods", "--all-namespaces")
    assert "no" in account.kubectl("auth", "can-i", "delete", "pods", check=False)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.plural}.{kind.group}")
def test_every_kind_is_served_with_a_status(kube: Kube, namespace: str, kind: Kind) -> None:
    for version in kind.versions:
        thing = {
            "apiVersion": f"{kind.group}/{version}", "kind": kind.kind, "spec": {"any": [{"thing": 1}]},
            "metadata": {"namespace": namespace, "name": f"a-{version}"}, "status": {"phase": "Running"},
        }  # fmt: skip
        made = kube.admin.create(thing)
        assert made["spec"] == thing["spec"]
        assert made["status"] == {"phase": "Running"}


def test_objects_outlive_a_restart(kube: Kube, namespace: str) -> None:
    kube.stop()
    assert not kube.admin.answers("/readyz")
    kube.start()
    assert kube.admin.request("GET", f"/api/v1/namespaces/{namespace}")["metadata"]["name"] == namespace


def test_own_programs_are_used_and_a_missing_one_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    for name in ("etcd", "kube-apiserver"):
        (tmp_path / name).touch(mode=0o755)
    with pytest.raises(ServerMissingError, match=f"KUBEBUILDER_ASSETS={tmp_path} has no program kubectl"):
        build.find_programs()
    (tmp_path / "kubectl").touch(mode=0o755)
    assert build.find_programs().etcd == tmp_path / "etcd"


def test_what_is_missing_is_said_with_the_way_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerMissingError, match="apt-get install etcd-server"):
        build.find_programs()
    (tmp_path / "etcd").touch(mode=0o755)
    with pytest.raises(ServerMissingError, match=r"kube-apiserver is not built \(make servers"):
        build.find_programs()

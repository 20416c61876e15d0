"""The API server of the tests is the pinned one, with every kind of job; what is missing is named."""

import json
import os
from pathlib import Path

import pytest

from tests.support.servers.kube import build
from tests.support.servers.kube.crds import KINDS, Kind
from tests.support.servers.kube.server import Kube
from tests.support.servers.missing import ServerMissingError


def test_kubectl_reaches_it_and_it_is_of_the_pinned_version(kube: Kube) -> None:
    served = json.loads(kube.admin.kubectl("version", "--output=json"))["serverVersion"]["gitVersion"]
    if "KUBEBUILDER_ASSETS" not in os.environ:
        assert served == build.pinned_version()


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

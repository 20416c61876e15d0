"""The API server of the tests is the pinned one, with every kind of job."""

import json
import os

import pytest

from tests.support.servers.kube import build
from tests.support.servers.kube.crds import KINDS, Kind
from tests.support.servers.kube.server import Kube


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

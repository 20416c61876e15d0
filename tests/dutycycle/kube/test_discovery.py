"""Which kinds there are: asked once, looked for in other versions, and asked again after a while."""

from typing import Any

import pytest

from dutycycle.kube.discovery import MISSING_S, Kinds
from dutycycle.kube.errors import GoneError, NoKindError


class Served:
    """Answers by path."""

    def __init__(self, answers: dict[str, dict[str, Any]]) -> None:
        self._answers = answers

    async def __call__(self, path: str, *, accept: str = "") -> dict[str, Any]:
        return self._answers[path]


async def test_a_missing_kind_is_asked_for_again_after_a_while() -> None:
    asked, now = [], 0.0

    async def get(path: str, *, accept: str = "") -> dict[str, object]:
        asked.append(path)
        raise GoneError("404")

    kinds = Kinds(get, lambda: now)
    for at, expected in ((0.0, 2), (MISSING_S - 1, 2), (MISSING_S, 4)):
        now = at
        with pytest.raises(NoKindError, match="has no kind Dance"):
            await kinds.find("example.org/v1", "Dance")
        assert len(asked) == expected


def resource(plural: str, kind: str, scope: str = "Namespaced") -> dict[str, Any]:
    return {"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind}, "scope": scope}


async def test_kinds_are_asked_for_in_the_first_version_that_has_them() -> None:
    jobs, notebooks = resource("mpijobs", "MPIJob"), resource("notebooks", "Notebook")
    versions = [
        {"version": "v1", "resources": [notebooks, resource("profiles", "Profile", "Cluster")]},
        {"version": "v2beta1", "resources": [jobs, notebooks]},
    ]
    answer = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {"metadata": {"name": "kubeflow.org"}, "versions": versions},
            {"metadata": {"name": "metrics.k8s.io"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
        ],
    }
    kinds = Kinds(Served({"/api": {"items": []}, "/apis": answer}), lambda: 0.0)
    assert [(str(kind), kind.api_version, kind.namespaced) for kind in await kinds.every()] == [
        ("notebooks.kubeflow.org", "kubeflow.org/v1", True),
        ("profiles.kubeflow.org", "kubeflow.org/v1", False),
        ("mpijobs.kubeflow.org", "kubeflow.org/v2beta1", True),
    ]
    assert (await kinds.find("kubeflow.org/v2beta1", "MPIJob")).path("a b", "ns") == (
        "/apis/kubeflow.org/v2beta1/namespaces/ns/mpijobs/a%20b"
    )


async def test_an_older_server_is_asked_version_by_version() -> None:
    def listed(name: str, plural: str) -> dict[str, Any]:
        return {"resources": [{"kind": name, "name": plural, "namespaced": True, "verbs": ["get"]}]}

    versions = [{"groupVersion": "ray.io/v1"}, {"groupVersion": "ray.io/v2"}]
    group = {"name": "ray.io", "versions": versions, "preferredVersion": versions[1]}
    answers = {
        "/api": {"versions": ["v1"]}, "/api/v1": listed("Pod", "pods"), "/apis": {"groups": [group]},
        "/apis/ray.io/v1": listed("RayJob", "rayjobs"), "/apis/ray.io/v2": listed("RayJob", "rayjobs"),
    }  # fmt: skip
    found = await Kinds(Served(answers), lambda: 0.0).every()
    assert [(str(kind), kind.api_version) for kind in found] == [
        ("pods", "v1"),
        ("rayjobs.ray.io", "ray.io/v2"),
    ]

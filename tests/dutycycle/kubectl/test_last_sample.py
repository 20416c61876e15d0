"""When a node, pod and job was sampled last, and what is stale: tables of calls, and the real API server."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dutycycle.kube.heartbeat import Heartbeat
from dutycycle.kubectl.api import ListedPod
from dutycycle.kubectl.last_sample import LastSample, LastSamples, Sampling, newest, of_all
from tests.support.kubectl.plugin_user import User, lease, mpijob, pod, thing
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

NOW_MS = 1_700_000_000_000
UPDATED = "2023-11-14T20:13:20Z"  # two hours before
SAMPLES = LastSamples(
    {"a": Heartbeat("a", NOW_MS - 12_000, 180), "b": Heartbeat("b", NOW_MS - 180_001, 180)}, NOW_MS
)
LIVE = LastSample(Sampling.LIVE, NOW_MS - 12_000)
STALE = LastSample(Sampling.STALE, NOW_MS - 180_001)
ENDED = LastSample(Sampling.ENDED, NOW_MS - 7_200_000)
UNKNOWN = LastSample()


@pytest.mark.parametrize(
    ("node", "has_ended", "found", "expected", "text"),
    [
        ("a", False, {"updated": UPDATED}, LIVE, "12s"),
        ("b", False, {"updated": UPDATED}, STALE, "3m (stale)"),
        ("b", True, {"updated": UPDATED}, ENDED, "2h (ended)"),
        ("a", True, {"updated": 7}, UNKNOWN, "-"),
        ("a", True, {}, UNKNOWN, "-"),
        ("c", False, {"updated": UPDATED}, UNKNOWN, "-"),
        (None, False, {"updated": UPDATED}, UNKNOWN, "-"),
    ],
)
def test_of_a_pod(
    node: str | None, has_ended: bool, found: dict[str, Any], expected: LastSample, text: str
) -> None:
    sample = SAMPLES.of_pod(ListedPod({"name": "p"}, node, has_ended), found)
    assert sample == expected
    assert sample.text(NOW_MS) == text


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        ([], UNKNOWN),
        ([LIVE, LIVE], LIVE),
        ([LIVE, STALE, ENDED], STALE),
        ([LIVE, UNKNOWN], UNKNOWN),
        ([LIVE, ENDED], LIVE),
        ([LastSample(Sampling.ENDED, 1), ENDED], ENDED),
    ],
)
def test_of_a_job_the_running_pod_counts_that_was_sampled_the_longest_ago(
    pods: list[LastSample], expected: LastSample
) -> None:
    assert of_all(pods) == expected


def test_of_two_heartbeats_of_a_node_the_newest_counts() -> None:
    older, newer = Heartbeat("a", 1, 180), Heartbeat("a", 2, 180)
    assert newest([newer, older]) == newest([older, newer]) == {"a": newer}


def placed(kube: Kube, namespace: str, name: str, node: str, phase: str = "Running") -> None:
    made: Object = pod(namespace, name, max_cpu_util="7", updated=UPDATED)
    made["spec"]["nodeName"] = node
    kube.admin.create(made | {"status": {"phase": phase}})


@pytest.fixture
def nodes(kube: Kube, namespace: str) -> Iterator[tuple[str, str]]:
    """Two nodes: one is sampled, the other no more."""
    names = f"live-{namespace}", f"dead-{namespace}"
    made = [kube.admin.create(thing("v1", "Node", None, name, gpu__static='{"count":1}')) for name in names]
    for name, ago_s in zip(names, (0, 3600), strict=True):
        kube.admin.create(lease(namespace, name, ago_s))
    yield names
    for one in made:
        kube.admin.delete(one)


def sampling(user: User, *arguments: str) -> dict[str, str]:
    """What JSON says of each object, by name."""
    status, stdout, stderr = user.run(*arguments, "-o", "json")
    assert (status, stderr) == (0, "")
    found = json.loads(stdout)
    return {one["name"]: one["sampling"] for one in (found if isinstance(found, list) else [found])}


def test_a_dead_collector_is_told_from_a_live_one(
    kube: Kube, user: User, namespace: str, nodes: tuple[str, str]
) -> None:
    live, dead = nodes
    for name, node, phase in (
        ("good-0", live, "Running"), ("bad-0", dead, "Running"), ("over-0", dead, "Succeeded"),
        ("failed-0", dead, "Failed"), ("lost-0", "elsewhere", "Running"),
    ):  # fmt: skip
        placed(kube, namespace, name, node, phase)
    for name in ("good", "bad", "over", "lost", "none"):
        kube.admin.create(mpijob(namespace, name, **{f"{name}__0": '{"cpu_util":7}'}))
    here = ["-n", namespace]
    of_pods = {
        "good-0": "live", "bad-0": "stale", "over-0": "ended", "failed-0": "ended", "lost-0": "unknown",
    }  # fmt: skip
    of_jobs = {"good": "live", "bad": "stale", "over": "ended", "lost": "unknown", "none": "unknown"}
    assert sampling(user, "top", "pods", *here) == of_pods
    assert sampling(user, "top", "jobs", *here) == of_jobs
    assert sampling(user, "top", "nodes").items() >= {live: "live", dead: "stale"}.items()
    for what in ("bad-0", "mpijob/bad"):
        assert list(sampling(user, "why", what, *here).values()) == ["stale"]
        assert "  last sample  1h ago (stale)\n" in user.run("why", what, *here)[1]
    assert sampling(user, "peaks", "bad", *here) == {"bad": "stale"}
    assert user.run("peaks", "bad", *here)[2] == "last sample: 1h ago (stale)\n"
    _, row = user.lines("top", "pods", "bad-0", *here, "-o", "wide")
    assert row[7:9] == ["1h", "(stale)"]
    assert row[11] == dead


def test_without_permission_nothing_is_called_fresh(
    kube: Kube, namespace: str, nodes: tuple[str, str]
) -> None:
    placed(kube, namespace, "good-0", nodes[0])
    some = service_account(kube, namespace, "some")
    grant(
        kube, some, namespace, "some", [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    )
    user = User(some.kubeconfig)
    status, stdout, stderr = user.run("top", "pods", "-n", namespace)
    assert (status, stdout.splitlines()[1].split()[7]) == (0, "-")
    assert stderr.startswith(
        "last samples are not known: you may not list leases.coordination.k8s.io in the whole cluster: "
    )
    says = user.run("why", "good-0", "-n", namespace)[1]
    assert "  last sample  not known: you may not list leases.coordination.k8s.io in " in says
    assert "; the figures are " in says


def test_without_any_heartbeat_it_is_said_so(kube: Kube, namespace: str) -> None:
    kube.admin.create(pod(namespace, "busy", max_cpu_util="7"))
    selector = "labelSelector=app.kubernetes.io/managed-by%3Ddutycycle"
    for one in kube.admin.request("GET", f"/apis/coordination.k8s.io/v1/leases?{selector}")["items"]:
        kube.admin.delete(one | {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"})
    status, stdout, stderr = User(kube.admin.kubeconfig).run("top", "pods", "-n", namespace)
    assert (status, len(stdout.splitlines()), stderr.count("\n")) == (0, 2, 1)
    assert stderr.startswith("last samples are not known: no node has a heartbeat, ")

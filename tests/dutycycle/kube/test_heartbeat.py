"""The Lease of a node: what is written is what is read."""

from typing import Any

import pytest

from dutycycle.kube.heartbeat import LABELS, SELECTOR, Heartbeat, heartbeat_of, new_lease, renewal

AT_MS = 1_700_000_000_123


def lease(**spec: Any) -> dict[str, Any]:
    made = new_lease("gpu-a", "uid-of-gpu-a", "dutycycle", AT_MS, 60.0)
    return made | {"spec": made["spec"] | spec}


def test_what_is_written_is_read() -> None:
    assert heartbeat_of(lease()) == Heartbeat("gpu-a", AT_MS, 180)
    merged = lease() | {"spec": lease()["spec"] | renewal(AT_MS + 60_000, 60.0)["spec"]}
    assert heartbeat_of(merged) == Heartbeat("gpu-a", AT_MS + 60_000, 180)


def test_a_lease_as_kubernetes_wants_it() -> None:
    assert lease() == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "gpu-a",
            "namespace": "dutycycle",
            "labels": {"app.kubernetes.io/managed-by": "dutycycle"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gpu-a", "uid": "uid-of-gpu-a"}],
        },
        "spec": {
            "holderIdentity": "dutycycle",
            "leaseDurationSeconds": 180,
            "renewTime": "2023-11-14T22:13:20.123000Z",
        },
    }
    assert ",".join(f"{key}={value}" for key, value in LABELS.items()) == SELECTOR


@pytest.mark.parametrize(
    "wrong",
    [
        lease(holderIdentity="kubelet"),
        lease(renewTime=None),
        lease(renewTime="yesterday"),
        lease(renewTime="2023-11-14T22:13:20"),
        lease(leaseDurationSeconds=None),
        lease() | {"metadata": {"name": "gpu-a"}},
        {"metadata": {"name": "gpu-a", "labels": LABELS}},
        {},
    ],
)
def test_what_is_not_ours_is_no_heartbeat(wrong: dict[str, Any]) -> None:
    assert heartbeat_of(wrong) is None


def test_a_node_is_stale_after_three_renewals_that_did_not_come() -> None:
    beat = Heartbeat("gpu-a", AT_MS, 180)
    assert not beat.is_stale(AT_MS + 180_000)
    assert beat.is_stale(AT_MS + 180_001)

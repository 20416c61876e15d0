"""Goal: the walk ends at the topmost owner that can be read, whatever the chain looks like."""

from typing import Any

import pytest

from collectors.pods.owners import controller_of, topmost_owner
from dutycycle.kube.references import Metadata, ObjectRef

GONE = "gone"


def ref(kind: str, name: str, *, uid: str | None = None, controller: bool = True) -> dict[str, Any]:
    return {
        "apiVersion": "g/v1", "kind": kind, "name": name, "uid": uid or f"u-{name}", "controller": controller,
    }  # fmt: skip


def meta(name: str, *owners: dict[str, Any], uid: str | None = None) -> dict[str, Any]:
    return {"name": name, "uid": uid or f"u-{name}", "namespace": "ns", "ownerReferences": list(owners)}


class Cluster:
    """Objects by kind and name; what is not in it may not be read."""

    def __init__(self, **objects: dict[str, Any]) -> None:
        self.objects = objects
        self.asked: list[tuple[str | None, str]] = []

    async def read(self, owner: ObjectRef) -> Metadata | None:
        self.asked.append((owner.namespace, owner.kind))
        return self.objects.get(owner.kind)


CHAINS = [
    pytest.param(["ReplicaSet", "Deployment"], id="deployment"),
    pytest.param(["Job", "CronJob"], id="cron job"),
    pytest.param(["MPIJob"], id="MPI worker"),
    pytest.param(["Job", "MPIJob"], id="MPI launcher"),
    pytest.param(["PyTorchJob"], id="PyTorchJob"),
    pytest.param(["Job", "JobSet", "TrainJob"], id="TrainJob"),
    pytest.param(["RayCluster", "RayJob"], id="RayJob"),
]


def cluster_of(kinds: list[str]) -> Cluster:
    above = [*kinds[1:], None]
    return Cluster(
        **{
            kind: meta(kind.lower(), *([ref(up, up.lower())] if up else []))
            for kind, up in zip(kinds, above, strict=True)
        }
    )


@pytest.mark.parametrize("kinds", CHAINS)
async def test_known_chains(kinds: list[str]) -> None:
    cluster = cluster_of(kinds)
    top = await topmost_owner(meta("pod", ref(kinds[0], kinds[0].lower())), cluster.read)
    assert top == ObjectRef("g/v1", kinds[-1], kinds[-1].lower(), "ns", f"u-{kinds[-1].lower()}")
    assert cluster.asked == [("ns", kind) for kind in kinds]


@pytest.mark.parametrize("kinds", CHAINS)
@pytest.mark.parametrize("hidden", [0, 1, 2])
async def test_an_owner_that_cannot_be_read_ends_the_walk_below_it(kinds: list[str], hidden: int) -> None:
    cluster = cluster_of(kinds)
    for kind in kinds[hidden:]:
        del cluster.objects[kind]
    top = await topmost_owner(meta("pod", ref(kinds[0], kinds[0].lower())), cluster.read)
    assert top is not None
    assert top.kind == kinds[max(0, min(hidden, len(kinds)) - 1)]


@pytest.mark.parametrize("hidden_uid", ["ReplicaSet", "Deployment"])
async def test_a_name_that_was_used_again_is_another_object(hidden_uid: str) -> None:
    cluster = cluster_of(["ReplicaSet", "Deployment"])
    cluster.objects[hidden_uid] |= {"uid": "another"}
    top = await topmost_owner(meta("pod", ref("ReplicaSet", "replicaset")), cluster.read)
    assert top == ObjectRef("g/v1", "ReplicaSet", "replicaset", "ns", "u-replicaset")


@pytest.mark.parametrize(
    ("loop", "top"),
    [
        ({"A": meta("a", ref("A", "a"))}, "A"),
        ({"A": meta("a", ref("B", "b")), "B": meta("b", ref("A", "a"))}, "B"),
        ({"A": meta("a", ref("B", "b")), "B": meta("b", ref("C", "c")), "C": meta("c", ref("B", "b"))}, "C"),
    ],
)
async def test_owners_in_a_circle(loop: dict[str, Any], top: str) -> None:
    found = await topmost_owner(meta("pod", ref("A", "a")), Cluster(**loop).read)
    assert found is not None
    assert found.kind == top


async def test_a_chain_without_end_is_left_at_last() -> None:
    async def read(owner: ObjectRef) -> Metadata:
        return meta(owner.name, ref("Next", owner.name + "x"))

    assert await topmost_owner(meta("pod", ref("Next", "n")), read) is not None


@pytest.mark.parametrize("owners", [[], [ref("Node", "a")]])
async def test_a_pod_without_a_job(owners: list[dict[str, Any]]) -> None:
    cluster = Cluster()
    assert await topmost_owner(meta("pod", *owners), cluster.read) is None
    assert cluster.asked == []


@pytest.mark.parametrize(
    ("references", "kind"),
    [
        (None, None),
        ([], None),
        ([ref("A", "a", controller=False), ref("B", "b")], "B"),
        ([ref("A", "a", controller=False), ref("B", "b", controller=False)], "A"),
        ([{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u"}], "A"),
    ],
)
def test_which_owner_manages(references: Any, kind: str | None) -> None:
    found = controller_of({"ownerReferences": references}, "ns")
    assert (found.kind if found else None) == kind


async def test_what_reading_raises_passes_through() -> None:
    async def away(owner: ObjectRef) -> None:
        raise ConnectionError(owner.kind)

    with pytest.raises(ConnectionError):
        await topmost_owner(meta("pod", ref("Job", "j")), away)

"""Goal: kube-scheduler's questions are answered in its own protocol, also by those who ask wrongly."""

from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from kube.templates import template_of
from sinks.scheduling.extender import Extender
from sinks.scheduling.known import KnownCluster
from telemetry.events import EXTENDER, Telemetry
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.sinks.scheduling import GIB, NOW, gpu, nvml, peaks, pod

POD = gpu_pod("ml", "new")


def extender(**free_gib: float) -> Extender:
    """Nodes with one GPU each, of which so much memory is free, and a pod like ``POD`` that used 40 GiB."""
    known = KnownCluster()
    for name, free in free_gib.items():
        sample = nvml(gpu(used=(80 - free) * GIB))
        known.take(
            name,
            type(sample)(**{one: getattr(sample, one) for one in sample.__struct_fields__} | {"node": name}),
        )
    made = template_of(POD["spec"])
    known.take("old", peaks(pod("old", program=made.program, template=made.template), 40))
    return Extender(known, Telemetry(EXTENDER), wall=lambda: NOW / 1000)


def nodes(*names: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "labels": {"x": "y"}}} for name in names]}


def test_the_node_with_most_room_is_the_best() -> None:
    found = extender(full=41.0, empty=80.0).prioritize(
        {"Pod": POD, "NodeNames": ["full", "empty", "unknown"]}
    )
    scores = {one["Host"]: one["Score"] for one in found}
    assert list(scores) == ["full", "empty", "unknown"]
    assert scores["empty"] > scores["full"]
    assert scores["unknown"] == 5
    assert all(type(one) is int and 0 <= one <= 10 for one in scores.values())


@pytest.mark.parametrize("whole", [False, True], ids=["names", "whole nodes"])
def test_a_node_without_the_memory_is_left_out_and_it_is_said_why(whole: bool) -> None:
    asked = {"Pod": POD, **({"Nodes": nodes("full", "empty")} if whole else {"NodeNames": ["full", "empty"]})}
    found = extender(full=10.0, empty=80.0).filter(asked)
    assert found["FailedNodes"] == {"full": "needs 40.0 GiB of GPU memory, 10.0 GiB is free"}
    left = [one["metadata"] for one in found["Nodes"]["items"]] if whole else found["NodeNames"]
    assert left == ([{"name": "empty", "labels": {"x": "y"}}] if whole else ["empty"])


def test_a_pod_is_never_left_without_a_node() -> None:
    found = extender(one=10.0, two=20.0).filter({"Pod": POD, "NodeNames": ["one", "two"]})
    assert found == {"FailedNodes": {}, "NodeNames": ["one", "two"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"{", "unexpected end of data", id="no JSON"),
        pytest.param(b"[]", "Pod is missing", id="no object"),
        pytest.param(b'{"Pod":{}}', "Pod has no spec, or no metadata", id="no spec"),
        pytest.param(
            b'{"Pod":{"spec":{},"metadata":{}},"NodeNames":[1]}', "NodeNames: expected strings", id="names"
        ),
    ],
)
async def test_what_is_no_question(body: bytes, said: str) -> None:
    async with TestClient(TestServer(extender().app())) as client:
        for verb in ("filter", "prioritize"):
            answer = await client.post(f"/{verb}", data=body)
            assert answer.status == 400
            assert said in (await answer.json())["Error"]
        assert (await client.post("/prioritize", json={"Pod": POD, "NodeNames": []})).status == 200

"""Goal: kube-scheduler's questions are answered in its own protocol, also by those who ask wrongly."""

import asyncio
from typing import Any

import msgspec
import pytest
from aiohttp.test_utils import TestClient, TestServer
from msgspec.structs import replace

from dutycycle.contract.records.health import GpuHealth, NodeHealth
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.records.samples import GpuProcess
from dutycycle.kube.templates import template_of
from dutycycle.telemetry.events import EXTENDER, Telemetry
from sinks.scheduling.cluster_view import ClusterView
from sinks.scheduling.extender import Extender
from sinks.scheduling.questions import LARGEST, PlacementQuestion, QuestionReader
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.sinks.scheduling import GIB, NOW, app_of, gpu, nvml, peaks, pod

POD = gpu_pod("ml", "new")


def question(asked: dict[str, Any]) -> PlacementQuestion:
    """As it comes over HTTP."""
    return QuestionReader().read(bytearray(msgspec.json.encode(asked)))


def answered(answer: object) -> Any:
    """As it goes out."""
    return msgspec.json.decode(msgspec.json.encode(answer))


def extender(**free_gib: float) -> Extender:
    """Nodes with one GPU each, of which so much memory is free, and a pod like ``POD`` that used 40 GiB."""
    known = ClusterView()
    for name, free in free_gib.items():
        sample = nvml(gpu(used=(80 - free) * GIB))
        known.take(
            name,
            type(sample)(**{one: getattr(sample, one) for one in sample.__struct_fields__} | {"node": name}),
        )
    made = template_of(POD["spec"])
    known.take("old", peaks(pod("old", program=made.program, template=made.template), 40))
    return Extender(known, Telemetry(EXTENDER), wall=lambda: NOW / 1000)


def test_one_attempt_has_one_score_though_samples_come_in_between() -> None:
    now_s = NOW / 1000
    known = ClusterView()
    ours = Extender(known, Telemetry(EXTENDER), wall=lambda: now_s)
    asked = {"Pod": POD | {"metadata": POD["metadata"] | {"uid": "u"}}, "NodeNames": ["a", "b"]}
    known.take("a", nvml(gpu(), gpu(1)))
    assert ours.filter(question(asked))["NodeNames"] == ["a", "b"]
    known.take("a", nvml(gpu(processes=(GpuProcess(pid=7),)), gpu(1), ts_ms=NOW + 1))
    assert answered(ours.prioritize(question(asked | {"NodeNames": ["a"]}))) == [{"Host": "a", "Score": 5}]
    assert answered(ours.prioritize(question(asked | {"NodeNames": ["a", "c"]})))[1] == {
        "Host": "c",
        "Score": 5,
    }  # none of filter's
    now_s += 1.0
    assert answered(ours.prioritize(question(asked)))[0] == {"Host": "a", "Score": 10}


def nodes(*names: str) -> dict[str, Any]:
    return {"items": [{"metadata": {"name": name, "labels": {"x": "y"}}} for name in names]}


def test_the_node_with_most_room_is_the_best() -> None:
    found = answered(
        extender(full=41.0, empty=80.0).prioritize(
            question({"Pod": POD, "NodeNames": ["full", "empty", "unknown"]})
        )
    )
    scores = {one["Host"]: one["Score"] for one in found}
    assert list(scores) == ["full", "empty", "unknown"]
    assert scores["empty"] > scores["full"]
    assert scores["unknown"] == 5
    assert all(type(one) is int and 0 <= one <= 10 for one in scores.values())


@pytest.mark.parametrize("whole", [False, True], ids=["names", "whole nodes"])
def test_a_node_without_the_memory_is_left_out_and_it_is_said_why(whole: bool) -> None:
    asked = {"Pod": POD, **({"Nodes": nodes("full", "empty")} if whole else {"NodeNames": ["full", "empty"]})}
    found = answered(extender(full=10.0, empty=80.0).filter(question(asked)))
    assert found["FailedNodes"] == {"full": "needs 40.0 GiB of GPU memory, 10.0 GiB is free"}
    left = [one["metadata"] for one in found["Nodes"]["items"]] if whole else found["NodeNames"]
    assert left == ([{"name": "empty", "labels": {"x": "y"}}] if whole else ["empty"])


def test_a_pod_is_never_left_without_a_node() -> None:
    found = extender(one=10.0, two=20.0).filter(question({"Pod": POD, "NodeNames": ["one", "two"]}))
    assert found == {"FailedNodes": {}, "NodeNames": ["one", "two"]}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        pytest.param(b"{", "Input data was truncated", id="no JSON"),
        pytest.param(b"[]", "Expected `object`, got `array`", id="no object"),
        pytest.param(b"{}", "Pod is missing", id="no pod"),
        pytest.param(b'{"Pod":{}}', "Pod has no spec, or no metadata", id="no spec"),
        pytest.param(
            b'{"Pod":{"spec":{},"metadata":{}},"NodeNames":[1]}',
            "Expected `str`, got `int` - at `$.NodeNames[0]`",
            id="names",
        ),
        pytest.param(
            b'{"Pod":{"spec":{},"metadata":{}},"Nodes":{"items":[{}]}}',
            "missing required field `metadata`",
            id="a node",
        ),
        pytest.param(
            b'{"Pod":{"spec":{"containers":5},"metadata":{}},"NodeNames":["a"]}', "TypeError: ", id="a pod"
        ),
    ],
)
async def test_what_is_no_question(body: bytes, said: str) -> None:
    async with TestClient(TestServer(app_of(extender().routes()))) as client:
        for verb in ("filter", "prioritize"):
            answer = await client.post(f"/{verb}", data=body)
            assert answer.status == 400
            assert said in (await answer.json())["Error"]
        assert (await client.post("/prioritize", json={"Pod": POD, "NodeNames": []})).status == 200


def test_what_it_said_of_a_pod_is_told_once_until_it_changes() -> None:
    said: list[Placement] = []
    now_s, known = NOW / 1000, ClusterView()
    ours = Extender(known, Telemetry(EXTENDER), said.append, wall=lambda: now_s)
    asked = {"Pod": POD | {"metadata": POD["metadata"] | {"uid": "u"}}, "NodeNames": list("cba")}
    made = template_of(POD["spec"])
    known.take("old", peaks(pod("old", program=made.program, template=made.template), 40))
    for name, free in (("a", 80), ("b", 60), ("c", 10)):
        known.take(name, nvml(gpu(used=(80 - free) * GIB), node=name))
    for _ in range(3):
        now_s += 1.5
        ours.filter(question(asked))
        answered(ours.prioritize(question(asked | {"NodeNames": ["a", "b"]})))
    (one,) = said
    assert (one.uid, one.namespace, one.name, one.considered, one.left_out) == ("u", "ml", "new", 3, 1)
    assert [(found.node, found.score) for found in one.nodes] == [("a", 10), ("b", 9), ("c", 0)]
    assert one.nodes[1].why == ("leaves 0 of 1 GPUs free; needs 40.0 GiB of GPU memory, 60.0 GiB is free")
    assert one.expected == (
        "takes 10.0 min, 40.0 GiB of a GPU's memory at most, 2.5 CPUs (p95); "
        "1 ended pod with the same owner template; one says nothing of how it varies"
    )
    known.take("c", nvml(gpu(), node="c", ts_ms=NOW + 5000))
    now_s += 1.5
    ours.filter(question(asked))
    assert len(said) == 2


SICK = GpuHealth(gpu="GPU-9", index=1, level="reset", since_ms=1, seen_ms=NOW)
ASKED = {"Pod": POD, "NodeNames": ["broken", "other"]}
WHY = "1 of its GPUs should get no more work: see kubectl dutycycle health"


def with_broken_gpu(sick: str, *gpus: GpuHealth, at_ms: int = NOW) -> Extender:
    """Two nodes, of which the one with more room has these GPUs."""
    found = extender(broken=80.0, other=60.0)
    found._known.take("broken", NodeHealth(node="broken", ts_ms=at_ms, gpus=gpus))
    return Extender(found._known, Telemetry(EXTENDER), wall=lambda: NOW / 1000, sick=sick)


def scores(found: Extender) -> dict[str, int]:
    return {one["Host"]: one["Score"] for one in answered(found.prioritize(question(ASKED)))}


@pytest.mark.parametrize("level", ["drain", "reset", "replace"])
def test_a_node_with_a_broken_gpu_is_left_out_or_comes_last(level: str) -> None:
    broken = replace(SICK, level=level)
    assert with_broken_gpu("filter", broken).filter(question(ASKED)) == {
        "FailedNodes": {"broken": WHY},
        "NodeNames": ["other"],
    }
    last = with_broken_gpu("last", broken)
    assert last.filter(question(ASKED))["FailedNodes"] == {}
    assert scores(last)["broken"] == 0 < scores(last)["other"]
    off = scores(with_broken_gpu("off", broken))
    assert off["broken"] > off["other"]


@pytest.mark.parametrize("level", ["healthy", "watch", "a level newer than this program"])
def test_a_node_whose_gpus_work_is_scored_as_ever(level: str) -> None:
    found = with_broken_gpu("filter", replace(SICK, level=level))
    assert scores(found) == scores(extender(broken=80.0, other=60.0))
    assert found.filter(question(ASKED))["FailedNodes"] == {}


def test_what_was_said_long_ago_and_what_a_pod_without_gpus_does_not_need_do_not_count() -> None:
    assert (
        with_broken_gpu("filter", SICK, at_ms=NOW - 31 * 60_000).filter(question(ASKED))["FailedNodes"] == {}
    )
    alone = with_broken_gpu("filter", SICK).filter(question(ASKED | {"NodeNames": ["broken"]}))
    assert alone["NodeNames"] == ["broken"]


def test_what_claims_devices_is_kept_from_a_broken_gpu() -> None:
    """Its claim may hold a GPU: it was taken for a pod without any."""
    claims = {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu"}]}
    asked = ASKED | {"Pod": POD | {"spec": claims}}
    assert with_broken_gpu("filter", SICK).filter(question(asked))["NodeNames"] == ["other"]


@pytest.mark.parametrize("resource", ["nvidia.com/gpu", "nvidia.com/gpu.shared"])
def test_a_share_of_a_gpu_that_is_in_use_has_its_memory_there(resource: str) -> None:
    known = extender()._known
    for name, used in (("full", 50 * GIB), ("roomy", 10 * GIB)):
        record = nvml(gpu(used=used, processes=(GpuProcess(pid=7),)), node=name)
        known.take(name, record)
    known.take("old", peaks(pod("old", gpu_request=1.0), 40))
    spec = {"containers": [{"name": "c", "image": "train:1", "resources": {"limits": {resource: 1}}}]}
    asked = {"Pod": POD | {"spec": spec}, "NodeNames": ["full", "roomy"]}
    kept = Extender(known, Telemetry(EXTENDER), wall=lambda: NOW / 1000).filter(question(asked))
    has_share = resource.endswith(".shared")
    assert kept["NodeNames"] == (["roomy"] if has_share else ["full", "roomy"])


def many_nodes(number: int) -> list[dict[str, Any]]:
    """Of 5 KB each."""
    return [{"metadata": {"name": f"node-{at}", "labels": {"x": "y" * 5000}}} for at in range(number)]


def body_of(nodes: list[dict[str, Any]]) -> bytes:
    return msgspec.json.encode({"Pod": POD, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None})


async def test_thousands_of_whole_nodes_go_back_as_they_came() -> None:
    asked, ours = many_nodes(1000), extender(**{"node-7": 10.0, "node-8": 80.0})
    async with TestClient(TestServer(app_of(ours.routes()))) as client:
        for nodes in (asked, asked, asked[500:] + asked[:500], asked[:7], asked[7:8], []):
            answer = await (await client.post("/filter", data=body_of(nodes))).json()
            left = [node for node in nodes if node["metadata"]["name"] != "node-7" or len(nodes) == 1]
            assert answer["Nodes"]["items"] == left
            assert len(answer["FailedNodes"]) == len(nodes) - len(left)


ODD_NODES = (
    '{"metadata":{"name":"node-1","labels":{"a":"\\u0062\\/"}},"n":1e3,"n":1.0 }',
    '{"metadata":{"name":"full"}}',
    '{ "metadata" : {"name":"é\\n"}, "items":[{"metadata":{"name":"full"}}] }',
    '{"metadata":{"name":"node-2","name":"node-3"},"big":123456789012345678901234567890}',
    '{"metadata":{"name":"full"},"spec":{}}',
)


async def test_whole_nodes_keep_their_bytes() -> None:
    """No number, escape, space or doubled key is written in another way, in whatever order they come."""
    async with TestClient(TestServer(app_of(extender(full=10.0, empty=80.0).routes()))) as client:
        for nodes in (ODD_NODES, ODD_NODES[::-1], ODD_NODES[:2], ODD_NODES[3:4], ODD_NODES):
            body = f'{{"Pod":{msgspec.json.encode(POD).decode()},"Nodes":{{"items":[{",".join(nodes)}]}}}}'
            answer = await (await client.post("/filter", data=body.encode())).text()
            left = ",".join(node for node in nodes if not node.startswith('{"metadata":{"name":"full"}'))
            assert answer.endswith(f',"Nodes":{{"items":[{left}]}}}}')


async def test_a_question_is_limited() -> None:
    async with TestClient(TestServer(app_of(extender().routes()))) as client:
        answer = await client.post("/filter", data=b" " * (LARGEST + 1))
        assert answer.status == 413


async def test_who_asks_and_goes_away_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """The scheduler waits for as long as its ``httpTimeout`` says, and closes the connection."""
    body = body_of(many_nodes(5000))
    head = f"POST /filter HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    async with TestClient(TestServer(app_of(extender().routes()))) as client:
        for sent in (head + body, head + body[:-1000]):
            reader, writer = await asyncio.open_connection(client.host, client.port)
            writer.write(sent)
            await writer.drain()
            if sent.endswith(body):
                await reader.read(1)
            writer.transport.abort()
        answer = await client.post("/filter", data=body)
        assert len((await answer.json())["Nodes"]["items"]) == 5000
    assert not caplog.records

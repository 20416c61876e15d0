"""The Lease of a node: when it is renewed, what it says, and what a refusal costs."""

from msgspec.structs import replace

from dutycycle.kube.heartbeat import heartbeat_of
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.core.values import gigabytes
from sinks.annotations.heartbeats import Heartbeats
from tests.support.fakes.api_server import NODE, FakeApi, Trouble, written
from tests.support.sinks.annotating import annotating
from tests.support.sinks.made import K80, sample
from tests.support.sinks.rig import Rig
from tests.support.waiting import until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
FIRST_MS = 1_700_000_000_000
PERIOD_S = 60.0


def sampled_ms(api: FakeApi, node: str = "gpu-a") -> int | None:
    """What the node's Lease says."""
    found = heartbeat_of(api.leases.get(f"{LEASES}/{node}", {}))
    return found.sampled_ms if found else None


class Renewing:
    """Heartbeats with a clock that is moved by hand."""

    def __init__(self, api: FakeApi, rig: Rig) -> None:
        self.now = 1000.0
        self.telemetry = rig.telemetry
        self._server = api.client()
        self.beats = Heartbeats(self._server, PERIOD_S, "annotations", rig.telemetry, lambda: self.now)

    async def after(self, seconds: float, *nodes: str, ts_ms: int = FIRST_MS) -> None:
        """What happens when a sample of each node has come and so much time has passed."""
        self.now += seconds
        for node in nodes:
            self.beats.sampled(node, ts_ms)
        await self.beats.write_due(lambda: True)
        await self._server.close()  # the next request makes new connections


async def test_it_is_renewed_once_a_minute_with_the_newest_sample(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    renewing = Renewing(api, Rig())
    for second in range(180):
        await renewing.after(1, "gpu-a", ts_ms=FIRST_MS + second * 1000)
    assert sampled_ms(api) == FIRST_MS + 120_000
    assert [path for method, path in api.seen if method == "PATCH"] == [f"{LEASES}/gpu-a"] * 3
    assert (api.count("GET"), api.count("POST")) == (1, 1)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "gpu-a", "uid": "uid-n"}
    assert api.leases[f"{LEASES}/gpu-a"]["metadata"]["ownerReferences"] == [owner]


async def test_without_a_new_sample_it_is_not_renewed(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    renewing = Renewing(api, Rig())
    await renewing.after(1, "gpu-a")
    asked = len(api.seen)
    for _ in range(10):
        await renewing.after(60)
    assert len(api.seen) == asked
    await renewing.after(1, "gpu-a", ts_ms=FIRST_MS + 601_000)
    assert sampled_ms(api) == FIRST_MS + 601_000


async def test_one_that_was_removed_with_its_node_is_made_anew(api: FakeApi) -> None:
    api.add(NODE, "uid-1")
    renewing = Renewing(api, Rig())
    await renewing.after(1, "gpu-a")
    api.leases.clear()
    api.add(NODE, "uid-2")
    await renewing.after(60, "gpu-a")
    assert api.leases[f"{LEASES}/gpu-a"]["metadata"]["ownerReferences"][0]["uid"] == "uid-2"


async def test_a_node_that_is_unknown_is_said_and_costs_the_others_nothing(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "bare-metal", "gpu-a")
    assert rig.telemetry.conditions.keys() == {("heartbeat_failed", "bare-metal")}
    assert sampled_ms(api) == FIRST_MS
    api.add("/api/v1/nodes/bare-metal", "uid-b")
    await renewing.after(60, "bare-metal")
    assert rig.telemetry.conditions == {}
    assert sampled_ms(api, "bare-metal") == FIRST_MS


async def test_a_node_that_is_gone_is_not_complained_of_for_ever(api: FakeApi) -> None:
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "gpu-a")
    assert rig.telemetry.conditions
    await renewing.after(10 * PERIOD_S)
    assert rig.telemetry.conditions == {}


def lacking(verb: str, resource: str, method: str) -> Trouble:
    says = f'is forbidden: User \\"u\\" cannot {verb} resource \\"{resource}\\" in API group \\"g.io\\"'
    return Trouble(403, body=f'{{"message":"{says}"}}', method=method, path=f"/{resource}")


async def test_without_the_permission_to_renew_one_node_is_tried_at_a_time(api: FakeApi) -> None:
    api.always = lacking("patch", "leases", "PATCH")
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "a", "b", "c")
    assert rig.telemetry.conditions.keys() == {("permission_missing", "patch leases g.io")}
    assert len(api.seen) == 1
    await renewing.after(1, "a", "b", "c")
    assert len(api.seen) == 1
    api.always = None
    for node in "abc":
        api.add(f"/api/v1/nodes/{node}", node)
    await renewing.after(60, "a", "b", "c")
    assert rig.telemetry.conditions == {}
    assert [sampled_ms(api, node) for node in "abc"] == [FIRST_MS] * 3


async def test_without_the_permission_to_create_those_that_are_there_are_renewed(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "gpu-a")
    for node in "abc":
        api.add(f"/api/v1/nodes/{node}", node)
    api.always = lacking("create", "leases", "POST")
    await renewing.after(60, "a", "b", "c", "gpu-a", ts_ms=FIRST_MS + 60_000)
    assert rig.telemetry.conditions.keys() == {("permission_missing", "create leases g.io")}
    assert sampled_ms(api) == FIRST_MS + 60_000
    assert api.count("POST") == 2, "the others are not tried for a while"
    api.always = None
    await renewing.after(60, "a", "b", "c")
    assert rig.telemetry.conditions == {}
    assert sampled_ms(api, "c") == FIRST_MS


async def test_a_server_that_is_busy_is_left_alone(api: FakeApi) -> None:
    api.always = Trouble(429, {"Retry-After": "40"})
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "a", "b")
    await renewing.after(39, "a", "b")
    assert len(api.seen) == 1
    await renewing.after(1, "a", "b")
    assert len(api.seen) == 2
    assert rig.count("write_retried") == 2


async def test_the_sink_renews_it_beside_its_annotations(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    rig = Rig()
    policy = WritePolicy(interval_s=3600, heartbeat_s=0.1)
    async with annotating(api, rig, policy=policy) as work:
        for second in range(3):
            tick = sample(K80, ts_ms=FIRST_MS + second * 1000)
            await work.take(tick)
            await until(lambda: sampled_ms(api) == tick.ts_ms)  # noqa: B023 - awaited within the loop
    assert written(api, NODE)
    patched = [path for method, path in api.seen if method == "PATCH"]
    assert patched.count(NODE) == 1
    assert b'dutycycle_writes_total{sink="annotations"} 1.0' in rig.telemetry.metrics.page()


async def test_what_is_refused_to_the_lease_costs_the_annotations_nothing(api: FakeApi) -> None:
    api.add(NODE, "uid-n")
    api.always = lacking("patch", "leases", "PATCH")
    rig = Rig()
    policy = WritePolicy(interval_s=0.01, heartbeat_s=0.1)
    async with annotating(api, rig, policy=policy) as work:
        await work.take(sample(K80))
        await until(lambda: rig.telemetry.conditions and api.count("PATCH") == 2)
        more = sample(replace(K80, mem_used_bytes=1e9), ts_ms=FIRST_MS + 1000)
        await work.write(more)
        work.dispatcher.acknowledge()
    assert api.count("PATCH") == 3
    assert written(api, NODE)["gpu-1"]["mem_used"] == gigabytes(1e9)
    assert rig.port.acknowledged == {("nvml-samples", 0): 1}
    assert rig.port.dead_letters == []


async def test_after_a_rebalance_nothing_is_said_of_others_nodes(api: FakeApi) -> None:
    api.always = lacking("patch", "leases", "PATCH")
    rig = Rig()
    renewing = Renewing(api, rig)
    await renewing.after(1, "a")
    renewing.beats.forget()
    assert rig.telemetry.conditions == {}
    asked = len(api.seen)
    await renewing.after(600)
    assert len(api.seen) == asked

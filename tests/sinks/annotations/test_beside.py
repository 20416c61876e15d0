"""What the API server cannot do for one object holds that one, and no others."""

from msgspec.structs import replace

from dutycycle.contract.records.parts import WorkloadState
from sinks.annotations.forbidden import RETRY_S
from sinks.annotations.object_events import AT_ONCE, ObjectEvents
from tests.support.fakes.api_server import FakeApi, Trouble
from tests.support.sinks import made
from tests.support.sinks.rig import Rig
from tests.support.waiting import Clock

IDLE_MS, NOW_MS = 1_700_000_000_000, 1_700_001_860_000
BROKEN = "/apis/events.k8s.io/v1/namespaces/broken/events"


class IdlePods:
    """Five pods in one namespace and one in another, each of which is due an Event."""

    def __init__(self, api: FakeApi, timeout_s: float = 5.0) -> None:
        self.api, self.clock, self.rig = api, Clock(), Rig()
        self._server = api.client(timeout_s)
        self._events = ObjectEvents(
            self._server, "annotations", self.rig.telemetry, self.clock, lambda: NOW_MS / 1000 + self.clock()
        )
        insight = made.insight("training", "gpu", None)
        state = WorkloadState(seen_ms=NOW_MS, idle_since_ms=IDLE_MS)
        for number in range(AT_ONCE + 1):
            namespace = "broken" if number < AT_ONCE else "good"
            pod = made.pod(f"uid-{number}", namespace=namespace, name=f"pod-{number}")
            self._events.take(replace(insight, pod=pod, state=state))

    async def look(self, after_s: float = 0.0) -> list[str]:
        """What happens so much later; the namespaces that have Events then."""
        self.clock.now_s += after_s
        await self._events.write_due(lambda: True)
        await self._server.close()  # the next request makes new connections
        return [path.split("/")[5] for path in self.api.events]


async def test_a_namespace_that_takes_no_events_for_now_holds_no_other(api: FakeApi) -> None:
    idle = IdlePods(api)
    webhook = '{"message":"Internal error occurred: failed calling webhook \\"policy.example.org\\""}'
    api.always = Trouble(500, body=webhook, method="POST", path="/namespaces/broken/")
    assert await idle.look() == []
    assert await idle.look() == ["good"]
    assert await idle.look(RETRY_S - 1) == ["good"]
    assert (api.asked(BROKEN), idle.rig.count("write_retried")) == (AT_ONCE, AT_ONCE)
    api.always = None
    assert sorted(await idle.look(1)) == ["broken"] * AT_ONCE + ["good"]


async def test_one_that_hangs_holds_all_for_a_while_and_is_the_last_to_be_tried_again(api: FakeApi) -> None:
    idle = IdlePods(api, timeout_s=0.2)
    api.trouble.append(Trouble(delay_s=0.4, method="POST"))
    assert await idle.look() == []
    assert await idle.look(RETRY_S - 1) == []
    assert api.asked(BROKEN) == 1
    assert sorted(await idle.look(1)) == ["broken"] * (AT_ONCE - 1) + ["good"]
    assert api.asked(BROKEN) == AT_ONCE
    await idle.look(RETRY_S)
    assert api.asked(BROKEN) == AT_ONCE + 1

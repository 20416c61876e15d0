"""What the sink does while objects, or permissions, are not there, and when they come back."""

import logging
import time

import pytest

from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.forbidden import NODE_S, RETRY_S, UID_S
from sinks.metrics import serve_metrics
from tests.support.fakes.api_server import NODE, POD, FakeApi, Trouble, written
from tests.support.sinks import made
from tests.support.sinks.annotating import annotating
from tests.support.sinks.made import K80, sample
from tests.support.sinks.rig import Rig
from tests.support.waiting import until

OFTEN = WritePolicy(interval_s=0.01)


def lacking(verb: str, resource: str) -> Trouble:
    """As the real API server refuses it."""
    says = (
        f'{resource} is forbidden: User \\"u\\" cannot {verb} resource \\"{resource}\\" in API group \\"\\"'
    )
    method = {"get": "GET", "patch": "PATCH"}[verb]
    return Trouble(403, body=f'{{"message":"{says}"}}', method=method, path=f"/{resource}/")


class Clock:
    """The sink's clock, which a test moves."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


@pytest.mark.parametrize("verb", ["get", "patch"])
async def test_a_permission_that_comes_back_is_noticed_within_a_minute(
    api: FakeApi, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    paths = [f"/api/v1/namespaces/default/pods/pod-of-uid-{i}" for i in range(5)]
    for i, path in enumerate(paths):
        api.add(path, f"uid-{i}")
    rig, clock = Rig(), Clock()
    api.always = lacking(verb, "pods")
    with caplog.at_level(logging.INFO):
        async with annotating(api, rig, policy=OFTEN, clock=clock) as work:
            await work.take(made.pod_peaks("uid-0", final=True))
            await until(lambda: rig.telemetry.conditions)
            asked = len(api.seen)
            for i in range(1, 5):
                await work.take(made.pod_peaks(f"uid-{i}", final=True))
            await work.written()
            assert rig.telemetry.conditions.keys() == {("permission_missing", f"{verb} pods")}
            assert len(api.seen) == asked, "one of them was enough to know"
            assert work.sink.pending == 5
            assert len(rig.port.dead_letters) == 1
            api.always = None
            clock.ahead_s += RETRY_S
            work.sink._wake.set()
            await until(lambda: any(written(api, path) for path in paths))
            clock.ahead_s += RETRY_S
            work.sink._wake.set()
            await until(lambda: all(written(api, path) for path in paths))
            await until(lambda: work.sink.pending == 0)  # the last answers may still be on their way
            assert clock.ahead_s < 60
    assert rig.telemetry.conditions == {}
    assert [line for line in caplog.messages if line.startswith("permission_missing")] == [
        f'permission_missing {verb} pods: 403: pods is forbidden: User "u" cannot {verb} resource "pods" in '
        'API group ""; none of its objects is annotated where no role allows get and patch',
        f"permission_missing {verb} pods: allowed now",
    ]


async def test_a_worker_without_a_permission_is_ready_and_says_what_lacks(api: FakeApi) -> None:
    api.add(NODE, "n")
    api.always = lacking("patch", "nodes")
    rig = Rig()
    async with annotating(api, rig) as work:
        serve_metrics(rig.telemetry, work.dispatcher)
        status = rig.telemetry.status
        status.waiting = None
        assert status.remark is not None
        assert status.remark() == ""
        await work.take(sample(K80))
        await until(lambda: rig.telemetry.conditions)
        assert status.readiness_error() is None
        assert status.remark() == "no permission to patch nodes"


@pytest.mark.parametrize(
    ("topic", "path", "again_s"), [("pod-peaks", POD, UID_S), ("nvml-samples", NODE, NODE_S)]
)
async def test_an_object_that_is_gone_is_not_asked_for_with_each_record(
    api: FakeApi, topic: str, path: str, again_s: float
) -> None:
    rig, clock = Rig(), Clock()
    async with annotating(api, rig, policy=OFTEN, clock=clock) as work:

        async def record(ts_ms: int) -> None:
            of_node = topic == "nvml-samples"
            one = sample(K80, ts_ms=ts_ms) if of_node else made.pod_peaks(last_ms=ts_ms)
            await work.write(one)

        for i in range(20):
            await record(i * 20_000)
        assert api.count("GET") == 1
        assert rig.count("object_gone") == 1
        api.add(path, "uid-1")
        clock.ahead_s = again_s
        await record(500_000)
        await until(lambda: path in api.objects and written(api, path))
        assert api.count("GET") == 2


async def test_nothing_waits_once_all_that_is_due_is_written(api: FakeApi) -> None:
    api.add(NODE, "n")
    rig = Rig()
    async with annotating(api, rig, policy=WritePolicy(interval_s=3600)) as work:
        for i in range(3):
            await work.take(sample(K80, ts_ms=i * 2_000_000))
            await until(lambda: work.sink.pending == 0)
        assert not work.sink.pending_offsets().empty, "what changed since waits for the interval"
    assert api.count("PATCH") == 1
    assert b'dutycycle_writes_total{sink="annotations"} 1.0' in rig.telemetry.metrics.page()


async def test_a_pod_whose_annotations_leave_no_room_is_told_once_until_they_do(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    path = "/api/v1/namespaces/default/pods/pod-of-uid-0"
    api.add(path, "uid-0")["annotations"] = {"example.org/fat": "x" * 245_730}
    rig = Rig()
    with caplog.at_level(logging.WARNING):
        async with annotating(api, rig, policy=OFTEN) as work:
            for _ in range(3):
                await work.write(made.pod_peaks("uid-0"))
    assert rig.count("annotations_full") == 1
    (line,) = [one.getMessage() for one in caplog.records if "annotations_full" in one.getMessage()]
    assert "Pod default/pod-of-uid-0: " in line
    assert "keys do not fit beside its other annotations, of 256 KiB in all" in line
    assert rig.telemetry.conditions == {}

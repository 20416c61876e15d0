"""The annotation sink around a rebalance, a stall and a hanging server; its bound, and the pace it keeps."""

import asyncio
import logging

import pytest

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.units import rfc3339
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import WRITERS
from tests.support.fakes.api_server import GROUPS, MPIJOB, NODE, POD, FakeApi, Trouble, written
from tests.support.sinks import made
from tests.support.sinks.annotating import annotating
from tests.support.sinks.made import K80, sample
from tests.support.sinks.rig import Rig
from tests.support.waiting import until


def path_of(i: int) -> str:
    return f"/api/v1/namespaces/default/pods/pod-of-uid-{i}"


async def test_a_hand_over_waits_for_what_is_under_way_and_begins_nothing(api: FakeApi) -> None:
    for i in range(20):
        api.add(path_of(i), f"uid-{i}")
    rig, gate = Rig(), asyncio.Event()
    async with annotating(api, rig) as work:
        api.always = Trouble(gate=gate)
        for i in range(20):
            await work.take(made.pod_peaks(f"uid-{i}", final=True))
        await until(lambda: api.count("PATCH") > 0)
        handing_over = asyncio.create_task(work.dispatcher.drain())
        await asyncio.sleep(0)
        gate.set()
        await handing_over
        asked, taken = api.count("PATCH"), len(api.patches)
        assert asked == taken <= WRITERS
        work.dispatcher.acknowledge()
        assert max(rig.port.acknowledged.values(), default=-1) < 19
        await asyncio.sleep(0.5)
        assert api.count("PATCH") == asked, "somebody else writes these objects now"
        work.dispatcher.forget()
        api.always = None
        again = rig.origin("pod-peaks", made.pod_peaks("uid-1", final=True), offset=1)
        await work.dispatcher.process([again])
        await work.written()
        assert written(api, path_of(1))


async def test_what_ends_after_the_hand_over_counts_for_nothing(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    rig, first, second = Rig(), asyncio.Event(), asyncio.Event()
    async with annotating(api, rig) as work:
        api.always = Trouble(gate=first)
        await work.take(made.pod_peaks())
        await until(lambda: api.count("PATCH") == 1)
        work.dispatcher.forget()
        newer = made.pod_peaks(last_ms=99_000, metrics={"cpu_util_pct": made.peak(999)}, final=True)
        await work.take(newer)
        assert not work.sink.pending_offsets().empty
        api.always = Trouble(gate=second)
        first.set()
        await until(lambda: api.count("PATCH") == 2)
        assert not work.sink.pending_offsets().empty, "the write before was of another record"
        second.set()
        await work.written()
    assert written(api, POD)["max_cpu_util"] == 999


async def test_a_worker_that_others_have_replaced_writes_nothing(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    rig, mine = Rig(), [False]
    async with annotating(api, rig, may_write=lambda: mine[0]) as work:
        await work.take(made.pod_peaks(final=True))
        await asyncio.sleep(0.3)
        assert api.seen == []
        mine[0] = True
        await work.written()


async def test_an_insight_after_the_last_peaks_takes_nothing_from_them(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    rig, mine, policy = Rig(), [True], WritePolicy(interval_s=1000)
    insight = made.insight("training", "input", None)
    async with annotating(api, rig, policy=policy, may_write=lambda: mine[0]) as work:
        await work.take(insight, made.pod_peaks())
        await until(lambda: "updated" in written(api, POD))
        mine[0] = False
        await work.take(made.pod_peaks(last_ms=99_000, final=True), insight)
        mine[0] = True
        await work.written()
    assert written(api, POD)["updated"] == rfc3339(99_000)


async def test_a_server_that_hangs_is_asked_once_by_each_writer_and_then_left_alone(api: FakeApi) -> None:
    for i in range(40):
        api.add(path_of(i), f"uid-{i}")
    api.always = Trouble(delay_s=3600, method="*")
    rig = Rig()
    async with annotating(api, rig, timeout_s=0.2) as work:
        for i in range(40):
            await work.take(made.pod_peaks(f"uid-{i}", final=True))
        await until(lambda: rig.telemetry.conditions)
        assert len(api.seen) <= 2 * WRITERS
        assert work.acknowledged() == {}


async def test_a_write_with_nothing_to_send_is_no_sign_that_the_server_is_back(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2):
        api.add(path_of(number), f"uid-{number}")
    rig, same = Rig(), made.pod_peaks("uid-0")
    caplog.set_level(logging.INFO)
    async with annotating(api, rig, policy=WritePolicy(interval_s=0.05)) as work:
        await work.write(same)
        await api.stop()
        await work.dispatcher.process([rig.origin("pod-peaks", made.pod_peaks("uid-1"), partition=1)])
        await until(lambda: rig.telemetry.conditions)
        await work.take(same)
        await until(lambda: work.sink.pending_offsets().lowest(TopicPartition("pod-peaks", 0)) is None)
        assert rig.telemetry.conditions
        assert " answers" not in caplog.text
        await api.start()
        await until(lambda: not rig.telemetry.conditions)
        assert " answers" in caplog.text


async def test_past_the_bound_finals_are_written_and_what_is_lost_is_counted(api: FakeApi) -> None:
    for i in range(30):
        api.add(path_of(i), f"uid-{i}")
    rig = Rig()
    async with annotating(api, rig, policy=WritePolicy(interval_s=1, most=10)) as work:
        await api.stop()
        for i in range(30):
            await work.take(made.pod_peaks(f"uid-{i}", final=i < 10))
        await api.start()
        await work.written()
    assert all(written(api, path_of(i)) for i in range(10))
    assert rig.telemetry.counts["annotation_shed", ("false",)] == 20
    assert rig.telemetry.counts["annotation_shed", ("true",)] == 0


async def test_what_is_found_before_the_first_sample_waits_for_it(api: FakeApi) -> None:
    api.add(NODE, "n")["annotations"] = {"dutycycle.io/gpu-1": '{"mem_used":"3GB"}'}
    async with annotating(api) as work:
        part = made.node_part(cyclic=True, period_s=7.0)
        await work.take(part)
        await asyncio.sleep(0.2)
        assert work.acknowledged() == {}
        assert api.seen == []
        await work.write(sample(K80))
    assert written(api, NODE)["gpu-1"]["period_s"] == 7
    assert written(api, NODE)["gpu-1"]["mem_used"] == "11.2GB"


async def test_a_kind_that_is_installed_later_and_a_version_that_is_gone(api: FakeApi) -> None:
    del api.groups["/apis/kubeflow.org/v2beta1"]
    api.add(MPIJOB, "job-1")
    ref = JobRef(api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="job-1")
    rig = Rig()
    async with annotating(api, rig) as work:
        for _ in range(5):
            await work.write(made.job_peaks(job=ref))
        assert rig.count("no_kind") == 5
        assert len(api.seen) == 2, "the kind, its group, and then it is remembered"
        api.groups["/apis/kubeflow.org/v2beta1"] = GROUPS["/apis/kubeflow.org/v2beta1"]
        older = JobRef(api_version="kubeflow.org/v1alpha2", kind="MPIJob", name="bert", uid="job-1")
        await work.write(made.job_peaks(job=older))
    assert written(api, MPIJOB)["bert-worker-0"] == {"cpu_util": 151.8}


async def test_a_job_that_may_not_be_read_is_asked_for_once_and_a_pod_is_an_error(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    api.add(MPIJOB, "job-1")
    api.always = Trouble(403, method="GET", path="/default/")
    ref = JobRef(api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="job-1")
    rig = Rig()
    async with annotating(api, rig) as work:
        for _ in range(5):
            await work.write(made.job_peaks(job=ref))
        assert rig.port.dead_letters == []
        assert api.seen.count(("GET", MPIJOB)) == 1
        await work.write(made.pod_peaks(final=True))
    assert len(rig.port.dead_letters) == 1
    assert rig.count("kind_forbidden") == rig.count("write_rejected") == 1
    assert [name for name, _ in rig.telemetry.conditions] == ["kind_forbidden"]


async def test_requests_keep_to_the_rate(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    client = api.client(requests_per_s=20)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(60):
        await client._client.get("/api/v1")
    assert loop.time() - began >= 0.9
    await client.close()

"""Annotating through a fake API server: what each answer leads to. A real one also validates."""

import asyncio
import json
from functools import partial

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.parts import WorkloadState
from dutycycle.contract.records.pods import JobRef
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import WRITERS
from tests.support.fakes.api_server import MPIJOB, NODE, POD, FakeApi, Trouble, written
from tests.support.sinks import made
from tests.support.sinks.annotating import annotating
from tests.support.sinks.made import K80, sample
from tests.support.sinks.rig import Rig
from tests.support.waiting import Clock, until

PLACE = ("pod-peaks", 0)


async def test_all_three_kinds_are_annotated(api: FakeApi) -> None:
    for path, uid in ((POD, "uid-1"), (NODE, "n"), (MPIJOB, "job-1")):
        api.add(path, uid)
    rig = Rig()
    ref = JobRef(api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="job-1")
    async with annotating(api, rig) as work:
        await work.write(made.pod_peaks(final=True), sample(K80), made.job_peaks(job=ref, final=True))
        work.dispatcher.acknowledge()
    assert written(api, POD)["gpu_util"] == {"gpu_0_4711": 95}
    assert written(api, NODE)["gpu-1"]["mem_used"] == "11.2GB"
    assert written(api, MPIJOB) == {"bert-worker-0": {"cpu_util": 151.8}}
    assert rig.port.acknowledged == {PLACE: 0, ("nvml-samples", 0): 0, ("job-peaks", 0): 0}


async def test_a_static_pod_is_annotated_although_its_cgroup_has_another_uid(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    names = {"name": "pod-of-uid-1", "object_uid": "uid-1"}
    async with annotating(api) as work:
        await work.write(made.pod_peaks("hash-of-its-manifest", names))
    assert written(api, POD)["gpu_util_max"] == 97


async def test_many_changes_are_few_writes_and_the_last_is_exact(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    async with annotating(api, policy=WritePolicy(interval_s=3600)) as work:
        for n in range(200):
            metrics = {"gpu_util_pct": made.peak(n / 2)}
            record = made.pod_peaks(samples=n, metrics=metrics, final=n == 199)
            await work.take(record)
            await asyncio.sleep(0)
            if n == 0:
                await work.written()
        await work.written()
        assert api.count("PATCH") <= 2
        assert api.count("GET") == 1


async def test_plain_values_cause_no_writes_but_go_with_those_of_others(api: FakeApi) -> None:
    """They move all the time. A cycle that is found is worth a write, the next period is not."""
    api.add(POD, "uid-1")
    found = made.insight("training", "gpu", None)
    cpu = {"cpu_util_pct": made.peak(151.8)}
    steps = [(40, None, 1), (50, None, 1), (55, 8.0, 2), (60, 9.0, 2), (70, 12.0, 2)]
    for mean, period_s, patches in steps:
        async with annotating(api) as work:
            state = WorkloadState(seen_ms=1, period_s=period_s)
            peaks = made.pod_peaks(metrics=cpu | {"gpu_util_pct": made.peak(97, mean)})
            await work.write(replace(found, state=state), peaks)
        assert api.count("PATCH") == patches
    assert (written(api, POD)["gpu_util_mean"], written(api, POD)["cycle_period_s"]) == (55, 8)


async def test_after_a_restart_an_older_record_does_not_go_back(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    old, new = (
        made.pod_peaks(last_ms=last_ms, metrics={"cpu_util_pct": made.peak(cpu)})
        for last_ms, cpu in ((10_000, 100), (20_000, 200))
    )
    for records in ([new], [old, new]):
        async with annotating(api) as work:
            for record in records:
                await work.write(record)
                assert written(api, POD)["max_cpu_util"] == 200
    assert api.count("PATCH") == 1


async def test_after_a_restart_what_was_known_of_a_gpu_stays(api: FakeApi) -> None:
    value = {"mem_used": "3GB", "cyclic": True, "period_s": 13.2, "max_gpu_util": 88, "trend_pct_per_h": 2}
    api.add(NODE, "n")["annotations"] = {"dutycycle.io/gpu-1": json.dumps(value), "dutycycle.io/gpu-5": "{}"}
    async with annotating(api) as work:
        await work.write(sample(K80))
    found = written(api, NODE)
    assert found.keys() == {"gpu-static", "gpu-1", "gpu_count", "gpu_util_max"}
    assert found["gpu-1"] == value | {
        "mem_used": "11.2GB", "mem_free": "0.8GB", "process_cnt": 1, "pid_mem": [[18477, "11094MB"]],
    }  # fmt: skip


async def test_between_two_looks_samples_are_not_decoded(api: FakeApi) -> None:
    api.add(NODE, "n")
    rig = Rig()
    async with annotating(api, rig, policy=WritePolicy(interval_s=30)) as work:
        first = sample(K80).ts_ms
        for ts_ms, looked_at in ((first, True), (first + 9_000, False), (first + 10_000, True), (5, True)):
            origin = rig.origin("nvml-samples", sample(K80, ts_ms=ts_ms), key="gpu-a")
            assert work.dispatcher.sinks[0].wants(origin) is looked_at
            await work.dispatcher.process([origin])


PASSING = {
    "conflict": [Trouble(409)],
    "too many requests": [Trouble(429, {"Retry-After": "1"})],
    "too many requests, without a hint": [Trouble(429)],
    "a broken server": [Trouble(500), Trouble(503, body="not JSON")],
    "a token that rotated": [Trouble(401)],
    "an answer that does not come": [Trouble(delay_s=1.0)],
    "a cut connection": [Trouble(cut=True)],
    "no JSON": [Trouble(200, body="<html>")],
    "trouble while reading": [Trouble(500, method="GET"), Trouble(429, method="GET")],
}


@pytest.mark.parametrize("trouble", PASSING.values(), ids=PASSING.keys())
async def test_passing_trouble_is_outlasted_and_the_newest_is_written(
    api: FakeApi, trouble: list[Trouble]
) -> None:
    api.add(POD, "uid-1")
    api.trouble.extend(trouble)
    rig = Rig()
    async with annotating(api, rig, timeout_s=0.4) as work:
        await work.take(made.pod_peaks(samples=1))
        await until(lambda: rig.count("write_retried") >= 1)
        assert work.acknowledged() == {}
        newest = made.pod_peaks(samples=2, metrics={"cpu_util_pct": made.peak(777)}, final=True)
        await work.write(newest)
        work.dispatcher.acknowledge()
    assert written(api, POD)["max_cpu_util"] == 777
    assert rig.port.acknowledged == {PLACE: 1}
    assert rig.port.dead_letters == []
    assert rig.telemetry.conditions == {}


async def test_retry_after_is_honoured_by_everything(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    api.add(NODE, "n")
    api.trouble.append(Trouble(429, {"Retry-After": "2"}))
    rig = Rig()
    async with annotating(api, rig) as work:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await work.take(made.pod_peaks(final=True))
        await until(lambda: rig.count("write_retried") == 1)
        await work.write(sample(K80))
        assert loop.time() - began >= 2
    assert api.count("PATCH") == 3


@pytest.mark.parametrize("status", [403, 422, 400, 413, 415])
async def test_what_is_refused_is_counted_and_told_once_and_the_rest_goes_on(
    api: FakeApi, status: int
) -> None:
    api.add(POD, "uid-1")
    api.add(NODE, "n")
    api.trouble.append(Trouble(status, body='{"message":"you may not, not even once"}'))
    rig = Rig()
    async with annotating(api, rig) as work:
        await work.write(made.pod_peaks())
        await work.write(sample(K80))
        work.dispatcher.acknowledge()
    (letter,) = rig.port.dead_letters
    assert letter["reason"] == "rejected"
    assert letter["error"] == f"annotating Pod default/pod-of-uid-1: {status}: you may not, not even once"
    assert rig.telemetry.counts["write_rejected", ("annotations", str(status))] == 1
    assert rig.port.acknowledged == {PLACE: 0, ("nvml-samples", 0): 0}
    assert "gpu-static" in written(api, NODE)


GONE = {"deleted": None, "another of the same name": "uid-of-another"}


@pytest.mark.parametrize("uid", GONE.values(), ids=GONE.keys())
async def test_an_object_that_is_gone_is_dropped_and_never_made_again(api: FakeApi, uid: str | None) -> None:
    if uid is not None:
        api.add(POD, uid)
    rig = Rig()
    async with annotating(api, rig) as work:
        await work.write(made.pod_peaks(final=True))
        work.dispatcher.acknowledge()
    assert api.count("PATCH") == 0
    assert POD not in api.objects or written(api, POD) == {}
    assert rig.port.acknowledged == {PLACE: 0}
    assert rig.port.dead_letters == []
    assert rig.telemetry.counts["object_gone", ("pod",)] == 1


async def test_an_object_that_is_replaced_between_two_writes_is_not_touched(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    rig = Rig()
    async with annotating(api, rig) as work:
        await work.write(made.pod_peaks())
        api.add(POD, "uid-of-another")
        newer = made.pod_peaks(final=True, metrics={"cpu_util_pct": made.peak(9999)})
        await work.write(newer)
    assert written(api, POD) == {}
    assert rig.telemetry.counts["object_gone", ("pod",)] == 1


async def test_a_server_that_goes_away_is_outlasted(api: FakeApi) -> None:
    api.add(POD, "uid-1")
    rig = Rig()
    async with annotating(api, rig) as work:
        await api.stop()
        await work.take(made.pod_peaks())
        await until(lambda: rig.telemetry.conditions)
        assert work.acknowledged() == {}
        await api.start()
        await work.written()
        assert rig.telemetry.conditions == {}
    assert written(api, POD)["max_cpu_util"] == 151.8


async def test_writers_that_fail_together_are_one_failure_of_the_server(api: FakeApi) -> None:
    for i in range(WRITERS):
        api.add(POD.replace("uid-1", f"uid-{i}"), f"uid-{i}")
    rig, clock = Rig(), Clock()
    async with annotating(api, rig, clock=clock) as work:
        await api.stop()
        for i in range(WRITERS):
            await work.take(made.pod_peaks(f"uid-{i}"))
        await until(lambda: rig.count("write_retried") == WRITERS)
        await api.start()
        clock.now_s += 1
        await work.written()


async def test_a_kind_whose_own_server_is_away_holds_no_other(api: FakeApi) -> None:
    """The API server answers 503 for an aggregated API, without saying when to ask again."""
    api.add(POD, "uid-1")
    api.add(NODE, "n")
    api.always = Trouble(503, body="service unavailable\n", path=POD)
    rig, clock = Rig(), Clock()
    async with annotating(api, rig, clock=clock) as work:
        await work.take(made.pod_peaks())
        await until(lambda: rig.count("write_retried") == 1)
        await work.take(sample(K80))
        await until(lambda: written(api, NODE))
        assert rig.telemetry.conditions == {}


async def test_a_server_that_is_away_for_all_holds_all(api: FakeApi) -> None:
    for i in range(20):
        api.add(POD.replace("uid-1", f"uid-{i}"), f"uid-{i}")
    api.always = Trouble(503, body="<html>no backend</html>", path="")
    rig = Rig()
    async with annotating(api, rig) as work:
        for i in range(20):
            await work.take(made.pod_peaks(f"uid-{i}"))
        await until(lambda: bool(rig.telemetry.conditions))
        assert rig.count("write_retried") < 20
        api.always = None
        await work.written()
        assert rig.telemetry.conditions == {}


async def test_an_object_that_fails_for_ever_keeps_no_other_from_being_acknowledged(api: FakeApi) -> None:
    """A kind is left behind, and the webhook that converts its objects is gone."""
    api.add(POD, "uid-1")
    other = POD.replace("uid-1", "uid-2")
    api.add(other, "uid-2")
    says = 'conversion webhook for ray.io/v1, Kind=RayJob failed: service \\"w\\" not found'
    api.always = Trouble(500, body=f'{{"message":"{says}"}}', path=POD)
    rig, clock = Rig(), Clock()

    def failed(times: int) -> bool:
        return rig.count("write_retried") == times

    async with annotating(api, rig, clock=clock) as work:
        await work.take(made.pod_peaks(final=True))
        for failures in range(1, 12):
            await until(partial(failed, failures))
            assert work.acknowledged() == {}
            clock.now_s += 120
            await work.take(made.pod_peaks("uid-2"))  # which wakes the writers
        await until(work.acknowledged)
        (letter,) = rig.port.dead_letters
        assert letter["error"].startswith("annotating Pod default/pod-of-uid-1: 500: conversion webhook for")
        api.always = None
        clock.now_s += 120
        await work.take(made.pod_peaks("uid-2"))
        await until(lambda: written(api, POD))
    assert written(api, other)


async def test_a_server_that_can_write_nothing_for_long_is_waited_for(api: FakeApi) -> None:
    """Its etcd is full: it reads, and each write fails."""
    api.add(POD, "uid-1")
    api.add(POD.replace("uid-1", "uid-2"), "uid-2")
    says = '{"message":"etcdserver: mvcc: database space exceeded"}'
    api.always = Trouble(500, body=says, path="", method="PATCH")
    rig, clock = Rig(), Clock()

    def failed(times: int) -> bool:
        return rig.count("write_retried") >= times

    async with annotating(api, rig, clock=clock) as work:
        await work.take(made.pod_peaks(final=True))
        for failures in range(1, 40):
            await until(partial(failed, failures))
            clock.now_s += 120
            await work.take(made.pod_peaks("uid-2"))
        assert (work.acknowledged(), rig.port.dead_letters) == ({}, [])
        api.always = None

        async def is_written() -> bool:
            clock.now_s += 120  # each time: a write that was under way fails after the others
            await work.take(made.pod_peaks("uid-2"))
            return bool(written(api, POD))

        await until(is_written)


async def test_many_objects_keep_to_few_connections(api: FakeApi) -> None:
    for i in range(40):
        api.add(f"/api/v1/namespaces/default/pods/pod-of-uid-{i}", f"uid-{i}")
    async with annotating(api) as work:
        for i in range(40):
            await work.take(made.pod_peaks(f"uid-{i}", final=True))
        await work.written()
    assert api.count("PATCH") == 40

"""Kubernetes Events on a real kube-apiserver: what ``kubectl describe`` shows, once and again."""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.health import GpuEvent, GpuHealth, HitPod, NodeHealth
from dutycycle.contract.records.parts import JobInsight, PodInsight, WorkloadState
from dutycycle.contract.records.pods import JobRef
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.forbidden import RETRY_S
from sinks.annotations.object_events import AT_ONCE, ObjectEvents
from sinks.annotations.sink import AnnotationSink
from tests.dutycycle.kube.test_real import GUIDE, SPEC, new
from tests.support.data.gpu_events import made_event
from tests.support.kube.api_server import api_server
from tests.support.kube.shipped import account, shipped_rules, without
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.sinks.rig import Rig, at_work
from tests.support.waiting import until

MINUTE_MS = 60_000
SINCE_MS = 1_795_348_800_000
EVENTS = "events.k8s.io"


def seen(minutes: float, **since: Any) -> WorkloadState:
    """What holds so long after ``SINCE_MS``."""
    return WorkloadState(seen_ms=SINCE_MS + round(minutes * MINUTE_MS), **since)


def idle(thing: Object, minutes: float) -> PodInsight:
    meta = thing["metadata"]
    who = made.pod(meta["uid"], name=meta["name"], namespace=meta["namespace"])
    state = seen(minutes, idle_since_ms=SINCE_MS)
    return replace(made.insight("idle", "idle", None), pod=who, state=state)


def lost(thing: Object, minutes: float) -> JobInsight:
    meta = thing["metadata"]
    ref = JobRef(api_version=thing["apiVersion"], kind=thing["kind"], name=meta["name"], uid=meta["uid"])
    told = replace(made.job_insight("training", "gpu", None, ref), namespace=meta["namespace"])
    return replace(told, state=seen(minutes, lost_ms=SINCE_MS))


class Writing:
    """A sink's Events at the time of the last record, with a clock that is moved by hand."""

    def __init__(self, events: ObjectEvents, telemetry: Telemetry, clock: list[float]) -> None:
        self.events, self.telemetry, self._clock = events, telemetry, clock

    async def take(self, *records: PodInsight | JobInsight | NodeHealth | GpuEvent) -> None:
        """Take them, and write what is due."""
        for record in records:
            if isinstance(record, NodeHealth | GpuEvent):
                seen_ms = record.ts_ms
            else:
                assert record.state is not None
                seen_ms = record.state.seen_ms
            self._clock[:] = [self._clock[0], seen_ms / 1000]
            self.events.take(record)
        await self.events.write_due(lambda: True)

    def wait(self, seconds: float) -> None:
        """So much time passes."""
        self._clock[0] += seconds


@asynccontextmanager
async def writing(client: Client) -> AsyncIterator[Writing]:
    """As a sink that has just started."""
    server, clock, telemetry = await api_server(client.kubeconfig), [0.0, 0.0], Telemetry("test")
    events = ObjectEvents(server, "annotations", telemetry, lambda: clock[0], lambda: clock[1])
    yield Writing(events, telemetry, clock)
    await server.close()


def sinks(kube: Kube, namespace: str, *lacking: tuple[str, str, str]) -> Client:
    """An account that may what is shipped."""
    return account(kube, namespace, "sinks", without(shipped_rules("sinks"), *lacking))


def events_of(kube: Kube, namespace: str) -> list[Object]:
    return list(kube.admin.request("GET", f"/apis/{EVENTS}/v1/namespaces/{namespace}/events")["items"])


def described(kube: Kube, kind: str, name: str, namespace: str) -> list[list[str]]:
    """The rows that kubectl prints below ``Events:``, the age left out."""
    text = kube.admin.kubectl("describe", kind, name, "-n", namespace)
    print(text)
    rows = [line.split(maxsplit=2) for line in text.partition("Events:")[2].splitlines()[3:]]
    return [[row[0], row[1], " ".join(row[2].split("  ")[-2:]).strip()] for row in rows]


async def test_what_kubectl_describe_shows(kube: Kube, namespace: str) -> None:
    pod = new(kube, "v1", "Pod", "notebook-7", namespace, spec=SPEC)
    job = new(kube, "kubeflow.org/v2beta1", "MPIJob", "bert", namespace, spec={})
    async with writing(sinks(kube, namespace)) as sink:
        await sink.take(idle(pod, 31), lost(job, 31))
    at = "2026-11-22T12:00:00Z"
    assert described(kube, "pod", "notebook-7", namespace) == [
        ["Normal", "GpuIdle", f"dutycycle.io/sinks It holds GPUs and has used none of them since {at}"]
    ]
    ((kind, reason, text),) = described(kube, "mpijob", "bert", namespace)
    assert (kind, reason) == ("Warning", "CycleLost")
    assert text.endswith(f"It has stopped stepping: its GPUs had a cycle, and have had none since {at}")
    (asked,) = re.findall(r"\$ kubectl (get events .*)", GUIDE)
    kube.admin.create(
        {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "another", "namespace": namespace},
            "involvedObject": {"namespace": namespace}, "source": {"component": "kubelet"},
        }
    )  # fmt: skip
    rows = kube.admin.kubectl(*asked.replace("-A", f"-n {namespace}").split(), "--no-headers").splitlines()
    assert sorted(row.split()[2] for row in rows) == ["CycleLost", "GpuIdle"]


async def test_a_broken_gpu_is_below_its_node(kube: Kube, namespace: str) -> None:
    node = f"gpu-of-{namespace}"
    kube.admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    gone = GpuHealth(gpu="GPU-b", index=3, level="reset", since_ms=SINCE_MS, seen_ms=SINCE_MS,
                     reason="Xid 79: GPU has fallen off the bus", action="restart the machine")  # fmt: skip
    async with writing(sinks(kube, namespace)) as sink:
        await sink.take(NodeHealth(node=node, ts_ms=SINCE_MS, gpus=(gone,)))
    ((kind, reason, text),) = described(kube, "node", node, "default")
    assert (kind, reason) == ("Warning", "GpuUnhealthy")
    assert text.endswith(
        "gpu 3: reset: Xid 79: GPU has fallen off the bus, since 2026-11-22 12:00 UTC; restart the machine"
    )


async def test_a_fault_of_a_gpu_is_below_the_pod_that_used_it(kube: Kube, namespace: str) -> None:
    created = new(kube, "v1", "Pod", "bert-0", namespace, spec=SPEC)
    pod = HitPod(uid=created["metadata"]["uid"], namespace=namespace, name="bert-0")
    async with writing(sinks(kube, namespace)) as sink:
        for code in (79, 79, 48):
            inferred = True if code == 79 else None
            await sink.take(made_event("xid", code, ts_ms=SINCE_MS, index=3, inferred=inferred, pods=(pod,)))
    rows = described(kube, "pod", "bert-0", namespace)
    assert sorted(rows) == [
        ["Warning", "GpuFault", f"dutycycle.io/sinks {text}"]
        for text in (
            "Xid 48: uncorrectable ECC error on gpu 3 of node gpu-a; drain the node, then reset the GPU",
            "Xid 79: GPU has fallen off the bus on gpu 3 of node gpu-a, as its answers tell; "
            "restart the machine; check power, seating and cooling",
        )
    ]


async def test_it_is_one_event_with_a_series_also_after_a_restart(kube: Kube, namespace: str) -> None:
    pod, client = new(kube, "v1", "Pod", "p", namespace, spec=SPEC), sinks(kube, namespace)
    versions = []
    for minutes in (31, 45, 61, 75, 91):  # each time another sink
        async with writing(client) as sink:
            await sink.take(idle(pod, minutes))
        (event,) = events_of(kube, namespace)
        versions.append(event["metadata"]["resourceVersion"])
        assert event.get("series", {}).get("count", 1) == 1 + (minutes - 31) // 30
    assert len(set(versions)) == 3, "what is there already is not written"
    assert event["series"]["lastObservedTime"] == "2026-11-22T13:30:00.000000Z"
    assert "x3 over" in kube.admin.kubectl("describe", "pod", "p", "-n", namespace)


async def test_what_kubernetes_has_forgotten_is_written_anew(kube: Kube, namespace: str) -> None:
    pod = new(kube, "v1", "Pod", "p", namespace, spec=SPEC)
    async with writing(sinks(kube, namespace)) as sink:
        await sink.take(idle(pod, 31))
        kube.admin.kubectl("delete", "events", "--all", "-n", namespace)
        await sink.take(idle(pod, 61))
    assert len(events_of(kube, namespace)) == 1


async def test_so_many_at_once_and_the_rest_later(kube: Kube, namespace: str) -> None:
    pods = [new(kube, "v1", "Pod", f"p{i}", namespace, spec=SPEC) for i in range(2 * AT_ONCE)]
    async with writing(sinks(kube, namespace)) as sink:
        await sink.take(*(idle(pod, 31) for pod in pods))
        assert len(events_of(kube, namespace)) == AT_ONCE
        await sink.take()
        assert len(events_of(kube, namespace)) == 2 * AT_ONCE


@pytest.mark.parametrize("verb", ["create", "patch"])
async def test_it_needs_both_permissions_and_goes_on_when_it_has_them(
    kube: Kube, namespace: str, verb: str
) -> None:
    pod = new(kube, "v1", "Pod", "p", namespace, spec=SPEC)
    lacking = (verb, EVENTS, "events")
    async with writing(sinks(kube, namespace, lacking)) as sink:
        await sink.take(idle(pod, 31))
        await sink.take(idle(pod, 61))
        assert sink.telemetry.conditions.keys() == {("permission_missing", f"{verb} events {EVENTS}")}
        counts = [one.get("series", {}).get("count", 1) for one in events_of(kube, namespace)]
        assert counts == ([] if verb == "create" else [1])
        sinks(kube, namespace)
        await sink.take()
        assert [one.get("series") for one in events_of(kube, namespace)] == (
            [] if verb == "create" else [None]
        )
        sink.wait(RETRY_S)
        await sink.take()
        assert sink.telemetry.conditions == {}
        assert len(events_of(kube, namespace)) == 1


async def test_an_api_server_that_is_away_costs_nothing_and_annotations_go_on(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real sink, with Events: after the outage both are there, once."""
    monkeypatch.setattr("sinks.annotations.beside.RETRY_S", 2.0)
    now_ms = round(time.time() * 1000)
    pod = new(kube, "v1", "Pod", "p", namespace, spec=SPEC)
    state = WorkloadState(seen_ms=now_ms, idle_since_ms=now_ms - 31 * MINUTE_MS)
    record = replace(idle(pod, 0), state=state)
    rig, policy = Rig(), WritePolicy(interval_s=1, events=True)
    server = await api_server(sinks(kube, namespace).kubeconfig)
    sink = AnnotationSink(server, policy, rig.letters, rig.telemetry)
    kube.stop()
    async with at_work(rig, sink) as work:
        for n in range(200):
            told: Any = replace(record, state=replace(state, seen_ms=now_ms + n))
            await work.take(told)
        await work.take(made.pod_peaks(record.pod.uid, _fields(pod)))
        await until(lambda: rig.telemetry.conditions)
        kube.start()
        await work.written()
        await until(lambda: len(events_of(kube, namespace)) == 1)
    assert "dutycycle.io/gpu_util" in kube.admin.get(pod)["metadata"]["annotations"]


def _fields(thing: Object) -> dict[str, Any]:
    meta = thing["metadata"]
    return {"name": meta["name"], "namespace": meta["namespace"]}

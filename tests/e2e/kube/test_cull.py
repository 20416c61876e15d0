"""``dutycycle cull`` on the real API server, by the chart's account: announced, bounded, and undone."""

import asyncio
import json
import shlex
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from dutycycle.contract.records.derived import pod_subject
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import PodInsight, WorkloadState
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import CULL, Telemetry
from sinks.culling.service import TOPIC, run
from sinks.events import CULL_LIMIT
from tests.support.deploy.manifests import NAMESPACE, render
from tests.support.kafka import make_topics, send
from tests.support.kube.cluster import Cluster
from tests.support.kube.contents import APP, SPEC
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.accounts import new_token
from tests.support.servers.kube.client import Client, Object, Refused
from tests.support.servers.kube.server import Kube
from tests.support.waiting import until

pytestmark = [pytest.mark.kafka, pytest.mark.kube]
HOUR_MS = 3_600_000
STOPPABLE = {"web", "train", "nb"}


@pytest.fixture
def account(kube: Kube, namespace: str) -> Iterator[Client]:
    """The chart's, with its rights and its policy in effect."""
    cull = {"cull": {"enabled": True, "namespaces": [namespace], "dryRun": False}}
    kinds = ("ServiceAccount", "ConfigMap", "Role", "ValidatingAdmissionPolicy")
    things = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}]
    things += [
        thing for thing in render(cull)
        if thing["metadata"]["name"].startswith("dutycycle-cull") and thing["kind"].startswith(kinds)
    ]  # fmt: skip
    for thing in things:
        kube.admin.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=json.dumps(thing))
    yield kube.client(new_token(kube, NAMESPACE, "dutycycle-cull"), NAMESPACE)
    for thing in things[1:]:
        with suppress(Refused):
            kube.admin.delete(thing)


class Field:
    """Workloads of each kind, with a pod each, and what is said of these pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.records: dict[str, PodInsight] = {}
        self.things: dict[str, Object] = {}
        for name in ("web", "busy", "lately", "rollout"):
            self._deployment(name)
        self._deployment("kept", labels={"dutycycle.io/keep": "true"})
        self._add(cluster.make("batch/v1", "Job", "train", **SPEC))
        self._add(cluster.make("kubeflow.org/v1", "Notebook", "nb", spec={}))
        # Their owner, whose kind the collectors may not read, and Kueue would begin these again.
        self._deployment("operated", cluster.make("example.com/v1", "Experiment", "service", spec={}))
        queue = {"kueue.x-k8s.io/queue-name": "gpus"}
        self._add(cluster.make("batch/v1", "Job", "queued", labels=queue, **SPEC))
        self._say("busy", None)
        self._say("lately", 1)
        # Of a new pod nothing is known yet.
        other = cluster.make("apps/v1", "ReplicaSet", "rollout-new", self.things["rollout"], **APP)
        cluster.pod("rollout-new-x", other, labels={"pod-template-hash": "new"})

    def _deployment(self, name: str, *owners: Object, **more: Any) -> None:
        app: Object = {"spec": APP["spec"] | {"replicas": 3}}
        made = self._cluster.make("apps/v1", "Deployment", name, *owners, **app, **more)
        replicas = self._cluster.make("apps/v1", "ReplicaSet", f"{name}-old", made, **APP)
        self._add(made, self._cluster.pod(f"{name}-old-x", replicas, labels={"pod-template-hash": "old"}))

    def _add(self, thing: Object, pod: Object | None = None) -> None:
        name = thing["metadata"]["name"]
        self.things[name] = thing
        meta = (pod or self._cluster.pod(f"{name}-x", thing))["metadata"]
        job = JobRef(
            api_version=thing["apiVersion"], kind=thing["kind"], name=name, uid=thing["metadata"]["uid"]
        )
        who = Pod(
            uid=meta["uid"], namespace=meta["namespace"], name=meta["name"], node="n", phase="Running",
            gpu_request=1, job=job,
        )  # fmt: skip
        insight = Insight(
            subject=pod_subject("n", who.uid), ts_ms=1, since_ms=1, kind="idle", confidence=1,
            bottleneck="idle", bottleneck_confidence=1,
        )  # fmt: skip
        self.records[name] = PodInsight(pod=who, insight=insight)
        self._say(name, 9)

    def _say(self, name: str, idle_h: int | None) -> None:
        now_ms = round(time.time() * 1000)
        since_ms = None if idle_h is None else now_ms - idle_h * HOUR_MS
        record = self.records[name]
        self.records[name] = PodInsight(
            pod=record.pod,
            insight=record.insight,
            state=WorkloadState(seen_ms=now_ms, idle_since_ms=since_ms),
        )


async def culled(settings: Settings, enough: Any) -> Telemetry:
    """Run it until ``enough`` of its telemetry."""
    telemetry, stop = Telemetry(CULL), asyncio.Event()
    work = asyncio.create_task(run(settings, telemetry, stop, round_s=0.2))
    await until(lambda: enough(telemetry), what=lambda: telemetry.conditions, working=work)
    stop.set()
    await work
    return telemetry


async def test_idle_workloads_are_announced_and_stopped_and_nothing_else_is(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, cluster: Cluster, account: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("KUBECONFIG", str(account.kubeconfig))
    field, admin = Field(cluster), kube.admin

    def settings(**more: str) -> Settings:
        given = {
            "broker": kafka.url, "topic_prefix": topic_prefix, "partitions": "1",
            "cull_namespaces": cluster.namespace, "cull_notice": "0s", **more,
        }  # fmt: skip
        return load({}, given)

    def is_stopped(name: str) -> bool:
        thing = admin.get(field.things[name])
        if name in ("train", "queued"):
            return bool(thing["spec"].get("suspend"))
        if name == "nb":
            return "kubeflow-resource-stopped" in (thing["metadata"].get("annotations") or {})
        return bool(thing["spec"]["replicas"] == 0)

    def stopped() -> set[str]:
        return {name for name in field.things if is_stopped(name)}

    def events(reason: str) -> dict[str, str]:
        path = f"/apis/events.k8s.io/v1/namespaces/{cluster.namespace}/events"
        items = admin.request("GET", path)["items"]
        return {one["regarding"]["name"]: one["note"] for one in items if one["reason"] == reason}

    await make_topics(settings(), [TOPIC])
    await send(settings(), [(TOPIC, one.pod.uid, one) for one in field.records.values()])

    # A dry run, which is the default, says it and changes nothing.
    await culled(settings(), lambda telemetry: len(events("IdleWouldStop")) == len(STOPPABLE))
    assert (set(events("IdleWouldStop")), stopped()) == (STOPPABLE, set())
    assert "The GPUs of its pod (web-old-x) were not used since" in events("IdleWouldStop")["web"]

    # Announced, and within the notice nothing is stopped.
    patient = settings(cull_dry_run="off", cull_notice="1h")
    await culled(patient, lambda telemetry: len(events("IdleStops")) == len(STOPPABLE))
    assert (set(events("IdleStops")), stopped()) == (STOPPABLE, set())
    assert "the label dutycycle.io/keep=true keeps it" in events("IdleStops")["nb"]

    # As many as may be on a day, also over a restart; then the rest.
    for daily in (2, 3):
        now = settings(cull_dry_run="off", cull_daily=str(daily))
        seen = await culled(
            now,
            lambda telemetry, daily=daily: len(stopped()) == daily and len(events("IdleStopped")) == daily,
        )
        assert len(stopped()) == daily, seen.conditions
        if daily == 2:
            again = await culled(now, lambda telemetry: (CULL_LIMIT.name, "") in telemetry.conditions)
            assert again.count(CULL_LIMIT) == 1
            assert len(stopped()) == 2
    assert stopped() == STOPPABLE

    # Who, why, and how to begin it again: on the object, in its Event, and in the ledger.
    ledger = account.request("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps/dutycycle-cull")["data"]
    (day,) = (key for key in ledger if key.startswith("stopped-"))
    entries = {entry["workload"].rpartition("/")[2]: entry for entry in json.loads(ledger[day])}
    assert entries.keys() == STOPPABLE
    web = entries["web"]
    assert (web["by"], web["does"]) == ("dutycycle cull (after 8 h)", "scaled from 3 to 0")
    assert "were not used since" in web["why"]
    assert json.loads(admin.get(field.things["web"])["metadata"]["annotations"]["dutycycle.io/culled"]) == web
    assert web["undo"] in events("IdleStopped")["web"]
    for entry in entries.values():
        admin.kubectl(*shlex.split(entry["undo"])[1:])
    assert stopped() == set()


def test_the_account_can_stop_and_nothing_else(kube: Kube, cluster: Cluster, account: Client) -> None:
    app: Object = {"spec": APP["spec"] | {"replicas": 3}}
    web = cluster.make("apps/v1", "Deployment", "web", **app)
    job = cluster.make("batch/v1", "Job", "train", **SPEC)
    refused: list[tuple[Object, Object]] = [
        (web, {"spec": {"replicas": 5}}),
        (web, {"spec": {"replicas": 1}}),
        (web, {"spec": {"paused": True}}),
        (web, {"spec": {"replicas": 0, "paused": True}}),
        (web, {"metadata": {"labels": {"a": "b"}}}),
        (web, {"metadata": {"annotations": {"a.io/b": "c"}}}),
        (web, {"metadata": {"annotations": {"kubeflow-resource-stopped": "x"}}}),
        (job, {"spec": {"ttlSecondsAfterFinished": 1}}),
    ]
    end = time.monotonic() + 60
    while True:  # the API server learns of a policy by a watch of its own
        try:
            account.patch(web, {"metadata": {"labels": {"probe": str(time.monotonic_ns())}}})
        except Refused as answer:
            if "the culler stops workloads, and changes nothing else of them" in str(answer):
                break
        assert time.monotonic() < end
        time.sleep(0.05)
    for thing, change in refused:
        with pytest.raises(Refused, match="the culler"):
            account.patch(thing, change)
    stop = {"spec": {"replicas": 0}, "metadata": {"annotations": {"dutycycle.io/culled": "{}"}}}
    assert account.patch(web, stop)["spec"]["replicas"] == 0
    assert account.patch(job, {"spec": {"suspend": True}})["spec"]["suspend"] is True
    with pytest.raises(Refused, match="starts none"):
        account.patch(job, {"spec": {"suspend": False}})
    for thing in (web, job):
        with pytest.raises(Refused):
            account.delete(thing)

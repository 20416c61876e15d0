"""Annotating through a real kube-apiserver, under an account that may get and patch and nothing else."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.derived import PodOfJob
from dutycycle.contract.records.parts import WorkloadState
from dutycycle.contract.records.pods import JobRef
from dutycycle.kube.objects import connect
from dutycycle.kubectl.annotations import ours as parsed
from sinks.annotations.core.keys import PODS_OMITTED, PODS_SUMMARY
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from tests.support.processes.commands import dutycycle, environ
from tests.support.servers.kube import crds
from tests.support.servers.kube.accounts import grant, service_account
from tests.support.servers.kube.client import Client, Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.sinks.made import K80, sample
from tests.support.sinks.rig import AtWork, Rig, at_work
from tests.support.waiting import until

GUIDE = (Path(__file__).parents[3] / "docs/kubernetes.md").read_text()
_COMMAND = re.search(r'\$ kubectl get pods .*-o custom-columns="([^"]+)"\n(.+?)```', GUIDE, re.DOTALL)
assert _COMMAND, "the guide has the command"
GUIDE_COLUMNS = _COMMAND[1]
GUIDE_TABLE = [line.split() for line in _COMMAND[2].splitlines()]
GET_AND_PATCH = ["get", "patch"]
ALL = ["get", "list", "patch"]
SPEC = {"containers": [{"name": "main", "image": "example.org/train:1"}], "nodeName": "gpu-a"}
JOBS = {
    "kubeflow.org/v2beta1": "MPIJob", "kubeflow.org/v1": "PyTorchJob", "jobset.x-k8s.io/v1alpha2": "JobSet",
    "ray.io/v1": "RayJob", "trainer.kubeflow.org/v1alpha1": "TrainJob", "example.com/v1": "Experiment",
}  # fmt: skip


def account(kube: Kube, namespace: str, verbs: list[str], resources: tuple[str, ...] = ("*",)) -> Client:
    """Who may do this to everything, and nothing else."""
    client = service_account(kube, namespace, "sink")
    rules: list[Object] = [{"apiGroups": ["*"], "resources": list(resources), "verbs": verbs}]
    grant(kube, client, namespace, "sink", rules)
    return client


def new(kube: Kube, version: str, kind: str, name: str, namespace: str | None, **fields: Any) -> Object:
    """An object with an annotation of somebody else."""
    meta: Object = {"name": name, "annotations": {"example.org/mine": "kept"}}
    if namespace is not None:
        meta["namespace"] = namespace
    return kube.admin.create({"apiVersion": version, "kind": kind, "metadata": meta, **fields})


def annotations(kube: Kube, thing: Object) -> dict[str, str]:
    """All that the object carries now."""
    return dict(kube.admin.get(thing)["metadata"].get("annotations") or {})


def ours(kube: Kube, thing: Object) -> dict[str, Any]:
    """Our annotations, parsed."""
    return parsed(annotations(kube, thing), "dutycycle.io")


@asynccontextmanager
async def annotating(
    client: Client, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[AtWork[AnnotationSink]]:
    """A sink behind a dispatcher, under the account."""
    monkeypatch.setenv("KUBECONFIG", str(client.kubeconfig))
    server = await connect("auto")
    assert server is not None
    sink = AnnotationSink(server, WritePolicy(interval_s=1), rig.letters, rig.telemetry)
    async with at_work(rig, sink) as work:
        yield work


def of_job(version: str, kind: str, thing: Object, **changed: Any) -> Any:
    meta = thing["metadata"]
    ref = JobRef(api_version=version, kind=kind, name=meta["name"], uid=meta["uid"])
    return made.job_peaks(job=ref, namespace=meta["namespace"], final=True, **changed)


def of_pod(thing: Object, **changed: Any) -> Any:
    meta = thing["metadata"]
    fields = {"name": meta["name"], "namespace": meta["namespace"]}
    return made.pod_peaks(meta["uid"], pod_fields=fields, **changed)


async def test_every_kind_carries_its_annotations_and_keeps_those_of_others(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, rig = account(kube, namespace, GET_AND_PATCH), Rig()
    name = f"gpu-{namespace}"
    node = new(kube, "v1", "Node", name, None)
    pod = new(kube, "v1", "Pod", "train", namespace, spec=SPEC)
    jobs = {(v, k): new(kube, v, k, "bert", namespace, spec={}) for v, k in JOBS.items()}
    tick = replace(sample(K80), node=name)
    async with annotating(client, rig, monkeypatch) as work:
        await work.take(tick, of_pod(pod, final=True))
        for (version, kind), job in jobs.items():
            await work.take(of_job(version, kind, job))
        # A version that is not served any more: the object is the same in the one that is.
        old = new(kube, "kubeflow.org/v2beta1", "MPIJob", "old", namespace, spec={})
        await work.write(of_job("kubeflow.org/v1alpha1", "MPIJob", old))
    assert ours(kube, node)["gpu-1"]["mem_used"] == "11.2GB"
    assert ours(kube, pod)["gpu_util"] == {"gpu_0_4711": 95}
    for job in (old, *jobs.values()):
        assert ours(kube, job) == {"bert-worker-0": {"cpu_util": 151.8}}
    for thing in (node, pod, *jobs.values()):
        assert annotations(kube, thing)["example.org/mine"] == "kept"
        managers = kube.admin.get(thing)["metadata"]["managedFields"]
        assert "dutycycle" in {one["manager"] for one in managers}
    assert rig.port.dead_letters == []
    described = client.kubectl("describe", "pod", "train", "-n", namespace, check=False)
    assert 'dutycycle.io/gpu_util: {"gpu_0_4711":95}' in described
    kube.admin.delete(node)


async def test_a_version_that_is_served_no_more_while_the_sink_runs(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, rig = account(kube, namespace, GET_AND_PATCH), Rig()
    rehearsal = crds.Kind("upgraded.example.com", ("v1alpha1", "v1"), "Rehearsal", "rehearsals")
    definition = kube.admin.create(crds.manifest(rehearsal))
    old, current = (f"/apis/upgraded.example.com/{version}" for version in rehearsal.versions)
    await until(lambda: all(map(kube.admin.answers, (old, current, f"{old}/rehearsals"))))
    job = new(kube, "upgraded.example.com/v1", "Rehearsal", "bert", namespace, spec={})
    async with annotating(client, rig, monkeypatch) as work:
        await work.write(of_job("upgraded.example.com/v1alpha1", "Rehearsal", job))
        assert ours(kube, job) == {"bert-worker-0": {"cpu_util": 151.8}}
        versions = definition["spec"]["versions"]
        versions[0]["served"] = False
        kube.admin.patch(definition, {"spec": {"versions": versions}})
        await until(lambda: not any(map(kube.admin.answers, (old, f"{old}/rehearsals"))))
        pods = {"bert-worker-1": made.job_peaks().pods["bert-worker-0"]}
        await work.write(of_job("upgraded.example.com/v1alpha1", "Rehearsal", job, pods=pods))
    assert ours(kube, job).keys() == {"bert-worker-0", "bert-worker-1"}
    assert rig.count("object_gone") == 0


async def test_a_thousand_workers_a_deleted_and_a_replaced_object(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, rig = account(kube, namespace, GET_AND_PATCH), Rig()
    big = new(kube, "kubeflow.org/v2beta1", "MPIJob", "big", namespace, spec={})
    kube.admin.patch(big, {"metadata": {"annotations": {"example.org/a": "x" * 200_000}}})
    gone, replaced = (new(kube, "v1", "Pod", name, namespace, spec=SPEC) for name in ("gone", "replaced"))
    kube.admin.delete(gone)
    kube.admin.delete(replaced)
    another = new(kube, "v1", "Pod", "replaced", namespace, spec=SPEC)
    one: PodOfJob = made.job_peaks().pods["bert-worker-0"]
    workers = {f"{'w' * 100}-{i}": one for i in range(1000)}
    async with annotating(client, rig, monkeypatch) as work:
        record = of_job("kubeflow.org/v2beta1", "MPIJob", big, pods=workers)
        await work.write(record, of_pod(gone, final=True), of_pod(replaced, final=True))
    found = ours(kube, big)
    assert found[PODS_SUMMARY]["pods"] == 1000
    assert found[PODS_OMITTED] == 1000 - (len(found) - 2)
    assert len(found) > 100
    assert not kube.admin.exists(gone)
    assert annotations(kube, another) == {"example.org/mine": "kept"}
    assert rig.count("object_gone") == 2
    assert rig.port.dead_letters == []


async def test_a_kind_that_no_role_names_is_told_once_and_is_no_error(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client, rig = account(kube, namespace, GET_AND_PATCH, ("pods",)), Rig()
    pod = new(kube, "v1", "Pod", "train", namespace, spec=SPEC)
    jobs = [new(kube, "example.com/v1", "Experiment", f"e{i}", namespace, spec={}) for i in range(3)]
    with caplog.at_level("INFO"):
        async with annotating(client, rig, monkeypatch) as work:
            for job in jobs * 2:
                await work.write(of_job("example.com/v1", "Experiment", job))
            await work.write(of_pod(pod, final=True))
            work.dispatcher.acknowledge()
    assert ours(kube, pod)["max_cpu_util"] == 151.8
    assert rig.port.acknowledged == {("job-peaks", 0): 5, ("pod-peaks", 0): 0}
    assert rig.port.dead_letters == []
    assert rig.count("write_rejected") == 0
    (said,) = [one for one in caplog.records if "experiments" in one.getMessage()]
    assert said.levelname == "INFO"
    assert (
        'kind_forbidden get experiments example.com: 403: experiments.example.com "e0" is forbidden'
        in said.getMessage()
    )


async def test_the_command_takes_ours_away_from_a_namespace(
    kube: Kube, namespace: str, tmp_path: Path
) -> None:
    client = account(kube, namespace, ALL)
    both = {"dutycycle.io/a": "1", "dutycycle.io/b": "2"}
    things = [new(kube, "v1", "Pod", f"pod-{i}", namespace, spec=SPEC) for i in range(3)]
    things += [new(kube, v, k, "bert", namespace, spec={}) for v, k in JOBS.items()]
    for thing in things:
        kube.admin.patch(thing, {"metadata": {"annotations": both}})
    said = await annotate_remove(client, namespace)
    assert said.startswith(f"removed {2 * len(things)} annotations from {len(things)} objects")
    for thing in things:
        assert annotations(kube, thing) == {"example.org/mine": "kept"}


async def annotate_remove(client: Client, namespace: str) -> str:
    """What the command says."""
    env = environ() | {"KUBECONFIG": str(client.kubeconfig)}
    return (await asyncio.to_thread(dutycycle, "remove", "-n", namespace, env=env)).stdout


async def test_the_guide_s_columns_show_plain_values_until_they_are_removed(
    kube: Kube, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, rig = account(kube, namespace, ALL), Rig()
    pod = new(kube, "v1", "Pod", "bert-worker-0", namespace, spec=SPEC)
    insight = made.insight("training", "input", "More loader processes.")
    who = replace(insight.pod, uid=pod["metadata"]["uid"], name="bert-worker-0", namespace=namespace)
    state = WorkloadState(seen_ms=1, period_s=13.2, confidence=0.9, mem_full_ms=1_795_348_800_000)
    metrics = {"gpu_util_pct": made.peak(97, 61), "gpu_mem_used_bytes": made.peak(11_669e6)}
    async with annotating(client, rig, monkeypatch) as work:
        told = replace(insight, pod=who, state=state)
        await work.write(told, of_pod(pod, metrics=metrics))
    assert columns(client, namespace) == GUIDE_TABLE
    assert (await annotate_remove(client, namespace)).startswith("removed 11 annotations from 1 objects")
    header, row = columns(client, namespace)
    assert (header, row[1:]) == (GUIDE_TABLE[0], ["<none>"] * 7)


def columns(client: Client, namespace: str) -> list[list[str]]:
    """The table that the guide's command prints."""
    columns = GUIDE_COLUMNS.replace("\\\n", "")
    printed = client.kubectl("get", "pods", "-n", namespace, "-o", f"custom-columns={columns}")
    return [line.split() for line in printed.splitlines()]

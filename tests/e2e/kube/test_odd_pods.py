"""Objects that are not as others, on the real API server: static pods, what is full of annotations, and a job
with thousands of pods."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from msgspec.structs import replace

from collectors.pods.convert import STATIC_POD, records
from dutycycle.contract.records.derived import JobPeaks, PodOfJob
from dutycycle.contract.records.pods import JobRef
from sinks.annotations.core.diff import TOTAL_BYTES, size_of
from sinks.annotations.core.keys import MOST_PODS
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from tests.support.kube.api_server import api_server
from tests.support.kube.shipped import shipped_account
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks.made import K80, job_peaks, node_part, peak, pod_peaks, sample
from tests.support.sinks.rig import AtWork, Rig, at_work

pytestmark = pytest.mark.kube
HASH = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
FAT = {"example.org/fat": "x" * 261_700}
PODS, RECORDED = 5_000, 3_800
"""Pods of a job, and how many of them its record has room for."""


@asynccontextmanager
async def shipped_sink(kube: Kube) -> AsyncIterator[AtWork[AnnotationSink]]:
    """A sink that writes with the account of the chart."""
    server = await api_server(shipped_account(kube, "sinks").kubeconfig)
    rig = Rig()
    try:
        sink = AnnotationSink(server, WritePolicy(interval_s=1), rig.letters, rig.telemetry)
        async with at_work(rig, sink) as work:
            yield work
    finally:
        await server.close()


async def test_a_static_pod_carries_its_figures_and_a_full_one_is_told_of(kube: Kube, namespace: str) -> None:
    """The kubelet gives a static pod's cgroup the hash of its manifest, and not the uid of its mirror."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    mirror = {"name": "etcd-gpu-a", "namespace": namespace, "annotations": {STATIC_POD: HASH}}
    full = {"name": "full", "namespace": namespace, "annotations": FAT}
    pods: list[Object] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": spec | {"nodeName": "gpu-a"}, "metadata": metadata}
        for metadata in (mirror, full)
    ]
    pods = [pod | {"metadata": kube.admin.create(pod)["metadata"]} for pod in pods]
    by_uid = {record.uid: record for pod in pods for record in records(kube.admin.get(pod), None)}
    assert by_uid.keys() == {HASH, *(pod["metadata"]["uid"] for pod in pods)}
    async with shipped_sink(kube) as work:
        for uid in (HASH, pods[1]["metadata"]["uid"]):
            await work.write(pod_peaks(pod=by_uid[uid]))
    of_mirror, of_full = (kube.admin.get(pod)["metadata"]["annotations"] for pod in pods)
    assert of_mirror["dutycycle.io/gpu_util_max"] == "97"
    assert of_full.keys() == FAT.keys()
    assert (work.rig.count("object_gone"), work.rig.count("annotations_full")) == (0, 1)


async def test_a_full_node_keeps_what_others_wrote_and_is_told_of(kube: Kube, namespace: str) -> None:
    node = kube.admin.create(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"full-{namespace}", "annotations": FAT}}
    )
    name = node["metadata"]["name"]
    gpu_sample = replace(sample(K80), node=name)
    async with shipped_sink(kube) as work:
        await work.write(gpu_sample, node_part(name))
        assert kube.admin.get(node)["metadata"]["annotations"] == FAT
        assert work.rig.count("annotations_full") == 1
        kube.admin.patch(node, {"metadata": {"annotations": {"example.org/fat": None}}})
        work.sink.forget()
        await work.write(replace(gpu_sample, ts_ms=gpu_sample.ts_ms + 60_000), node_part(name, ts_ms=60_000))
    assert "dutycycle.io/gpu_count" in kube.admin.get(node)["metadata"]["annotations"]


@pytest.mark.parametrize("others_bytes", [0, 240_000])
async def test_a_job_of_thousands_of_pods_has_keys_of_256_and_a_count_of_the_rest(
    kube: Kube, namespace: str, others_bytes: int
) -> None:
    """Its record has those that need most by now: as ranks shift pods leave it, whose keys stay."""
    foreign = {"example.org/fat": "x" * others_bytes}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job = kube.admin.create(
        {"apiVersion": "batch/v1", "kind": "Job", "spec": {"suspend": True, "template": template},
         "metadata": {"name": "huge", "namespace": namespace, "annotations": foreign}}
    )  # fmt: skip
    ref = JobRef(api_version="batch/v1", kind="Job", name="huge", uid=job["metadata"]["uid"])
    chance = random.Random(1)  # noqa: S311
    needs = {f"huge-worker-{number:04}": chance.random() * 1e9 for number in range(PODS)}

    def record(number: int, *, final: bool = False) -> JobPeaks:
        most = sorted(needs, key=lambda pod: (-needs[pod], pod))[:RECORDED]
        pods = {pod: PodOfJob(node="n", metrics={"gpu_mem_used_bytes": peak(needs[pod])}) for pod in most}
        return job_peaks(
            ref.uid, job=ref, namespace=namespace, pods=pods, pods_omitted=PODS - RECORDED, final=final,
            last_ms=10_000 * (1 + number), metrics={"gpu_mem_used_bytes": peak(max(needs.values()))},
        )  # fmt: skip

    async with shipped_sink(kube) as work:
        for number in range(4):
            await work.write(record(number))
            carried = kube.admin.get(job)["metadata"]["annotations"]
            with_key = {key for key in carried if key.startswith("dutycycle.io/huge-")}
            assert 0 < len(with_key) <= MOST_PODS
            assert len(with_key) + int(carried["dutycycle.io/pods_omitted"]) == PODS
            assert carried.items() >= foreign.items()
            assert size_of(carried) <= TOTAL_BYTES
            needs = {pod: need + chance.random() * 2e9 for pod, need in needs.items()}
        await work.write(record(9, final=True))
    carried = kube.admin.get(job)["metadata"]["annotations"]
    with_key = {key for key in carried if key.startswith("dutycycle.io/huge-")}
    top = sorted(needs, key=lambda pod: (-needs[pod], pod))[: len(with_key)]
    assert with_key == {f"dutycycle.io/{pod}" for pod in top}
    assert len(with_key) + int(carried["dutycycle.io/pods_omitted"]) == PODS
    assert work.rig.count("pods_omitted") >= 1

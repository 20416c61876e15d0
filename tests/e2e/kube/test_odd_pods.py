"""Pods that are not as others, on the real API server: static ones, and one that is full of annotations."""

import pytest

from collectors.pods.convert import STATIC_POD, records
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import AnnotationSink
from tests.support.kube.api_server import api_server
from tests.support.kube.shipped import shipped_account
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks.made import pod_peaks
from tests.support.sinks.rig import Rig, at_work

pytestmark = pytest.mark.kube
HASH = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"


async def test_a_static_pod_carries_its_figures_and_a_full_one_is_told_of(kube: Kube, namespace: str) -> None:
    """The kubelet gives a static pod's cgroup the hash of its manifest, and not the uid of its mirror."""
    spec = {"containers": [{"name": "c", "image": "i"}]}
    mirror = {"name": "etcd-gpu-a", "namespace": namespace, "annotations": {STATIC_POD: HASH}}
    full = {"name": "full", "namespace": namespace, "annotations": {"example.org/fat": "x" * 261_700}}
    pods: list[Object] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": spec | {"nodeName": "gpu-a"}, "metadata": metadata}
        for metadata in (mirror, full)
    ]
    pods = [pod | {"metadata": kube.admin.create(pod)["metadata"]} for pod in pods]
    by_uid = {record.uid: record for pod in pods for record in records(kube.admin.get(pod), None)}
    assert by_uid.keys() == {HASH, *(pod["metadata"]["uid"] for pod in pods)}
    server = await api_server(shipped_account(kube, "sinks").kubeconfig)
    rig = Rig()
    try:
        sink = AnnotationSink(server, WritePolicy(interval_s=1), rig.letters, rig.telemetry)
        async with at_work(rig, sink) as work:
            for uid in (HASH, pods[1]["metadata"]["uid"]):
                await work.write(pod_peaks(pod=by_uid[uid]))
    finally:
        await server.close()
    of_mirror, of_full = (kube.admin.get(pod)["metadata"]["annotations"] for pod in pods)
    assert of_mirror["dutycycle.io/gpu_util_max"] == "97"
    assert of_full.keys() == {"example.org/fat"}
    assert (rig.count("object_gone"), rig.count("annotations_full")) == (0, 1)

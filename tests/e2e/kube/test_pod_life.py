"""A pod's life, from pending to deleted, and what ``kubectl describe`` shows of it on the way."""

from datetime import UTC, datetime

import orjson

from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess, Signal, square
from tests.support.kube.cluster import Cluster
from tests.support.kube.container import HAS_NETWORK, Container, run_container
from tests.support.kube.pipeline import Pipeline
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

GPU: dict[str, Signal] = {"mem_total": 80e9, "pcie_gen": 5, "pcie_width": 16}
OTHER = FakeGpu(uuid="GPU-other", values={**GPU, "mem_used": 0, "util": 0})


def gpus(
    container: Container | None = None, util: float = 0, mem_util: float = 20
) -> tuple[FakeGpu, FakeGpu]:
    """GPU 0 under one process, in steps of 4 s, or idle; GPU 1 always idle."""
    if container is None:
        return FakeGpu(uuid="GPU-busy", values={**GPU, "mem_used": 0, "util": 0}), OTHER
    wave = square(4, 0.5, 5, util)
    process = FakeProcess(pid=container.pid, util=wave, mem_util=mem_util, mem=19e9)
    used = {**GPU, "mem_used": 20e9, "util": wave, "mem_util": mem_util}
    return FakeGpu(uuid="GPU-busy", values=used, processes=[process]), OTHER


def test_a_pods_life(pipeline: Pipeline, cluster: Cluster, kube: Kube) -> None:
    pipeline.gpus(*gpus())
    node, pod = cluster.node_object, cluster.pod("train-0")
    uid = pod["metadata"]["uid"]
    with pipeline.run():
        cluster.bind(pod)
        pipeline.wait_for(pod, phase="Pending")
        assert not cluster.annotations(pod), "nothing was measured yet, and nothing is made up"

        with run_container(uid, held_mib=96) as first:
            pipeline.gpus(*gpus(first, 40))
            cluster.running(pod, first.id)
            pipeline.wait_for_annotations(pod, {"gpu_util": {f"gpu_0_{first.pid}": 40}})
            first_update = cluster.annotations(pod)["updated"]
            pipeline.gpus(*gpus(first, 90, 30))
            maxima = {"gpu_util": {f"gpu_0_{first.pid}": 90}, "gpu_mem_util": {f"gpu_0_{first.pid}": 30}}
            pipeline.wait_for_annotations(pod, maxima)
            pipeline.wait_until(
                lambda: cluster.annotations(pod)["updated"] > first_update, lambda: "an update while it runs"
            )
            assert_node_is_described(pipeline, cluster, kube, first)
        memory = orjson.loads(cluster.annotations(pod)["max_cpu_mem_mb"])
        assert memory > 96 * 1.048, "all that the first container held, in units of 10⁶ bytes"

        with run_container(uid, held_mib=16) as second:
            pipeline.gpus(*gpus(second, 60))
            cluster.running(pod, second.id, restarts=1)
            both = {f"gpu_0_{first.pid}": 90, f"gpu_0_{second.pid}": 60}
            pipeline.wait_for_annotations(pod, {"gpu_util": both})
        pipeline.gpus(*gpus())
        cluster.ended(pod, second.id, restarts=1)
        final_peaks(pipeline, pod)
        pipeline.wait_until(
            lambda: cluster.annotations(pod)["updated"] == rfc3339(last_ms(pipeline, uid)),
            lambda: f"the final figures: {cluster.annotations(pod)}, {pipeline.newest('pod-peaks')[uid]}",
        )
        final = pipeline.newest("pod-peaks")[uid]
        # Read first: an insight of the pod may still be written after its final figures.
        annotations = cluster.annotations(pod)
        assert_final(annotations, both, final, memory)

        def shown() -> bool:
            described = kube.admin.kubectl("describe", "pod", "train-0", "--namespace", cluster.namespace)
            return all(is_shown(described, *item) for item in cluster.annotations(pod).items())

        pipeline.wait_until(shown, lambda: f"kubectl describe to show {cluster.annotations(pod)}")

        cluster.delete(pod)
        again = cluster.pod("train-0")  # the name is used again: another pod
        cluster.bind(again)
        pipeline.wait_for(again, phase="Pending")
    assert not cluster.annotations(again), "the figures of its predecessor are not its own"
    assert not kube.admin.exists(pod)
    assert kube.admin.get(node)["metadata"]["labels"] == node["metadata"]["labels"]
    assert not pipeline.newest("dead-letters")


def test_a_deleted_pod_is_neither_resurrected_nor_mistaken(
    pipeline: Pipeline, cluster: Cluster, kube: Kube
) -> None:
    """It goes while the sink is away, and so does one whose name is given to another pod meanwhile."""
    gone, replaced = cluster.pod("gone"), cluster.pod("replaced")
    pods = [gone, replaced]
    pipeline.gpus(*gpus())
    with pipeline.run("collect", "stream"):
        for pod in pods:
            cluster.bind(pod)
            with run_container(pod["metadata"]["uid"], held_mib=8, systemd=False) as container:
                cluster.running(pod, container.id)
                pipeline.wait_for(pod, phase="Running")
                pipeline.wait_until(
                    lambda pod=pod: pod["metadata"]["uid"] in pipeline.newest("pod-peaks"),  # type: ignore[misc]
                    lambda: f"peaks of both: {pipeline.newest('pod-peaks')}",
                )
            cluster.delete(pod)
            final_peaks(pipeline, pod)
        successor = cluster.pod("replaced")
    witness = cluster.pod("witness")
    with pipeline.run("collect", "stream", "sink"):
        cluster.bind(witness)
        with run_container(witness["metadata"]["uid"], held_mib=8) as container:
            cluster.running(witness, container.id)
            pipeline.wait_until(
                lambda: "max_cpu_util" in cluster.annotations(witness), lambda: pipeline.said("sink")
            )
        pipeline.wait_until(
            lambda: pipeline.count("sink", "object_gone_total") >= len(pods), lambda: pipeline.said("sink")
        )
    names = kube.admin.kubectl("get", "pods", "--namespace", cluster.namespace, "--output=name").split()
    assert names == ["pod/replaced", "pod/witness"]
    assert kube.admin.exists(successor)
    assert not cluster.annotations(successor)


def assert_node_is_described(pipeline: Pipeline, cluster: Cluster, kube: Kube, container: Container) -> None:
    """The two GPUs of the node, as the contract's table has them."""
    pipeline.wait_for_annotations(
        cluster.node_object,
        {"gpu-static": {"count": 2, "model": "NVIDIA H200", "mem_size": "80GB", "pcie_gen_width": "5x16"}},
    )

    def gpu() -> Object:
        return dict(orjson.loads(cluster.annotations(cluster.node_object)["gpu-0"]))

    pipeline.wait_until(lambda: gpu().get("max_gpu_util") == 90, lambda: f"the maximum of GPU 0: {gpu()}")
    pipeline.wait_until(
        lambda: gpu().get("cyclic") is True and abs(gpu()["period_s"] - 4) < 0.2,
        lambda: f"the cycle of GPU 0: {gpu()}",
    )
    found = gpu()
    assert found["mem_used"] == "20GB"
    assert found["mem_free"] == "60GB"
    assert found["process_cnt"] == 1
    assert found["pid_mem"] == [[container.pid, "19000MB"]]
    described = kube.admin.kubectl("describe", "node", cluster.node)
    print(described)
    for name, value in cluster.annotations(cluster.node_object).items():
        assert is_shown(described, name, value)


def is_shown(described: str, name: str, value: str) -> bool:
    """Whether kubectl shows the annotation: of what is long, its first 138 characters."""
    where, _, rest = described.partition(f"dutycycle.io/{name}:")
    return bool(where) and rest.split("dutycycle.io/")[0].strip().startswith(value[:138])


def final_peaks(pipeline: Pipeline, pod: Object) -> Object:
    """The pod's last record."""
    uid = pod["metadata"]["uid"]
    pipeline.wait_until(
        lambda: pipeline.newest("pod-peaks").get(uid, {}).get("final") is True,
        lambda: f"the final record of {pod['metadata']['name']}: {pipeline.newest('pod-peaks')}",
    )
    return pipeline.newest("pod-peaks")[uid]


def assert_final(found: dict[str, str], gpu_util: Object, final: Object, memory: float) -> None:
    """Every key of the contract that could be measured, at its maximum over both containers."""
    values = {name: orjson.loads(text) for name, text in found.items() if name.startswith(("gpu_", "max_"))}
    assert values["gpu_util"] == gpu_util
    assert values["gpu_mem_util"].keys() == gpu_util.keys()
    assert values["max_cpu_mem_mb"] >= memory
    assert values["max_cpu_util"] == round(final["metrics"]["cpu_util_pct"]["max"], 2) > 0
    if HAS_NETWORK:
        received = final["metrics"]["net_rx_bytes_per_s"]["max"] * 8 / 1e6
        assert values["max_network_mbps"] == round(received, 1) > 0


def last_ms(pipeline: Pipeline, uid: str) -> int:
    return int(pipeline.newest("pod-peaks")[uid]["last_ms"])


def rfc3339(ms: int) -> str:
    """As ``kubectl`` writes times."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

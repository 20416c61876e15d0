"""A job of three workers on a node of four GPUs: what each used stays on the job when they are gone."""

import json
from contextlib import ExitStack

import orjson

from tests.support.fakes.nvml.scenario import FakeGpu, FakeProcess
from tests.support.kube.cluster import Cluster
from tests.support.kube.container import HAS_NETWORK, Container, run_container
from tests.support.kube.pipeline import Pipeline
from tests.support.servers.kube.client import Object
from tests.support.servers.kube.server import Kube

UTIL, HELD_GB, HELD_MIB = (97, 80, 55), (11, 22, 33), (24, 48, 72)
FOREIGN = {"example.com/mine": "kept", "dutycycle.io.example.com/looks-like": "ours, and is not"}


def gpus(workers: list[Container]) -> list[FakeGpu]:
    """GPU i is worker i's; the fourth is nobody's."""
    found = []
    for index in range(4):
        values = {"mem_total": 80e9, "mem_used": 0.0, "util": 0.0}
        processes = []
        if index < len(workers):
            used, util = HELD_GB[index] * 1e9, UTIL[index]
            values |= {"mem_used": used, "util": util}
            processes = [FakeProcess(pid=workers[index].pid, util=util, mem=used)]
        found.append(FakeGpu(uuid=f"GPU-{index}", values=values, processes=processes))
    return found


def test_a_job_of_three_workers(pipeline: Pipeline, cluster: Cluster, kube: Kube) -> None:
    manifest = {
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": {"slotsPerWorker": 1},
        "metadata": {"name": "bert", "namespace": cluster.namespace, "annotations": FOREIGN},
    }  # fmt: skip
    kube.admin.kubectl("apply", "--filename=-", stdin=json.dumps(manifest))
    job = kube.admin.get(manifest)
    template: Object = {
        "template": {"spec": {"containers": [{"name": "l", "image": "i"}], "restartPolicy": "Never"}}
    }
    starter = cluster.make("batch/v1", "Job", "bert-launcher", job, spec=template)
    launcher = cluster.pod("bert-launcher-x7v2p", starter, gpus=0, labels=labels("launcher"))
    workers = [cluster.pod(f"bert-worker-{i}", job, labels=labels("worker", str(i))) for i in range(3)]
    pipeline.gpus(*gpus([]))
    with pipeline.run():
        for pod in (launcher, *workers):
            cluster.bind(pod)
        with ExitStack() as stack:
            held = [
                run_container(pod["metadata"]["uid"], held_mib=mib)
                for pod, mib in zip(workers, HELD_MIB, strict=True)
            ]
            containers = [stack.enter_context(one) for one in held]
            first = stack.enter_context(run_container(launcher["metadata"]["uid"], held_mib=8))
            pipeline.gpus(*gpus(containers))
            for pod, container in zip((*workers, launcher), (*containers, first), strict=True):
                cluster.running(pod, container.id)
            for index, pod in enumerate(workers):
                pipeline.wait_for_annotations(
                    pod, {"gpu_util": {f"gpu_{index}_{containers[index].pid}": UTIL[index]}}
                )
            assert_each_has_its_role(pipeline, job, workers)
            pipeline.wait_until(
                lambda: (
                    {pod["metadata"]["name"] for pod in (*workers, launcher)}
                    <= cluster.annotations(job).keys()
                ),
                lambda: f"a key for each pod: {cluster.annotations(job)}",
            )
        pipeline.gpus(*gpus([]))
        for pod, container in zip((*workers, launcher), (*containers, first), strict=True):
            cluster.ended(pod, container.id)
        pipeline.wait_until(
            lambda: pipeline.newest("job-peaks").get(job["metadata"]["uid"], {}).get("final") is True,
            lambda: f"the job's final record: {pipeline.newest('job-peaks')}",
        )
        for pod in (*workers, launcher):
            cluster.delete(pod)
        for pod in workers:
            pipeline.wait_until(
                lambda pod=pod: has_figures(pipeline, cluster, job, pod),  # type: ignore[misc]
                lambda: f"final figures: {cluster.annotations(job)}, {pipeline.newest('job-peaks')}",
            )

    assert_kept_after_the_pods(cluster, kube, job, workers)
    described = kube.admin.kubectl("describe", "mpijob", "bert", "--namespace", cluster.namespace)
    print(described)
    for pod in workers:
        assert f"dutycycle.io/{pod['metadata']['name']}:" in described


def labels(role: str, index: str | None = None) -> dict[str, str]:
    """As the MPI operator sets them."""
    found = {"training.kubeflow.org/job-name": "bert", "training.kubeflow.org/job-role": role}
    return found | ({"training.kubeflow.org/replica-index": index} if index else {})


def assert_each_has_its_role(pipeline: Pipeline, job: Object, workers: list[Object]) -> None:
    known = pipeline.newest("pods")
    for index, pod in enumerate(workers):
        found = known[pod["metadata"]["uid"]]["job"]
        assert found == {
            "api_version": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "bert",
            "uid": job["metadata"]["uid"], "role": "worker", "replica": index,
        }  # fmt: skip


def has_figures(pipeline: Pipeline, cluster: Cluster, job: Object, pod: Object) -> bool:
    final = pipeline.newest("job-peaks")[job["metadata"]["uid"]]
    written = cluster.annotations(job)[pod["metadata"]["name"]]
    return bool(orjson.loads(written) == figures(final, pod, cluster.node))


def figures(final: Object, pod: Object, node: str) -> Object:
    """A worker's value by the contract's table: what the driver said, and the record's maxima of the rest."""
    name = pod["metadata"]["name"]
    index, metrics = int(name[-1]), final["pods"][name]["metrics"]
    assert metrics["mem_used_bytes"]["max"] > HELD_MIB[index] * 1024**2
    assert metrics["cpu_util_pct"]["max"] > 0
    received = metrics.get("net_rx_bytes_per_s", {"max": 0})["max"] * 8 / 1e6
    assert received > 0 or not HAS_NETWORK
    network = {"network_mbps": round(received, 1)} if HAS_NETWORK else {}
    return network | {
        f"{node}-gpu-{index}_util": UTIL[index],
        f"{node}-gpu-{index}_mem_mb": HELD_GB[index] * 1000,
        "cpu_util": round(metrics["cpu_util_pct"]["max"], 2),
        "cpu_util_p95": round(metrics["cpu_util_pct"]["p95"], 2),
        "cpu_mem_mb": round(metrics["mem_used_bytes"]["max"] / 1e6, 1),
    }


def assert_kept_after_the_pods(cluster: Cluster, kube: Kube, job: Object, workers: list[Object]) -> None:
    found = json.loads(
        kube.admin.kubectl("get", "mpijob", "bert", "--namespace", cluster.namespace, "--output=json")
    )["metadata"]["annotations"]
    names = {pod["metadata"]["name"] for pod in workers}
    ours = {key.removeprefix("dutycycle.io/") for key in found if key.startswith("dutycycle.io/")}
    plain = {"gpu_util_max", "gpu_util_mean", "gpu_util_p95", "gpu_mem_max_mb", "cpu_util_p95"}
    counts = {"pods_now", "pods_ever", "gpus_now", "gpus_ever"}
    of_the_job = {"kind", "bottleneck", "advice"} | plain | counts
    """What it needed, does, and what holds it back, as far as the few seconds of a test tell."""
    assert names <= ours <= names | {"bert-launcher-x7v2p"} | of_the_job
    assert {key: found[key] for key in FOREIGN} == FOREIGN, "what others wrote is theirs"
    applied = "kubectl.kubernetes.io/last-applied-configuration"
    assert orjson.loads(found[applied]) == orjson.loads(job["metadata"]["annotations"][applied])
    assert kube.admin.kubectl("get", "pods", "--namespace", cluster.namespace, "--output=name") == ""
    assert kube.admin.get(job)["spec"] == job["spec"]

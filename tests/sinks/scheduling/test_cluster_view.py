"""Goal: what records say becomes what the scores are made of; what is old or absent is not known."""

import math
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.metering import SET_BACK_MS
from dutycycle.contract.records.derived import Cycle, CycleMetric, Peak, gpu_subject, pod_subject
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Allocation, Gpu, GpuProcess
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import EXTENDER, Telemetry
from dutycycle.view.follower import TopicFollower
from sinks.scheduling.cluster_view import EVERY_MS, ClusterView
from sinks.scheduling.core.score import score
from sinks.scheduling.core.similar import Template
from sinks.scheduling.pods import group, job_uid, need, template_of_pod
from sinks.scheduling.role import ExtenderRole
from sinks.scheduling.table import STALE_MS
from sinks.scheduling.webhook.role import WebhookRole
from sinks.serve.base import Models
from tests.support.servers.kube.scheduler import gpu_pod
from tests.support.sinks.scheduling import GIB, NOW, gpu, host, nvml, peaks, pod

SETTINGS = load({"DUTYCYCLE_NODE": "n"})
OURS = Template(namespace="ml", owner="t1", image="train:1", command=("p1",), gpus=1.0)


@pytest.mark.parametrize(
    ("measured", "free", "taken", "throttled"),
    [
        pytest.param(gpu(), 70 * GIB, False, None, id="free"),
        pytest.param(gpu(processes=(GpuProcess(pid=7),)), 70 * GIB, True, None, id="a process"),
        pytest.param(
            gpu(allocated=(Allocation(namespace="ml", pod="p"),)), 70 * GIB, True, None, id="given away"
        ),
        pytest.param(gpu(allocated=(), processes=(GpuProcess(pid=7),)), 70 * GIB, False, None, id="stray"),
        pytest.param(gpu(throttle=("hw_thermal_slowdown",)), 70 * GIB, False, True, id="hot"),
        pytest.param(gpu(throttle=("gpu_idle",)), 70 * GIB, False, False, id="cool"),
        pytest.param(Gpu(uuid="g", index=0), None, False, None, id="nothing measured"),
    ],
)
def test_gpus(measured: Gpu, free: float | None, taken: bool, throttled: bool | None) -> None:
    known = ClusterView()
    known.take("a", nvml(measured))
    nodes = known.nodes(["a"], {}, NOW)
    found = [nodes.of_gpus(name).tolist() for name in ("mem_free_bytes", "taken", "throttled")]
    expected = [[[math.nan if one is None else float(one)]] for one in (free, taken, throttled)]
    assert found == pytest.approx(np.array(expected), nan_ok=True)


def test_a_node_that_is_silent_is_not_known() -> None:
    known = ClusterView()
    known.take("a", nvml(gpu()))
    known.take("a", host(1600.0))
    known.take("b", nvml(gpu(0), gpu(1), node="b", ts_ms=NOW + STALE_MS))
    nodes = known.nodes(["a", "never seen", "b"], {"b": 2}, NOW + STALE_MS - 1)
    assert nodes.cpu_free_cores.tolist() == pytest.approx([48.0, math.nan, math.nan], nan_ok=True)
    assert (~np.isnan(nodes.of_gpus("taken"))).sum(axis=1).tolist() == [1, 0, 2]
    assert nodes.ranks.tolist() == [0, 0, 2]
    later = known.nodes(["a"], {}, NOW + STALE_MS)
    assert np.isnan(later.of_gpus("taken")).all()
    assert np.isnan(later.cpu_free_cores).all()


def test_nodes_may_come_and_lose_gpus() -> None:
    known = ClusterView()
    for count in (8, 1):
        for at in range(100):
            sample = nvml(*(gpu(index, used=at * GIB) for index in range(count)), node=f"n{at}")
            known.take(sample.node, sample)
    nodes = known.nodes([f"n{at}" for at in range(100)], {}, NOW)
    free = nodes.of_gpus("mem_free_bytes")
    assert free[:, 0].tolist() == [max(80 - at, 0) * GIB for at in range(100)]
    assert np.isnan(free[:, 1:]).all()


def test_idle_cores_are_those_that_are_nearly_always_idle() -> None:
    known = ClusterView()
    for tick in range(40):
        known.take("a", host(3200.0 if tick == 7 else 1000.0 + tick, ts_ms=NOW + tick * EVERY_MS))
    nodes = known.nodes(["a"], {}, NOW + 39 * EVERY_MS)
    assert nodes.cpu_free_cores.tolist() == pytest.approx([64 - 10.38])


def test_the_network_is_idle_as_its_busier_direction_nearly_always_is() -> None:
    known, speed = ClusterView(), 1e9
    for tick in range(40):
        sent = 0.9 * speed if tick == 7 else 0.2 * speed
        at_ms = NOW + tick * EVERY_MS
        more = {"net_rx_bytes_per_s": 0.1 * speed, "net_tx_bytes_per_s": sent}
        known.take("a", host(0.0, ts_ms=at_ms, net_speed_bytes_per_s=speed, **more))
        known.take("b", replace(host(0.0, ts_ms=at_ms, **more), node="b"))  # it does not say its speed
    assert known.nodes(["a", "b"], {}, at_ms).net_free.tolist() == pytest.approx([0.8, math.nan], nan_ok=True)


def test_what_a_node_used_before_it_was_silent_is_long_ago() -> None:
    known, later = ClusterView(), NOW + 3_600_000
    known.take("a", host(3200.0, net_tx_bytes_per_s=90.0, net_speed_bytes_per_s=100.0))
    known.take("a", host(0.0, ts_ms=later))
    nodes = known.nodes(["a"], {}, later)
    assert nodes.cpu_free_cores.tolist() == [64.0]
    assert np.isnan(nodes.net_free).all()


def test_heat_is_how_far_the_driver_says_it_is() -> None:
    known = ClusterView()
    known.take("a", nvml(gpu(0, temp_margin_c=26), gpu(1, temp_c=90)))
    headroom = known.nodes(["a"], {}, NOW).of_gpus("headroom_c").tolist()
    assert headroom == pytest.approx(np.array([[26, math.nan]]), nan_ok=True)


def test_samples_are_read_every_few_seconds_and_all_else_always() -> None:
    known = ClusterView()
    assert known.wants("nvml-samples", "a", NOW)
    known.take("a", nvml(gpu()))
    assert not known.wants("nvml-samples", "a", NOW + EVERY_MS - 1)
    assert known.wants("nvml-samples", "a", NOW + EVERY_MS)
    assert known.wants("cgroup-samples", "a", NOW)
    assert known.wants("pods", "a", NOW)
    assert not known.wants("nvml-samples", "a", NOW - SET_BACK_MS + EVERY_MS)  # it comes late
    assert known.wants("nvml-samples", "a", NOW - SET_BACK_MS)  # the node's clock was set back


def test_a_gpu_works_as_much_as_in_the_last_minutes_and_in_its_cycle() -> None:
    known = ClusterView()
    cycle = Cycle(
        subject=gpu_subject("a", "GPU-0"), source="nvml", ts_ms=NOW,
        metrics={"gpu_util_pct": CycleMetric(cyclic=True, period_s=10.0)},
    )  # fmt: skip
    known.take("gpu/a/GPU-0/nvml", cycle)
    for tick in range(240):  # half of its time, as it is seen every five seconds
        util = 100.0 if tick % 2 else 0.0
        known.take("a", nvml(gpu(gpu_util_pct=util), gpu(1), ts_ms=NOW + tick * EVERY_MS))
    nodes = known.nodes(["a"], {}, NOW + tick * EVERY_MS)
    assert nodes.of_gpus("duty").tolist() == [
        [pytest.approx(0.5, abs=0.02), pytest.approx(math.nan, nan_ok=True)]
    ]
    assert nodes.of_gpus("period_s")[0, 0] == 10.0
    at_ms = NOW + (tick + 1) * EVERY_MS
    known.take("gpu/a/GPU-0/nvml", replace(cycle, metrics={"gpu_util_pct": CycleMetric(cyclic=False)}))
    known.take("a", nvml(replace(gpu(gpu_util_pct=30.0), uuid="GPU-new"), gpu(1), ts_ms=at_ms))
    nodes = known.nodes(["a"], {}, at_ms)
    assert nodes.of_gpus("duty")[0, 0] == pytest.approx(0.3)  # what another did says nothing of it
    assert np.isnan(nodes.of_gpus("period_s")).all()


def test_a_pod_that_shares_goes_beside_one_that_computes_at_other_times() -> None:
    known = ClusterView()
    util = Peak(max=100.0, mean=40.0, at_ms=NOW)
    ended = peaks(pod("one"), 10)
    known.take("one", replace(ended, metrics={**ended.metrics, "gpu_util_pct": util}))
    for node, busy in (("a", 20.0), ("b", 90.0)):
        given = (Allocation(namespace="ml", pod="p"),)
        known.take(node, nvml(gpu(allocated=given, gpu_util_pct=busy), node=node))
    new = gpu_pod("ml", "new")
    new["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu.shared": "1"}}
    scored = score(known.nodes(["a", "b"], {}, NOW), need(new, known.prediction(OURS), 0))
    reasons = {at: term.reason for at in range(2) for term in scored.at(at).terms if term.name == "cycles"}
    assert reasons == {
        0: "computes 40% beside one of 20%: 8% is wanted twice",
        1: "computes 40% beside one of 90%: 36% is wanted twice",
    }


def test_similar_pods_are_pods_that_have_ended() -> None:
    known = ClusterView()
    subject = pod_subject("a", "one")
    known.take("pod/one", Insight(
        subject=subject, ts_ms=NOW, since_ms=NOW, kind="training", confidence=0.9, bottleneck="gpu",
        bottleneck_confidence=0.9,
    ))  # fmt: skip
    cycle = CycleMetric(cyclic=True, period_s=12.5, confidence=0.9)
    known.take(
        "pod/one/nvml", Cycle(subject=subject, source="nvml", ts_ms=NOW, metrics={"gpu_util_pct": cycle})
    )
    known.take("one", peaks(pod("one"), 30, final=False))
    known.take("trial", peaks(pod("trial", trial_of="train"), 70))
    assert known.prediction(OURS) is None
    for _ in range(2):  # a repeat adds nothing
        known.take("one", peaks(pod("one", finished_ms=NOW - 60_000), 40))
    found = known.prediction(OURS)
    assert found is not None
    assert (found.pods, found.likeness, found.kind) == (1, "owner template", "training")
    known.take("one", None)  # of the pod; what it used is read again after an outage
    known.take("one", peaks(pod("one", finished_ms=NOW - 60_000), 40))
    again = known.prediction(OURS)
    assert again is not None
    assert again.pods == 1
    middles = {name: found.middle(name) for name in ("duration_s", "gpu_mem_bytes", "cpu_cores", "period_s")}
    assert middles == {"duration_s": 540.0, "gpu_mem_bytes": 40 * GIB, "cpu_cores": 2.5, "period_s": 12.5}
    assert known.prediction(Template(namespace="other", owner="t1")) is None


def test_ranks_of_a_job_are_those_that_run() -> None:
    known = ClusterView()
    job = JobRef(api_version="batch/v1", kind="Job", name="j", uid="job-1")
    for uid, node in (("r0", "a"), ("r1", "b"), ("r2", "b"), ("r3", "b")):
        known.take(uid, pod(uid, job=job) if node == "a" else Pod(
            uid=uid, name=uid, node="b", phase="Running", job=job
        ))  # fmt: skip
    known.take("x", pod("x"))
    known.take("r3", pod("r3", job=job, phase="Succeeded"))
    assert known.ranks("job-1") == {"a": 1, "b": 2}
    known.take("r0", None)
    assert known.ranks("job-1") == {"b": 2}
    assert known.ranks(None) == {}


def owned(kind: str, name: str, labels: dict[str, str] | None = None, uid: str = "u") -> dict[str, Any]:
    """A new pod with this controller, of a program that nobody ran before."""
    made = gpu_pod("ml", "new")
    made["spec"]["containers"][0]["image"] = "train:2"
    owner = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    return made | {"metadata": made["metadata"] | {"labels": labels or {}, "ownerReferences": [owner]}}


@pytest.mark.parametrize(
    ("top", "new"),
    [
        pytest.param(("CronJob", "nightly"), owned("Job", "nightly-29384720"), id="a CronJob"),
        pytest.param(("Job", "nightly-29384000"), owned("Job", "nightly-29384720"), id="its owner not read"),
        pytest.param(("PyTorchJob", "bert-6"), owned("PyTorchJob", "bert-7"), id="numbered runs"),
        pytest.param(("TrainJob", "gpt"),
            owned("Job", "gpt-node-0", {"jobset.sigs.k8s.io/jobset-name": "gpt"}), id="a TrainJob"),
        pytest.param(("RayJob", "tune"),
            owned("RayCluster", "tune-x7k2p", {"ray.io/originated-from-cr-name": "tune"}), id="a RayJob"),
        pytest.param(("SparkApplication", "etl"),  # the controller of an executor is the driver's pod
            owned("Pod", "etl-driver", {"sparkoperator.k8s.io/app-name": "etl"}), id="Spark"),
        pytest.param(
            ("Deployment", "web"), owned("ReplicaSet", "web-7d9f", {"pod-template-hash": "7d9f"}), id="web"
        ),
    ],
)  # fmt: skip
def test_pods_of_one_job_are_similar_though_their_image_is_newer(
    top: tuple[str, str], new: dict[str, Any]
) -> None:
    known = ClusterView()
    job = JobRef(api_version="v1", kind=top[0], name=top[1], uid="top")
    known.take("one", peaks(pod("one", job=job), 40))
    known.take("two", peaks(pod("two", job=replace(job, name="other")), 20))
    found = known.prediction(template_of_pod(new))
    assert found is not None
    assert (found.likeness, found.pods, found.middle("gpu_mem_bytes")) == ("job name and GPUs", 1, 40 * GIB)


def test_labels_that_are_recorded_make_pods_similar() -> None:
    known = ClusterView()
    known.take("one", peaks(pod("one", labels={"app": "bert"}), 40))
    known.take("two", peaks(pod("two", labels={"app": "gpt"}), 20))
    new = owned("Job", "any", {"app": "bert", "controller-uid": "made for each Job"})
    found = known.prediction(template_of_pod(new))
    assert found is not None
    assert (found.likeness, found.middle("gpu_mem_bytes")) == ("labels and GPUs", 40 * GIB)


def test_ranks_of_a_jobset_are_one_job() -> None:
    known = ClusterView()
    job = JobRef(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="gpt", uid="set")
    known.take("r0", pod("r0", job=job))
    new = owned("Job", "gpt-workers-1", {"jobset.sigs.k8s.io/jobset-name": "gpt"}, uid="job-of-1")
    assert known.ranks(job_uid(new), group(new)) == {"a": 1}
    known.take("r0", None)
    assert known.ranks(job_uid(new), group(new)) == {}


def test_the_extender_and_the_webhook_of_a_process_know_one_cluster_that_hears_each_record_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard: list[str] = []
    monkeypatch.setattr(ClusterView, "take", lambda known, key, record: heard.append(key))
    models: Models = {}
    roles = [role(SETTINGS, Telemetry(EXTENDER), models) for role in (ExtenderRole, WebhookRole)]
    subscriptions = [subscription for role in roles for subscription in role.subscriptions]
    follower = TopicFollower(SETTINGS, Telemetry(EXTENDER), "test", subscriptions)
    for topic in ("pods", "gpu-health"):
        follower.take(topic, ConsumerRecord(f"dutycycle.{topic}", 0, 0, topic, None, NOW))
    follower.take("pods", ConsumerRecord("dutycycle.pods", 0, 1, "p", encode(pod("p")), NOW))
    assert heard == ["pods", "p"]
    assert list(models) == [ClusterView]


@pytest.mark.parametrize(
    ("annotations", "asked", "needed"),
    [
        ({"gpu-fraction": "0.25"}, 0.25, 1),
        ({"gpu-fraction": "1.5"}, 1.5, 2),
        ({"gpu-memory": "4096"}, None, 1),
        ({}, 0, 0),
    ],
)
def test_a_part_of_a_gpu_that_an_annotation_asks_for_is_asked_for(
    annotations: dict[str, str], asked: float | None, needed: int
) -> None:
    new = {"metadata": {"annotations": annotations}, "spec": {"containers": [{"name": "c"}]}}
    assert (template_of_pod(new).gpus, need(new, None, 0).gpus) == (asked, needed)

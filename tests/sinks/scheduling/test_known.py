"""Goal: what records say becomes what the scores are made of; what is old or absent is not known."""

import pytest

from contract.records.derived import Cycle, CycleMetric, pod_subject
from contract.records.insights import Insight
from contract.records.pods import JobRef, Pod
from contract.records.samples import Allocation, Gpu, GpuProcess
from sinks.scheduling.core.kin import Template
from sinks.scheduling.known import EVERY_MS, STALE_MS, KnownCluster
from tests.support.sinks.scheduling import GIB, NOW, gpu, host, nvml, peaks, pod

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
    known = KnownCluster()
    known.take("a", nvml(measured))
    (found,) = known.node("a", 0, NOW).gpus
    assert (found.mem_free_bytes, found.taken, found.throttled) == (free, taken, throttled)


def test_a_node_that_is_silent_is_not_known() -> None:
    known = KnownCluster()
    known.take("a", nvml(gpu()))
    known.take("a", host(1600.0))
    assert known.node("a", 0, NOW + STALE_MS - 1).cpu_free_cores == 48.0
    later = known.node("a", 0, NOW + STALE_MS)
    assert later.gpus == ()
    assert later.cpu_free_cores is None
    assert known.node("never seen", 0, NOW).gpus == ()


def test_idle_cores_are_those_that_are_nearly_always_idle() -> None:
    known = KnownCluster()
    for tick in range(40):
        known.take("a", host(3200.0 if tick == 7 else 1000.0 + tick, ts_ms=NOW + tick * EVERY_MS))
    assert known.node("a", 0, NOW + 40 * EVERY_MS).cpu_free_cores == pytest.approx(64 - 10.38)


def test_samples_are_read_every_few_seconds_and_all_else_always() -> None:
    known = KnownCluster()
    assert known.wants("nvml-samples", "a", NOW)
    known.take("a", nvml(gpu()))
    assert not known.wants("nvml-samples", "a", NOW + EVERY_MS - 1)
    assert known.wants("nvml-samples", "a", NOW + EVERY_MS)
    assert known.wants("cgroup-samples", "a", NOW)
    assert known.wants("pods", "a", NOW)


def test_kin_are_pods_that_have_ended() -> None:
    known = KnownCluster()
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
    assert known.prediction(OURS) is None
    for _ in range(2):  # a repeat adds nothing
        known.take("one", peaks(pod("one", finished_ms=NOW - 60_000), 40))
    found = known.prediction(OURS)
    assert found is not None
    assert (found.kin, found.likeness, found.kind) == (1, "owner template", "training")
    middles = {name: found.middle(name) for name in ("duration_s", "gpu_mem_bytes", "cpu_cores", "period_s")}
    assert middles == {"duration_s": 540.0, "gpu_mem_bytes": 40 * GIB, "cpu_cores": 2.5, "period_s": 12.5}
    assert known.prediction(Template(namespace="other", owner="t1")) is None


def test_ranks_of_a_job_are_those_that_run() -> None:
    known = KnownCluster()
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

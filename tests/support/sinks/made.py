"""Derived records for the tests of the sinks, each with defaults that a test changes where it matters."""

from typing import Any

from dutycycle.contract.records.derived import JobPeaks, Peak, PodOfJob, PodPeaks, job_subject, pod_subject
from dutycycle.contract.records.insights import Insight, ProfileVerdict
from dutycycle.contract.records.parts import GpuAnalysis, JobInsight, NodePart, PodInsight
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample

JOB = JobRef(api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="job-1", role="worker")
K80_BYTES = 11_441 * 2**20
K80 = Gpu(
    uuid="GPU-1", index=1, model="Tesla K80", mem_used_bytes=11_157e6, mem_total_bytes=K80_BYTES,
    pcie_gen=3, pcie_width=16, processes=(GpuProcess(pid=18_477, mem_used_bytes=11_094e6),),
)  # fmt: skip


def peak(largest: float, mean: float | None = None, at_ms: int = 5, p95: float | None = None) -> Peak:
    """A peak; its mean is the half unless given."""
    return Peak(max=largest, mean=largest / 2 if mean is None else mean, at_ms=at_ms, p95=p95)


def pod(uid: str = "uid-1", **changed: Any) -> Pod:
    """A running worker of ``JOB``."""
    fields: dict[str, Any] = {
        "uid": uid, "namespace": "default", "name": f"pod-of-{uid}", "node": "gpu-a", "phase": "Running",
        "job": JOB,
    }  # fmt: skip
    return Pod(**(fields | changed))


def pod_peaks(uid: str = "uid-1", pod_fields: dict[str, Any] | None = None, **changed: Any) -> PodPeaks:
    """Ten samples of a pod on one GPU."""
    fields: dict[str, Any] = {
        "pod": pod(uid, **(pod_fields or {})),
        "first_ms": 1_000,
        "last_ms": 10_000,
        "samples": 10,
        "final": False,
        "metrics": {"gpu_util_pct": peak(97, p95=90), "cpu_util_pct": peak(151.8), "temp_c": peak(61)},
        "gpus": {"gpu-a/0": {"gpu_util_pct": peak(97), "mem_used_bytes": peak(2**30)}},
        "processes": {"gpu-a/0/4711": {"gpu_util_pct": peak(95)}},
    }
    return PodPeaks(**(fields | changed))


def insight(kind: str, bottleneck: str, advice: str | None) -> PodInsight:
    """What is said of the pod ``uid-1``."""
    found = Insight(
        subject=pod_subject("gpu-a", "uid-1"), ts_ms=1, since_ms=1, kind=kind, confidence=0.9,
        bottleneck=bottleneck, bottleneck_confidence=0.8, advice=advice,
    )  # fmt: skip
    return PodInsight(pod=pod("uid-1"), insight=found)


def profile(
    bottleneck: str, advice: str | None = None, of: Pod | None = None, *, of_job: bool = False
) -> ProfileVerdict:
    """What a profile says of a pod; ``of_job``: the same for its job."""
    one = of or pod(job=job_peaks().job)
    subject = job_subject(one.job.uid) if of_job and one.job is not None else pod_subject(one.node, one.uid)
    return ProfileVerdict(
        subject=subject, pod=one, ts_ms=1, source="report1.sqlite", product="nsys", bottleneck=bottleneck,
        bottleneck_confidence=0.9, evidence={"gpus": 1}, advice=advice,
    )  # fmt: skip


def job_insight(kind: str, bottleneck: str, advice: str | None, job: JobRef | None = None) -> JobInsight:
    """What is said of the job ``job-1``."""
    found = Insight(
        subject=job_subject("job-1"), ts_ms=1, since_ms=1, kind=kind, confidence=0.9,
        bottleneck=bottleneck, bottleneck_confidence=0.8, advice=advice,
    )  # fmt: skip
    return JobInsight(job=job or job_peaks().job, namespace="default", insight=found)


def job_peaks(uid: str = "job-1", **changed: Any) -> JobPeaks:
    """A job of one pod."""
    of_pod = PodOfJob(node="gpu-a", metrics={"cpu_util_pct": peak(151.8)})
    fields: dict[str, Any] = {
        "job": JobRef(api_version="batch/v1", kind="Job", name=f"name-of-{uid}", uid=uid),
        "namespace": "default",
        "first_ms": 1_000,
        "last_ms": 10_000,
        "final": False,
        "metrics": {"cpu_util_pct": peak(151.8)},
        "pods": {"bert-worker-0": of_pod},
    }
    return JobPeaks(**(fields | changed))


def sample(*gpus: Gpu, ts_ms: int = 1_700_000_000_000) -> NvmlSample:
    """One tick of the node gpu-a."""
    return NvmlSample(node="gpu-a", collector="c", seq=1, ts_ms=ts_ms, interval_ms=1000, gpus=gpus)


def node_part(node: str = "gpu-a", gpu: str = "GPU-1", ts_ms: int = 1, **known: Any) -> NodePart:
    """What the streams know of one GPU of a node."""
    return NodePart(node=node, ts_ms=ts_ms, gpus={gpu: GpuAnalysis(**known)})


EARLY: dict[str, Any] = {
    "first_ms": 1_000, "last_ms": 10_000, "samples": 10, "final": True,
    "metrics": {"gpu_util_pct": peak(97, 40, 3_000), "temp_c": peak(61, 50, 2_000)},
    "gpus": {"a/0": {"gpu_util_pct": peak(97, 40, 3_000)}}, "processes": None,
}  # fmt: skip
"""The last record of an accumulation of ``pod_peaks`` that was lost, by field."""
LATE: dict[str, Any] = {
    "first_ms": 90_000, "last_ms": 119_000, "samples": 30, "final": False,
    "metrics": {"gpu_util_pct": peak(60, 20, 95_000), "cpu_util_pct": peak(150, 100, 96_000)},
    "gpus": {"a/1": {"gpu_util_pct": peak(60, 20, 95_000)}}, "processes": None,
}  # fmt: skip
"""A record of the accumulation after it."""

"""Derived records for the tests of the sinks, each with defaults that a test changes where it matters."""

from typing import Any

from wire.derived import JobPeaks, Peak, PodOfJob, PodPeaks
from wire.pods import JobRef, Pod

JOB = JobRef(api_version="kubeflow.org/v2beta1", kind="MPIJob", name="bert", uid="job-1", role="worker")


def peak(largest: float, mean: float | None = None, at_ms: int = 5) -> Peak:
    """A peak; its mean is the half unless given."""
    return Peak(max=largest, mean=largest / 2 if mean is None else mean, at_ms=at_ms)


def pod(uid: str = "uid-1", **changed: Any) -> Pod:
    """A running worker of ``JOB``."""
    fields: dict[str, Any] = {
        "uid": uid,
        "namespace": "default",
        "name": f"pod-of-{uid}",
        "node": "gpu-a",
        "phase": "Running",
        "job": JOB,
    }
    return Pod(**(fields | changed))


def pod_peaks(uid: str = "uid-1", pod_fields: dict[str, Any] | None = None, **changed: Any) -> PodPeaks:
    """Ten samples of a pod on one GPU."""
    fields: dict[str, Any] = {
        "pod": pod(uid, **(pod_fields or {})),
        "first_ms": 1_000,
        "last_ms": 10_000,
        "samples": 10,
        "final": False,
        "metrics": {"gpu_util_pct": peak(97), "cpu_util_pct": peak(151.8), "temp_c": peak(61)},
        "gpus": {"gpu-a/0": {"gpu_util_pct": peak(97), "mem_used_bytes": peak(2**30)}},
        "processes": {"gpu-a/0/4711": {"gpu_util_pct": peak(95)}},
    }
    return PodPeaks(**(fields | changed))


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

"""What a pod is made from, what an ended one used, and what a new one needs. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from contract.records.derived import Peaks, PodPeaks
from contract.records.pods import Pod
from kube import resources
from kube.templates import template_of
from sinks.scheduling.core.kin import Outcome, Template
from sinks.scheduling.core.node import Need
from sinks.scheduling.core.prediction import Prediction

Object = Mapping[str, Any]
"""A Kubernetes object, as JSON."""


def template_of_record(pod: Pod) -> Template:
    """What a pod of the topic ``pods`` was made from."""
    return Template(
        namespace=pod.namespace or "",
        owner=pod.template,
        image=" ".join(pod.images) if pod.images else None,
        command=None if pod.program is None else (pod.program,),
        gpus=pod.gpu_request,
        requests=_both(pod.cpu_request, pod.mem_request_bytes),
    )


def template_of_pod(pod: Object) -> Template:
    """The same of a pod as the API server shows it."""
    spec = pod["spec"]
    made = template_of(spec)
    images = [one["image"] for one in spec.get("containers") or () if one.get("image")]
    return Template(
        namespace=pod["metadata"].get("namespace") or "",
        owner=made.template,
        image=" ".join(images) or None,
        command=(made.program,),
        gpus=resources.gpu_request(spec),
        requests=_both(resources.request(spec, "cpu"), resources.request(spec, "memory")),
    )


def _both(cpu: float | None, memory: float | None) -> tuple[float, float] | None:
    return None if cpu is None or memory is None else (cpu, memory)


def outcome(peaks: PodPeaks, kind: str | None, period_s: float | None) -> Outcome:
    """What an ended pod used; ``kind`` and ``period_s`` are what its insight and its cycle said last."""
    pod, metrics = peaks.pod, peaks.metrics
    began, ended = pod.started_ms or peaks.first_ms, pod.finished_ms or peaks.last_ms
    memory = [most for one in peaks.gpus.values() if (most := _most(one, "mem_used_bytes")) is not None]
    cpu = _most(metrics, "cpu_util_pct")
    figures = {
        "duration_s": max(ended - began, 0) / 1000,
        "gpu_mem_bytes": max(memory, default=None),
        "gpu_util_pct": _most(metrics, "gpu_util_pct"),
        "cpu_cores": None if cpu is None else cpu / 100,
        "mem_bytes": _most(metrics, "mem_used_bytes"),
        "period_s": period_s,
    }
    return Outcome({name: value for name, value in figures.items() if value is not None}, kind)


def _most(metrics: Peaks, name: str) -> float | None:
    return metrics[name].max if name in metrics else None


def need(pod: Object, prediction: Prediction | None, other_ranks: int) -> Need:
    """What a new pod needs: GPUs as it asks for them, all else as its kin used it.

    ``other_ranks``: pods of its job that run already.
    """
    asked = Need(gpus=round(resources.gpu_request(pod["spec"]) or 0.0), ranks=1 + other_ranks)
    if prediction is None:
        return asked
    return replace(
        asked,
        kind=prediction.kind,
        gpu_mem_bytes=prediction.high("gpu_mem_bytes"),
        cpu_cores=prediction.middle("cpu_cores"),
        period_s=prediction.middle("period_s"),
    )


def job_uid(pod: Object) -> str | None:
    """The uid of what controls the pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((one["uid"] for one in owners if one.get("controller")), None)

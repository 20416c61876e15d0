"""Reads what a pod is made from, what an ended one used, and what a new one needs. Pure."""

import re
from collections.abc import Iterable
from dataclasses import replace
from math import ceil

from dutycycle.contract.records.derived import Peaks, PodPeaks
from dutycycle.contract.records.pods import Pod
from dutycycle.kube import resources
from dutycycle.kube.references import KubeObject, deployment_of
from dutycycle.kube.templates import template_of
from sinks.scheduling.core.node import Need
from sinks.scheduling.core.prediction import Prediction
from sinks.scheduling.core.similar import PastUse, SimilarPodIndex, Template

_JOB_NAMES = (
    "jobset.sigs.k8s.io/jobset-name", "training.kubeflow.org/job-name", "ray.io/originated-from-cr-name",
    "leaderworkerset.sigs.k8s.io/name", "volcano.sh/job-name", "workflows.argoproj.io/workflow",
    "sparkoperator.k8s.io/app-name",
)  # fmt: skip
"""Labels that say how a pod's topmost owner is called; a TrainJob has the name of its JobSet."""


def template_of_record(pod: Pod) -> Template:
    """Return what a pod of the topic ``pods`` was made from."""
    return Template(
        namespace=pod.namespace or "",
        owner=pod.template,
        job=None if pod.job is None else _stem(pod.job.name),
        labels=frozenset((pod.labels or {}).items()),
        image=" ".join(pod.images) if pod.images else None,
        command=None if pod.program is None else (pod.program,),
        gpus=pod.gpu_request,
        requests=_both(pod.cpu_request, pod.mem_request_bytes),
    )


def template_of_pod(pod: KubeObject) -> Template:
    """Return the same of a pod as the API server shows it."""
    spec, meta = pod["spec"], pod["metadata"]
    made = template_of(spec)
    named, job = group(pod), None
    if named is not None:
        job = _stem(named[1])
    else:
        owners = [owner for owner in meta.get("ownerReferences") or () if owner.get("controller")]
        if owners and (owner_name := owners[0].get("name")) is not None:
            job = _stem(deployment_of(meta) or owner_name)
    images = [container["image"] for container in spec.get("containers") or () if container.get("image")]
    return Template(
        namespace=meta.get("namespace") or "",
        owner=made.template,
        job=job,
        labels=frozenset((meta.get("labels") or {}).items()),
        image=" ".join(images) or None,
        command=(made.program,),
        gpus=_gpus(pod),
        requests=_both(resources.request(spec, "cpu"), resources.request(spec, "memory")),
    )


def _gpus(pod: KubeObject) -> float | None:
    return resources.gpu_request(pod["spec"], pod["metadata"].get("annotations"))


def _both(cpu: float | None, memory: float | None) -> tuple[float, float] | None:
    return None if cpu is None or memory is None else (cpu, memory)


def _stem(name: str) -> str:
    """Return a name without its number: the runs of a CronJob, and those that people number, are one job:
    ``nightly-29384720``, ``bert-7``."""
    return re.sub(r"-\d+$", "", name)


def group(pod: KubeObject) -> tuple[str, str] | None:
    """Return namespace and name of the topmost owner, which an operator tells by a label; None without.

    A new pod names its controller alone, which may be one of several Jobs of a JobSet.
    """
    labels = pod["metadata"].get("labels") or {}
    name = next((labels[key] for key in _JOB_NAMES if labels.get(key)), None)
    return None if name is None else (pod["metadata"].get("namespace") or "", name)


def outcome(peaks: PodPeaks, kind: str | None, period_s: float | None) -> PastUse:
    """Give what an ended pod used; ``kind`` and ``period_s`` are what its insight and its cycle said last."""
    pod, metrics = peaks.pod, peaks.metrics
    began, ended = pod.started_ms or peaks.first_ms, pod.finished_ms or peaks.last_ms
    memory = [most for of_gpu in peaks.gpus.values() if (most := _most(of_gpu, "mem_used_bytes")) is not None]
    # What was enough for 95 % of the time: of a CPU who needs more for a moment gets it a little later
    metric = metrics.get("cpu_util_pct")
    cpu = None if metric is None else metric.max if metric.p95 is None else metric.p95
    figures = {
        "duration_s": max(ended - began, 0) / 1000,
        "gpu_mem_bytes": max(memory, default=None),
        "gpu_util_pct": _most(metrics, "gpu_util_pct"),
        "gpu_util_mean_pct": metrics["gpu_util_pct"].mean if "gpu_util_pct" in metrics else None,
        "cpu_cores": None if cpu is None else cpu / 100,
        "mem_bytes": _most(metrics, "mem_used_bytes"),
        "period_s": period_s,
    }
    return PastUse({name: value for name, value in figures.items() if value is not None}, kind)


def add_ended(
    similar: SimilarPodIndex, peaks: PodPeaks, kind: str | None = None, period_s: float | None = None
) -> None:
    """Add a pod that has ended by itself; ``kind`` and ``period_s`` as of ``outcome``. A trial was ended, and
    says nothing of how long a run takes."""
    if peaks.final and peaks.pod.trial_of is None:
        similar.add(template_of_record(peaks.pod), outcome(peaks, kind, period_s))


def similar_pods_of(records: Iterable[PodPeaks]) -> SimilarPodIndex:
    """Return those of the records that may be similar pods, the newest last."""
    similar = SimilarPodIndex()
    for peaks in sorted(records, key=lambda peaks: peaks.last_ms):
        add_ended(similar, peaks)
    return similar


def _most(metrics: Peaks, name: str) -> float | None:
    return metrics[name].max if name in metrics else None


def need(pod: KubeObject, prediction: Prediction | None, other_ranks: int) -> Need:
    """Return what a new pod needs: GPUs as it asks for them, all else as similar pods used it.

    A part of a GPU needs a whole one to lie on, and a claim or an amount of GPU memory, which do not say how
    many there are, one at least. ``other_ranks``: pods of its job that run already.
    """
    gpus = _gpus(pod)
    of_containers = map(resources.gpu_resources, pod["spec"].get("containers") or ())
    shares = gpus is not None and 0 < gpus < 1
    shares |= any(name.endswith(".shared") for asked_for in of_containers for name in asked_for)
    asked = Need(gpus=1 if gpus is None else ceil(gpus), ranks=1 + other_ranks, shares=shares)
    if prediction is None:
        return asked
    util_pct = prediction.middle("gpu_util_mean_pct")
    return replace(
        asked,
        kind=prediction.kind,
        gpu_mem_bytes=prediction.high("gpu_mem_bytes"),
        cpu_cores=prediction.middle("cpu_cores"),
        duty=None if util_pct is None else util_pct / 100,
        period_s=prediction.middle("period_s"),
    )


def job_uid(pod: KubeObject) -> str | None:
    """Return the uid of what controls the pod."""
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), None)

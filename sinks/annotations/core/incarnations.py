"""A job's pods by name, the lives of a name as one: what it ever needed at most. Pure.

A worker that is made anew keeps its name. The record lists its later lives as ``<name>@<first_ms>``.
"""

from functools import reduce

from contract.records.derived import JobPeaks, Peaks, PodOfJob
from sinks.annotations.core.targets import is_name


def pods_by_name(record: JobPeaks) -> dict[str, PodOfJob]:
    """The pods of a job; what can be no pod's name is passed over."""
    lives: dict[str, list[PodOfJob]] = {}
    for listed, pod in record.pods.items():
        name = listed.partition("@")[0]
        if is_name(name):
            lives.setdefault(name, []).append(pod)
    return {name: _joined(found) for name, found in lives.items()}


def _joined(lives: list[PodOfJob]) -> PodOfJob:
    """The maximum of all lives for each figure. GPUs are left out where they are of one of the lives."""
    if len(lives) == 1:
        return lives[0]
    metrics = reduce(_largest, (life.metrics for life in lives))
    gpus: dict[str, Peaks] = {}
    if not any(_without_its_gpus(life) for life in lives):
        for life in lives:
            gpus |= {scope: _largest(gpus.get(scope, {}), peaks) for scope, peaks in life.gpus.items()}
    return PodOfJob(node=lives[-1].node, metrics=metrics, gpus=gpus)


def _without_its_gpus(life: PodOfJob) -> bool:
    return not life.gpus and "gpu_util_pct" in life.metrics


def _largest(one: Peaks, other: Peaks) -> Peaks:
    """The larger peak of each metric."""
    return {
        metric: max((peaks[metric] for peaks in (one, other) if metric in peaks), key=lambda peak: peak.max)
        for metric in one.keys() | other.keys()
    }

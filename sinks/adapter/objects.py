"""Tells whose pods are whose, and what an object has of its pods' or GPUs' figures. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dutycycle.contract.records.pods import JobRef
from dutycycle.kube.references import Metadata, deployment_of
from sinks.adapter.figures import MetricValue
from sinks.adapter.metric_names import MetricName


class Owner(NamedTuple):
    """Names an object that has pods, in their namespace."""

    api_version: str
    kind: str
    name: str


def owners(pod: Metadata, job: JobRef | None) -> Iterator[Owner]:
    """Yield the objects whose pod it is: its controller, the Deployment of a ReplicaSet, and its topmost
    owner.

    ``job``: the topmost owner, where the topic ``pods`` tells it. An object may come twice.
    """
    for reference in pod.get("ownerReferences") or ():
        if not reference.get("controller"):
            continue
        yield Owner(reference["apiVersion"], reference["kind"], reference["name"])
        if (deployment := deployment_of(pod)) is not None:
            yield Owner(reference["apiVersion"], "Deployment", deployment)
    if job is not None:
        yield Owner(job.api_version, job.kind, job.name)


def combined(figures: Sequence[MetricValue], metric: MetricName) -> MetricValue:
    """Return the mean of ``figures`` (at least one), or the largest; as old as the oldest of them."""
    values = [figure.value for figure in figures]
    return MetricValue(
        max(values) if metric.is_max else sum(values) / len(values),
        min(figure.end_ms for figure in figures),
        max(figure.window_s for figure in figures),
    )

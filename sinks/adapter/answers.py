"""Answers in the words of the API: resources, lists, failures; and tells whose pods are whose. Pure.

https://github.com/kubernetes/metrics/tree/v0.36.3/pkg/apis has the types.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.units import rfc3339
from dutycycle.kube.references import Metadata, deployment_of
from sinks.adapter.figures import MetricValue
from sinks.adapter.metric_names import MetricName, listed

CUSTOM = "custom.metrics.k8s.io"
EXTERNAL = "external.metrics.k8s.io"
VERSION = "v1beta1"
Json = dict[str, Any]
OBJECTS = ("deployments.apps", "statefulsets.apps", "jobs.batch")
"""What owns pods and is listed; everything else that does is answered, too."""
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    500: "InternalError", 503: "ServiceUnavailable",
}  # fmt: skip


class Owner(NamedTuple):
    """Names an object that has pods, in their namespace."""

    api_version: str
    kind: str
    name: str


class PodFigure(NamedTuple):
    """Holds a figure, and the metadata of the pod whose it is."""

    pod: Metadata
    figure: MetricValue


class ObjectFigure(NamedTuple):
    """Holds a figure, and the object whose it is. ``namespace``: None of what is in none."""

    api_version: str
    kind: str
    namespace: str | None
    name: str
    figure: MetricValue


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


def resources(group: str, fields: Iterable[str], of_nodes: Iterable[str]) -> Json:
    """Return what discovery says of a group: a resource for each metric of pods (``fields``), of what has
    several of them, and of nodes."""
    of_pods, fields = listed(fields, of_objects=False), list(fields)
    if group == CUSTOM:
        of_several = listed(fields, of_objects=True)
        names = {f"pods/{name}": True for name in of_pods}
        names |= {f"{resource}/{name}": True for resource in OBJECTS for name in of_several}
        names |= {f"namespaces/{name}": False for name in of_several}
        names |= {f"nodes/{name}": False for name in listed(of_nodes, of_objects=True, forecast=False)}
    else:
        names = dict.fromkeys(of_pods, True)
    kind = "MetricValueList" if group == CUSTOM else "ExternalMetricValueList"
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{VERSION}",
        "resources": [
            {"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get"]}
            for name, namespaced in names.items()
        ],
    }


def custom_values(metric: MetricName, figures: Iterable[PodFigure]) -> Json:
    """Return the metric of each pod."""
    of_pod = {"kind": "Pod", "apiVersion": "v1"}
    return _custom_list(
        metric,
        (
            (of_pod | {name: measured.pod[name] for name in ("namespace", "name", "uid")}, measured.figure)
            for measured in figures
        ),
    )


def object_values(metric: MetricName, figures: Iterable[ObjectFigure]) -> Json:
    """Return the metric of each object."""
    return _custom_list(
        metric,
        (
            (
                {"kind": measured.kind, "apiVersion": measured.api_version, "name": measured.name}
                | ({} if measured.namespace is None else {"namespace": measured.namespace}),
                measured.figure,
            )
            for measured in figures
        ),
    )


def _custom_list(metric: MetricName, figures: Iterable[tuple[Json, MetricValue]]) -> Json:
    items = [
        {"describedObject": reference, "metricName": str(metric), **_measured(figure), "selector": None}
        for reference, figure in figures
    ]
    return _list("MetricValueList", CUSTOM, items)


def external_values(metric: MetricName, figures: Iterable[PodFigure]) -> Json:
    """Return the same as series with labels: the pod's own, and ``pod`` for its name."""
    items = [
        {
            "metricName": str(metric),
            "metricLabels": {**(measured.pod.get("labels") or {}), "pod": measured.pod["name"]},
            **_measured(measured.figure),
        }
        for measured in figures
    ]
    return _list("ExternalMetricValueList", EXTERNAL, items)


def failure(code: int, message: str) -> Json:
    """Return the status by which the API server says what went wrong."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": _REASONS.get(code, "InternalError"), "code": code,
    }  # fmt: skip


def quantity(value: float) -> str:
    """Return a value with three digits behind the point, as the autoscaler takes it: ``97``, ``49500m``."""
    thousandths = round(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def _list(kind: str, group: str, items: list[Json]) -> Json:
    return {"kind": kind, "apiVersion": f"{group}/{VERSION}", "metadata": {}, "items": items}


def _measured(figure: MetricValue) -> Json:
    return {"timestamp": rfc3339(figure.end_ms), "window": figure.window_s, "value": quantity(figure.value)}

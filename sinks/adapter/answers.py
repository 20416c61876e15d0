"""Answers in the words of the API: resources, lists of values, failures. Pure.

https://github.com/kubernetes/metrics/tree/v0.36.3/pkg/apis has the types.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

from dutycycle.kube.references import Metadata
from sinks.adapter.figures import MetricValue

CUSTOM = "custom.metrics.k8s.io"
EXTERNAL = "external.metrics.k8s.io"
VERSION = "v1beta1"
Json = dict[str, Any]
_REASONS = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    500: "InternalError", 503: "ServiceUnavailable",
}  # fmt: skip


class PodFigure(NamedTuple):
    """A figure, and the metadata of the pod whose it is."""

    pod: Metadata
    figure: MetricValue


def resources(group: str, names: Iterable[str]) -> Json:
    """What discovery says of a group: a resource for each metric."""
    custom = group == CUSTOM
    kind = "MetricValueList" if custom else "ExternalMetricValueList"
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{VERSION}",
        "resources": [
            {
                "name": f"pods/{name}" if custom else name, "singularName": "", "namespaced": True,
                "kind": kind, "verbs": ["get"],
            }
            for name in names
        ],
    }  # fmt: skip


def custom_values(metric: str, figures: Iterable[PodFigure]) -> Json:
    """The metric of each pod."""
    items = [
        {
            "describedObject": _reference(one.pod),
            "metricName": metric,
            **_measured(one.figure),
            "selector": None,
        }
        for one in figures
    ]
    return _list("MetricValueList", CUSTOM, items)


def external_values(metric: str, figures: Iterable[PodFigure]) -> Json:
    """The same as series with labels: the pod's own, and ``pod`` for its name."""
    items = [
        {
            "metricName": metric,
            "metricLabels": {**(one.pod.get("labels") or {}), "pod": one.pod["name"]},
            **_measured(one.figure),
        }
        for one in figures
    ]
    return _list("ExternalMetricValueList", EXTERNAL, items)


def failure(code: int, message: str) -> Json:
    """As the API server says what went wrong."""
    return {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": _REASONS.get(code, "InternalError"), "code": code,
    }  # fmt: skip


def quantity(value: float) -> str:
    """With three digits behind the point, as the autoscaler takes it: ``97``, ``49500m``."""
    thousandths = round(value * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def _list(kind: str, group: str, items: list[Json]) -> Json:
    return {"kind": kind, "apiVersion": f"{group}/{VERSION}", "metadata": {}, "items": items}


def _reference(pod: Metadata) -> Json:
    return {"kind": "Pod", "apiVersion": "v1", **{name: pod[name] for name in ("namespace", "name", "uid")}}


def _measured(figure: MetricValue) -> Json:
    moment = datetime.fromtimestamp(figure.end_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"timestamp": moment, "window": figure.window_s, "value": quantity(figure.value)}

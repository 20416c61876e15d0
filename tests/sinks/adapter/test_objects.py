"""Whose pods are whose."""

from typing import Any

import pytest

from dutycycle.contract.records.pods import JobRef
from sinks.adapter.answers import Owner, combined, owners
from sinks.adapter.figures import MetricValue
from sinks.adapter.metric_names import MetricName

JOB = JobRef(api_version="jobset.x-k8s.io/v1alpha2", kind="JobSet", name="js", uid="u")


def controller(version: str, kind: str, name: str, controls: bool = True) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": name, "uid": name, "controller": controls}


@pytest.mark.parametrize(
    ("references", "labels", "job", "expected"),
    [
        ([], {}, None, set()),
        ([], {}, JOB, {Owner("jobset.x-k8s.io/v1alpha2", "JobSet", "js")}),
        (
            [controller("batch/v1", "Job", "js-w-0")], {}, JOB,
            {Owner("batch/v1", "Job", "js-w-0"), Owner("jobset.x-k8s.io/v1alpha2", "JobSet", "js")},
        ),
        (
            [controller("apps/v1", "ReplicaSet", "web-api-5f6")], {"pod-template-hash": "5f6"}, None,
            {Owner("apps/v1", "ReplicaSet", "web-api-5f6"), Owner("apps/v1", "Deployment", "web-api")},
        ),
        (
            [controller("apps/v1", "ReplicaSet", "alone-5f6")], {}, None,
            {Owner("apps/v1", "ReplicaSet", "alone-5f6")},
        ),
        ([controller("apps/v1", "StatefulSet", "db", controls=False)], {}, None, set()),
    ],
)  # fmt: skip
def test_a_pod_has_its_controller_and_what_is_above(
    references: list[dict[str, Any]], labels: dict[str, str], job: JobRef | None, expected: set[Owner]
) -> None:
    assert set(owners({"ownerReferences": references, "labels": labels}, job)) == expected


def test_an_object_has_the_mean_or_the_largest_as_old_as_the_oldest() -> None:
    figures = [MetricValue(90, 20_000, 10), MetricValue(0, 10_000, 10), MetricValue(30, 20_000, 60)]
    assert combined(figures, MetricName("gpu_util_pct")) == MetricValue(40, 10_000, 60)
    assert combined(figures, MetricName("gpu_util_pct", is_max=True)) == MetricValue(90, 10_000, 60)

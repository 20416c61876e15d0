"""Whom a name means, and what is said when it means nobody or several."""

import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.traces.subject import subject_of, the_one


def pod(uid: str, name: str, job: str | None = None, namespace: str = "ml") -> Pod:
    ref = JobRef(api_version="v1", kind="Job", name=job, uid=f"j-{namespace}-{job}") if job else None
    return Pod(uid=uid, namespace=namespace, name=name, node="a", phase="Running", job=ref)


KNOWN = [
    pod("p1", "bert-0", "bert"), pod("p2", "bert-1", "bert"), pod("p3", "notebook"), pod("p4", "notebook"),
    pod("p5", "gpt-0", "gpt", "dev"), pod("p6", "gpt-0", "gpt"), pod("p7", "twin", "solo"), pod("p8", "solo"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "uids", "is_job"),
    [
        ("bert", ["p1", "p2"], True),
        ("ml/bert", ["p1", "p2"], True),
        ("j-ml-bert", ["p1", "p2"], True),
        ("bert-1", ["p2"], False),
        ("p1", ["p1"], False),
        ("ml/notebook", ["p3", "p4"], False),  # one after the other
        ("dev/gpt", ["p5"], True),
        ("solo", ["p7"], True),  # a job comes first
    ],
)
def test_a_name_means_a_job_or_else_a_pod(name: str, uids: list[str], *, is_job: bool) -> None:
    found = subject_of(KNOWN, job=name, pod=name)
    assert [one.uid for one in found.pods] == uids
    assert (found.job is not None) == is_job


def test_only_a_pod_may_be_wanted() -> None:
    assert [one.uid for one in subject_of(KNOWN, pod="solo").pods] == ["p8"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"job": "gpt"}, r"several jobs are 'gpt': dev/gpt \(j-dev-gpt\), ml/gpt \(j-ml-gpt\): give the uid"),
        ({"pod": "gpt-0"}, "several pods are 'gpt-0': dev/gpt-0, ml/gpt-0: give the namespace"),
        (
            {"job": "x", "pod": "x"},
            "no job or pod 'x' in the topics; there are jobs: dev/gpt, ml/bert, ml/gpt, ml/solo; pods: ",
        ),
    ],
)
def test_what_is_said_of_a_name_that_fits_nobody_or_several(wanted: dict[str, str], message: str) -> None:
    with pytest.raises(DutycycleError, match=message):
        subject_of(KNOWN, **wanted, where="the topics")


def test_where_nothing_is_known_that_is_said_too() -> None:
    with pytest.raises(DutycycleError, match="there are jobs: none; pods: none"):
        subject_of([], job="x", pod="x")


@pytest.mark.parametrize(
    ("pods", "found"),
    [
        (KNOWN[:2], ("j-ml-bert", None)),
        (KNOWN[2:3], (None, "p3")),
        (KNOWN[2:4], (None, None)),
        (KNOWN[1:3], (None, None)),
        (KNOWN, (None, None)),
        ([], (None, None)),
    ],
)
def test_the_one_that_all_are_of(pods: list[Pod], found: tuple[str | None, str | None]) -> None:
    assert the_one(pods) == found

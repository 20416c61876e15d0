"""Goal: a change is said once; an end is said with its time; a tombstone follows when time is up."""

from msgspec.structs import replace

from collectors.pods.table import PodTable
from dutycycle.contract.codec import decode
from dutycycle.contract.records.pods import JobRef, Pod

A = Pod(uid="a", name="a", node="n", phase="Running")
JOB = JobRef(api_version="ray.io/v1", kind="RayJob", name="j", uid="u-j")
B = Pod(uid="b", name="b", node="n", phase="Running")


def said(table: PodTable, now_s: float) -> dict[str, Pod | None]:
    drained = table.drain(now_s, round(now_s * 1000))
    return {key: None if payload is None else decode(Pod, payload, "pods") for key, payload in drained}


def test_all_at_the_start_then_changes_alone() -> None:
    table = PodTable(10)
    table.put(A)
    table.put(B)
    assert said(table, 1) == {"a": A, "b": B}
    assert said(table, 2) == {}
    table.put(A)
    assert said(table, 3) == {}
    changed = replace(A, phase="Succeeded", finished_ms=5)
    table.put(changed)
    assert said(table, 4) == {"a": changed}


def test_a_job_that_became_known_is_a_change_of_the_pod_that_is_there() -> None:
    table = PodTable(10)
    table.assign("a", JOB)
    table.put(A)
    table.put(B)
    said(table, 1)
    table.assign("a", JOB)
    assert said(table, 2) == {"a": replace(A, job=JOB)}
    table.assign("a", JOB)
    assert said(table, 3) == {}
    table.remove("a")
    assert said(table, 4) == {"a": replace(A, job=JOB, finished_ms=4000)}
    table.assign("a", None)
    assert said(table, 5) == {}


def test_of_several_changes_between_two_ticks_the_last_counts() -> None:
    table = PodTable(10)
    table.put(A)
    table.put(replace(A, phase="Succeeded"))
    table.put(replace(A, phase="Failed"))
    assert said(table, 1) == {"a": replace(A, phase="Failed")}


def test_an_end_then_a_tombstone() -> None:
    table = PodTable(10)
    table.put(A)
    said(table, 1)
    table.remove("a")
    assert said(table, 2) == {"a": replace(A, finished_ms=2000)}
    table.remove("a")
    assert said(table, 11.9) == {}
    assert said(table, 12) == {"a": None}
    assert said(table, 100) == {}


def test_a_pod_that_had_finished_keeps_its_time() -> None:
    table = PodTable(10)
    table.put(replace(A, phase="Succeeded", finished_ms=7))
    said(table, 1)
    table.remove("a")
    assert said(table, 2) == {}
    assert said(table, 12) == {"a": None}


def test_a_pod_that_came_and_went_between_two_ticks() -> None:
    table = PodTable(10)
    table.put(A)
    table.remove("a")
    assert said(table, 1) == {"a": replace(A, finished_ms=1000)}
    assert said(table, 11) == {"a": None}


def test_a_pod_that_is_back_is_not_withdrawn() -> None:
    table = PodTable(10)
    table.put(A)
    said(table, 1)
    table.remove("a")
    table.put(A)
    assert said(table, 2) == {}
    table.remove("a")
    said(table, 3)
    table.put(A)
    assert said(table, 4) == {"a": A}
    assert said(table, 100) == {}


def test_a_new_list_ends_what_is_not_in_it() -> None:
    table = PodTable(10)
    table.put(A)
    table.put(B)
    said(table, 1)
    table.keep_only(["b"])
    assert said(table, 2) == {"a": replace(A, finished_ms=2000)}
    table.keep_only(["b"])
    assert said(table, 12) == {"a": None}


def test_what_was_never_there_can_go() -> None:
    table = PodTable(10)
    table.remove("x")
    assert said(table, 1) == {}


def test_a_name_means_the_pod_that_was_put_last() -> None:
    """Of a static pod the second record, whose uid its cgroup carries; the API server may give it another
    mirror pod."""
    mirror, hashed = (replace(pod, namespace="kube-system", name="a") for pod in (A, B))
    table = PodTable(10)
    table.put(mirror)
    table.put(hashed)
    said(table, 1)
    table.remove("a")
    table.remove("b")
    table.put(replace(mirror, uid="another"))
    table.put(hashed)
    said(table, 2)
    assert table.uid_of("kube-system", "a") == "b"

"""Goal: what a profile says stands on its pod and on its job, and takes nothing away."""

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.placement import NodeScore, Placement
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.kubectl.annotations import ours, profiled
from sinks.annotations.core.desired import Annotations, Record
from sinks.annotations.core.diff import diff, split
from tests.support.sinks import made
from tests.support.sinks.rig import patched

P = "dutycycle.io"


def after(annotations: dict[str, str], *records: Record) -> dict[str, str]:
    """All annotations of the object once a worker that has just begun wrote what these records say."""
    state = Annotations(P)
    (target,) = {found for record in records if (found := state.take(record)) is not None}
    present = split(P, annotations)
    wanted = state.wanted(target, present)
    return patched(diff(target.kind, P, wanted.texts, present.ours, wanted.surplus), annotations)


@pytest.mark.parametrize("of_job", [False, True])
def test_it_stands_beside_the_peaks_in_any_order(of_job: bool) -> None:
    peaks: Record = made.job_peaks() if of_job else made.pod_peaks()
    told = made.profile("launch", "Fuse kernels.", of_job=of_job)
    found = after({}, told, peaks)
    assert found == after({}, peaks, told)
    assert after({}, peaks).items() < found.items()
    assert profiled(ours(found, P)) == {"bottleneck": "launch", "advice": "Fuse kernels."}


@pytest.mark.parametrize("of_job", [False, True])
def test_a_worker_that_knows_nothing_else_leaves_all_as_it_is(of_job: bool) -> None:
    before = after({"other": "x"}, made.job_peaks() if of_job else made.pod_peaks())
    found = after(before, made.profile("launch", "Fuse kernels.", of_job=of_job))
    named = {f"{P}/profile_bottleneck": "launch", f"{P}/profile_advice": "Fuse kernels."}
    assert found == before | named
    assert after(found, made.profile("gpu", of_job=of_job)) == before | {f"{P}/profile_bottleneck": "gpu"}


def test_later_peaks_and_insights_leave_it() -> None:
    found = after({}, made.pod_peaks(), made.profile("launch", "Fuse kernels."))
    assert after(found, made.pod_peaks()) == found
    later = after(found, made.pod_peaks(), made.insight("training", "gpu", None))
    assert profiled(ours(later, P)) == {"bottleneck": "launch", "advice": "Fuse kernels."}


@pytest.mark.parametrize("pod", [made.pod(namespace=None), made.pod(uid="name:a/b", job=None)])
@pytest.mark.parametrize("of_job", [False, True])
def test_where_there_is_no_object_nothing_is_written(pod: Pod, of_job: bool) -> None:
    assert Annotations(P).take(made.profile("gpu", of=pod, of_job=of_job)) is None


def test_a_pod_that_is_its_own_job_has_one_object() -> None:
    itself = JobRef(api_version="v1", kind="Pod", name="pod-of-uid-1", uid="uid-1")
    assert Annotations(P).take(made.profile("gpu", of=made.pod(job=itself), of_job=True)) is None


def placement(score: int = 9) -> Placement:
    nodes = (NodeScore(node="a", score=score, why="leaves 0 of 8 GPUs free"),)
    return Placement(
        uid="uid-1", namespace="default", name="pod-of-uid-1", ts_ms=0, considered=3, left_out=1, nodes=nodes
    )


def test_what_the_extender_said_stands_beside_all_else() -> None:
    key = f"{P}/placement"
    alone = after({"other": "x"}, placement())
    assert ours(alone, P)["placement"] == {
        "at": "1970-01-01T00:00:00Z", "considered": 3, "left_out": 1,
        "nodes": [{"node": "a", "score": 9, "why": "leaves 0 of 8 GPUs free"}],
    }  # fmt: skip
    assert after(alone, made.pod_peaks())[key] == alone[key]  # another worker knows nothing of it
    both = after(alone, made.pod_peaks(), placement(3), made.profile("gpu"))
    assert ours(both, P)["placement"]["nodes"][0]["score"] == 3
    assert after({}, made.pod_peaks()).keys() < both.keys()
    assert f"{P}/profile_bottleneck" in both


def test_no_pod_can_have_such_a_name() -> None:
    assert Annotations(P).take(replace(placement(), name="../x")) is None


def test_an_insight_that_waits_for_the_peaks_is_not_one_that_does_not_fit() -> None:
    state = Annotations(P)
    target = state.take(made.profile("launch", "Fuse kernels.", of_job=False))
    assert target is not None
    assert state.take(made.insight("training", "gpu", "a")) is None
    wanted = state.wanted(target, split(P, {}))
    assert (f"{P}/kind" in wanted.texts, wanted.left_out) == (False, 0)

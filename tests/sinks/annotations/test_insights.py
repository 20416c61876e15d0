"""What a job carries of itself, beside its pods: kind, bottleneck and advice."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.derived import JobPeaks, PodOfJob
from dutycycle.contract.records.insights import Anomaly
from dutycycle.kubectl.annotations import anomaly, insights, of_job, ours
from sinks.annotations.core.desired import Annotations, Record
from sinks.annotations.core.diff import TOTAL_BYTES, Present, diff, size_of, split
from sinks.annotations.core.keys import INSIGHT_NAMES, MOST_PODS, PODS_OMITTED, PODS_SUMMARY
from sinks.annotations.core.targets import job_target
from tests.support.sinks import made
from tests.support.sinks.rig import patched

P = "dutycycle.io"
SLOW = made.job_insight("training", "input", "More loader processes.")
HANGS = Anomaly(kind="hang", since_ms=1, gpu="gpu-a/3", advice="the rank on gpu-a/3 hangs")
OF_POD = PodOfJob(node="gpu-a", metrics={"cpu_util_pct": made.peak(151.8)})


def job(*names: str, final: bool = False) -> JobPeaks:
    return made.job_peaks(pods=dict.fromkeys(names, OF_POD), final=final)


def after(annotations: dict[str, str], *records: Record) -> dict[str, str]:
    """All annotations of the job once a worker that has just begun wrote what these records say."""
    state = Annotations(P)
    target = job_target(made.job_peaks().job, "default")
    assert target is not None
    for record in records:
        assert state.take(record) in (target, None)
    present = split(P, annotations)
    wanted = state.wanted(target, present)
    return patched(diff("job", P, wanted.texts, present.ours, wanted.surplus), annotations)


def plain(annotations: dict[str, str]) -> dict[str, Any]:
    return ours(annotations, P)


@pytest.mark.parametrize("order", [(job("w-0", "w-1"), SLOW), (SLOW, job("w-0", "w-1"))])
def test_it_stands_beside_the_pods(order: tuple[Record, ...]) -> None:
    assert plain(after({}, *order)) == {
        "kind": "training", "bottleneck": "input", "advice": "More loader processes.",
        "w-0": {"cpu_util": 151.8}, "w-1": {"cpu_util": 151.8},
    }  # fmt: skip


def test_alone_it_is_no_reason_to_write() -> None:
    state = Annotations(P)
    assert state.take(SLOW) is None
    target = state.take(job("w-0"))
    assert target is not None
    assert f"{P}/kind" in state.wanted(target, Present({})).texts
    assert state.take(SLOW) == target
    state.forget(target)
    assert state.take(SLOW) is None


def test_outside_kubernetes_there_is_nothing_to_write_on() -> None:
    state = Annotations(P)
    nowhere = made.job_insight("training", "gpu", None)
    assert state.take(type(nowhere)(job=nowhere.job, insight=nowhere.insight)) is None


def test_a_worker_that_has_just_begun_leaves_what_was_said_and_advice_ends() -> None:
    before = after({}, job("w-0"), SLOW)
    assert after(before, job("w-0")) == before
    now = plain(after(before, job("w-0"), made.job_insight("training", "gpu", None)))
    assert (now["bottleneck"], "advice" in now) == ("gpu", False)


def test_anomalies_are_said_while_they_hold() -> None:
    hot = Anomaly(kind="hot_gpu", since_ms=2)
    odd = replace(SLOW, insight=replace(SLOW.insight, anomalies=(HANGS, hot)))
    before = after({}, job("w-0"), odd)
    assert plain(before)["anomaly"] == "hang: the rank on gpu-a/3 hangs; hot_gpu"
    assert anomaly(plain(before)) == plain(before)["anomaly"]
    now = plain(after(before, job("w-0"), SLOW))
    assert "anomaly" not in now
    assert anomaly(now) is None


@pytest.mark.parametrize("name", sorted(INSIGHT_NAMES))
def test_a_pod_of_such_a_name_has_another_key(name: str) -> None:
    odd = replace(SLOW, insight=replace(SLOW.insight, anomalies=(HANGS,)))
    found = after({}, job(name, "w-0"), odd)
    (key,) = (key for key in plain(found) if key.startswith(f"{name}-"))
    assert plain(found)[key] == {"pod": name, "cpu_util": 151.8}
    assert isinstance(plain(found)[name], str)
    assert plain(found).keys() == {"w-0", key, *INSIGHT_NAMES}
    assert [worker.pod for worker in of_job(ours(found, P))] == sorted([name, "w-0"])
    assert insights(ours(found, P)) == {
        "kind": "training", "bottleneck": "input", "advice": "More loader processes.",
    }  # fmt: skip


def test_what_an_older_version_wrote_of_such_a_pod_is_replaced() -> None:
    older = {f"{P}/kind": '{"cpu_util":3}'}
    assert insights(ours(older, P)) == {}
    found = plain(after(older, job("kind"), SLOW))
    assert found["kind"] == "training"
    assert found["kind-0b27c158"] == {"pod": "kind", "cpu_util": 151.8}


@pytest.mark.parametrize("final", [False, True])
@pytest.mark.parametrize("theirs", [0, 100_000, 245_000])
def test_a_large_job_has_room_for_it(theirs: int, final: bool) -> None:
    others = {"example/theirs": "x" * theirs}
    pods = [f"{'worker' * 8}-{number}" for number in range(2 * MOST_PODS)]
    odd = replace(SLOW, insight=replace(SLOW.insight, anomalies=(HANGS,)))
    found = after(others, job(*pods, final=final), odd)
    assert size_of(found) < TOTAL_BYTES
    assert {f"{P}/{name}" for name in (*INSIGHT_NAMES, PODS_SUMMARY, PODS_OMITTED)} <= found.keys()
    with_key = sum(f"{P}/{pod}" in found for pod in pods)
    assert json.loads(found[f"{P}/{PODS_OMITTED}"]) == len(pods) - with_key
    assert after(found, job(*pods, final=final), odd) == found


def test_where_others_left_no_room_nothing_is_lost_but_that() -> None:
    others = {"example/theirs": "x" * TOTAL_BYTES}
    assert f"{P}/kind" not in after(others, job("w-0"), SLOW)

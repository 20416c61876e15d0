"""Whose figures a report has: all, a job's, or a pod's."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.report.gather import Gathered
from dutycycle.report.view import view_of

POD = {"v": 1, "namespace": "ml", "phase": "Running"}


def given(*records: tuple[str, Mapping[str, Any]]) -> Gathered:
    found = Gathered()
    for offset, (topic, plain) in enumerate(records):
        found.sample(ConsumerRecord(topic, 0, offset, "k", orjson.dumps(plain), plain.get("ts_ms", 0)))
    return found


def gpus(node: str, second: int, **users: list[str]) -> tuple[str, Mapping[str, Any]]:
    """``users``: of each GPU (``g0`` …) the uids of the pods on it."""
    found = [
        {"uuid": f"GPU-{node}-{name}", "index": int(name[1:]), "gpu_util_pct": 50,
         "processes": [{"pid": at, "pod_uid": uid} for at, uid in enumerate(uids)]}
        for name, uids in users.items()
    ]  # fmt: skip
    head = {
        "v": 1, "node": node, "collector": "c", "seq": second, "ts_ms": 1000 * second, "interval_ms": 1000,
    }  # fmt: skip
    return "nvml-samples", {**head, "gpus": found}


def pod(
    uid: str, name: str, node: str, job: str | None = None, replica: int = 0
) -> tuple[str, Mapping[str, Any]]:
    ref = {"api_version": "v1", "kind": "Job", "name": job, "uid": f"u-{job}", "replica": replica}
    return "pods", {**POD, "uid": uid, "name": name, "node": node, **({"job": ref} if job else {})}


CLUSTER = given(
    pod("p1", "bert-0", "a", "bert", 0), pod("p2", "bert-1", "b", "bert", 1), pod("p3", "other", "a"),
    *(gpus("a", at, g0=["p1"], g1=["p3"], g2=["p1", "p3"] if at == 5 else []) for at in range(10)),
    *(gpus("b", second, g0=["p2"], g1=[]) for second in range(3, 20)),
)  # fmt: skip


ALL = ["a gpu 0", "a gpu 1", "a gpu 2", "b gpu 0", "b gpu 1"]
OF_JOB = (
    "ml/bert",
    0,
    ["rank 0 gpu 0", "rank 0 gpu 2", "rank 1 gpu 0"],
    ["job/u-bert", "pod/p1", "pod/p2"],
    ["ml/other"],
)
VIEWS: list[tuple[dict[str, str], tuple[str, int, list[str], list[str], list[str]]]] = [
    ({}, ("a, b", 0, ALL, ["job/u-bert", "pod/p1", "pod/p2", "pod/p3"], [])),
    *(({"job": name}, OF_JOB) for name in ("bert", "ml/bert", "u-bert")),
    *(({"pod": name}, ("ml/bert-1", 3000, ["gpu 0"], ["pod/p2"], []))
      for name in ("bert-1", "ml/bert-1", "p2")),
]  # fmt: skip


@pytest.mark.parametrize(("chosen", "expected"), VIEWS)
def test_a_view_is_of_all_or_of_a_job_or_of_a_pod(
    chosen: dict[str, str], expected: tuple[str, int, list[str], list[str], list[str]]
) -> None:
    view = view_of(CLUSTER, **chosen)
    names = [gpu.name for gpu in view.gpus]
    assert (view.title, view.first_ms, names, list(view.subjects), view.others) == expected
    assert view.last_ms == 19_000


def test_jobs_have_an_order_that_is_the_same_each_time() -> None:
    """The first of them stands at the top of the report."""
    jobs = [f"j{number}" for number in range(8)]
    pods = [
        pod(f"{job}-{replica}", f"{job}-{replica}", "a", job, replica) for job in jobs for replica in (0, 1)
    ]
    users = {f"g{at}": [f"{job}-0", f"{job}-1"] for at, job in enumerate(jobs)}
    subjects = list(view_of(given(*pods, gpus("a", 0, **users))).subjects)
    assert subjects[: len(jobs)] == [f"job/u-{job}" for job in jobs]


def test_all_may_be_of_one_job_or_of_several() -> None:
    of_one = given(
        pod("p1", "bert-0", "a", "bert", 0), pod("p2", "bert-1", "b", "bert", 1),
        gpus("a", 0, g0=["p1"], g1=[]), gpus("b", 0, g0=["p2"]),
    )  # fmt: skip
    views = view_of(of_one), view_of(CLUSTER), view_of(CLUSTER, job="bert")
    assert [view.is_of_one for view in views] == [True, False, True]


def test_a_gpu_is_a_jobs_while_a_pod_of_it_lives_that_used_it() -> None:
    """A pod that failed began anew on another GPU, and somebody else had the first one then."""
    samples = [gpus("a", at, g0=["p1"], g1=["p9"]) for at in range(10)]
    samples += [gpus("a", at, g0=["p3"], g1=["p2"]) for at in range(12, 30)]
    view = view_of(
        given(pod("p1", "bert-0", "a", "bert"), pod("p2", "bert-1", "a", "bert"), *samples), job="bert"
    )
    assert [gpu.ticks.times.tolist() for gpu in view.gpus] == [
        [1000 * at for at in range(10)], [1000 * at for at in range(12, 30)],
    ]  # fmt: skip
    assert view.others == []


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"job": "gpt"}, r"no job 'gpt' in the trace; there are jobs: ml/bert$"),
        ({"pod": "gpt"}, r"no pod 'gpt' in the trace; there are pods: ml/bert-0, ml/bert-1, ml/other$"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_those_that_are(chosen: dict[str, str], message: str) -> None:
    with pytest.raises(DutycycleError, match=message):
        view_of(CLUSTER, **chosen)


def test_a_pod_of_which_nothing_was_measured_is_no_report_of_zeros() -> None:
    with pytest.raises(DutycycleError, match="nothing of it was measured"):
        view_of(given(pod("p1", "x", "a"), gpus("a", 1, g0=[])), pod="x")


@pytest.mark.parametrize(
    ("pods", "names"),
    [
        ([pod("p1", "bert-0", "z", "bert", 0), pod("p2", "bert-1", "a", "bert", 1)],
         [("rank 0 gpu 0", "z"), ("rank 1 gpu 0", "a")]),
        ([pod("p1", "bert-0", "z", "bert", 0), pod("p2", "bert-0", "a", "bert", 0)],
         [("a gpu 0", "a"), ("z gpu 0", "z")]),
    ],
    ids=["two ranks, whatever the nodes are called", "a rank that was on two nodes gives no name"],
)  # fmt: skip
def test_gpus_are_called_by_ranks_in_their_order(
    pods: list[tuple[str, Mapping[str, Any]]], names: list[tuple[str, str]]
) -> None:
    view = view_of(given(*pods, gpus("z", 1, g0=["p1"]), gpus("a", 2, g0=["p2"])), job="bert")
    assert [(gpu.name, gpu.traced.node) for gpu in view.gpus] == names


@pytest.mark.parametrize(
    ("chosen", "names"),
    [({}, ["a gpu 0", "z gpu 0"]), ({"job": "bert"}, ["rank 0 gpu 0", "rank 1 gpu 0"])],
    ids=["everything", "a job"],
)
def test_gpus_of_two_nodes_with_one_uuid_have_two_names(chosen: dict[str, str], names: list[str]) -> None:
    """As in imported logs, where it is made of the index."""
    pods = [pod("p1", "bert-0", "a", "bert", 0), pod("p2", "bert-1", "z", "bert", 1)]
    samples = [gpus("a", 1, g0=["p1"]), gpus("z", 1, g0=["p2"])]
    for _, sample in samples:
        sample["gpus"][0]["uuid"] = "gpu-0"
    assert [gpu.name for gpu in view_of(given(*pods, *samples), **chosen).gpus] == names

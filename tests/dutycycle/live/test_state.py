"""What the live view knows after which records."""

from typing import Any

import pytest

from dutycycle.live.lines import plain_lines
from dutycycle.live.model.state import LiveState
from dutycycle.live.views.findings import activity, period_s
from dutycycle.live.views.pages import summary
from dutycycle.live.views.tables.pods import gpus_held, of_gpus
from dutycycle.web.fleet import squares, use_of
from dutycycle.words import percent_text
from tests.support.live import GPU, POD, Fed, ahead, cgroup, cycles, fed, feed, insight, nvml, trends


def test_now_and_maximum() -> None:
    (row,) = fed(("nvml-samples", "a", nvml(97)), ("nvml-samples", "a", nvml(3, 2000))).gpus()
    assert (row.now.gpu_util_pct, row.util_max, row.name, row.now.model) == (3, 97, "a:0", "H200")


def test_a_sample_that_comes_late_is_not_shown_as_what_is_now() -> None:
    state = fed(("nvml-samples", "a", nvml(97, 2000)), ("nvml-samples", "a", nvml(3, 1000)))
    feed(state, "cgroup-samples", "a", cgroup(2000))
    feed(state, "cgroup-samples", "a", cgroup(1000) | {"host": {"cpu_util_pct": 7}})
    assert [row.now.gpu_util_pct for row in state.gpus()] == [97]
    assert [row.now.cpu_util_pct == 7 for row in state.node_rows()] == [False]


def test_unknown_never_looks_idle() -> None:
    (row,) = fed(("nvml-samples", "a", nvml(97)), ("nvml-samples", "a", nvml(None, 2000))).gpus()
    assert (row.now.gpu_util_pct, percent_text(row.now.gpu_util_pct)) == (None, "·")


def test_gpus_are_in_the_order_of_their_numbers() -> None:
    sample = nvml(50)
    sample["gpus"] = [sample["gpus"][0] | {"uuid": f"GPU-{n}", "index": n} for n in (10, 9, 1, 2, 0)]
    state = fed(("nvml-samples", "a", sample), ("nvml-samples", "B", nvml(1) | {"node": "B"}))
    assert [row.name for row in state.gpus()] == ["B:0", "a:0", "a:1", "a:2", "a:9", "a:10"]


def test_a_pod_has_a_name_and_the_sum_of_its_containers() -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("nvml-samples", "a", nvml(50)))
    (row,) = state.pods()
    assert (row.name, row.cpu, row.gpu_util) == ("ml/train-0", 50.5, 41)


GONE = [
    ("finished", {**POD, "finished_ms": 5}), ("evicted", {**POD, "phase": "Failed"}), ("deleted", None)
]  # fmt: skip


@pytest.mark.parametrize(("goal", "last"), GONE, ids=[row[0] for row in GONE])
def test_a_pod_that_is_gone_is_not_shown(goal: str, last: dict[str, Any] | None) -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("pods", "p", last))
    assert state.pods() == [], goal


UID = "1b9d6bcd-bbfd-4b2d-9b5d-ab8dfbbd4bed"


def on_gpu(util: float | None = 90, ts_ms: int = 1000, **more: Any) -> dict[str, Any]:
    """A GPU with a process of a pod that no record names."""
    process = {"pid": 7, "pod_uid": UID, **more}
    return nvml(util, ts_ms, processes=[process if util is None else process | {"gpu_util_pct": util}])


def test_a_pod_that_nobody_named_is_shown_by_what_is_known() -> None:
    state = fed(("nvml-samples", "a", on_gpu()))
    assert [row.title for row in state.pods()] == ["1b9d6bcd"]
    held = {"uid": UID, "containers": [{"id": "8d1f3a5b7c9d0e2f", "cpu_util_pct": 30}]}
    feed(state, "cgroup-samples", "a", cgroup() | {"pods": [held]})
    assert [row.title for row in state.pods()] == ["1b9d6bcd (container 8d1f3a5b7c9d)"]
    feed(state, "nvml-samples", "a", on_gpu(ts_ms=2000, name="python"))
    assert [row.title for row in state.pods()] == ["1b9d6bcd (python)"]
    assert "pod 1b9d6bcd (python): gpu 90.0 % cpu 30.0 %" in "\n".join(plain_lines(state))
    feed(state, "pods", UID, POD | {"uid": UID})
    assert [row.title for row in state.pods()] == ["ml/train-0"]


def test_a_pod_that_was_allocated_a_gpu_has_its_name_and_the_gpu_that_it_has_alone() -> None:
    sample = nvml(64, allocated=[{"pod_uid": UID, "namespace": "ml", "pod": "serve-0"}])
    del sample["gpus"][0]["processes"]
    (row,) = fed(("nvml-samples", "a", sample)).pods()
    assert (row.title, row.gpu_util, row.gpus) == ("ml/serve-0", 64, {0: True})


def test_a_pod_shows_the_mean_over_its_gpus_and_the_most_of_any() -> None:
    sample = on_gpu(99)
    idle = {"uuid": "GPU-2", "index": 1, "processes": [{"pid": 8, "pod_uid": UID, "gpu_util_pct": 0}]}
    sample["gpus"].append(sample["gpus"][0] | idle)
    (row,) = fed(("nvml-samples", "a", sample)).pods()
    assert (row.gpu_util, row.gpu_util_max, row.gpus) == (49.5, 99, {0: True, 1: False})


def test_the_busiest_pods_come_first_with_and_without_a_name() -> None:
    sample = on_gpu(95)
    sample["gpus"][0]["processes"].append({"pid": 8, "pod_uid": "p", "gpu_util_pct": 3})
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("nvml-samples", "a", sample))
    assert [row.title for row in state.pods()] == ["1b9d6bcd", "ml/train-0"]
    feed(state, "nvml-samples", "a", nvml(41, 2000))
    shown = [(row.title, row.gpu_util) for row in state.pods()]
    assert shown == [("ml/train-0", 41), ("1b9d6bcd", None)], "one that left the GPU does not use it"
    feed(state, "nvml-samples", "a", nvml(41, 62_000))
    assert [row.title for row in state.pods()] == ["ml/train-0"], "not seen for a minute"


def test_a_late_sample_does_not_bring_back_a_pod_that_ended() -> None:
    ended = POD | {"finished_ms": 5}
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD), ("pods", "p", ended))
    feed(state, "nvml-samples", "a", nvml(50))
    feed(state, "cgroup-samples", "a", cgroup(2000))
    assert state.pods() == []
    feed(state, "pods", "p", POD)
    feed(state, "cgroup-samples", "a", cgroup(3000))
    assert [row.title for row in state.pods()] == ["ml/train-0"], "a unit that was started again"


def test_what_is_unreadable_is_counted_and_its_neighbour_is_shown() -> None:
    state = LiveState()
    state.feed("nvml-samples", "a", b"{not json", 1000)
    feed(state, "nvml-samples", "a", nvml(9))
    state.feed("trends", "gpu/a/GPU-1/nvml", b'{"v":1}', 1000)
    (row,) = state.gpus()
    assert row.derived.trend("gpu_util_pct") is None
    assert (state.unreadable, row.now.gpu_util_pct) == (2, 9)


def test_a_sample_under_anothers_key_is_no_second_node() -> None:
    state = LiveState()
    for key in ("a", "A", "", "a/b"):
        feed(state, "nvml-samples", key, nvml(9))
        feed(state, "cgroup-samples", key, cgroup())
    assert ([row.key for row in state.gpus()], state.ticks) == (["gpu/a/GPU-1"], 2)
    assert (len(state.node_rows()), state.unreadable) == (1, 6)


def test_what_was_derived_of_another_subject_is_not_said_of_this() -> None:
    state = fed(("nvml-samples", "a", nvml(9)), ("pods", "p", POD))
    of_other = trends(GPU | {"gpu": "GPU-2"}, gpu_util_pct=ahead(61))[2]
    feed(state, "trends", "gpu/a/GPU-1/nvml", of_other)
    feed(state, "cycles", "gpu/a/GPU-1/nvml", cycles(GPU, "cgroup")[2])
    feed(state, "insights", "pod/p", insight("idle", "idle", uid="q")[2])
    (gpu,), (pod,) = state.gpus(), state.pods()
    assert (gpu.derived.trend("gpu_util_pct"), gpu.derived.cycle("gpu_util_pct")) == (None, None)
    assert (pod.derived.read_insight(), state.unreadable) == (None, 3)


def test_what_was_derived_of_another_subject_does_not_take_the_place_of_this() -> None:
    state = fed(("nvml-samples", "a", nvml(9)), ("pods", "p", POD))
    for record in (trends(gpu_util_pct=ahead(61)), insight("training", "gpu")):
        feed(state, *record)
    feed(state, "trends", "gpu/a/GPU-1/nvml", trends(GPU | {"gpu": "GPU-2"}, gpu_util_pct=ahead(99))[2])
    feed(state, "insights", "pod/p", insight("idle", "idle", uid="q")[2])
    (gpu,), (pod,) = state.gpus(), state.pods()
    trend, known = gpu.derived.trend("gpu_util_pct"), pod.derived.read_insight()
    assert trend is not None
    assert known is not None
    assert (trend[0].level, known.kind, state.unreadable) == (61, "training", 2)


def test_what_was_derived_before_the_first_sample_is_found() -> None:
    (row,) = fed(trends(gpu_util_pct=ahead(61)), ("nvml-samples", "a", nvml(9))).gpus()
    assert row.derived.trend("gpu_util_pct") is not None


def test_all_of_what_is_gone_leaves_after_ten_minutes() -> None:
    state = fed(
        ("nvml-samples", "a", nvml(9)), ("cgroup-samples", "a", cgroup()), trends(gpu_util_pct=ahead(1))
    )
    state.at(500_000)
    assert [row.key for row in state.gpus()] == ["gpu/a/GPU-1"]
    state.at(700_000)
    assert (state.rows, state.gpus(), state.pods(), state.node_rows()) == ({}, [], [], [])


def test_a_silent_gpu_is_told_from_one_that_is_sampled_seldom() -> None:
    seldom = nvml(9) | {"interval_ms": 30_000, "node": "b"}
    state = fed(("nvml-samples", "a", nvml(9)), ("nvml-samples", "b", seldom))
    state.at(41_000)
    assert [row.silent_s(state.now_ms) for row in state.gpus()] == [40, None]


def two_gpus(ts_ms: int, *indexes: int) -> Fed:
    """A tick of node a with these of its two GPUs, 97 % in use by pod p."""
    sample = nvml(97, ts_ms)
    of_gpu = sample["gpus"][0]
    sample["gpus"] = [of_gpu | {"uuid": f"GPU-{index}", "index": index} for index in indexes]
    return "nvml-samples", "a", sample


def test_a_gpu_that_its_node_lacks_is_unknown_and_not_what_it_was() -> None:
    state = fed(two_gpus(1000, 0, 1), insight("training", "gpu"), two_gpus(2000, 0))
    there, lost = state.gpus()
    assert (there.now.gpu_util_pct, there.is_silent) == (97, False)
    assert (lost.now.gpu_util_pct, lost.now.mem_used_bytes, lost.processes) == (None, None, ())
    assert (lost.now.index, lost.now.model, lost.util_max) == (1, "H200", 97)
    (line,) = [line for line in plain_lines(state) if line.startswith("gpu a gpu 1")]
    assert line == "gpu a gpu 1 H200: · (max 97.0 %) memory · (max 3.0 GiB) silent for 1s"
    assert (use_of(lost, state), activity(state, lost)) == ("silent", "")
    feed(state, *two_gpus(3000, 0, 1))
    assert [row.now.gpu_util_pct for row in state.gpus()] == [97, 97]
    assert [row.silent_s(state.now_ms) for row in state.gpus()] == [None, None]


@pytest.mark.parametrize(
    ("holders", "use"),
    [({}, "unknown"), ({"allocated": []}, "free"), ({"processes": []}, "free")],
    ids=["nothing tells", "the kubelet tells", "the driver tells"],
)
def test_a_gpu_of_which_nothing_tells_who_has_it_is_not_free(holders: dict[str, list[Any]], use: str) -> None:
    sample = nvml(0)
    del sample["gpus"][0]["processes"]
    sample["gpus"][0] |= holders
    state = fed(("nvml-samples", "a", sample))
    assert [use_of(gpu, state) for gpu in state.gpus()] == [use]


def test_the_grid_shows_the_health_of_a_gpu_that_is_lost() -> None:
    verdict = {"gpu": "GPU-1", "index": 1, "level": "reset", "since_ms": 2000, "seen_ms": 2000,
               "reason": "R", "action": "A"}  # fmt: skip
    health = ("gpu-health", "a", {"node": "a", "ts_ms": 2000, "gpus": [verdict]})
    state = fed(two_gpus(1000, 0, 1), health, two_gpus(20_000, 0))
    texts = {color: [square.text for square in squares(state, state.gpus(), color)["a"]]
             for color in ("use", "health")}  # fmt: skip
    assert texts == {"use": ["97", "·"], "health": ["·", "re"]}


def test_what_a_silent_node_had_is_not_told_as_what_it_has() -> None:
    state = fed(
        ("nvml-samples", "a", nvml(9)), ("cgroup-samples", "a", cgroup()), ("pods", "p", POD),
        cycles(GPU, gpu_util_pct={"cyclic": True, "period_s": 4, "confidence": 0.9}),
    )  # fmt: skip
    assert [period_s(gpu) for gpu in state.gpus()] == [4]
    state.at(41_000)
    (gpu,), (node,), (pod,) = state.gpus(), state.node_rows(), state.pods()
    assert (gpu.now.gpu_util_pct, node.now.cpu_util_pct, node.now.mem_used_bytes) == (None, None, None)
    assert (pod.cpu, pod.gpu_util, pod.cpu_max, pod.gpu_util_max) == (None, None, 50.5, 41)
    assert period_s(gpu) is None
    assert [line.endswith("silent for 40s") for line in plain_lines(state)] == [True, True, True]


@pytest.mark.parametrize(
    ("source", "known"),
    [("cgroup-samples", (50.5, None)), ("nvml-samples", (None, 41))],
    ids=["the driver fails", "the cgroups cannot be read"],
)
def test_what_only_a_silent_source_tells_of_a_pod_is_not_known(
    source: str, known: tuple[float | None, float | None]
) -> None:
    state = fed(("nvml-samples", "a", nvml(9)), ("cgroup-samples", "a", cgroup()))
    for second in range(2, 40):
        sample = cgroup(1000 * second) if source == "cgroup-samples" else nvml(9, 1000 * second)
        feed(state, source, "a", sample)
        state.at(1000 * second)
    (pod,) = state.pods()
    assert (pod.is_silent, (pod.cpu, pod.gpu_util)) == (False, known)
    assert (pod.cpu_max, pod.gpu_util_max) == (50.5, 41)


def test_a_source_that_is_sampled_seldom_goes_on_when_a_faster_one_falls_silent() -> None:
    seldom = nvml(9, 1000) | {"interval_ms": 30_000}
    state = fed(("nvml-samples", "a", seldom), ("cgroup-samples", "a", cgroup(2000)))
    state.at(60_000)
    assert [(pod.is_silent, pod.cpu, pod.gpu_util) for pod in state.pods()] == [(False, None, 41)]


def test_a_pod_whose_gpus_nobody_sampled_is_not_said_to_use_none() -> None:
    state = fed(("cgroup-samples", "a", cgroup()), ("pods", "p", POD | {"gpu_request": 4}))
    (pod,) = state.pods()
    assert of_gpus(*gpus_held(pod)) == [("4", "")]


def test_a_gpu_of_which_a_pods_use_is_not_known_is_not_unused() -> None:
    process = {"pid": 7, "pod_uid": "p"}
    state = fed(("nvml-samples", "a", nvml(None, processes=[process])), ("pods", "p", POD))
    (pod,) = state.pods()
    assert (pod.gpu_util, gpus_held(pod), of_gpus(*gpus_held(pod))) == (None, (None, 1), [("1", "")])
    feed(state, "nvml-samples", "a", nvml(0, 2000, processes=[process | {"gpu_util_pct": 0}]))
    feed(state, "nvml-samples", "a", nvml(None, 3000, processes=[process]))
    assert of_gpus(*gpus_held(pod)) == [("0 of 1", "warn")], "what was known once"


def test_memory_of_a_gpu_that_does_not_tell_it_is_not_free() -> None:
    sample = nvml(50)
    (gpu,) = sample["gpus"]
    sample["gpus"].append(gpu | {"uuid": "GPU-2", "index": 1, "mem_used_bytes": None})
    sample["gpus"].append(gpu | {"uuid": "GPU-3", "index": 2, "mem_total_bytes": None})
    assert ("3/141 GiB", "") in summary(fed(("nvml-samples", "a", sample)), "t")


def test_a_source_that_is_sampled_seldom_is_not_silent_beside_a_faster_one() -> None:
    seldom = nvml(9) | {"interval_ms": 30_000}
    state = fed(
        ("nvml-samples", "a", seldom), *(("cgroup-samples", "a", cgroup(1000 * at)) for at in range(1, 30))
    )
    state.at(29_000)
    assert [(pod.cpu, pod.gpu_util) for pod in state.pods()] == [(50.5, 41)]


def test_a_job_is_silent_when_all_its_pods_are() -> None:
    job = {"api_version": "v1", "kind": "PyTorchJob", "name": "bert", "uid": "j"}
    other = cgroup(30_000) | {"node": "b"}
    other["pods"] = [other["pods"][0] | {"uid": "q"}]
    state = fed(
        ("pods", "p", POD | {"job": job}), ("pods", "q", POD | {"uid": "q", "node": "b", "job": job}),
        ("cgroup-samples", "a", cgroup()), ("cgroup-samples", "b", other),
    )  # fmt: skip
    assert [job.is_silent for job in state.jobs()] == [False]
    state.at(55_000)
    assert [job.is_silent for job in state.jobs()] == [True]


def test_a_pod_of_a_node_that_is_sampled_seldom_is_not_silent() -> None:
    state = fed(("cgroup-samples", "a", cgroup() | {"interval_ms": 30_000}))
    state.at(41_000)
    assert [pod.cpu for pod in state.pods()] == [50.5]


def test_nodes_and_a_namespace_alone() -> None:
    other = nvml(9) | {"node": "b"}
    theirs = POD | {"uid": "q", "namespace": "web", "node": "b"}
    both = (
        ("nvml-samples", "a", nvml(1)),
        ("nvml-samples", "b", other),
        ("pods", "p", POD),
        ("pods", "q", theirs),
    )
    assert [row.node for row in fed(*both, state=LiveState(nodes=("b",))).gpus()] == ["b"]
    state = fed(*both, state=LiveState(namespace="ml"))
    assert [row.title for row in state.pods()] == ["ml/train-0"]
    assert fed(*both, state=LiveState(namespace="none")).gpus() == []


def test_a_job_is_its_pods_together() -> None:
    job = {"api_version": "v1", "kind": "PyTorchJob", "name": "bert", "uid": "j"}
    sample = nvml(40)
    process = {"pid": 8, "pod_uid": "q", "gpu_util_pct": 80, "mem_used_bytes": 5}
    sample["gpus"].append(sample["gpus"][0] | {"uuid": "GPU-2", "index": 1, "processes": [process]})
    state = fed(
        ("pods", "p", POD | {"job": job}), ("pods", "q", POD | {"uid": "q", "name": "train-1", "job": job}),
        ("nvml-samples", "a", sample), ("cgroup-samples", "a", cgroup()),
    )  # fmt: skip
    (row,) = state.jobs()
    assert (row.title, len(row.pods), row.gpu_util, row.total("cpu")) == ("ml/bert", 2, 60.5, 50.5)
    assert state.row("job/j") is not None


def test_what_is_frozen_stays_as_it_was() -> None:
    state = fed(("nvml-samples", "a", nvml(10)), ("cgroup-samples", "a", cgroup()))
    frozen = state.frozen()
    feed(state, "nvml-samples", "a", nvml(90, 2000))
    feed(state, *trends(gpu_util_pct=ahead(1)))
    (row,), (now,) = frozen.gpus(), state.gpus()
    assert (row.now.gpu_util_pct, len(row.history), len(now.history)) == (10, 1, 2)
    assert row.derived.trend("gpu_util_pct") is None
    assert [pod.title for pod in frozen.pods()] == [pod.title for pod in state.pods()]


def test_each_source_of_a_subject_has_its_newest_record() -> None:
    power = trends(GPU, "other", power_w=ahead(2))
    state = fed(("nvml-samples", "a", nvml(1)), trends(gpu_util_pct=ahead(1)), power)
    (row,) = state.gpus()
    assert (row.derived.trend("gpu_util_pct") is None, row.derived.trend("power_w") is None) == (False, False)
    state.feed("trends", "gpu/a/GPU-1/other", None, 1000)
    assert (row.derived.trend("gpu_util_pct") is None, row.derived.trend("power_w") is None) == (False, True)

"""Which of a job's pods have a key, while it runs and at its end; nothing comes and goes, nothing grows."""

import json
import random
from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.records.derived import JobPeaks, PodOfJob
from dutycycle.kube.references import Patch
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import TOTAL_BYTES, Present, changed_figures, diff, size_of, split
from sinks.annotations.core.keys import (
    MOST_PODS,
    PODS_OMITTED,
    PODS_SUMMARY,
    WRITTEN_WITH_OTHERS,
    pod_key_name,
)
from tests.support.sinks import made
from tests.support.sinks.rig import patched

P = "dutycycle.io"


def of_pod(mem: float, *, gpus: int = 1) -> PodOfJob:
    """A pod with so much GPU memory on each of its GPUs."""
    peaks = {"gpu_util_pct": made.peak(100), "mem_used_bytes": made.peak(mem)}
    return PodOfJob(
        node="gpu-a",
        metrics={"gpu_mem_used_bytes": made.peak(mem), "gpu_util_pct": made.peak(100)},
        gpus={f"gpu-a/{i}": peaks for i in range(gpus)},
    )


def job(mem: dict[str, float], *, final: bool = False, gpus: int = 1) -> JobPeaks:
    """A job whose pods have so much GPU memory."""
    metrics = {"gpu_mem_used_bytes": made.peak(max(mem.values())), "gpu_util_pct": made.peak(100)}
    pods = {name: of_pod(one, gpus=gpus) for name, one in mem.items()}
    return made.job_peaks(pods=pods, final=final, metrics=metrics)


def patch_of(record: JobPeaks, present: Present) -> Patch:
    """What the record changes on a job that carries ``present``."""
    state = Annotations(P)
    target = state.take(record)
    assert target is not None
    wanted = state.wanted(target, present)
    return diff("job", P, wanted.texts, present.ours, wanted.surplus)


def after(record: JobPeaks, annotations: dict[str, str]) -> dict[str, str]:
    """All annotations of a job once the record is written."""
    return patched(patch_of(record, split(P, annotations)), annotations)


def pods_of(annotations: dict[str, str]) -> set[str]:
    """The pods that have a key."""
    names = {key.removeprefix(f"{P}/") for key in annotations if key.startswith(f"{P}/")}
    return names - WRITTEN_WITH_OTHERS - {PODS_SUMMARY, PODS_OMITTED, "team"}


def value(annotations: dict[str, str], name: str) -> Any:
    return json.loads(annotations[f"{P}/{name}"])


def workers(count: int, mem: float = 1e9) -> dict[str, float]:
    """So many pods, the later the more memory."""
    return {f"worker-{i:04}": mem + i * 1e6 for i in range(count)}


def test_a_job_up_to_the_bound_has_a_key_for_each_pod_and_no_summary() -> None:
    found = after(job(workers(MOST_PODS)), {})
    assert len(pods_of(found)) == MOST_PODS
    assert pods_of(found) == set(workers(MOST_PODS))


def test_a_job_with_a_thousand_workers_has_a_summary_and_its_top_entries() -> None:
    found = after(job(workers(1000)), {"example.org/mine": "kept"})
    assert pods_of(found) == set(list(workers(1000))[-MOST_PODS:])
    assert value(found, PODS_OMITTED) == 1000 - MOST_PODS
    assert value(found, PODS_SUMMARY) == {"pods": 1000, "max_gpu_util": 100, "max_gpu_mem_mb": 1999}
    plain = {f"{P}/gpu_util_max": "100", f"{P}/gpu_util_mean": "50", f"{P}/gpu_mem_max_mb": "1999"}
    assert found.items() >= plain.items()
    assert found["example.org/mine"] == "kept"
    assert size_of(found) < TOTAL_BYTES


def test_while_it_runs_a_pod_that_has_a_key_keeps_it_and_at_the_end_the_top_have() -> None:
    early = workers(MOST_PODS)
    found = after(job(early), {f"{P}/team": '"a"', "example.org/mine": "kept"})
    grown = early | {f"late-{i:04}": 50e9 + i for i in range(700)}
    found = after(job(grown), found)
    assert pods_of(found) == set(early)
    assert value(found, PODS_OMITTED) == 700
    for seed in range(20):  # maxima grow in any order: nothing comes and goes
        chance = random.Random(seed)  # noqa: S311
        grown = {name: mem + chance.randrange(10**10) for name, mem in grown.items()}
        found = after(job(grown), found)
        assert pods_of(found) == set(early)
    found = after(job(grown, final=True), found)
    top = sorted(grown, key=lambda name: (-grown[name], name))[:MOST_PODS]
    assert pods_of(found) == set(top)
    assert value(found, PODS_OMITTED) == len(grown) - MOST_PODS
    assert found[f"{P}/team"] == '"a"'
    assert found["example.org/mine"] == "kept"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
def test_the_end_depends_on_the_last_record_alone(seed: int) -> None:
    """Whatever was written before, by whichever worker, killed or not."""
    chance = random.Random(seed)  # noqa: S311
    names = [f"worker-{i:04}" for i in range(600)]
    last = job({name: float(chance.randrange(5)) * 1e9 for name in names}, final=True)
    ends = []
    for _ in range(3):
        found: dict[str, str] = {"example.org/mine": "x" * chance.randrange(1000)}
        for _ in range(chance.randrange(5)):
            some = chance.sample(names, chance.randrange(1, 600))
            found = after(job({name: chance.random() * 1e9 for name in some}), found)
        ends.append({key: one for key, one in after(last, found).items() if key.startswith(P)})
    assert ends[0] == ends[1] == ends[2]
    assert patch_of(last, split(P, ends[0])) == {}


@pytest.mark.parametrize("others", [0, 100_000, 240_000])
@pytest.mark.parametrize("final", [False, True])
def test_fat_pods_never_grow_past_what_the_api_server_takes(others: int, final: bool) -> None:
    """16 GPUs a pod, and somebody else's annotations besides."""
    there = {f"{P}/an-older-pod": "x" * 1000, "example.org/a": "x" * others}
    record = job({f"{'w' * 200}-{i}": 1e9 + i for i in range(400)}, final=final, gpus=16)
    found = after(record, there)
    assert size_of(found) <= TOTAL_BYTES
    assert all(len(key.partition("/")[2]) <= 63 for key in found)
    assert value(found, PODS_OMITTED) == 400 - len(pods_of(found) - {"an-older-pod"})
    assert found[f"{P}/an-older-pod"] == "x" * 1000
    assert after(record, found) == found


def test_one_pod_more_is_enough_for_a_write_and_a_little_more_memory_is_not() -> None:
    found = after(job(workers(300)), {})
    ours = split(P, found).ours
    assert changed_figures("job", patch_of(job(workers(301)), split(P, found)), ours)
    assert not changed_figures("job", patch_of(job(workers(300, 1.001e9)), split(P, found)), ours)


def test_pods_that_are_gone_keep_their_keys() -> None:
    found = after(job(workers(5)), {})
    assert pods_of(after(job({"another": 1e9}, final=True), found)) == {*workers(5), "another"}


def test_long_names_that_begin_alike_stay_apart_among_the_top() -> None:
    long = {f"{'a' * 100}-{i}": 1e9 + i for i in range(MOST_PODS)}
    found = after(job(long, final=True), {})
    assert pods_of(found) == {pod_key_name(name) for name in long}
    assert {value(found, pod_key_name(name))["pod"] for name in long} == set(long)


def test_pods_that_not_even_the_record_has_are_counted_and_gpus_that_it_lacks_are_the_pod_s() -> None:
    bare = {name: replace(of_pod(mem), gpus={}) for name, mem in workers(10).items()}
    record = replace(job(workers(10)), pods=bare, gpus_omitted=10, pods_omitted=5000)
    found = after(record, {})
    assert value(found, PODS_OMITTED) == 5000
    assert value(found, PODS_SUMMARY)["pods"] == 5010
    assert value(found, "worker-0000") == {"gpu_util": 100, "gpu_mem_mb": 1000}
    assert after(record, found) == found


@pytest.mark.slow
def test_pods_that_leave_the_record_of_a_very_large_job_keep_their_keys_and_make_no_more_of_them() -> None:
    """A record has those that need most at the time: of 5,000 pods never the same ones."""
    chance, every = random.Random(7), workers(5000)  # noqa: S311
    found: dict[str, str] = {f"{P}/team": '"a"', f"{P}/trial": "gpus=1"}
    for _ in range(20):
        some = dict(chance.sample(sorted(every.items()), 2000))
        found = after(replace(job(some), pods_omitted=3000), found)
        keys = pods_of(found) - {"trial"}
        assert len(keys) == MOST_PODS
        assert value(found, PODS_OMITTED) + len(keys) == 5000
    last = replace(job(some, final=True), pods_omitted=3000)
    found = after(last, found)
    assert pods_of(found) - {"trial"} == set(sorted(some, key=lambda name: -some[name])[:MOST_PODS])
    assert value(found, PODS_OMITTED) == 5000 - MOST_PODS
    assert found[f"{P}/trial"] == "gpus=1"


SECOND = "worker-0@1700000060000"
INCARNATIONS: dict[str, tuple[dict[str, PodOfJob], dict[str, Any]]] = {
    "the later one needs more": (
        {"worker-0": of_pod(20e9), SECOND: of_pod(900e9)},
        {"gpu-a-gpu-0_util": 100, "gpu-a-gpu-0_mem_mb": 900_000},
    ),
    "the earlier one does": (
        {"worker-0": of_pod(900e9), SECOND: of_pod(20e9)},
        {"gpu-a-gpu-0_util": 100, "gpu-a-gpu-0_mem_mb": 900_000},
    ),
    "each figure by itself": (
        {
            "worker-0": PodOfJob(node="a", metrics={"cpu_util_pct": made.peak(9)}),
            SECOND: PodOfJob(
                node="b", metrics={"cpu_util_pct": made.peak(5), "mem_used_bytes": made.peak(2e6)}
            ),
        },
        {"cpu_util": 9, "cpu_mem_mb": 2},
    ),
    "on another GPU": (
        {"worker-0": of_pod(1e9), SECOND: replace(of_pod(2e9), gpus={"b/3": {"gpu_util_pct": made.peak(7)}})},
        {"gpu-a-gpu-0_util": 100, "gpu-a-gpu-0_mem_mb": 1000, "b-gpu-3_util": 7},
    ),
    "the GPUs of one are left out": (
        {"worker-0": of_pod(1e9), SECOND: replace(of_pod(2e9), gpus={})},
        {"gpu_util": 100, "gpu_mem_mb": 2000},
    ),
    "the first is left out": (
        {SECOND: of_pod(2e9)},
        {"gpu-a-gpu-0_util": 100, "gpu-a-gpu-0_mem_mb": 2000},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("pods", "expected"), INCARNATIONS.values(), ids=INCARNATIONS.keys())
def test_all_incarnations_of_a_name_are_one_key(pods: dict[str, PodOfJob], expected: dict[str, Any]) -> None:
    found = after(made.job_peaks(pods=pods), {})
    assert {key: json.loads(one) for key, one in found.items()} == {f"{P}/worker-0": expected}


def test_incarnations_count_once_and_the_most_needed_of_them_decides() -> None:
    again = {f"worker-0000@{i}": 90e9 for i in range(1000)}
    found = after(job(workers(MOST_PODS + 1) | again, final=True), {})
    assert "worker-0000" in pods_of(found)
    assert value(found, PODS_OMITTED) == 1
    assert value(found, PODS_SUMMARY)["pods"] == MOST_PODS + 1


def test_of_what_does_not_end_only_the_pods_that_are_there_have_keys() -> None:
    """A pod that the record has as former, and one that it has no more, leave; who runs has a key."""
    gone, here = (replace(of_pod(1e9), former=former) for former in (True, False))
    pods = {"web-1": gone, "web-1@2": here, "web-2": gone, "web-3": here}
    current = {"gpu_util_pct": made.peak(40)}
    record = made.job_peaks(pods=pods, current=current, pods_omitted=30, pods_now=2, gpus_now=1)
    before = {f"{P}/{name}": '{"gpu_util":97}' for name in ("web-1", "web-2", "web-0", "others-are-older")}
    found = after(record, before | {f"{P}/kind": "inference"})
    assert {name for name in pods_of(found) if "_" not in name} == {"web-1", "web-3", "kind"}
    assert PODS_OMITTED not in pods_of(found)
    assert value(found, PODS_SUMMARY) == {"pods": 2, "max_gpu_util": 40}
    counts = (value(found, name) for name in ("pods_now", "pods_ever", "gpus_now"))
    assert (tuple(counts), f"{P}/gpus_ever" in found) == ((2, 34, 1), False)

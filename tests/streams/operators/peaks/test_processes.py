"""A pod that starts one process after the other, for ever: its state stays small, the highest peaks stay."""

import random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.parts import PodPart, Tally
from streams.operators.peaks.pod import PodOperator
from streams.operators.peaks.processes import MAX_POD_PROCESSES, limit_processes
from streams.state.codec import from_bytes, to_bytes
from tests.streams.operators.node.test_operator import operator
from tests.support.data.samples import gpu, nvml, record
from tests.support.examples import examples
from tests.support.streams.emitted import plain_of

RUNNING = 3
"""So many processes at a time, each for as many ticks."""


def churn(ticks: int, seed: int = 0) -> tuple[list[dict[str, Any]], dict[int, int]]:
    """Ticks of a GPU on which a process of the pod begins and one ends at each; the memory by pid."""
    chance = random.Random(seed)  # noqa: S311 - figures, no secrets
    memory = {pid: chance.randrange(1, 10**9) for pid in range(ticks + RUNNING - 1)}
    samples = []
    for second in range(ticks):
        running = [
            {"pid": pid, "pod_uid": "p", "gpu_util_pct": pid % 100, "mem_used_bytes": memory[pid]}
            for pid in range(second, second + RUNNING)
        ]
        samples.append(nvml(second, [gpu(0, gpu_util_pct=50, processes=running)]))
    return samples, memory


@pytest.mark.slow
def test_a_pod_with_thousands_of_processes_stays_small_and_keeps_the_highest() -> None:
    node = operator()
    samples, memory = churn(600)
    sizes = []
    for offset, plain in enumerate(samples):
        node.update(record("nvml-samples", "a", plain, offset))
        if offset in (250, 599):
            sizes.append(len(to_bytes(node.snapshot()["peaks"])))
    (part,) = plain_of(node.flush(), "pod-parts")
    pids = {int(scope.split("/")[2]) for scope in part["processes"]}
    assert len(pids) == MAX_POD_PROCESSES
    best = sorted(memory, key=lambda pid: -memory[pid])
    assert set(best[: MAX_POD_PROCESSES - RUNNING]) <= pids
    assert part["processes_omitted"] == len(memory) - MAX_POD_PROCESSES
    assert sizes[1] < 1.05 * sizes[0]
    assert part["metrics"]["gpu_mem_used_bytes"]["count"] == 600


def test_many_at_once_are_all_counted_and_the_highest_told() -> None:
    node = operator()
    running = [{"pid": pid, "pod_uid": "p", "mem_used_bytes": pid} for pid in range(200)]
    samples = [nvml(second, [gpu(0, processes=running)]) for second in range(5)]
    for offset, plain in enumerate(samples):
        node.update(record("nvml-samples", "a", plain, offset))
    (part,) = plain_of(node.flush(), "pod-parts")
    assert {int(scope.split("/")[2]) for scope in part["processes"]} == set(range(136, 200))
    assert part["processes_omitted"] == 136
    assert all(of["mem_used_bytes"]["count"] == 5 for of in part["processes"].values())


@pytest.mark.slow
@settings(max_examples=examples(20))
@given(seed=st.integers(0, 10**6), cuts=st.sets(st.integers(1, 119), max_size=4))
def test_restarts_change_nothing(seed: int, cuts: set[int]) -> None:
    samples, _ = churn(120, seed)
    whole, now = operator(), operator()
    for offset, plain in enumerate(samples):
        if offset in cuts:
            plain_state = from_bytes(to_bytes(now.snapshot()))
            now = operator()
            now.restore(plain_state)
        assert whole.update(record("nvml-samples", "a", plain, offset)) == now.update(
            record("nvml-samples", "a", plain, offset)
        )
    assert whole.flush() == now.flush()
    assert to_bytes(whole.snapshot()) == to_bytes(now.snapshot())


def part_of(opened_ms: int, pids: range, omitted: int) -> PodPart:
    tally = {
        pid: Tally(max=float(pid * 7919 % 1000), at_ms=opened_ms + pid, sum=1.0, count=1) for pid in pids
    }
    return PodPart(
        uid="p", source="nvml", node="a", opened_ms=opened_ms, first_ms=opened_ms, last_ms=opened_ms + 1000,
        samples=10, processes={f"a/0/{pid}": {"mem_used_bytes": tally[pid]} for pid in pids},
        processes_omitted=omitted,
    )  # fmt: skip


@settings(max_examples=examples(20))
@given(order=st.permutations(range(4)))
def test_the_order_of_parts_does_not_matter(order: list[int]) -> None:
    parts = [part_of(1000 * i, range(50 * i, 50 * i + 60), i) for i in range(4)]
    first, other = PodOperator("p"), PodOperator("p")
    for at, number in enumerate(order):
        first.update(record("pod-parts", "p", encode(parts[at]), at))
        other.update(record("pod-parts", "p", encode(parts[number]), at))
    (one,), (two,) = first.flush(), other.flush()
    assert one == two
    assert isinstance(one, ProducerRecord)
    peaks = orjson.loads(one.value or b"")
    assert len(peaks["processes"]) == MAX_POD_PROCESSES
    assert peaks["processes_omitted"] == 0 + 1 + 2 + 3 + (150 + 60) - MAX_POD_PROCESSES


def test_a_record_of_a_pod_with_few_says_nothing_of_it() -> None:
    pod = PodOperator("p")
    pod.update(record("pod-parts", "p", encode(part_of(0, range(5), 0)), 0))
    (one,) = pod.flush()
    assert isinstance(one, ProducerRecord)
    assert b"processes_omitted" not in (one.value or b"")


@pytest.mark.parametrize(
    ("memory", "busy", "at_ms", "kept"),
    [
        ([3, 2, 1], [0, 0, 9], [0, 0, 0], {"a/0/0", "a/0/1"}),
        ([1, 1, 1], [3, 2, 1], [0, 0, 9], {"a/0/0", "a/0/1"}),
        ([1, 1, 1], [1, 1, 1], [1, 2, 3], {"a/0/1", "a/0/2"}),
        ([1, 1, 1], [1, 1, 1], [1, 1, 1], {"a/0/1", "a/0/2"}),
    ],
    ids=["memory first", "then utilization", "then the latest", "then any, but always the same"],
)
def test_what_counts(memory: list[int], busy: list[int], at_ms: list[int], kept: set[str]) -> None:
    def tally(value: int, at: int) -> Tally:
        return Tally(max=float(value), at_ms=at, sum=float(value), count=1)

    processes = {
        f"a/0/{i}": {"mem_used_bytes": tally(memory[i], at_ms[i]), "gpu_util_pct": tally(busy[i], at_ms[i])}
        for i in range(3)
    }
    found, omitted = limit_processes(processes, 2)
    assert (set(found), omitted) == (kept, 1)

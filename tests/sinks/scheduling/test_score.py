"""How well a pod would run on a node, and why."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sinks.scheduling.core.node import Need, NodeGpu, NodeResources, Nodes
from sinks.scheduling.core.score import Scored
from sinks.scheduling.core.score import score as scores
from sinks.scheduling.core.terms import TERMS
from tests.support.examples import examples

GIB = 1024**3
FREE, TAKEN = (
    NodeGpu(mem_free_bytes=80 * GIB),
    NodeGpu(taken=True, mem_free_bytes=30 * GIB, duty=0.4, period_s=10),
)
COOL, WARM, SMALL = NodeGpu(headroom_c=30), NodeGpu(headroom_c=2), NodeGpu(mem_free_bytes=40 * GIB)
EMPTY = NodeResources("empty", (FREE,) * 8)
HALF = NodeResources("half", (TAKEN,) * 4 + (FREE,) * 4)


def score(node: NodeResources, need: Need) -> Scored:
    """Of one node, though all are scored at once."""
    return scores(Nodes.of([node]), need).at(0)


@pytest.mark.parametrize(
    ("need", "better", "worse"),
    [
        (Need(1), HALF, EMPTY),
        (Need(8, ranks=4), replace(EMPTY, near_ranks=2), EMPTY),
        (Need(4, ranks=2), replace(HALF, ranks=1, near_ranks=1), replace(HALF, near_ranks=1)),
        (Need(1, cpu_cores=16), replace(EMPTY, cpu_free_cores=64), replace(EMPTY, cpu_free_cores=2)),
        (Need(1, ranks=2), replace(EMPTY, net_free=0.9), replace(EMPTY, net_free=0.1)),
        (Need(1), NodeResources("cool", (COOL,)), NodeResources("warm", (WARM,))),
        (Need(1), EMPTY, replace(EMPTY, gpus=(replace(FREE, throttled=True),) * 8)),
        (Need(1, gpu_mem_bytes=60 * GIB), EMPTY, NodeResources("small", (SMALL,) * 8)),
    ],
)  # fmt: skip
def test_the_better_node_scores_more(need: Need, better: NodeResources, worse: NodeResources) -> None:
    assert score(better, need).value > score(worse, need).value
    assert scores(Nodes.of([worse, replace(better, name="a")]), need).best(1)[0].node == "a"


def test_memory_that_is_not_free_makes_a_node_the_last() -> None:
    found = score(HALF, Need(1, shares=False, gpu_mem_bytes=100 * GIB))
    assert found.value == 0
    assert "needs 100.0 GiB of GPU memory, 80.0 GiB is free" in found.reasons()


@pytest.mark.parametrize(
    ("duty", "period", "overlap"), [(0.5, None, 0.2), (0.5, 10.2, 0.0), (0.9, 10.0, 0.3), (0.9, 20.0, 0.36)]
)
def test_two_cycles_on_one_gpu(duty: float, period: float | None, overlap: float) -> None:
    found = score(NodeResources("a", (TAKEN,)), Need(1, shares=True, duty=duty, period_s=period))
    cycles = next(one for one in found.terms if one.name == "cycles")
    assert cycles.value == pytest.approx(1 - overlap)
    assert f"{overlap:.0%} is wanted twice" in cycles.reason


def test_a_pod_without_gpus_goes_to_busy_ones_no_sooner_than_to_a_node_without_any() -> None:
    bare, full = NodeResources("bare", ()), NodeResources("full", (TAKEN,) * 8)
    assert score(bare, Need(0)).value == score(full, Need(0)).value > score(HALF, Need(0)).value
    assert score(bare, Need(0)).reasons() == "no GPU of it is known, and so none to keep free"


def test_what_is_not_known_does_not_count() -> None:
    found = score(NodeResources("bare", ()), Need(1))
    assert (found.value, found.terms, found.reasons()) == (0.5, (), "nothing is known of it")


@pytest.mark.parametrize(
    "need", [Need(1), Need(8, ranks=4, cpu_cores=9, gpu_mem_bytes=GIB), Need(1, shares=True, duty=1)]
)
@pytest.mark.parametrize(
    "node", [EMPTY, HALF, replace(HALF, cpu_free_cores=-1, net_free=3, ranks=9, near_ranks=9)]
)
def test_terms_are_shares_with_a_reason(node: NodeResources, need: Need) -> None:
    found = score(node, need)
    assert all(0 <= one.value <= 1 and one.reason and one.weight > 0 for one in found.terms)
    assert found.extender_score in range(11)
    assert len({one.name for one in found.terms}) == len(found.terms) <= len(TERMS)


_gpus = st.builds(
    NodeGpu, taken=st.booleans(), mem_free_bytes=st.none() | st.floats(0, 80 * GIB),
    duty=st.none() | st.floats(0, 1), period_s=st.none() | st.floats(1, 60),
    headroom_c=st.none() | st.floats(-5, 40), throttled=st.none() | st.booleans(),
)  # fmt: skip
_nodes = st.builds(
    NodeResources, name=st.just("n"), gpus=st.lists(_gpus, max_size=4).map(tuple),
    cpu_free_cores=st.none() | st.floats(-1, 64), net_free=st.none() | st.floats(0, 1),
    ranks=st.integers(0, 3), near_ranks=st.integers(0, 6),
)  # fmt: skip
_needs = st.builds(
    Need, gpus=st.integers(0, 4), ranks=st.integers(1, 4), shares=st.booleans(),
    kind=st.sampled_from([None, "training", "loading"]), gpu_mem_bytes=st.none() | st.floats(0, 80 * GIB),
    cpu_cores=st.none() | st.floats(0, 32), duty=st.none() | st.floats(0, 1),
    period_s=st.none() | st.floats(1, 60),
)  # fmt: skip


@given(st.lists(_nodes, max_size=5), _needs)
@settings(max_examples=examples(200))
def test_a_node_scores_the_same_among_others_as_alone(nodes: list[NodeResources], need: Need) -> None:
    found = scores(Nodes.of(nodes), need)
    assert [found.at(place) for place in range(len(nodes))] == [score(node, need) for node in nodes]
    assert found.extender_scores() == [score(node, need).extender_score for node in nodes]
    assert all((one.value == 0) or not any(term.blocks for term in one.terms) for one in found.best(9))

"""What is started when and where, in small cases that can be worked out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.schedule.cluster import Cluster
from dutycycle.schedule.compare import figures_of
from dutycycle.schedule.generator import Generator
from dutycycle.schedule.orders import ByCore
from dutycycle.schedule.scoring import ExtenderScores, default_scores
from dutycycle.schedule.simulation import Outcomes
from dutycycle.schedule.ways import BANDS, WAYS
from dutycycle.schedule.workload import Demand, JobTrace, TraceJob, TraceNode
from sinks.scheduling.core.policy import Policy
from sinks.scheduling.core.similar import Template
from tests.support.examples import examples

POLICY = Policy(bands=BANDS)
EIGHT = [TraceNode("a", 8, 128, 1024)]


def job(
    at: float, takes: float, gpus: float = 1, pods: int = 1, owner: str = "x", user_class: str = ""
) -> TraceJob:
    template = Template("ml", owner=owner, gpus=gpus)
    demand = Demand(pods, round(gpus * 1000), 1, 1)
    return TraceJob(f"{owner}-{at:g}-{takes:g}-{gpus:g}", at, takes, demand, template, user_class=user_class)


def simulated(way: str, jobs: list[TraceJob], machines: list[TraceNode] = EIGHT) -> Outcomes:
    return WAYS[way][1](JobTrace(jobs, machines), POLICY, 0).run()


BLOCKED = [job(0, 100, 6), job(1, 10, 8), job(2, 10, 2), job(3, 500, 1), job(4, 5, 8)]


@pytest.mark.parametrize(
    ("way", "jobs", "began"),
    [
        ("fifo", BLOCKED, [0, 100, 110, 110, 610]),  # the second holds up all others
        ("default", BLOCKED, [0, 512, 2, 12, 522]),  # what fits goes past it, and nothing is kept free for it
        ("default", [job(0, 10, 8), job(1, 50, 8), job(2, 5, 8, user_class="high")], [0, 15, 10]),
        ("oracle", [job(0, 10, 8), job(1, 5000, 8), job(2, 50, 8)], [0, 60, 10]),  # short first
        ("oracle", [job(0, 90_000, 8), job(1, 5000, 8), job(80_000, 50, 8)], [0, 90_000, 95_000]),  # aged
        ("oracle", [job(0, 10, 8), job(1, 5000, 8, user_class="high"), job(2, 50, 8)], [0, 10, 5010]),
    ],
)
def test_the_order_of_a_queue(way: str, jobs: list[TraceJob], began: list[float]) -> None:
    assert simulated(way, jobs).began_s.tolist() == began


@pytest.mark.parametrize(
    ("demand", "fits"),
    [
        (Demand(1, 8000, 128, 1024), True),
        (Demand(1, 9000, 1, 1), False),
        (Demand(1, 1000, 128.1, 1), False),
        (Demand(1, 1000, 1, 1024.1), False),
    ],
    ids=["all of it", "GPUs", "CPUs", "memory"],
)
def test_a_pod_fits_where_there_is_enough_of_each(demand: Demand, fits: bool) -> None:
    cluster = Cluster(EIGHT)
    assert cluster.fits_on(0, demand) is fits
    assert cluster.fitting(demand).tolist() == ([0] if fits else [])


def test_priorities_know_only_jobs_that_have_ended() -> None:
    """The second and third come while no similar pod has ended; the fifth and sixth after both had."""
    policy = replace(POLICY, unknown_s=1000, fairness=0)
    long, short = {"owner": "long", "takes": 4000.0, "gpus": 8}, {"owner": "short", "takes": 600.0, "gpus": 8}
    jobs = [
        job(0, 100, 8), job(1, **long), job(2, **short),  # type: ignore[arg-type]
        job(10_000, 100, 8), job(10_001, **long), job(10_002, **short),  # type: ignore[arg-type]
    ]  # fmt: skip
    workload = JobTrace(jobs, EIGHT)
    assert WAYS["ours"][1](workload, policy, 0).run().began_s.tolist() == [
        0, 100, 4100, 10_000, 10_700, 10_100,
    ]  # fmt: skip
    assert WAYS["oracle"][1](workload, policy, 0).run().began_s.tolist() == [
        0, 700, 100, 10_000, 10_700, 10_100,
    ]  # fmt: skip


def test_durations_of_the_future_change_no_priority() -> None:
    """Two workloads that differ only in how long the last job will take, which has similar pods."""
    jobs = [job(0, 100, 8), job(200, 100, 8)]
    order = ByCore(POLICY, knows=False)
    order.arrived(jobs[0])
    order.ended(jobs[0], 100)
    other = ByCore(POLICY, knows=False)
    other.arrived(jobs[0])
    other.ended(jobs[0], 100)
    assert order.arrived(jobs[1]) == other.arrived(replace(jobs[1], duration_s=9e9))


def test_all_pods_of_a_job_start_together_or_none() -> None:
    machines = [TraceNode("a", 8, 128, 1024), TraceNode("b", 8, 128, 1024)]
    jobs = [job(0, 100, 8), job(1, 10, 8, pods=2), job(2, 5, 8)]
    assert simulated("default", jobs, machines).began_s.tolist() == [0, 100, 2]


def test_parts_of_a_gpu_share_one() -> None:
    jobs = [job(0, 100, 0.5), job(1, 100, 0.5), job(2, 100, 0.5), job(3, 100, 7)]
    assert simulated("default", jobs).began_s.tolist() == [0, 1, 2, 101]


def test_the_default_spreads_and_ours_packs() -> None:
    cluster = Cluster([TraceNode("a", 8, 128, 1024), TraceNode("b", 8, 128, 1024)])
    demand = Demand(1, 2000, 16, 128)
    cluster.take(0, demand)
    rows = cluster.fitting(demand)
    assert np.argmax(default_scores(cluster, rows, demand, {})) == 1
    assert np.argmax(ExtenderScores()(cluster, rows, demand, {})) == 0


def test_only_models_that_are_named() -> None:
    cluster = Cluster([TraceNode("a", 8, 128, 1024, "T4"), TraceNode("b", 8, 128, 1024, "A10")])
    demand = Demand(1, 1000, 1, 1, frozenset({"A10", "G3"}))
    assert cluster.fitting(demand).tolist() == [1]
    assert [cluster.fits_on(row, demand) for row in (0, 1)] == [False, True]


demands = st.builds(
    Demand, st.integers(1, 3), st.sampled_from([0, 300, 500, 1000, 2000, 4000]), st.sampled_from([1.0, 30.0]),
    st.just(1.0),
)  # fmt: skip
arrivals = st.lists(st.tuples(st.floats(0, 500), st.floats(1, 300), demands), min_size=1, max_size=25)


@pytest.mark.parametrize("way", WAYS)
@given(arrivals)
@settings(max_examples=examples(30))
def test_nothing_is_given_twice_and_all_jobs_end(way: str, given_: list[tuple[float, float, Demand]]) -> None:
    machines = [TraceNode("a", 4, 64, 64), TraceNode("b", 4, 64, 64), TraceNode("c", 4, 64, 64)]
    jobs = [
        TraceJob(f"job-{number}", at, takes, demand, Template("ml", owner=str(takes > 100)))
        for number, (at, takes, demand) in enumerate(sorted(given_, key=lambda one: one[0]))
    ]
    outcomes = simulated(way, jobs, machines)
    for one, began, ended in zip(jobs, outcomes.began_s, outcomes.ended_s, strict=True):
        assert one.arrival_s <= began
        assert ended == pytest.approx(began + one.duration_s)
    for moment in outcomes.began_s:
        running = [
            one for one, began, ended in zip(jobs, outcomes.began_s, outcomes.ended_s, strict=True)
            if began <= moment < ended
        ]  # fmt: skip
        assert sum(one.demand.gpus for one in running) <= 12
        assert sum(one.demand.pods * one.demand.cpu_cores for one in running) <= 192


def test_figures_by_hand() -> None:
    workload = JobTrace(BLOCKED, EIGHT)
    fifo, default = simulated("fifo", BLOCKED), simulated("default", BLOCKED)
    found = figures_of(workload, default, fifo)
    assert found.mean_wait_s == pytest.approx((0 + 511 + 0 + 9 + 518) / 5)
    assert (found.max_wait_s, found.makespan_s, found.starved) == (518, 527, 0)
    assert figures_of(workload, fifo, default).starved == 1  # 606 s
    assert figures_of(workload, fifo, None).starved is None
    assert found.fairness == 1.0  # there is one namespace
    # 2 of 8 GPUs were idle from 0 to 2, but the job of 2 came at 2
    assert found.split_pct == 0
    waiting = [job(0, 100, 4), job(0, 100, 4), job(1, 50, 8), job(101, 1, 1)]
    apart = [TraceNode("a", 8, 128, 1024), TraceNode("b", 8, 128, 1024)]
    split = figures_of(JobTrace(waiting, apart), simulated("default", waiting, apart), None)
    assert split.split_pct == pytest.approx(100 * 8 * 99 / (16 * 150))  # the job of 8 runs from 100 to 150


@pytest.mark.slow
def test_the_same_seed_is_the_same_to_the_bit() -> None:
    small = Generator(jobs=300, nodes=4)
    one, other = small.workload(7), small.workload(7)
    assert one == other
    assert one != small.workload(8)
    for way in WAYS:
        first, second = (WAYS[way][1](jobs, POLICY, 3).run() for jobs in (one, other))
        assert first.began_s.tobytes() == second.began_s.tobytes()


def test_generated_arrivals_ask_for_the_load() -> None:
    made = Generator(jobs=4000, nodes=16, load=0.8)
    workload = made.workload(1)
    asked = sum(one.duration_s * one.demand.gpus for one in workload.jobs)
    assert asked / (16 * 8 * workload.jobs[-1].arrival_s) == pytest.approx(0.8, rel=0.02)
    arrivals = [one.arrival_s for one in workload.jobs]
    assert arrivals == sorted(arrivals)
    assert {one.demand.gpus for one in workload.jobs} >= {1, 2, 4, 8, 16}


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(1, 5000), st.sampled_from([0.5, 1, 4, 8])),
        min_size=1,
        max_size=20,
        unique=True,
    ),
    st.sampled_from(list(WAYS)),
)
def test_a_share_is_at_most_all_of_it(jobs: list[tuple[int, int, float]], way: str) -> None:
    """Also where what waits begins long after the last arrival."""
    workload = JobTrace(
        [job(at, takes, gpus) for at, takes, gpus in sorted(jobs)],
        [TraceNode("a", 8, 128, 1024), TraceNode("b", 8, 128, 1024)],
    )
    outcomes = WAYS[way][1](workload, POLICY, 0).run()
    assert 0 <= figures_of(workload, outcomes, None).split_pct <= 100

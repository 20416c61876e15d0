"""Goal: a job has one cycle and one trend from its ranks, the same in whatever order their parts come."""

from itertools import permutations
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import decode, from_plain
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import Cycle, OtherCycle, Trend, TrendMetric
from dutycycle.contract.records.parts import InsightPart, PodTrend, WorkloadState
from dutycycle.contract.settings.load import load
from streams.operators.base import Operator
from streams.operators.workload.channels import ABSENT_CODE, SPAN_MS
from streams.operators.workload.jobs.analysis import job_trends, merged_state
from streams.operators.workload.jobs.cycle import Rank, job_cycle
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.rules.state import STATE_MS, StateTracker
from streams.state.codec import from_bytes, to_bytes
from streams.topology import stages

STAGE = next(stage for stage in stages(load({})) if stage.name == "job-insights")
T = 1_700_000_100_000
PART = {
    "v": 1, "job": {"api_version": "v1", "kind": "Job", "name": "j", "uid": "j"}, "ts_ms": T, "insight_ms": T,
    "since_ms": T, "kind": "training", "confidence": 0.9, "bottleneck": "gpu", "bottleneck_confidence": 0.9,
    "gpus": 1, "evidence": {},
}  # fmt: skip


def rank(
    period_s: float | None, confidence: float = 0.9, *others: float, gpus: int = 1, since: int = 0
) -> Rank:
    further = tuple(OtherCycle(period_s=one, confidence=0.9) for one in others) or None
    return gpus, WorkloadState(
        seen_ms=SEEN, period_s=period_s, confidence=None if period_s is None else confidence,
        other_cycles=further, cycle_since_ms=since or None,
    )  # fmt: skip


SEEN = 100_000


def young(period_s: float, periods: float) -> Rank:
    return rank(period_s, since=SEEN - round(1000 * period_s * periods))


CYCLES: dict[str, tuple[list[Rank], tuple[float, ...]]] = {
    "one rank": ([rank(12.0)], (12.0,)),
    "none": ([rank(None)] * 3, ()),
    "nobody": ([], ()),
    "one of two": ([rank(12.0), rank(None)], (12.0,)),
    "one of three is its own affair": ([rank(12.0), rank(None), rank(None)], ()),
    "all, a little apart": ([rank(11.9), rank(12.0), rank(12.1)], (12.0,)),
    "most, and one that is surer": ([rank(12.0, 0.8), rank(12.0, 0.8), rank(24.0, 0.99)], (12.0,)),
    "the ranks have another main one": ([rank(12.0, 0.9, 300.0), rank(300.0, 0.9, 12.0)], (12.0, 300.0)),
    "two that disagree": ([rank(12.0, 0.99), rank(30.0)], ()),
    "two that disagree, and one that says nothing": ([rank(12.0), rank(30.0), rank(None)], ()),
    "four periods may be chance": ([young(12.0, 4.4)] * 8, ()),
    "it has lasted": ([young(12.0, 4.6)] * 2, (12.0,)),
    "it has lasted at one rank": ([young(12.0, 3.0), young(12.0, 4.6), rank(None)], (12.0,)),
    "a young one does not hide an old one": ([young(12.0, 4.6)] * 2 + [young(20.0, 3.0)], (12.0,)),
    "the GPUs count": ([rank(12.0, gpus=8), rank(30.0), rank(30.0)], (12.0,)),
}


@pytest.mark.parametrize(("ranks", "periods"), CYCLES.values(), ids=CYCLES.keys())
def test_the_cycle_of_a_job(ranks: list[Rank], periods: tuple[float, ...]) -> None:
    found = job_cycle(ranks)
    others = tuple(one.period_s for one in found.others or ())
    assert found.cyclic == bool(periods)
    assert ((found.period_s, *others) if found.cyclic else ()) == periods


def reports(steps_per_s: float | None, samples_per_s: float | None, **more: Any) -> Rank:
    return 1, WorkloadState(seen_ms=SEEN, steps_per_s=steps_per_s, samples_per_s=samples_per_s, **more)


REPORTS: dict[str, tuple[list[Rank], tuple[float | None, float | None]]] = {
    "all ranks": ([reports(2, 64), reports(2.1, 65), reports(1.9, 63)], (2, 192)),
    "the first rank alone": ([reports(2, 64), reports(None, None)], (2, 64)),
    "a rank that does not count": ([reports(2, 64), reports(2, None)], (2, None)),
    "none": ([reports(None, None)] * 2, (None, None)),
}


@pytest.mark.parametrize(("ranks", "rates"), REPORTS.values(), ids=REPORTS.keys())
def test_the_steps_of_a_job_are_of_one_training(
    ranks: list[Rank], rates: tuple[float | None, float | None]
) -> None:
    for order in permutations(ranks):
        merged = merged_state(order)
        assert merged is not None
        assert (merged.steps_per_s, merged.samples_per_s) == rates


def test_where_the_period_of_a_job_is_from_say_most_of_its_gpus() -> None:
    told = {"confidence": 0.9, "period_s": 2.0}
    reported = {**told, "period_source": "reported", "cycle_steps": 1}
    most = merged_state([reports(0.5, 8, **reported), reports(0.5, 8, **reported), reports(0.5, 8, **told)])
    least = merged_state([reports(0.5, 8, **reported), reports(0.5, 8, **told), reports(0.5, 8, **told)])
    assert most is not None
    assert least is not None
    assert (most.period_s, most.period_source, most.cycle_steps) == (2, "reported", 1)
    assert (least.period_s, least.period_source, least.cycle_steps) == (2, None, None)


def test_since_when_is_that_of_the_middle_rank() -> None:
    assert job_cycle([rank(12.0, since=5), rank(12.0, since=9), rank(12.1, since=7)]).since_ms == 7


RANKS = st.lists(
    st.tuples(st.sampled_from([None, 3.0, 12.0, 12.1, 24.0, 300.0]), st.floats(0.5, 1), st.integers(1, 8)),
    max_size=12,
)


@given(RANKS, st.randoms())
def test_the_order_of_ranks_does_not_matter(drawn: list[Any], chance: Any) -> None:
    ranks = [rank(period_s, confidence, gpus=gpus) for period_s, confidence, gpus in drawn]
    found = job_cycle(ranks)
    chance.shuffle(ranks)
    again = job_cycle(ranks)
    assert (again.cyclic, again.period_s) == (found.cyclic, found.period_s)
    if found.period_s is not None:
        near = [gpus for gpus, one in ranks if one.period_s and abs(one.period_s / found.period_s - 1) < 0.03]
        assert sum(near) > sum(gpus for gpus, _ in ranks) / 3


def trend(
    at: int, util: float, memory: float, slope: float = 0.0, method: str | None = None
) -> dict[str, Any]:
    metrics = {"gpu_util_pct": (util, 0.0), "gpu_mem_used_bytes": (memory, slope)}
    return {"nvml": {"ts_ms": T + at, "metrics": {
        name: {"level": level, "slope_per_s": by, "forecast": [
            {"horizon_s": h, "value": level + by * h, "p05": level + by * h - 1, "p95": level + by * h + 1}
            | ({"method": method} if method else {})
            for h in (10, 300)
        ]} for name, (level, by) in metrics.items()
    }}}  # fmt: skip


def state(at: int, **more: Any) -> WorkloadState:
    return from_plain(WorkloadState, {"seen_ms": T + at} | more, "t")


def test_a_percentage_is_the_mean_over_the_gpus_and_an_amount_the_sum() -> None:
    full = T + 500_000
    ranks = [
        (3, state(0, trends=trend(0, 80, 100, 2.0))),
        (1, state(0, trends=trend(0, 40, 60), gpu_mem_full_ms=full)),
    ]
    found = job_trends(ranks, "nvml", T + 100_000)
    util, memory = found["gpu_util_pct"], found["gpu_mem_used_bytes"]
    assert (util.level, memory.level, memory.slope_per_s) == (70, 160, 2)
    assert [(one.horizon_s, one.value, one.p05, one.p95) for one in memory.forecast] == [
        (10, 180, 178, 182), (300, 760, 758, 762),
    ]  # fmt: skip
    assert (util.exhausts_in_s, memory.exhausts_in_s) == (None, 400)
    assert job_trends([*ranks, (1, state(0))], "nvml", T) == {}  # of one rank nothing is known
    assert job_trends(ranks, "cgroup", T) == {}


@pytest.mark.parametrize(
    ("methods", "method"),
    [
        (["persistence", "persistence"], "persistence"),
        (["persistence", "cycle"], "blend"),
        (["blend", None], "blend"),
        ([None, None], None),
    ],
)
def test_a_job_is_forecast_as_all_its_ranks_are(methods: list[str | None], method: str | None) -> None:
    ranks = [(1, state(0, trends=trend(0, 80, 100, method=of))) for of in methods]
    trends = job_trends(ranks, "nvml", T)
    assert {one.method for metric in trends.values() for one in metric.forecast} == {method}


def part(uid: str, at: int, gone_ms: int | None = None, **more: Any) -> bytes:
    told = {"seen_ms": T + at, **more}
    plain = PART | {"pod_uid": uid, "pod_name": uid, "ts_ms": T + at, "state": told}
    return orjson.dumps(plain | ({} if gone_ms is None else {"gone_ms": T + gone_ms}))


def take(operator: Operator, value: bytes) -> None:
    operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", value, 0))


def settled(operator: Operator) -> dict[str, bytes]:
    outs = [one for one in operator.flush() if isinstance(one, ProducerRecord)]
    return {f"{one.topic} {one.key}": one.value or b"" for one in outs if one.topic in ("cycles", "trends")}


CYCLE: dict[str, Any] = {"period_s": 12.0, "confidence": 0.9, "cycle_since_ms": T}
LIVES = [
    part("a", 30_000, **CYCLE, cycle_ms=T + 20_000, trends=trend(25_000, 80, 100)),
    part("a", 90_000, **CYCLE, cycle_ms=T + 20_000, trends=trend(25_000, 80, 100)),
    part("b", 60_000, **CYCLE, cycle_ms=T + 10_000, trends=trend(55_000, 60, 50)),
    part("b", 120_000, 130_000, **CYCLE, cycle_ms=T + 10_000, trends=trend(55_000, 60, 50)),
    part("c", 90_000, cycle_ms=T + 85_000),
]


def test_the_last_records_depend_on_neither_order_nor_restarts() -> None:
    last = []
    for order in permutations(LIVES):
        at_once, in_turn = STAGE.build("j", None), STAGE.build("j", None)
        found: dict[str, bytes] = {}
        for value in order:
            take(at_once, value)
            take(in_turn, value)
            found |= settled(in_turn)
            in_turn = STAGE.build("j", from_bytes(to_bytes(in_turn.snapshot())))
            assert settled(in_turn) == {}
        last += [found, settled(at_once)]
    assert all(one == last[0] for one in last)
    cycle = decode(Cycle, last[0]["cycles job/j/nvml"], "cycles")
    assert (cycle.ts_ms, cycle.metrics["gpu_util_pct"].period_s) == (T + 130_000, 12.0)  # one of two is left
    said = decode(Trend, last[0]["trends job/j/nvml"], "trends")
    assert (said.ts_ms, said.metrics) == (T + 130_000, {})  # of c nothing is known


def test_a_cycle_is_told_as_of_when_it_had_lasted() -> None:
    operator = STAGE.build("j", None)
    for at, wanted in ((30_000, (20_000, None)), (60_000, (54_000, 12.0))):
        take(operator, part("a", at, **CYCLE, cycle_ms=T + 20_000))
        cycle = decode(Cycle, settled(operator)["cycles job/j/nvml"], "cycles")
        assert (cycle.ts_ms - T, cycle.metrics["gpu_util_pct"].period_s) == wanted


def test_a_job_whose_pods_never_had_any_says_nothing() -> None:
    operator = STAGE.build("j", None)
    take(operator, part("a", 30_000))
    assert settled(operator) == {}


def test_with_a_cycle_a_pod_is_expected_to_be_anywhere_in_it() -> None:
    """Three quarters of its 12 s at 90 %, the rest at 10 %: by the second, and one that was not seen."""
    util = np.array([90 if second % 12 < 9 else 10 for second in range(240)], np.uint8)
    util[-5] = ABSENT_CODE
    published = trend(0, 33, 5)["nvml"]
    end_ms = T - T % STATE_MS + STATE_MS
    for period_s, wanted in ((12.0, (70.0, 10.0, 90.0)), (None, (33.0, 32.0, 34.0))):
        span = InsightPart(uid="p", source="nvml", start_ms=end_ms - SPAN_MS, period_s=period_s,
                           trend=from_plain(PodTrend, published, "t"))  # fmt: skip
        tracker = StateTracker()
        tracker.add(JoinedSpan(span, None), "training", None, util)
        assert tracker.state is not None
        assert tracker.state.trends is not None
        found: TrendMetric = tracker.state.trends["nvml"].metrics["gpu_util_pct"]
        assert [(one.value, one.p05, one.p95) for one in found.forecast] == [
            pytest.approx(wanted, abs=0.5)
        ] * 2

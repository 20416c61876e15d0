"""What holds of a pod and a job beside the insight: the cycle, its loss, when memory is full."""

import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.generators_jobs import pod
from dutycycle.contract.codec import decode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.derived import Forecast, TrendMetric
from dutycycle.contract.records.parts import (
    InsightPart,
    JobInsight,
    JobInsightPart,
    PodInsight,
    PodTrend,
    WorkloadState,
)
from dutycycle.contract.records.pods import JobRef
from streams.local import LocalPipeline
from streams.operators.workload.channels import ABSENT_CODE, SPAN_MS
from streams.operators.workload.jobs.operator import job_state
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.rules.state import STATE_MS, StateTracker
from tests.streams.operators.workload.test_insights import (
    NOTHING,
    STAGES,
    START_MS,
    in_turn,
    parts,
    run,
    sent,
    shuffled,
)

BEGIN_MS = START_MS - START_MS % STATE_MS
UNSEEN = np.full(240, ABSENT_CODE, np.uint8)
KINDS = {"t": "training", "i": "inference"}


def followed(*stretches: tuple[str, int]) -> StateTracker:
    """Spans in a row: ``T`` a training with a cycle, ``t`` without, ``I`` and ``i`` the same of inference."""
    tracker, start_ms = StateTracker(), BEGIN_MS
    for letter, spans in stretches:
        for _ in range(spans):
            period_s = 12.5 if letter.isupper() else None
            part = InsightPart(uid="p", source="nvml", start_ms=start_ms, period_s=period_s)
            tracker.add(JoinedSpan(part, None), KINDS[letter.lower()], 5, UNSEEN)
            tracker = from_plain(StateTracker, to_plain(tracker), "t")
            start_ms += SPAN_MS
    return tracker


LOST: dict[str, tuple[list[tuple[str, int]], int | None]] = {
    "never": ([("t", 30)], None),
    "it steps": ([("T", 90)], None),
    "lost": ([("T", 60), ("t", 30)], 60),
    "too short a cycle": ([("T", 57), ("t", 30)], None),
    "found again": ([("T", 60), ("t", 30), ("T", 3)], None),
    "found again and lost at once": ([("T", 60), ("t", 30), ("T", 3), ("t", 3)], 93),
    "no training": ([("I", 60), ("i", 30)], None),
    "another kind once it stopped": ([("T", 60), ("i", 30)], 60),
}


@pytest.mark.parametrize(("stretches", "lost"), LOST.values(), ids=LOST.keys())
def test_when_a_cycle_counts_as_lost(stretches: list[tuple[str, int]], lost: int | None) -> None:
    state = followed(*stretches).state
    assert state is not None
    assert state.idle_since_ms == 5
    assert state.lost_ms == (None if lost is None else BEGIN_MS + lost * SPAN_MS)


def test_the_state_is_that_of_the_last_half_minute() -> None:
    states = [followed(("t", 1), ("T", spans)).state for spans in range(1, 6)]
    assert [one and (one.seen_ms - BEGIN_MS, one.period_s) for one in states] == [
        (10_000, None), (30_000, 12.5), (30_000, 12.5), (30_000, 12.5), (60_000, 12.5),
    ]  # fmt: skip


def job_part(uid: str, *, gone: bool = False, **state: Any) -> JobInsightPart:
    return JobInsightPart(
        job=JobRef(api_version="v1", kind="Job", name="j", uid="j"), pod_uid=uid, pod_name=uid, ts_ms=1,
        insight_ms=1, since_ms=1, kind="training", confidence=1.0, bottleneck="gpu",
        bottleneck_confidence=1.0, gpus=1, gone_ms=5 if gone else None,
        state=WorkloadState(**({"seen_ms": 100} | state)),
    )  # fmt: skip


CYCLE: dict[str, Any] = {"period_s": 3.0, "confidence": 0.8}
JOBS: dict[str, tuple[list[JobInsightPart], WorkloadState | None]] = {
    "the cycle of most, not the surest": (
        [job_part("a", **CYCLE), job_part("b", period_s=6.0, confidence=0.99, seen_ms=200),
         job_part("c", period_s=3.02, confidence=0.7)],
        WorkloadState(seen_ms=200, period_s=3.0, confidence=0.75),
    ),
    "a cycle of one of three": (
        [job_part("a", **CYCLE), job_part("b"), job_part("c")], WorkloadState(seen_ms=100),
    ),
    "one rank lost it": (
        [job_part("a", **CYCLE), job_part("b", lost_ms=7)], WorkloadState(seen_ms=100, **CYCLE),
    ),
    "all lost it": (
        [job_part("a", lost_ms=9), job_part("b", lost_ms=7), job_part("c")],
        WorkloadState(seen_ms=100, lost_ms=9),
    ),
    "the only one that has it ended": (
        [job_part("a", gone=True, **CYCLE), job_part("b", lost_ms=7)], WorkloadState(seen_ms=100, lost_ms=7),
    ),
    "the first whose memory is full": (
        [job_part("a", mem_full_ms=70), job_part("b", mem_full_ms=60), job_part("c")],
        WorkloadState(seen_ms=100, mem_full_ms=60),
    ),
    "all ended": ([job_part("a", gone=True, lost_ms=7)], None),
}  # fmt: skip


@pytest.mark.parametrize(("ranks", "state"), JOBS.values(), ids=JOBS.keys())
def test_the_state_of_a_job(ranks: list[JobInsightPart], state: WorkloadState | None) -> None:
    assert all(job_state(order) == state for order in permutations(ranks))


def test_it_reaches_the_records_for_the_sinks_however_the_topics_interleave() -> None:
    of = parts(pod("steady", 2000))
    end_ms = START_MS + 3_600_000
    of["nvml"] = [replace(one, period_s=12.5, period_confidence=0.9) for one in of["nvml"]]
    of["cgroup"] = [replace(one, mem_full_ms=end_ms) for one in of["cgroup"]]
    seeds = random.Random(5).sample(range(1000), 3)  # noqa: S311 - a simulation
    found = []
    for feed in (in_turn(of), *(shuffled(of, seed) for seed in seeds)):
        outs = run(STAGES["insights"].build("p", None), feed)
        newest = decode(PodInsight, sent(outs, "pod-insights")[-1].value or b"", "pod-insights")
        job = STAGES["job-insights"].build("j", None)
        for one in sent(outs, "job-insight-parts"):
            job.update(ConsumerRecord(one.topic, 0, 0, one.key, one.value, one.ts_ms))
        last = decode(JobInsight, sent(job.flush(), "job-insights")[-1].value or b"", "job-insights")
        assert last.state == newest.state
        found.append(newest)
    state = found[0].state
    assert state is not None
    assert (state.period_s, state.confidence, state.mem_full_ms) == (12.5, 0.9, end_ms)
    assert state.seen_ms % STATE_MS == 0
    assert all(one == found[0] for one in found)


@pytest.mark.slow  # twenty minutes of samples
def test_a_training_that_hangs_has_lost_its_cycle_and_its_memory_will_be_full() -> None:
    """Samples of a node in, what the sinks are told out: steps of 20 s, then 100 % for ever."""
    hangs_s, local = 960, LocalPipeline(STAGES.values())
    feed = samples(hangs_s + 240, hangs_s)
    known = [out for one in feed for out in [*local.feed(one), *local.flush()]]
    told = [decode(JobInsight, one.value or b"", one.topic) for one in known if one.topic == "job-insights"]
    states = {one.state.seen_ms: one.state for one in told if one.state is not None}
    steps = [one for ms, one in states.items() if 120_000 <= ms - BEGIN_MS <= hangs_s * 1000]  # from 90 s on
    assert {round(one.period_s or 0) for one in steps} == {20}
    assert {one.lost_ms for one in steps} == {None}
    last = states[max(states)]
    assert last.period_s is None
    assert last.lost_ms is not None
    assert 0 < last.lost_ms - BEGIN_MS - hangs_s * 1000 <= 60_000
    assert last.mem_full_ms == pytest.approx(BEGIN_MS + 2_000_000, abs=20_000)


def samples(until_s: int, hangs_s: int) -> Iterator[ConsumerRecord]:
    """A pod of the job ``j`` on a GPU; its memory reaches the limit at 2,000 s."""
    head = {"v": 1, "node": "a", "collector": "c", "interval_ms": 1000}
    gpu: dict[str, Any] = {"uuid": "G", "index": 0, "mem_total_bytes": 80e9, "power_limit_w": 700}
    yield _record("pods", "p", 0, to_plain(replace(NOTHING, name="name-p")) | {"v": 1})
    for second in range(until_s):
        util = 100 if second >= hangs_s else 4 if second % 20 > 14 else 94 + second % 5
        process = {"pid": 7, "pod_uid": "p", "gpu_util_pct": util, "mem_used_bytes": 60e9}
        now = {"gpu_util_pct": util, "mem_copy_util_pct": util // 3, "power_w": 70 + 5 * util}
        memory = {"mem_used_bytes": 1e9 + 2e6 * second, "mem_limit_bytes": 5e9}
        tick = head | {"seq": second, "ts_ms": BEGIN_MS + second * 1000}
        yield _record("nvml-samples", "a", second, tick | {"gpus": [gpu | now | {"processes": [process]}]})
        pods = [{"uid": "p", "containers": [{"id": "p", "cpu_util_pct": 130} | memory]}]
        yield _record("cgroup-samples", "a", second, tick | {"host": {"cpu_util_pct": 500}, "pods": pods})


def _record(topic: str, key: str, second: int, plain: dict[str, Any]) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, key, orjson.dumps(plain), BEGIN_MS + second * 1000)


@given(st.lists(st.integers(0, ABSENT_CODE - 1), min_size=1, max_size=240), st.floats(0.5, 100))
def test_the_forecast_of_a_pod_with_a_cycle_is_the_range_of_its_whole_cycles(
    codes: list[int], period_s: float
) -> None:
    util = np.array(codes, np.uint8)
    trend = TrendMetric(level=1, slope_per_s=1.0, forecast=(Forecast(horizon_s=60, value=1, p05=1, p95=1),))
    part = InsightPart(
        uid="p", source="nvml", start_ms=BEGIN_MS, period_s=period_s,
        trend=PodTrend(ts_ms=BEGIN_MS, metrics={"gpu_util_pct": trend}),
    )  # fmt: skip
    tracker = StateTracker()
    tracker.add(JoinedSpan(part, None), "training", None, util)
    assert tracker.state is not None
    assert tracker.state.trends is not None
    said = tracker.state.trends["nvml"].metrics["gpu_util_pct"]
    whole = len(util) if period_s > len(util) else round(len(util) // period_s * period_s)
    assert said.slope_per_s == 0
    assert [[one.p05, one.p95] for one in said.forecast] == [np.percentile(util[-whole:], (5, 95)).tolist()]

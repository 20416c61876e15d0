"""What a job is said to be: a function of the set of its pods' parts, of those that are there."""

import random
from collections.abc import Iterable
from itertools import chain, permutations
from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import JobInsightPart
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.operators.base import Operator
from streams.operators.workload.jobs.operator import CONFIRMING_PARTS
from streams.operators.workload.ranks import RANK_SAMPLE_MS, RankSamples
from streams.state.codec import from_bytes, to_bytes
from streams.topology import stages

STAGES = {stage.name: stage for stage in stages(load({}))}
START_MS = 1_700_000_100_000
"""A time of rank samples."""
JOB = {"api_version": "v1", "kind": "Job", "name": "j", "uid": "j"}
RANK = {
    "v": 1, "job": JOB, "ts_ms": START_MS, "insight_ms": START_MS, "since_ms": START_MS,
    "kind": "training", "confidence": 0.9, "bottleneck": "gpu", "bottleneck_confidence": 0.9, "gpus": 1,
    "evidence": {"gpus": 1, "power_w": 500},
}  # fmt: skip


def part(uid: str, power_pct: float = 80.0, at_s: float = 0, **more: Any) -> bytes:
    """Of the pod ``uid``, seen until ``at_s`` after the start."""
    plain = {"pod_uid": uid, "pod_name": f"name-{uid}", "ts_ms": START_MS + int(at_s * 1000),
             "rank_figures": {"power_pct": power_pct}}  # fmt: skip
    return orjson.dumps(RANK | plain | more)


def settled(operator: Operator, values: Iterable[bytes]) -> list[Insight]:
    """What is told once all of ``values`` are there."""
    for value in values:
        operator.update(ConsumerRecord("job-insight-parts", 0, 0, "j", value, 0))
    outs = [one for one in operator.flush() if isinstance(one, ProducerRecord) and one.topic == "insights"]
    found = [decode(Insight, one.value or b"", "insights") for one in outs]
    assert [one.ts_ms for one in outs] == [one.ts_ms for one in found]
    return found


def job() -> Operator:
    return STAGES["job-insights"].build("j", None)


def in_any_order(values: list[bytes]) -> Insight:
    """What is told last; asserts that neither order, nor settling, nor restarts matter."""
    results = []
    for order in permutations(values):
        (at_once,) = settled(job(), order)
        operator, told = job(), []
        for value in order:
            told += settled(operator, [value])
            operator = STAGES["job-insights"].build("j", from_bytes(to_bytes(operator.snapshot())))
        results += [at_once, told[-1]]
    assert all(one == results[0] for one in results)
    return results[0]


def test_a_pod_that_has_ended_counts_no_more() -> None:
    ended_ms = START_MS + 60_000
    told = in_any_order(
        [part("0"), part("1", 80, 50), part("2", 10, 50), part("2", 10, 50, gone_ms=ended_ms)]
    )
    assert told.evidence == {"pods": 2, "gpus": 2, "power_w": 1000}
    assert (told.bottleneck, told.ts_ms) == ("gpu", ended_ms)


def test_of_pods_of_one_name_the_newest_counts() -> None:
    """The first hung, and did not say that it ended."""
    lives = [
        part("1", 10, 400, pod_name="rank", created_ms=START_MS),
        part("2", 80, 390, pod_name="rank", created_ms=START_MS + 200_000),
    ]
    told = in_any_order([part("0", 80, 300), *lives])
    assert (told.evidence["pods"], told.evidence["gpus"], told.bottleneck) == (2, 2, "gpu")


def test_of_a_job_that_has_ended_those_count_that_ended_last() -> None:
    told = in_any_order([
        part("0", 80, 300, gone_ms=START_MS + 310_000), part("1", 80, 300, gone_ms=START_MS + 312_000),
        part("2", 10, 100, gone_ms=START_MS + 110_000),
    ])  # fmt: skip
    assert (told.evidence["pods"], told.bottleneck, told.ts_ms) == (2, "gpu", START_MS + 312_000)


def test_the_time_of_a_record_is_that_of_the_newest_news_and_never_goes_back() -> None:
    operator, told = job(), []
    sample_ms = START_MS + RANK_SAMPLE_MS
    moved = {"rank_changed_ms": sample_ms, "rank_sample_ms": sample_ms, "rank_before": {"power_pct": 80.0}}
    unmoved = {"rank_before": {"power_pct": 80.0}, "rank_sample_ms": sample_ms}
    last = START_MS + 600_000
    for values in (
        [part("0"), part("1")],
        [part("0", 80, 190, **unmoved), part("1", 40, 190, **moved)],
        [part("1", 40, 590, gone_ms=last, **moved)],
        [part("0", 80, 1600)],  # the other has been silent for long
    ):
        told += settled(operator, values)
    assert [(one.ts_ms, one.bottleneck) for one in told] == [
        (START_MS, "gpu"), (sample_ms, "imbalance"), (last, "gpu"),
    ]  # fmt: skip


def test_ranks_are_compared_at_one_time() -> None:
    """All ranks write a checkpoint at once: those that told of it already are taken as they were before."""
    sample_ms = START_MS + RANK_SAMPLE_MS
    first = [part(uid, 80, 10, rank_sample_ms=START_MS, rank_changed_ms=START_MS) for uid in "01"]
    operator = job()
    assert [one.bottleneck for one in settled(operator, first)] == ["gpu"]
    for uid in "01":
        then = {"rank_before": {"power_pct": 80.0}, "rank_changed_ms": sample_ms, "rank_sample_ms": sample_ms}
        assert {one.bottleneck for one in settled(operator, [part(uid, 30, 190, **then)])} <= {"gpu"}


def test_nothing_is_told_while_ranks_stay_about_as_they_were() -> None:
    """Half an hour of 16 ranks, of which one waits; the others wander by some percent."""
    chance = random.Random(5)  # noqa: S311 - a simulation
    operator, told = job(), []
    ranks = {str(rank): RankSamples() for rank in range(16)}
    for second in range(10, 1800, 10):
        ts_ms = START_MS + second * 1000
        for uid, samples in ranks.items():
            if samples.is_due(ts_ms):
                samples.add(ts_ms, {"power_pct": (45 if uid == "7" else 80) + chance.uniform(-1.2, 1.2)})
            elif second > 10:
                continue
            more: dict[str, Any] = {
                "rank_before": samples.before,
                "rank_changed_ms": samples.changed_ms,
                "rank_sample_ms": samples.sample_ms,
            }
            told += settled(operator, [part(uid, at_s=second, rank_figures=samples.figures, **more)])
    assert [(one.bottleneck, one.ts_ms) for one in told if one.evidence["pods"] == 16] == [
        ("gpu", START_MS), ("gpu", START_MS + RANK_SAMPLE_MS), ("imbalance", START_MS + RANK_SAMPLE_MS),
    ]  # fmt: skip
    assert told[-1].evidence["rank_gap_pct"] == 40


@pytest.mark.parametrize(("gap", "told", "sure"), [(24, 20, 0.5), (33, 30, 0.74), (60, 60, 0.98)])
def test_a_gap_is_told_as_round_as_it_is_known(gap: float, told: float, sure: float) -> None:
    (found,) = settled(job(), [part("0", 90), part("1", 90 - gap)])
    assert (found.evidence["rank_gap_pct"], found.bottleneck_confidence) == (told, sure)


Sent = list[tuple[int, bytes]]
"""Parts, each with the minute at which it comes to lie in the log."""


def sent(uid: str, minutes: range, ahead: int = 0, read_at: int | None = None, **more: Any) -> Sent:
    """Of a pod, a part at each of ``minutes``. ``ahead``: minutes by which its clock is. ``read_at``: until
    then its partition was not read."""
    return [
        (minute if read_at is None else read_at, part(uid, at_s=60 * (minute + ahead), **more))
        for minute in minutes
    ]


YEARS = 5_000_000
SILENT: dict[str, tuple[str, list[Sent]]] = {
    "not for long enough": ("ab", [sent("a", range(1)), sent("b", range(1, 16, 3))]),
    "for a quarter of an hour": ("b", [sent("a", range(1)), sent("b", range(1, 20, 3))]),
    "while one was there that came before": ("ab", [
        sent("a", range(0, 41, 3)), sent("c", range(1)), sent("b", range(1, 41, 3)),
    ]),
    "and the part after it is an old one": ("a", [
        sent("a", range(0, 10, 3), epoch=2), sent("b", range(1)), sent("a", range(12, 19, 3)),
    ]),
    "and there again": ("ab", [sent("a", range(0, 40, 39)), sent("b", range(1, 41, 3))]),
    "all were": ("ab", [sent("a", range(4)), sent("b", range(5)), sent("b", range(600, 608, 3))]),
    "none, of three clocks": ("abc", [
        sent("a", range(0, 60, 3), 60), sent("b", range(1, 60, 3), -YEARS), sent("c", range(2, 60, 3)),
    ]),
    "with a clock ahead, until others reach it": ("b", [sent("a", range(1), 60), sent("b", range(1, 80, 3))]),
    "with a clock ahead, not yet": ("ab", [sent("a", range(1), 60), sent("b", range(1, 60, 3))]),
    "with a clock ahead by years": ("b", [
        sent("a", range(1), YEARS), sent("b", range(1, 20 + 3 * CONFIRMING_PARTS, 3)),
    ]),
    "with a clock behind by years": ("b", [sent("a", range(1), -YEARS), sent("b", range(1, 20, 3))]),
    "none, and a clock went ahead": ("ab", [
        sent("a", range(0, 12, 3)), sent("b", range(1, 5, 3)), sent("b", range(7, 11, 3), YEARS),
    ]),
    "none, and a clock was set right": ("ab", [
        sent("a", range(0, 92, 3)), sent("b", range(1, 32, 3), 60), sent("b", range(34, 92, 3), epoch=1),
    ]),
    "none, one was read hours late": ("ab", [
        sent("a", range(0, 301, 3)), sent("b", range(1, 301, 3), read_at=301),
    ]),
    "none, read in turns of an hour": ("ab", [
        sent("a", range(0, 61, 3)), sent("b", range(1, 121, 3), read_at=61),
        sent("a", range(63, 121, 3), read_at=62),
    ]),
}  # fmt: skip
"""Which of the pods count at last, and the parts of each."""


@pytest.mark.parametrize("case", SILENT)
def test_which_pods_are_silent_is_decided_by_the_log_alone(case: str) -> None:
    pods, parts = SILENT[case]
    values = [value for _, value in sorted(chain(*parts), key=lambda lying: lying[0])]
    never, always, insights = job(), job(), []
    for value in values:
        never.update(ConsumerRecord("job-insight-parts", 0, 0, "j", value, 0))
        insights += settled(always, [value])
        always = STAGES["job-insights"].build("j", from_bytes(to_bytes(always.snapshot())))
    assert settled(never, []) == insights[-1:]
    assert insights[-1].evidence["pods"] == len(pods)
    states = [never.snapshot(), always.snapshot()]
    assert all(state["parts"].keys() == set(pods) for state in states)
    assert states[0]["clock"] == states[1]["clock"]
    assert [*states[0]["taken_ms"].items()] == [*states[1]["taken_ms"].items()]


def test_pods_one_after_the_other_leave_the_state_again() -> None:
    operator = job()
    for number in range(200):
        settled(operator, [part(f"{number}", at_s=60 * number)])
    assert operator.snapshot()["parts"].keys() == {str(number) for number in range(184, 200)}


def test_a_pod_whose_epochs_were_forgotten_counts_again_after_a_while() -> None:
    """It came back after its own state had left: what its job knows of it looks newer for ever."""
    operator = job()
    insights = settled(operator, [part("a", epoch=2), *(value for _, value in sent("a", range(3, 16, 3)))])
    assert [insight.kind for insight in insights] == ["training"]
    (idle,) = settled(operator, [part("a", at_s=60 * 18, kind="idle")])
    assert idle.kind == "idle"


def test_figures_stay_as_they_were_until_they_moved() -> None:
    """By ten percent, or, each quarter of an hour, by what can be seen."""
    samples, found = RankSamples(), []
    assert not samples.is_due(START_MS + 40_000), "the first sample is to come"
    for number, now in enumerate((80.0, 85.0, 91.0, 83.0, 83.0, 83.0, 72.0), 1):
        assert not samples.is_due(START_MS + number * RANK_SAMPLE_MS - 10_000)
        assert samples.is_due(START_MS + number * RANK_SAMPLE_MS)
        samples.add(
            START_MS + number * RANK_SAMPLE_MS, {"power_pct": now, "mem_copy_util_pct": 10.0 * number}
        )
        found.append(samples.figures["power_pct"])
    assert found == [80, 80, 91, 91, 83, 83, 72]
    assert (samples.before, samples.changed_ms) == ({"power_pct": 83.0}, samples.sample_ms)


def _life(uid: str, since_s: int, until_s: int, end: dict[str, Any] | None) -> list[ConsumerRecord]:
    """A pod that trains on a node of its own."""
    head = {"v": 1, "node": f"n-{uid}", "collector": "c", "interval_ms": 1000}
    who = {"v": 1, "uid": uid, "name": f"name-{uid}", "node": f"n-{uid}", "phase": "Running", "job": JOB}
    found = [_at("pods", uid, since_s, who)]
    for second in range(since_s, until_s):
        util = 4 if second % 20 > 17 else 94 + second % 5
        process = {"pid": 7, "pod_uid": uid, "gpu_util_pct": util, "mem_used_bytes": 60 * 10**9}
        gpu = {"uuid": f"GPU-{uid}", "index": 0, "gpu_util_pct": util, "mem_copy_util_pct": util // 3,
               "mem_total_bytes": 80 * 10**9, "power_w": 70 + 5 * util, "power_limit_w": 700,
               "processes": [process]}  # fmt: skip
        container = {"id": uid, "cpu_util_pct": 130, "mem_used_bytes": 10**9}
        host = {"cpu_util_pct": 500, "cpu_count": 64}
        tick = head | {"seq": second, "ts_ms": START_MS + second * 1000}
        found.append(_at("nvml-samples", f"n-{uid}", second, tick | {"gpus": [gpu]}))
        pods = [{"uid": uid, "containers": [container]}]
        found.append(_at("cgroup-samples", f"n-{uid}", second, tick | {"host": host, "pods": pods}))
    if end is None:
        return [*found, ConsumerRecord("pods", 0, 0, uid, None, START_MS + until_s * 1000)]
    return [*found, _at("pods", uid, until_s, who | end)]


def _at(topic: str, key: str, second: int, plain: dict[str, Any]) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, key, orjson.dumps(plain), START_MS + second * 1000)


@pytest.mark.parametrize(
    "end", [{"phase": "Failed"}, {"phase": "Failed", "finished_ms": START_MS + 99_500}, None]
)
def test_a_pod_says_that_it_ended(end: dict[str, Any] | None) -> None:
    """Its identity and its last samples come in any order."""
    *samples, identity = _life("p", 0, 100, end)
    told = []
    for records in ([*samples, identity], [samples[0], identity, *samples[1:]]):
        local = LocalPipeline(STAGES.values())
        outs = [out for one in records for out in local.feed(one)] + local.flush()
        parts = [out for out in outs if out.topic == "job-insight-parts"]
        told.append(decode(JobInsightPart, parts[-1].value or b"", "job-insight-parts"))
    gone_ms = START_MS + 100_000 if not end or "finished_ms" not in end else end["finished_ms"]
    assert told[0].gone_ms == gone_ms
    assert told[0] == told[1]


@pytest.mark.parametrize("back", [{}, {"phase": "Failed", "finished_ms": START_MS + 90_000}, None])
def test_an_end_that_is_taken_back_or_moved_counts_whatever_was_sent_before(
    back: dict[str, Any] | None,
) -> None:
    """By a manifest's hash a pod is there again under its uid; ``None``: and ends at the same moment."""
    begun, *samples, gone = _life("p", 0, 200, None)
    again = _at("pods", "p", 100, orjson.loads(begun.value or b"") | (back or {}))
    identities = [gone, again] if back is not None else [gone, again, gone]
    newest = []
    for between in (len(samples), 0):  # the job hears of each identity, or of the last alone
        local, outs = LocalPipeline(STAGES.values()), []
        for one in [begun, *samples[:between], *identities, *samples[between:]]:
            outs += local.feed(one) + (local.flush() if one.topic == "pods" else [])
        newest.append({(out.topic, out.key): out.value for out in outs + local.flush()})
    of_job = [slot for slot in newest[0] if slot[1] in ("j", "job/j", "job/j/nvml", "job/j/cgroup")]
    assert len(of_job) > 5
    assert [newest[0][slot] for slot in of_job] == [newest[1].get(slot) for slot in of_job]
    peaks = orjson.loads(newest[0]["job-peaks", "j"] or b"")
    assert peaks["final"] is (back != {})


def test_a_job_is_without_a_pod_that_ended() -> None:
    lives = _life("p", 0, 200, None) + _life("q", 0, 120, {"phase": "Failed"})
    local = LocalPipeline(STAGES.values())
    outs = [out for one in sorted(lives, key=lambda one: one.ts_ms) for out in local.feed(one)]
    jobs = [orjson.loads(out.value or b"") for out in outs if (out.topic, out.key) == ("insights", "job/j")]
    assert {one["evidence"]["pods"] for one in jobs[:-1]} == {2}
    assert jobs[-1]["evidence"]["pods"] == 1
    assert jobs[-1]["ts_ms"] == START_MS + 120_000


@pytest.mark.parametrize(
    ("owner", "bottleneck"), [("Job", "heat"), ("StatefulSet", "heat"), ("Deployment", "gpu")]
)
def test_one_that_heat_holds_down_holds_up_ranks_and_no_servers(owner: str, bottleneck: str) -> None:
    held: dict[str, Any] = {
        "bottleneck": "heat",
        # What is known of this pod alone is none of the job's: requests, rates, counters.
        "evidence": {
            "gpus": 1, "power_w": 200, "throttled_heat_pct": 90,
            "cpu_request_cores": 4, "samples_per_s": 10, "sm_active_pct": 70,
        },
    }  # fmt: skip
    of = JOB | {"kind": owner}
    (told,) = settled(job(), [*(part(uid, job=of) for uid in "0123"), part("4", job=of, **held)])
    assert told.bottleneck == bottleneck
    assert ("name-4" in (told.advice or "")) == (bottleneck == "heat")
    of_heat = {"throttled_heat_pct": 90, "held_gpus": 1} if bottleneck == "heat" else {}
    assert told.evidence == {"pods": 5, "gpus": 5, "power_w": 2200} | of_heat


@pytest.mark.parametrize(("pods", "mean"), [(1, None), (2, None), (3, 70)])
def test_a_mean_that_few_pods_have_is_no_mean_of_the_job(pods: int, mean: float | None) -> None:
    told_by: dict[str, Any] = {"evidence": {"gpus": 1, "power_w": 500, "sm_active_pct": 70}}
    parts = [part(str(pod), **(told_by if pod < pods else {})) for pod in range(4)]
    (told,) = settled(job(), parts)
    assert told.evidence.get("sm_active_pct") == mean
    assert told.evidence["power_w"] == 2000

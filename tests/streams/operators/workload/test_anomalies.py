"""Goal: each fault is told by its name with evidence, normal work is not, and a restart changes nothing.

========== =====================================================================
 faults     of generated jobs, on seeds of their own: what is told, and of whom
 controls   the same jobs without a fault: nothing
 restart    plain data and back after each minute: the same
 samples    of a node, through all stages: on the insights of the pod and its job
 jobs       what shows only between the pods of a job
========== =====================================================================
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import orjson
import pytest

from bench.bench_anomaly import minutes_of, ours, periods
from bench.generators_anomalies import FAULTS, HURT, job
from dutycycle.contract.codec import decode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.insights import Anomaly, Insight
from dutycycle.contract.records.parts import JobInsightPart
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.operators.workload.anomalies.finder import AnomalyFinder
from streams.operators.workload.anomalies.minute import GpuMinute, Minute
from streams.operators.workload.jobs.operator import job_insight
from streams.topology import stages
from tests.support.targets import slow_after

SEED = 902
START_MS = 1_700_000_040_000  # a full minute


@pytest.mark.parametrize("fault", slow_after(1, FAULTS))
def test_a_fault_is_told_by_its_name(fault: str) -> None:
    one = job(HURT[fault][0], SEED, fault)
    (period_s,) = periods([one])
    told = ours(one, period_s)
    assert told.false == []
    assert told.after({FAULTS[fault]}) is not None


@pytest.mark.parametrize("shape", slow_after(1, ["cyclic", "saves_long", "sweep", "notebook"]))
def test_normal_work_is_not(shape: str) -> None:
    one = job(shape, SEED)
    (period_s,) = periods([one])
    assert ours(one, period_s).begun == []


def test_plain_data_and_back_changes_nothing() -> None:
    one = job("cyclic", SEED, "slow GPU")
    (period_s,) = periods([one])
    straight, other = AnomalyFinder(), AnomalyFinder()
    for minute in minutes_of(one, period_s):
        other = from_plain(AnomalyFinder, orjson.loads(orjson.dumps(to_plain(other))), "t")
        assert straight.add(minute) == other.add(minute)
        assert straight == other
    assert straight.current


def samples(minutes: int, hot_from: int, hangs_from: int) -> Iterator[ConsumerRecord]:
    """Of a pod with four GPUs that trains in steps of ten seconds: of GPU 2 the fan stops in one minute, and
    in another its process does, for which the others wait."""
    who = {
        "v": 1, "uid": "p", "namespace": "ml", "name": "bert-0", "node": "a", "phase": "Running",
        "gpu_request": 4, "job": {"api_version": "v1", "kind": "Job", "name": "bert", "uid": "j"},
    }  # fmt: skip
    yield ConsumerRecord("pods", 0, 0, "p", orjson.dumps(who), START_MS)
    chance = np.random.default_rng(5)
    for second in range(60 * minutes):
        hung, hot = second >= 60 * hangs_from, second >= 60 * hot_from
        busy = second % 10 < 8
        gpus = []
        for index in range(4):
            stopped = hung and index == 2
            util = 0 if stopped else 100 if hung else int(90 * busy + chance.integers(0, 6))
            power = (90.0 if stopped else 200.0) if hung else 120.0 + 4.2 * util + float(chance.normal(0, 5))
            gpus.append({
                "uuid": f"G-{index}", "index": index, "gpu_util_pct": util,
                "mem_copy_util_pct": 0 if hung else util // 3, "mem_used_bytes": 60 * 2**30,
                "mem_total_bytes": 80 * 2**30, "power_w": power, "power_limit_w": 700,
                "temp_c": 55 + index + 18 * (hot and index == 2) + int(chance.integers(0, 2)),
                "sm_clock_mhz": 1900 + int(chance.integers(0, 20)),
                "processes": [{"pid": 10 + index, "pod_uid": "p", "gpu_util_pct": util}],
            })  # fmt: skip
        head = {"v": 1, "node": "a", "collector": "c", "seq": second, "ts_ms": START_MS + 1000 * second,
                "interval_ms": 1000}  # fmt: skip
        pods = [{"uid": "p", "containers": [{"id": "c", "cpu_util_pct": 400.0, "mem_used_bytes": 2**34}]}]
        for topic, more in (("nvml", {"gpus": gpus}), ("cgroup", {"host": {}, "pods": pods})):
            value = orjson.dumps({**head, **more})
            yield ConsumerRecord(f"{topic}-samples", 0, second, "a", value, START_MS + 1000 * second)


@pytest.mark.slow  # seventy minutes of samples
def test_samples_of_a_node_become_anomalies_of_its_pod_and_its_job() -> None:
    pipeline, insights = LocalPipeline(stages(load({}, {}))), list[Insight]()
    for record in samples(70, hot_from=40, hangs_from=55):
        outs = pipeline.feed(record)
        insights += [decode(Insight, out.value or b"", "insights") for out in outs if out.topic == "insights"]
    assert not pipeline.happened
    for kind in ("pod", "job"):
        mine = [one for one in insights if one.subject.kind == kind]
        assert [one.ts_ms for one in mine] == sorted(one.ts_ms for one in mine)
        first = next(one for one in mine if one.anomalies)
        (hot,) = first.anomalies
        assert (hot.kind, hot.gpu, hot.pod) == ("hot_gpu", "a/2", "bert-0" if kind == "job" else None)
        assert START_MS + 40 * 60_000 <= hot.since_ms <= START_MS + 42 * 60_000
        assert hot.evidence["hotter_c"] == pytest.approx(18 + 1, abs=1.5)
        assert "a/2 is 19 °C hotter than the others, usually 1" in (hot.advice or "")
        last = mine[-1]
        hang = next(one for one in last.anomalies if one.kind == "hang")
        assert hang.pod == ("bert-0" if kind == "job" else None)
        assert "the rank on a/2 hangs" in (hang.advice or "")
        assert hang.evidence["stopped_gpus"] == 1


def work(minute: int, *, util_pct: float = 98.0, is_held: bool = True) -> Minute:
    """Of four GPUs, of which heat holds down one while all work."""
    gpus = [
        GpuMinute(f"a/{index}", util_pct, 60.0, 60.0, 1700.0, 0.0, 0.0) for index in range(3)
    ]  # fmt: skip
    held = GpuMinute("a/3", util_pct, 50.0, 88.0, 900.0 if is_held else 1700.0, 0.0, 90.0 * is_held)
    return Minute(
        end_ms=START_MS + 60_000 * minute, util_pct=util_pct, util_spread=1, power_pct=60, power_spread=1,
        mem_pct=75, copy_pct=30, period_s=None, gpus=(*gpus, held),
    )  # fmt: skip


def test_a_gpu_that_works_no_more_is_held_down_no_more() -> None:
    finder, held = AnomalyFinder(), []
    script = [98.0, 98.0, 98.0, 5.0, 98.0, 5.0, 5.0, 5.0]
    for number, util_pct in enumerate(script):
        finder.add(work(number, util_pct=util_pct))
        held.append((finder.siblings.held(), [anomaly.kind for anomaly in finder.current]))
    heat = ({"heat": 1}, ["slow_gpu"])
    # A pause of a minute ends nothing; two do.
    assert held == [({}, []), heat, heat, heat, heat, heat, ({}, []), ({}, [])]


def part(name: str, *anomalies: Anomaly, **figures: float) -> JobInsightPart:
    return JobInsightPart(
        job=JobRef(api_version="v1", kind="Job", name="j", uid="j"), pod_uid=name, pod_name=name, ts_ms=9,
        insight_ms=9, since_ms=1, kind="training", confidence=0.9, bottleneck="none",
        bottleneck_confidence=0.9, gpus=1, rank_figures={"gpu_util_pct": 99, **figures}, rank_changed_ms=5,
        rank_sample_ms=9, anomalies=anomalies,
    )  # fmt: skip


USUAL = {"warmer_c": 1, "clock_lower_pct": 0, "power_lower_pct": 0}
WAITS = Anomaly(
    kind="hang", since_ms=3, evidence={"power_pct": 20, "usual_power_pct": 70, "stopped_gpus": 0}, advice="?"
)


def told(*parts: JobInsightPart) -> list[tuple[str, str | None]]:
    found = [(one.kind, one.pod) for one in job_insight("j", parts, 9).anomalies]
    assert found == [(one.kind, one.pod) for one in job_insight("j", parts[::-1], 9).anomalies]
    return found


def test_a_rank_that_became_warmer_or_slower_than_the_others() -> None:
    others = [part(f"w-{rank}", **USUAL) for rank in range(3)]
    assert told(*others) == []
    assert told(*others, part("x", **{**USUAL, "warmer_c": 12})) == [("hot_gpu", "x")]
    assert told(*others, part("x", **{**USUAL, "clock_lower_pct": 12, "power_lower_pct": 15})) == [
        ("slow_gpu", "x")
    ]
    assert told(*others, part("x", **{**USUAL, "power_lower_pct": 15})) == []
    warm = [part(f"w-{rank}", warmer_c=11, clock_lower_pct=0, power_lower_pct=0) for rank in range(4)]
    assert told(*warm) == [], "what all have in common is no fault of one"
    assert told(others[0], part("x", **{**USUAL, "warmer_c": 12})) == [], "which of two it is cannot be known"


def test_the_rank_that_does_nothing_while_others_wait_is_named() -> None:
    waiting = [part(f"w-{rank}", WAITS) for rank in range(3)]
    hung = part("x", gpu_util_pct=0)
    assert told(*waiting, hung) == [("hang", "x")]
    assert told(*waiting) == [("hang", None)]
    (one,) = job_insight("j", [*waiting, hung], 9).anomalies
    assert one.advice == "3 of 4 pods wait at full utilization for x, which does nothing: look at its stack"
    assert one.evidence["waiting_pods"] == 3


@pytest.mark.parametrize(
    ("counters", "power_pct", "hangs"),
    [
        ({}, 30.0, True),  # nothing else is known
        ({"tensor_pct": 0.0, "dram_pct": 0.5}, 30.0, True),
        ({"tensor_pct": 35.0, "dram_pct": 1.0}, 30.0, False),  # it computes from its caches
        ({"tensor_pct": 0.0, "dram_pct": 1.0, "fp32_pct": 30.0}, 30.0, False),
        ({"tensor_pct": 0.0, "dram_pct": 20.0}, 30.0, False),
        ({"dram_pct": 0.5}, 30.0, True),
        ({}, 62.0, False),  # as much as other work of the same program may need
        ({"tensor_pct": 0.0, "dram_pct": 0.5}, 62.0, True),  # what worked before does not any more
        ({"tensor_pct": 0.0, "dram_pct": 0.0}, 75.0, False),  # zeros of DCGM: power is what it was
    ],
)
def test_a_gpu_whose_counters_move_does_not_hang(
    counters: dict[str, float], power_pct: float, hangs: bool
) -> None:
    finder = AnomalyFinder()
    for at in range(1, 60):
        waits = at > 40

        power, works = (power_pct, counters) if waits else (75.0, dict.fromkeys(counters, 40.0))
        gpu = GpuMinute("n/0", 100.0, power, 60.0, 1900.0)
        minute = Minute(
            end_ms=60_000 * at, util_pct=100.0, util_spread=0.5, power_pct=power, power_spread=0.5,
            mem_pct=50.0, copy_pct=1.0 if waits else 40.0, period_s=None, gpus=(gpu, gpu),
        )  # fmt: skip
        finder.add(replace(minute, **works))  # type: ignore[arg-type]
    assert ("hang" in {found.kind for found in finder.current}) is hangs

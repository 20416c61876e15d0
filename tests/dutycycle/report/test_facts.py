"""The figures of a report, against what the trace was made of."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.trace import decode_line, encode_line
from dutycycle.report.build import gather_records, report_of
from dutycycle.report.facts import Facts, evidence_of, facts_of, headline, key_figures
from dutycycle.report.gather import Gathered
from dutycycle.report.page import html_of
from dutycycle.report.phases import Phase, phases_of, seconds_by_name
from dutycycle.report.view import insights_of, view_of
from tests.support.data.samples import cgroup, gpu, nvml, record
from tests.support.data.training_job import IDLE_S, LOADING_S, START_MS, activity, training_job

SECONDS = 720


@pytest.fixture(scope="module")
def facts(gathered: Gathered) -> Facts:
    return facts_of(gathered, view_of(gathered, job="bert"), Settings())


def facts_and_figures(
    records: Sequence[ConsumerRecord], settings: Settings | None = None, **chosen: str
) -> tuple[Facts, dict[str, str]]:
    """Give the facts of records and their figures in words."""
    settings = settings or Settings()
    gathered = gather_records(records, settings)
    view = view_of(gathered, **chosen)
    facts = facts_of(gathered, view, settings)
    return facts, dict(key_figures(facts, view))


def ticks_of(gpus: Iterable[Sequence[dict[str, Any]]]) -> list[ConsumerRecord]:
    """Give a sample of each second, of these GPUs."""
    return [
        record("nvml-samples", "a", nvml(at, list(gpus_then), ts_ms=START_MS + 1000 * at), at)
        for at, gpus_then in enumerate(gpus)
    ]


def pods_of_bert(*uids: str) -> list[ConsumerRecord]:
    job = {"api_version": "v1", "kind": "Job", "name": "bert", "uid": "u"}
    named = {"v": 1, "namespace": "ml", "node": "a", "phase": "Running", "job": job}
    return [record("pods", uid, {**named, "uid": uid, "name": uid}) for uid in uids]


def test_gpus_are_summed_exactly(facts: Facts) -> None:
    gpus: dict[int, list[dict[str, float]]] = {0: [], 1: []}
    for one in training_job(SECONDS, 2):
        record = decode_line(encode_line(one))
        if record.topic.endswith("nvml-samples"):
            for gpu in orjson.loads(record.payload or b"")["gpus"]:
                gpus[gpu["index"]].append(gpu)
    for use in facts.gpus:
        ticks = gpus[int(use.name.removeprefix("gpu "))]
        utils = [one["gpu_util_pct"] for one in ticks]
        assert use.seconds == SECONDS
        assert use.busy_s == pytest.approx(sum(utils) / 100)
        assert use.idle_s == sum(util < 1 for util in utils)
        assert use.util_mean == pytest.approx(sum(utils) / SECONDS)
        assert use.util_max == max(utils)
        assert use.mem_max == max(one["mem_used_bytes"] for one in ticks)
        assert use.temp_max == max(one["temp_c"] for one in ticks)
        assert use.energy_j == pytest.approx(ticks[-1]["energy_j"] - ticks[0]["energy_j"])
        throttled = sum(bool(one["throttle"]) for one in ticks)
        assert use.throttled is not None
        assert use.throttled.get("hw_thermal_slowdown", 0) == pytest.approx(100 * throttled / SECONDS)
    assert facts.gpus[0].throttled


def test_what_it_costs(gathered: Gathered) -> None:
    view = view_of(gathered, job="bert")
    found = facts_of(gathered, view, Settings(price_gpu_hour=3.6, price_kwh=0.5))
    energy_kwh = (found.total("energy_j") or 0) / 3.6e6
    assert found.cost == pytest.approx(2 * SECONDS * 0.001 + 0.5 * energy_kwh)
    assert found.idle_cost == pytest.approx(0.001 * (found.total("idle_s") or 0))
    assert (facts_of(gathered, view, Settings()).cost, facts_of(gathered, view, Settings()).idle_cost) == (
        None,
        None,
    )


@pytest.mark.parametrize(
    ("first", "second", "gap", "cores"),
    [
        (range(30), range(30, 60), (), 2),
        (range(60), range(60), range(20, 40), 4),
        (range(30), range(600_000, 600_030), (), 2),
        (range(60), range(30, 60), (), 3),
    ],
    ids=["one after the other", "one not known for a while", "a week between them", "one half of the time"],
)
def test_cores_of_pods_that_came_and_went_are_those_of_a_moment(
    first: range, second: range, gap: Sequence[int], cores: float
) -> None:
    lives = {"p1": first, "p2": second}
    records = pods_of_bert(*lives)
    for at in sorted({*first, *second}):
        pods = [
            {"uid": uid, "containers": [{"id": "c", "cpu_util_pct": 200}]}
            for uid, life in lives.items()
            if at in life and not (uid == "p2" and at in gap)
        ]
        sample = cgroup(at, {"cpu_util_pct": 400}, pods, ts_ms=1000 * (1_770_000_000 + at))
        records.append(record("cgroup-samples", "a", sample, at))
    _, figures = facts_and_figures(records, job="bert")
    assert figures["CPU"] == f"mean {cores:.2f} cores, p95 2.00, max 2.00 of one"


def test_time_and_energy_of_a_gpu_are_those_of_the_jobs_pods_alone() -> None:
    """Between two short pods of a job somebody else had the GPU."""
    gpus = []
    for at in range(60):
        uid = "p1" if at < 2 else "p2" if at >= 58 else "p3"
        power_w = 100 if uid != "p3" else 1000
        energy_j = 5000 + 100 * at if at < 2 else 5100 + 1000 * (min(at, 57) - 1) + 100 * max(at - 57, 0)
        gpus.append([gpu(0, gpu_util_pct=50, power_w=power_w, energy_j=energy_j,
                         processes=[{"pid": 7, "pod_uid": uid}])])  # fmt: skip
    (use,) = facts_and_figures([*pods_of_bert("p1", "p2"), *ticks_of(gpus)], job="bert")[0].gpus
    assert (use.seconds, use.busy_s, use.energy_j) == (4, 2, 300)


def test_cost_and_energy_that_nobody_tells_are_not_0() -> None:
    def of_second_gpu(**fields: float) -> tuple[Facts, dict[str, str]]:
        gpus = [gpu(0, gpu_util_pct=0), gpu(1, **fields)]
        return facts_and_figures(ticks_of([gpus] * 60), Settings(price_kwh=0.5))

    facts, figures = of_second_gpu()
    assert (facts.cost, facts.idle_cost) == (None, None)
    assert "Cost" not in figures
    facts, figures = of_second_gpu(power_w=600)
    assert facts.cost == pytest.approx(0.5 * 0.01)
    assert figures["GPU energy"] == "36.0 kJ of 60 GPU-s of which that is known"


@pytest.mark.parametrize(
    ("read", "known"),
    [(range(60), ""), (range(30, 60), " of 30 GPU-s of which that is known"), ((0, *range(40, 60)), ""),
     (range(15), " of 15 GPU-s of which that is known")],
    ids=["all the time", "from the middle on", "not for a while", "no more"],
)  # fmt: skip
def test_energy_by_a_counter_is_known_from_when_it_was_read(read: Sequence[int], known: str) -> None:
    gpus = [gpu(0, **({"energy_j": 5000.0 + 100 * at} if at in read else {})) for at in range(60)]
    _, figures = facts_and_figures(ticks_of([used] for used in gpus))
    assert figures["GPU energy"].partition("J")[2] == known


def test_the_verdict_is_that_of_most_of_the_time_with_its_evidence(facts: Facts) -> None:
    line, _ = headline(facts)
    assert line.startswith("training (")
    assert facts.verdicts[0].name == "job bert"
    evidence = dict(evidence_of(facts.verdicts[0]))
    assert evidence["GPUs"] == "2"
    assert evidence["GPU util"].endswith(" %")
    assert evidence["io"].endswith("B/s")


def test_key_figures_say_what_moved(gathered: Gathered, facts: Facts) -> None:
    found = dict(key_figures(facts, view_of(gathered, job="bert")))
    assert found["Duration"] == "12m"
    assert found["GPUs"] == "2 × NVIDIA H200"
    means = [use.util_mean for use in facts.gpus]
    assert found["Between GPUs"] == f"mean {means[1]:.1f} % (gpu 1) to {means[0]:.1f} % (gpu 0)"
    reading = sum(
        {"loading": 400e6, "waiting": 90e6}.get(activity(second, SECONDS - IDLE_S), 0)
        for second in range(SECONDS)
    )
    assert found["Disk"].startswith(f"read {reading / 1e9:.2f} GB")


def test_a_gpu_whose_utilization_nobody_tells_is_no_zero_in_means() -> None:
    """As one in MIG mode, beside two that are used; none tells what holds its clocks down."""
    utils = {"GPU-a": 60.0, "GPU-b": 90.0}
    records = [
        record("nvml-samples", "n", {
            "v": 1, "node": "n", "collector": "c", "seq": second, "ts_ms": 1000 * (1_770_000_000 + second),
            "interval_ms": 1000,
            "gpus": [{"uuid": uuid, "index": index, "gpu_util_pct": utils.get(uuid), "power_w": 100}
                     for index, uuid in enumerate(("GPU-m", *utils))],
        }, second) for second in range(60)
    ]  # fmt: skip
    gathered = gather_records(records, Settings())
    report = report_of(gathered, Settings(), "mig")
    rows = re.findall(r"<tr>(.*?)</tr>", html_of(report).partition("<h2>GPUs</h2>")[2], re.DOTALL)
    cells = [re.sub("<[^>]+>", "|", row) for row in rows]
    assert [text for cell in cells for text in re.findall(r"[-+]\d+\.\d", cell)] == ["-15.0", "+15.0"]
    assert "no" not in [text for cell in cells for text in cell.split("|")], "nobody says that it was not"
    figures = dict(key_figures(report.facts, view_of(gathered)))
    assert figures["GPU time"] == "180 GPU-s, busy 90 GPU-s of 120 GPU-s of which that is known"


def test_time_of_which_utilization_is_not_known_is_not_idle_and_weighs_no_mean() -> None:
    seldom = [gpu(0, gpu_util_pct=100 if at >= 90 else None) for at in range(100)]
    _, figures = facts_and_figures(ticks_of([used, gpu(1, gpu_util_pct=0)] for used in seldom))
    assert figures["GPU time"] == "200 GPU-s, busy 10 GPU-s of 110 GPU-s of which that is known"
    assert figures["GPU utilization"] == "mean 9.1 %, max 100 %"


def test_a_verdict_lasts_no_longer_than_the_job() -> None:
    """Insights of its GPU go on while somebody else has it, and say more of the job until it is forgotten."""
    gathered = Gathered()
    used = [{"pid": 7, "pod_uid": "p1"}]
    gpus = ([gpu(0, gpu_util_pct=50, processes=used if 10 <= at < 60 else [])] for at in range(100))
    for sample in (*pods_of_bert("p1"), *ticks_of(gpus)):
        gathered.sample(sample)
    insight = {"kind": "training", "bottleneck": "gpu", "since_ms": START_MS, "evidence": {}}
    for second in (30, 90):
        gathered.insights["job/u"].append({**insight, "ts_ms": START_MS + 1000 * second})
    (verdict,) = facts_of(gathered, view_of(gathered, job="bert"), Settings()).verdicts
    assert verdict.seconds == 49


def test_a_pod_of_which_nothing_is_known_is_not_at_the_top() -> None:
    gathered = Gathered()
    gpus = [gpu(at, processes=[{"pid": 7 + at, "pod_uid": f"p{1 + at}"}]) for at in range(2)]
    for sample in ticks_of([gpus] * 60):
        gathered.sample(sample)
    times = {"since_ms": START_MS, "ts_ms": START_MS + 30_000}
    for pod, kind, bottleneck in (("p1", "unknown", "unknown"), ("p2", "training", "input")):
        insight = {"kind": kind, "bottleneck": bottleneck, "confidence": 0.9, "evidence": {}, **times}
        gathered.insights[f"pod/{pod}"].append(insight)
    facts = facts_of(gathered, view_of(gathered), Settings())
    assert [verdict.insight["kind"] for verdict in facts.verdicts] == ["training", "unknown"]
    assert headline(facts)[0].startswith("training")


def test_phases_follow_what_the_job_did(gathered: Gathered) -> None:
    phases = report_of(gathered, Settings(), "t", job="bert").phases
    assert phases[0].first_ms == START_MS
    for before, after in pairwise(phases):
        assert before.last_ms == after.first_ms
        assert before.name != after.name
    names = [one.name for one in phases]
    assert names == ["loading", "training", "checkpoint", "training", "checkpoint", "training", "idle"]
    spent = {name: seconds for name, (seconds, _) in seconds_by_name(phases).items()}
    assert spent["loading"] == pytest.approx(LOADING_S, abs=4)
    assert spent["idle"] == pytest.approx(IDLE_S, abs=4)
    assert spent["checkpoint"] == pytest.approx(30, abs=6)


def test_a_wait_within_a_step_ends_no_phase_but_a_long_one_does(gathered: Gathered) -> None:
    view = view_of(gathered, job="bert")
    quiet = [replace(one, ticks=replace(one.ticks, values={**one.ticks.values, "gpu_util_pct": util}))
             for one in view.gpus for util in [one.ticks["gpu_util_pct"].copy()]]  # fmt: skip
    for one in quiet:
        one.ticks.values["gpu_util_pct"][300:325] = 0
    found = phases_of(replace(view, gpus=quiet), [], 12.0)
    inside = [one for one in found if one.first_ms <= START_MS + 312_000 < one.last_ms]
    assert [one.name for one in inside] == ["idle"]
    bridged = phases_of(replace(view, gpus=quiet), [], 25.0)
    assert START_MS + 312_000 not in [
        at for one in bridged if one.name == "idle" for at in range(one.first_ms, one.last_ms, 1000)
    ]


def test_without_a_gpu_there_are_no_phases(gathered: Gathered) -> None:
    assert phases_of(replace(view_of(gathered), gpus=[]), [], None) == []


def test_seconds_by_name_has_the_longest_first() -> None:
    found = seconds_by_name([Phase("a", 0, 1000), Phase("b", 1000, 5000), Phase("a", 5000, 6000)])
    assert list(found.items()) == [("b", (4.0, 1)), ("a", (2.0, 2))]


def test_a_gpu_that_is_held_and_never_touched_is_said() -> None:
    given, used = [{"pod_uid": "A", "namespace": "n", "pod": "A"}], [{"pid": 1, "pod_uid": "A"}]
    found, figures = facts_and_figures(ticks_of(
        [gpu(0, gpu_util_pct=0, allocated=given, processes=[] if at < 60 else used),
         gpu(1, gpu_util_pct=0, allocated=given)] for at in range(100)
    ))  # fmt: skip
    assert [use.untouched_s for use in found.gpus] == [60, None]
    assert figures["Held without a process"] == "60 GPU-s"


def test_busy_time_in_which_a_gpu_waits_is_no_work_in_the_report() -> None:
    gathered = Gathered()
    for at in range(100):
        spins = gpu(0, gpu_util_pct=100, power_w=500 if at < 60 else 140, power_limit_w=700)
        unknown = gpu(1, gpu_util_pct=100)
        gathered.sample(record("nvml-samples", "a", nvml(at, [spins, unknown]), at))
    view = view_of(gathered)
    facts = facts_of(gathered, view, Settings())
    assert [(use.busy_s, use.working_s) for use in facts.gpus] == [(100, 60), (100, None)]
    assert dict(key_figures(facts, view))["Working, of the busy time"] == (
        "60 GPU-s of 100 GPU-s of which that is known"
    )


def test_what_holds_back_a_short_job_of_unknown_kind_is_told() -> None:
    """For most of its time neither is known, as long as there is no minute of it."""
    pod = {"v": 1, "uid": "uid-1", "namespace": "ml", "name": "w-0", "node": "gpu-a", "phase": "Running"}
    records = [record("pods", "uid-1", pod)]
    process = {"pid": 1, "pod_uid": "uid-1", "gpu_util_pct": 100, "mem_used_bytes": 30e9}
    host = {"cpu_util_pct": 5, "cpu_count": 64, "mem_used_bytes": 20e9, "mem_total_bytes": 500e9}
    containers = [{"id": "c", "name": "c", "cpu_util_pct": 0, "mem_used_bytes": 2e6}]
    for second in range(145):
        used = gpu(
            0, gpu_util_pct=100 if second > 3 else 0, mem_used_bytes=30e9, mem_total_bytes=141e9, power_w=300,
            power_limit_w=700, mem_copy_util_pct=7, processes=[process], sm_active_pct=12,
            tensor_active_pct=4, dram_active_pct=7,
        )  # fmt: skip
        records.append(record("nvml-samples", "gpu-a", nvml(second, [used], node="gpu-a"), second))
        pods = [{"uid": "uid-1", "containers": containers}]
        records.append(record("cgroup-samples", "gpu-a", cgroup(second, host, pods, node="gpu-a"), second))
    gathered = gather_records(records, Settings())
    view = view_of(gathered, pod="uid-1")
    for insight in insights_of(gathered, view)["pod/uid-1"]:
        insight["kind"] = "unknown"
    line, advice = headline(facts_of(gathered, view, Settings()))
    assert line == "kind not known; held back by: launch"
    assert advice.startswith("kernels are too small (utilization 100 %, SM 12 %")


def test_a_trace_that_is_not_in_the_order_of_time_is_said_to_be_that() -> None:
    job = [ConsumerRecord("nvml-samples", 0, at, one.key, one.payload, one.ts_ms or 0)
           for at, one in enumerate(training_job(120)) if one.topic.endswith("nvml-samples")]  # fmt: skip
    said = [
        [
            note
            for note in report_of(gather_records(records, Settings()), Settings(), "t").notes
            if "came after" in note
        ]
        for records in (job, job[::-1])
    ]
    assert [len(notes) for notes in said] == [0, 1]
    assert re.match(r"1\d\d of 120 samples came after later ones", said[1][0])

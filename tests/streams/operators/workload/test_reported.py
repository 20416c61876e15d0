"""Goal: a training that reports its steps is a training, whatever it looks like from outside."""

import pytest
from msgspec.structs import replace

from bench.generators_jobs import pod
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import OtherCycle
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import InsightPart, PodInsight, PodSteps, WorkloadState
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import Loop, Process, ProcessSample
from streams.operators.forward import StepForwarder
from streams.operators.workload.channels import SPAN_MS
from streams.operators.workload.rules.reported import ReportedSteps, with_steps
from streams.state.codec import from_bytes, to_bytes
from tests.streams.operators.workload.test_insights import (
    NOTHING,
    STAGES,
    START_MS,
    in_turn,
    insights,
    parts,
    run,
)

SERVER = "requests"
"""A pod that is taken for a server, from outside."""


def spans_with_steps(shape: str, until_ms: int, steps: PodSteps) -> list[InsightPart]:
    """The pod's spans, and before each what its training reported in it, until ``until_ms``."""
    found: list[InsightPart] = []
    for part in in_turn(parts(pod(shape, 2000))):
        if part.source == "nvml" and part.start_ms < until_ms:
            found += [
                InsightPart(uid="p", source="processes", start_ms=part.start_ms + at, steps=steps)
                for at in range(0, SPAN_MS, 1000)
            ]
        found.append(part)
    return found


def of_pod(records: list[InsightPart]) -> list[Insight]:
    return insights(run(STAGES["insights"].build("p", None), records))


def test_what_reports_steps_trains() -> None:
    outside = of_pod(in_turn(parts(pod(SERVER, 2000))))
    assert {one.kind for one in outside} >= {"inference"}
    assert not any("steps_per_min" in one.evidence for one in outside)
    told = of_pod(spans_with_steps(SERVER, 2**62, PodSteps(steps=2, seconds=0.8, samples=64)))
    assert {one.kind for one in told} <= {"training", "unknown"}
    last = told[-1]
    assert (last.kind, last.confidence) == ("training", 0.99)
    figures = ("steps_per_min", "step_s", "samples_per_s")
    assert [last.evidence[name] for name in figures] == [150, 0.4, 80]


def test_when_it_reports_no_more_it_is_judged_from_outside_again() -> None:
    found = of_pod(spans_with_steps(SERVER, START_MS + 300_000, PodSteps(steps=1, seconds=1.0)))
    kinds = [one.kind for one in found]
    assert "training" in kinds
    assert kinds[-1] == "inference"
    assert not {"steps_per_min", "samples_per_s"} & found[-1].evidence.keys()


def test_repeats_and_a_restart_change_nothing() -> None:
    records = spans_with_steps(SERVER, START_MS + 300_000, PodSteps(steps=2, seconds=0.8))
    plain = of_pod(records)
    assert of_pod([one for record in records for one in (record, record)]) == plain
    operator, found = STAGES["insights"].build("p", None), list[Insight]()
    for place, record in enumerate(records):
        found += insights(run(operator, [record]))
        if place % 97 == 0:
            operator = STAGES["insights"].build("p", from_bytes(to_bytes(operator.snapshot())))
    assert found == plain


def test_a_training_in_a_pod_without_a_gpu_has_its_steps() -> None:
    """A pod without one that reports nothing is not judged, and nothing is said of a GPU."""
    of = parts(pod(SERVER, 2000), asks=replace(NOTHING, gpu_request=0))
    steps = PodSteps(steps=2, seconds=0.8, samples=64)
    reports = [
        InsightPart(uid="p", source="processes", start_ms=part.start_ms + at, steps=steps)
        for part in of["cgroup"] for at in range(0, SPAN_MS, 1000) if part.start_ms < START_MS + 300_000
    ]  # fmt: skip
    assert of_pod([*of["pods"], *of["cgroup"]]) == []
    by_time = sorted([*reports, *of["cgroup"]], key=lambda part: part.start_ms)
    told = run(STAGES["insights"].build("p", None), [*of["pods"], *by_time])
    judged = insights(told)
    assert (judged[0].kind, judged[0].confidence, judged[0].bottleneck) == ("training", 0.99, "unknown")
    assert judged[0].evidence["steps_per_min"] == 150
    assert not {name for name in judged[0].evidence if "gpu" in name}
    both = [decode(PodInsight, out.value or b"", "t") for out in told
            if isinstance(out, ProducerRecord) and out.topic == "pod-insights"]  # fmt: skip
    rates = [now.state.steps_per_s for now in both if now.state is not None]
    assert (rates[0], rates[-1]) == (2.5, None)


@pytest.mark.parametrize(
    ("reports", "figures"),
    [
        ([], {}),
        ([(100, PodSteps(steps=1, seconds=3))], {}),
        ([(100, PodSteps(steps=2, seconds=0))], {}),
        ([(100, PodSteps(steps=5, seconds=3)), (101, PodSteps(steps=1, seconds=3))],
         {"steps_per_min": 60, "step_s": 1}),
        ([(100, PodSteps(steps=2, seconds=1, samples=8)), (100, PodSteps(steps=2, seconds=1, samples=8))],
         {"steps_per_min": 120, "step_s": 0.5, "samples_per_s": 8}),
        ([(100, PodSteps(steps=2, seconds=1, samples=8)), (101, PodSteps(steps=2, seconds=1))],
         {"steps_per_min": 120, "step_s": 0.5}),
        ([(0, PodSteps(steps=9, seconds=1)), (121, PodSteps(steps=9, seconds=1))], {}),
        ([(3700, PodSteps(steps=9, seconds=1)), (100, PodSteps(steps=2, seconds=1))],
         {"steps_per_min": 120, "step_s": 0.5}),
    ],
    ids=["none", "one step", "no time", "uneven", "repeat", "not all counted", "out of time", "clock ahead"],
)  # fmt: skip
def test_figures_of_the_two_minutes_before(
    reports: list[tuple[int, PodSteps]], figures: dict[str, float]
) -> None:
    steps = ReportedSteps()
    for second, one in reports:
        steps.add(1000 * second, one)
    assert steps.figures(120_999) == figures


def by_ticks(step_s: float, checkpoint_s: float, every: int) -> ReportedSteps:
    """What whole seconds say: a step counts in the second in which it ends, and took whole seconds."""
    steps, at_s, before_s = ReportedSteps(), 0.0, 0
    for number in range(1, 1000):
        at_s += checkpoint_s if number % every == 0 else step_s
        if at_s > 600:
            break
        steps.add(1000 * int(at_s), PodSteps(steps=1, seconds=int(at_s) - before_s))
        before_s = int(at_s)
    return steps


def trained(*lengths_s: float, pause_s: float = 0.0, warm_up_s: float = 0.0) -> ReportedSteps:
    """Steps of such lengths in turn, then a pause that is in no step, for ten minutes: sums each second."""
    steps, at_s, told_s, count, seconds = ReportedSteps(), 0.0, 0, 0, 0.0
    turn = 0
    while at_s < 600:
        length_s = lengths_s[turn % len(lengths_s)] + (warm_up_s if turn == 0 else 0.0)
        at_s, count, seconds, turn = at_s + length_s, count + 1, seconds + length_s, turn + 1
        if at_s >= told_s + 1:
            told_s = int(at_s)
            steps.add(1000 * told_s + 999, PodSteps(steps=count, seconds=seconds))
            count, seconds = 0, 0.0
        if turn % len(lengths_s) == 0:
            at_s += pause_s
    return steps


UNEVEN = trained(*[0.6] * 5, 3.0)
VALIDATES = trained(*[0.5] * 20, pause_s=5.0)
SLOWER = trained(*[2.4] * 190, *[3.0] * 100)
CHECKPOINTS = trained(*[3.0] * 95, 15.0)
"""Of 300 s, the last step of which writes."""
CYCLES: dict[str, tuple[ReportedSteps, float | None, float | None, str | None, int | None]] = {
    "the cycle is the step": (trained(2.0), 2.0, 2.0, None, 1),
    "uneven steps, by count": (UNEVEN, 6.0, 6.0, None, 6),
    "a pause in the cycle, by count": (VALIDATES, 15.0, 15.0, None, 20),
    "a step of accumulated batches": (trained(0.25), 1.0, 1.0, None, 4),
    "half a step": (trained(3.0), 1.5, 3.0, "reported", 1),
    "no whole number": (trained(2.0), 5.0, 2.0, "reported", 1),
    "a cycle that checkpoints break now and then": (CHECKPOINTS, 36.0, 36.0, None, 12),
    "steps in whole seconds, with checkpoints": (by_ticks(2.4, 15.0, 120), 2.4, 2.4, None, 1),
    "steps have become longer": (SLOWER, 3.0, 3.0, None, 1),
    "no whole number beside checkpoints": (CHECKPOINTS, 4.5, 3.0, "reported", 1),
    "a little off": (trained(2.0), 2.03, 2.03, None, 1),
    "a long one of many": (trained(0.6), 60.0, 60.0, None, 100),
    "a long one is too vague to contradict": (trained(40.0), 420.0, 420.0, None, None),
    "longer than what is kept": (trained(2.0), 700.0, 700.0, None, None),
    "no cycle": (trained(2.0), None, None, None, None),
    "no reports": (ReportedSteps(), 7.0, 7.0, None, None),
}


@pytest.mark.parametrize(
    ("steps", "period_s", "expected_s", "source", "count"), CYCLES.values(), ids=CYCLES.keys()
)
def test_a_cycle_is_held_against_the_steps(
    steps: ReportedSteps, period_s: float | None, expected_s: float | None, source: str | None,
    count: int | None,
) -> None:  # fmt: skip
    told = WorkloadState(seen_ms=599_000, period_s=period_s, confidence=0.8 if period_s else None)
    state = with_steps(told, steps, 599_000)
    assert (state.period_s, state.period_source, state.cycle_steps) == (expected_s, source, count)
    if source is None:
        assert (state.confidence, state.other_cycles) == (told.confidence, None)
    else:
        assert state.other_cycles == (OtherCycle(period_s=period_s or 0, confidence=0.8),)
    assert (state.steps_per_s is None) == (not steps.reports)


def test_the_steps_of_a_pod_stand_in_its_state_while_it_reports() -> None:
    """Whatever comes first, and after a restart; two minutes after the last they are gone."""
    pod_named = InsightPart(uid="p", source="pods", pod=Pod(
        uid="p", namespace="ml", name="bert-0", node="a", phase="Running", gpu_request=1,
    ))  # fmt: skip
    stops_ms = START_MS + 300_000
    records = [pod_named, *spans_with_steps(SERVER, stops_ms, PodSteps(steps=2, seconds=0.8, samples=64))]
    operator, states = STAGES["insights"].build("p", None), list[WorkloadState]()
    for place, record in enumerate(records):
        for out in run(operator, [record]):
            if isinstance(out, ProducerRecord) and out.topic == "pod-insights":
                state = decode(PodInsight, out.value or b"", out.topic).state
                states += [] if state is None else [state]
        if place % 97 == 0:
            operator = STAGES["insights"].build("p", from_bytes(to_bytes(operator.snapshot())))
    told = [one for one in states if START_MS + 60_000 < one.seen_ms < stops_ms]
    assert told
    assert {(one.steps_per_s, one.samples_per_s) for one in told} == {(2.5, 80)}
    late = [one for one in states if one.seen_ms > stops_ms + 160_000]
    assert late
    assert {(one.steps_per_s, one.samples_per_s) for one in late} == {(None, None)}


def test_the_steps_of_each_pod_are_forwarded() -> None:
    """Of several ranks the steps of one, the samples of all; who reports none is not named."""

    def process(pod_uid: str, steps: int, samples: int | None) -> Process:
        return Process(
            pid=steps, pod_uid=pod_uid, loop=Loop(loop="x", steps=steps, seconds=2, samples=samples)
        )

    ranks = (
        process("a", 3, 6), process("a", 4, 8), process("b", 2, None), process("b", 1, 5), process("c", 0, 0),
    )  # fmt: skip
    sample = ProcessSample(
        node="n", collector="c", seq=1, ts_ms=77, interval_ms=1000,
        processes=(*ranks, Process(pid=9, pod_uid="d")),
    )  # fmt: skip
    sent = StepForwarder("n").update(ConsumerRecord("processes", 0, 0, "n", encode(sample), 77))
    found = [
        decode(InsightPart, one.value or b"", one.topic) for one in sent if isinstance(one, ProducerRecord)
    ]
    assert {one.uid: one.steps for one in found} == {
        "a": PodSteps(steps=4, seconds=2, samples=14), "b": PodSteps(steps=2, seconds=2),
    }  # fmt: skip
    assert {(one.source, one.node, one.start_ms) for one in found} == {("processes", "n", 77)}

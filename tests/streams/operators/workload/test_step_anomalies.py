"""Goal: steps that a training reports slower, or not at all any more, are told; its planned pauses are not.

A minute is a letter: ``s`` steps, ``S`` those that take half as long again, ``d`` twice as long, ``v`` none
while the GPU works (validation), ``r`` none while it rests, ``e`` none and the memory is free.
"""

import pytest

from dutycycle.contract.codec import from_plain, to_plain
from dutycycle.contract.records.insights import Anomaly
from streams.operators.workload.anomalies.finder import AnomalyFinder
from streams.operators.workload.anomalies.job import job_anomalies
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.wording import anomaly_of
from tests.streams.operators.workload.test_anomalies import part

START_MS = 1_700_000_040_000
STEP_S = {"s": 2.0, "S": 3.0, "d": 4.0}


def followed(minutes: str, cycle_s: float | None = None) -> dict[str, list[int]]:
    """Kinds that were told, each with the numbers of the minutes in which."""
    finder, told = AnomalyFinder(), dict[str, list[int]]()
    for number, letter in enumerate(minutes):
        works = letter not in "re"
        finder.add(Minute(
            end_ms=START_MS + 60_000 * (number + 1), util_pct=80.0 if works else 0.0, util_spread=10.0,
            power_pct={"S": 50.0, "d": 40.0}.get(letter, 60.0) if works else 15.0, power_spread=8.0,
            mem_pct=1.0 if letter == "e" else 70.0, copy_pct=20.0 if works else 0.0, period_s=cycle_s,
            step_s=STEP_S.get(letter),
        ))  # fmt: skip
        finder = from_plain(AnomalyFinder, to_plain(finder), "t")
        for found in finder.current:
            told.setdefault(found.kind, []).append(number)
    return told


CASES: dict[str, tuple[str, dict[str, int]]] = {
    "it trains": ("s" * 120, {}),
    "steps take half as long again": ("s" * 40 + "S" * 20, {"slow_steps": 47}),
    "steps take twice as long": ("s" * 40 + "d" * 20, {"slow_steps": 47}),
    "the cycle is no evidence then": ("s" * 40 + "S" * 5 + "s" * 40, {}),
    "a checkpoint now and then makes steps slower": (("s" * 12 + "S" * 2) * 8, {}),
    "steps stop": ("s" * 40 + "r" * 20, {"stall": 49}),
    "steps stop soon after the start": ("s" * 10 + "r" * 60, {}),
    "a pause of epochs": (("s" * 30 + "r" * 8) * 4, {}),
    "a pause that is longer than before": (("s" * 30 + "r" * 8) * 2 + "s" * 30 + "r" * 20, {"stall": 117}),
    "validation": (("s" * 30 + "v" * 25) * 3, {}),
    "validation, and then nothing": ("s" * 30 + "v" * 25 + "r" * 12, {"stall": 64}),
    "the program ends": ("s" * 40 + "e" * 60, {}),
    "it stays up for hours when it is done": ("s" * 40 + "r" * 800, {"stall": 49}),
}  # fmt: skip


@pytest.mark.parametrize(("minutes", "since"), CASES.values(), ids=CASES.keys())
def test_what_is_told_of_steps_and_when_first(minutes: str, since: dict[str, int]) -> None:
    assert {kind: numbers[0] for kind, numbers in followed(minutes).items()} == since


def test_a_cycle_that_was_read_wrongly_is_no_slowdown_of_reported_steps() -> None:
    finder, slow = AnomalyFinder(), set[str]()
    for number in range(90):
        finder.add(Minute(
            end_ms=START_MS + 60_000 * (number + 1), util_pct=80.0, util_spread=10.0, power_pct=60.0,
            power_spread=8.0, mem_pct=70.0, copy_pct=20.0, period_s=6.0 if number < 40 else 7.0, step_s=2.0,
        ))  # fmt: skip
        slow |= {found.kind for found in finder.current}
    assert slow == set()


def test_a_stall_is_what_is_usual_after_hours() -> None:
    numbers = followed("s" * 40 + "r" * 800)["stall"]
    assert (numbers[0], numbers[-1]) == (49, 40 + 359)


def test_a_stall_is_told_once_for_a_job() -> None:
    finder = AnomalyFinder()
    for number, letter in enumerate("s" * 40 + "r" * 12):
        finder.add(Minute(
            end_ms=START_MS + 60_000 * (number + 1), util_pct=80.0 if letter == "s" else 0.0, util_spread=0.0,
            power_pct=50.0 if letter == "s" else 15.0, power_spread=0.0, mem_pct=70.0, copy_pct=0.0,
            period_s=None, step_s=STEP_S.get(letter),
        ))  # fmt: skip
    (stall,) = (anomaly_of(found) for found in finder.current)
    assert stall.since_ms == START_MS + 39 * 60_000  # a minute at most before its last step
    assert "no step comes any more, one took 2 s" in (stall.advice or "")
    ranks = [part("w-0", stall), part("w-1", stall), part("w-2")]
    assert job_anomalies(ranks) == job_anomalies(ranks[::-1])
    assert _who(job_anomalies(ranks)) == [("stall", None, 2)]
    assert _who(job_anomalies(ranks[1:])) == [("stall", "w-1", 1)]


def _who(anomalies: tuple[Anomaly, ...]) -> list[tuple[str, str | None, float]]:
    return [(one.kind, one.pod, float(one.evidence["stalled_pods"])) for one in anomalies]

"""One answer from several time scales."""

import pytest

from dutycycle.contract.records.derived import CycleMetric
from streams.operators.cycles.combine import ScaleResult, combined
from streams.operators.cycles.result import NO_CYCLE
from tests.support.streams.cycles import cycle

WINDOWS = ((0.0, 19.0), (1.0, 600.0), (10.0, 4000.0), (60.0, 24_000.0))
"""Interval and window of each scale in seconds: bursts, ticks, means."""


def periods(
    results: list[CycleMetric | None], before: CycleMetric | None = None, witness: CycleMetric | None = None
) -> list[float]:
    """The main period and the others, of what the scales say (finest first)."""
    padded = results + [None] * (len(WINDOWS) - len(results))
    scales = [ScaleResult(*window, result) for window, result in zip(WINDOWS, padded, strict=True)]
    found = combined(scales, before, None if witness is None else ScaleResult(*WINDOWS[0], witness))
    return [] if found.period_s is None else [found.period_s, *(o.period_s for o in found.others or ())]


CASES = {
    "nothing": ([None, NO_CYCLE], []),
    "one scale": ([None, cycle(20)], [20]),
    "two that have nothing to do with one another": ([None, cycle(20.3), cycle(610)], [20.3, 610]),
    "the same in two scales": ([None, cycle(190), cycle(191)], [190]),
    "a multiple in the slower": ([None, cycle(100), cycle(300)], [100]),
    "a high multiple is a cycle of its own": ([None, cycle(30.1), cycle(301)], [30.1, 301]),
    "an alias: seven of ten": ([cycle(0.7), cycle(7)], [0.7]),
    "a slow alias": ([cycle(0.97), cycle(32.36)], [0.97]),
    "a slow one that is no alias": ([cycle(0.7), cycle(37)], [0.7, 37]),
    "twice an alias": ([cycle(0.97), cycle(64.7)], [0.97]),
    "steps of 1.92 s have varied, and are 1.91 s now": ([cycle(1.91), cycle(24.98, confidence=0.95)], [1.91]),
    "the same, but it is sure": ([cycle(1.91), cycle(24.98, confidence=0.99)], [24.98, 1.91]),
    "quick ones among the ticks that no burst shows": ([NO_CYCLE, cycle(3.5)], []),
    "the same without bursts": ([None, cycle(3.5)], [3.5]),
    "slower ones need no burst": ([NO_CYCLE, cycle(8)], [8]),
    "the more confident is the main one": ([None, cycle(20, confidence=0.8), cycle(610)], [610, 20]),
    "others of one scale stay": ([None, cycle(12, 36)], [12, 36]),
}  # fmt: skip


@pytest.mark.parametrize(("results", "expected"), CASES.values(), ids=CASES)
def test_each_cycle_is_said_once(results: list[CycleMetric | None], expected: list[float]) -> None:
    assert periods(results) == expected


WITNESSED = {
    "an alias of what the other metric shows": ([None, cycle(7)], cycle(0.7), []),
    "a slow one that is no alias": ([None, cycle(37)], cycle(0.7), [37]),
    "the same as the other's": ([None, cycle(3.4)], cycle(3.4), [3.4]),
    "what the other has is not its own": ([None, None], cycle(0.7), []),
    "a quick one that the other does not show": ([None, cycle(3.5)], NO_CYCLE, []),
}


@pytest.mark.parametrize(("results", "witness", "expected"), WITNESSED.values(), ids=WITNESSED)
def test_the_bursts_of_another_metric_are_a_witness(
    results: list[CycleMetric | None], witness: CycleMetric, expected: list[float]
) -> None:
    assert periods(results, witness=witness) == expected


def test_the_main_one_stays_the_main_one() -> None:
    assert periods([cycle(0.7), cycle(37.0)], cycle(37.2)) == [37, 0.7]

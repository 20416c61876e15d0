"""Cycles on all time scales: from the driver's samples to hours."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from bench.generators import Floats
from dutycycle.contract.records.derived import CycleMetric
from streams.operators.cycles.bursts import Burst
from streams.operators.cycles.scales import CycleScales
from streams.state.codec import from_bytes, to_bytes

START_MS = 1_700_000_000_000
SAMPLES_PER_S = 25
Changes = list[tuple[int, CycleMetric]]
"""(second, what changed)."""
Signal = Callable[[Floats], Floats]
"""Values at moments in seconds."""


def square(period_s: float, busy: float = 0.6) -> Signal:
    """On for the share ``busy`` of the period, under a little noise."""
    return lambda at: 20 + 60 * ((at / period_s + 0.13) % 1 < busy) + 6 * noise(at)


def noise(at: Floats) -> Floats:
    """Something between -0.5 and 0.5 that depends on the moment alone."""
    return np.asarray(np.sin(at * 12.9898 + 1.0) * 43_758.5453 % 1 - 0.5)


def feed(
    scales: CycleScales,
    ts_ms: int,
    row: Floats,
    interval_ms: int = 1000,
    bursts: Sequence[tuple[int, Burst]] = (),
) -> None:  # fmt: skip
    """Give one tick."""
    scales.extend(np.array([ts_ms]), row[np.newaxis], interval_ms, [(ts_ms, bursts)])


def fed(
    signal: Signal, seconds: range, scales: CycleScales | None = None, *, bursts: bool = False
) -> tuple[CycleScales, Changes]:
    """A tick a second, which is what was there in the last fifth of it; with ``bursts`` all that was."""
    scales, changes = scales or CycleScales(1), []
    for second in seconds:
        at = second - 1 + np.arange(1, SAMPLES_PER_S + 1) / SAMPLES_PER_S
        values, ts_ms = signal(at), START_MS + 1000 * second
        pairs = [
            [round(1000 * (one - second)), value] for one, value in zip(at, values.tolist(), strict=True)
        ]
        feed(scales, ts_ms, values[-5:].mean(keepdims=True), bursts=[(0, np.array(pairs))] if bursts else [])
        if second % 10 == 9:
            changes += [(second, result) for _, result in scales.changes(ts_ms)]
    return scales, changes


def periods(result: CycleMetric) -> list[float]:
    """All that it says, the main one first."""
    return [one for one in (result.period_s, *(other.period_s for other in result.others or ())) if one]


@pytest.mark.parametrize("true", [0.25, 0.35, 0.7, 0.97, 1.4, 2.3, 3.4])
def test_the_drivers_samples_show_a_training_step_once(true: float) -> None:
    _, changes = fed(square(true), range(240), bursts=True)
    assert [periods(one) for _, one in changes] == [[pytest.approx(true, rel=0.005)]]
    assert changes[0][0] <= 30


@pytest.mark.parametrize("true", [0.93, 0.97])
def test_without_them_it_would_be_taken_for_a_slow_cycle(true: float) -> None:
    _, changes = fed(square(true), range(240))
    assert any(one.period_s and one.period_s > 5 for _, one in changes)


def test_a_cycle_that_both_see_is_published_once() -> None:
    _, changes = fed(square(5.2), range(300), bursts=True)
    assert periods(changes[-1][1]) == [pytest.approx(5.2, rel=0.005)]
    assert len(changes) <= 3


def test_steps_end_and_others_begin() -> None:
    first, then = square(0.7), square(0.45)
    _, changes = fed(lambda at: np.where(at < 200, first(at), then(at)), range(400), bursts=True)
    assert [round(one.period_s or 0, 2) for _, one in changes] in ([0.7, 0.45], [0.7, 0.0, 0.45])
    assert changes[-1][0] <= 300


def test_steps_within_checkpoints() -> None:
    step = square(0.7)
    _, changes = fed(lambda at: np.where(at % 300 < 25, 5 + 0 * at, step(at)), range(1900), bursts=True)
    assert periods(changes[-1][1]) == pytest.approx([0.7, 300], rel=0.01)
    assert len(changes) <= 6


@pytest.mark.slow
def test_slow_steps_within_checkpoints_are_told_through_these() -> None:
    step = square(12.0)
    _, changes = fed(lambda at: np.where(at % 300 < 30, 5 + 0 * at, step(at)), range(2400))
    lost = [second for second, one in changes if not one.cyclic]
    assert len(lost) <= 1, "before it is known that they pause"
    assert changes[-1][1].period_s == pytest.approx(12.0, rel=0.01)


def two(seconds: range, scales: CycleScales) -> Changes:
    """A metric with bursts and one without, both of steps of 1.17 s; what is said of the second."""
    step, changes = square(1.17), []
    for second in seconds:
        at = second - 1 + np.arange(1, SAMPLES_PER_S + 1) / SAMPLES_PER_S
        values, ts_ms = step(at), START_MS + 1000 * second
        pairs = [
            [round(1000 * (one - second)), value] for one, value in zip(at, values.tolist(), strict=True)
        ]
        feed(scales, ts_ms, np.full(2, values[-5:].mean()), bursts=[(0, np.array(pairs))])
        if second % 10 == 9:
            changes += [(second, one) for column, one in scales.changes(ts_ms) if column == 1]
    return changes


def test_bursts_of_another_metric_tell_what_is_an_alias() -> None:
    taken_for_seven = two(range(240), CycleScales(2))
    assert any(one.period_s and one.period_s > 5 for _, one in taken_for_seven)
    assert two(range(240), CycleScales(2, witnesses=np.array([0, 0]))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("true", "every_s", "hours"), [(610.0, 2, 1.0), (1500.0, 5, 2.0), (5400.0, 5, 6.0), (86_400.0, 60, 96.0)]
)
def test_minutes_and_hours_and_a_day(true: float, every_s: int, hours: float) -> None:
    signal = square(true, 0.85)
    scales, changes = CycleScales(1), []
    for tick in range(int(3600 * hours / every_s)):
        ts_ms = START_MS + 1000 * every_s * tick
        feed(scales, ts_ms, signal(np.array([every_s * tick], float)), 1000 * every_s)
        if tick % 10 == 9:
            changes += [(every_s * tick, one) for _, one in scales.changes(ts_ms)]
    assert [periods(one) for _, one in changes] == [[pytest.approx(true, rel=0.02)]]
    assert changes[0][0] <= 3.5 * true


@pytest.mark.slow
@pytest.mark.parametrize("stop", [25, 61, 395])
def test_a_restart_leaves_no_trace(stop: int) -> None:
    step = square(0.7)
    signal: Signal = lambda at: np.where(at % 300 < 25, 5 + 0 * at, step(at))  # noqa: E731
    straight, expected = fed(signal, range(430), bursts=True)
    before, changes = fed(signal, range(stop), bursts=True)
    again = CycleScales.restore(from_bytes(to_bytes(before.snapshot())))
    after, more = fed(signal, range(stop, 430), again, bursts=True)
    assert changes + more == expected
    assert to_bytes(after.snapshot()) == to_bytes(straight.snapshot())


def test_series_come_go_and_move() -> None:
    scales, _ = fed(square(0.7), range(120), bursts=True)
    scales.resize(np.array([-1, 0]))
    assert scales.published(0) is None
    found = scales.published(1)
    assert found is not None
    assert found.period_s == pytest.approx(0.7, rel=0.01)


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ValueError, match="version 9"):
        CycleScales.restore({"v": 9})


def test_a_snapshot_stays_small() -> None:
    scales = CycleScales(24)
    rng = np.random.default_rng(0)
    for tick in range(2000):
        ts_ms = START_MS + 600_000 * tick
        feed(scales, ts_ms, 50 + rng.normal(size=24), 600_000)
    assert len(to_bytes(scales.snapshot())) < 24 * 9_000

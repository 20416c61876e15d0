"""Makes one answer of what several time scales say of one series."""

from collections.abc import Sequence
from dataclasses import dataclass

from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from streams.operators.cycles.result import NO_CYCLE, multiple, near

SAME = 0.03
"""Periods that differ by less than this share are one."""
CONFUSED = 20
"""Samples up to which a slower scale's period may come of any of a quick cycle's many aliases."""
FEW_SAMPLES = 10
HARMONICS, TIMES = 5, 3
"""Above, it is none if it is no alias of these lines of the quick cycle, nor so many times one."""
AVERAGED = 3
"""Periods in an interval from which on the mean over it hides a cycle."""
_UNSURE_BINS = 0.02
"""Error of a cycle's frequency, in units of one over its window."""
VARIES, STRONGEST, SURE = 0.01, 2, 0.98
"""Steps vary, so the period of a quick cycle in the bursts' 20 s may differ by this share from that in the
ticks. A cycle that may be an alias of so many of its lines because of that has to be so sure."""
_VERIFIED_S = 4.0
"""Up to this period a cycle in the ticks has to be in the bursts, where there are any."""
OTHERS = 3
"""At most so many further cycles are said."""


@dataclass(frozen=True, slots=True)
class ScaleResult:
    """Holds what one scale says of samples ``interval_s`` apart, over ``window_s``; None: too few samples."""

    interval_s: float
    window_s: float
    result: CycleMetric | None


@dataclass(frozen=True, slots=True)
class _KnownCycle:
    """Holds a cycle of one scale, and the error of its frequency."""

    period_s: float
    confidence: float
    since_ms: int
    unsure_hz: float


def combined(
    scales: Sequence[ScaleResult], before: CycleMetric | None, witness: ScaleResult | None = None
) -> CycleMetric:
    """Return the cycles that any of ``scales`` sees, each once.

    The scales are the bursts, the ticks, and means over ever longer intervals. The main cycle is what it
    was ``before``, as long as it goes on, else the most confident, of those the quickest. A series without
    bursts may have those of another metric as a ``witness``: these tell what is only an alias.
    """
    known: list[_KnownCycle] = []
    bursts = witness or scales[0]
    seen = _cycles(witness) if witness else []
    for place, scale in enumerate(scales):
        finer = [*seen, *known]
        for cycle in _cycles(scale):
            if any(near(cycle.period_s, other.period_s, SAME) for other in seen):
                known.append(cycle)
                continue
            unseen = place > 0 and bursts.result is not None and cycle.period_s <= _VERIFIED_S
            # A multiple of what the same scale sees, of so few samples that those fall
            # differently in each period
            again = any(
                other.period_s < FEW_SAMPLES * scale.interval_s and multiple(cycle.period_s, other.period_s)
                for other in known[len(finer) - len(seen) :]
            )
            echo = any(_is_echo(cycle, other, scale, scales[1].interval_s) for other in finer)
            if not (unseen or again or echo):
                known.append(cycle)
    if not known:
        return NO_CYCLE
    before_s = None if before is None else before.period_s
    gone_on = (cycle for cycle in known if before_s is not None and near(cycle.period_s, before_s, SAME))
    main = next(gone_on, None) or max(known, key=lambda cycle: round(cycle.confidence, 2))
    rest = sorted((cycle for cycle in known if cycle is not main), key=lambda cycle: -cycle.confidence)
    others = tuple(OtherCycle(period_s=o.period_s, confidence=o.confidence) for o in rest[:OTHERS])
    return CycleMetric(
        cyclic=True, period_s=main.period_s, confidence=main.confidence, since_ms=main.since_ms,
        others=others or None,
    )  # fmt: skip


def _cycles(scale: ScaleResult) -> list[_KnownCycle]:
    result = scale.result
    if result is None or result.period_s is None or result.confidence is None or result.since_ms is None:
        return []
    pairs = [(result.period_s, result.confidence)]
    pairs += [(other.period_s, other.confidence) for other in result.others or ()]
    return [_KnownCycle(*pair, result.since_ms, _UNSURE_BINS / scale.window_s) for pair in pairs]


def _is_echo(cycle: _KnownCycle, finer: _KnownCycle, scale: ScaleResult, tick_s: float) -> bool:
    """Tell whether a scale only sees what a finer one sees better: the same, a multiple, or an alias, which
    is where a line of a quicker cycle comes to lie when it is sampled too slowly."""
    if near(cycle.period_s, finer.period_s, SAME) or multiple(cycle.period_s, finer.period_s):
        return True
    for interval_s in {tick_s, scale.interval_s}:
        # Means over many of its periods leave nothing of a cycle.
        low_s = 0.0 if interval_s == tick_s else interval_s / AVERAGED
        if not low_s <= finer.period_s < 3 * interval_s:
            continue
        if cycle.period_s < CONFUSED * interval_s:
            return True
        rate_hz, varies = 1 / interval_s, VARIES if interval_s == tick_s else 0.0
        for harmonic in range(1, HARMONICS + 1):
            line_hz = harmonic / finer.period_s
            folded_hz = abs(line_hz - rate_hz * round(line_hz / rate_hz))
            unsure_hz = harmonic * finer.unsure_hz + cycle.unsure_hz
            if harmonic <= STRONGEST and cycle.confidence < SURE:
                unsure_hz += varies * line_hz
            if any(abs(folded_hz - times / cycle.period_s) <= unsure_hz for times in range(1, TIMES + 1)):
                return True
    return False

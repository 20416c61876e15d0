"""Holds what is said of a series' cycle, and when two answers say the same."""

from dataclasses import dataclass
from typing import Any

from dutycycle.contract.records.derived import OtherCycle

CHANGED = 0.02
"""Share by which a period has to move to be published again."""
SHARPER, MANY = 0.005, 6.0
"""The same for what was published of fewer than so many periods: these do not fix it exactly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Says whether a series has a cycle now. Without one, all but ``cyclic`` is None.

    ``period_s`` in seconds; ``confidence`` the chance that the period is right, 0-1; ``since_ms`` the start
    of the oldest period of the unbroken run that reaches to now; ``others`` further cycles, None if there
    is none.
    """

    cyclic: bool
    period_s: float | None = None
    confidence: float | None = None
    since_ms: int | None = None
    others: tuple[OtherCycle, ...] | None = None


NO_CYCLE = CycleResult(cyclic=False)


def near(one_s: float, other_s: float, share: float = CHANGED) -> bool:
    """Tell whether two periods differ by no more than a ``share`` of the other."""
    return abs(one_s - other_s) <= share * other_s


def multiple(one_s: float, other_s: float) -> bool:
    """Tell whether one period is about two to six times the other."""
    ratio = max(one_s, other_s) / min(one_s, other_s)
    return round(ratio) in range(2, 7) and near(ratio, round(ratio), 2 * CHANGED)


def same(first: CycleResult, other: CycleResult) -> bool:
    """Tell whether both say the same periods."""
    if first.period_s is None or other.period_s is None:
        return first.cyclic == other.cyclic
    ours, theirs = first.others or (), other.others or ()
    return (
        near(first.period_s, other.period_s)
        and len(ours) == len(theirs)
        and all(near(a.period_s, b.period_s) for a, b in zip(ours, theirs, strict=True))
    )


def sharper(result: CycleResult, published: CycleResult, published_ms: int) -> bool:
    """Tell whether ``published`` was found in few periods, and its period is better known by now."""
    if result.period_s is None or published.period_s is None or published.since_ms is None:
        return False
    few = published_ms - published.since_ms < MANY * published.period_s * 1000
    return few and not near(result.period_s, published.period_s, SHARPER)


def result_to_plain(result: CycleResult | None) -> dict[str, Any] | None:
    """Return plain data for a snapshot."""
    if result is None:
        return None
    others = result.others and [[other.period_s, other.confidence] for other in result.others]
    return {
        "cyclic": result.cyclic, "period_s": result.period_s, "confidence": result.confidence,
        "since_ms": result.since_ms, "others": others,
    }  # fmt: skip


def result_from_plain(plain: dict[str, Any] | None) -> CycleResult | None:
    """Return the result that ``result_to_plain`` wrote."""
    if plain is None:
        return None
    others = plain["others"]
    pairs = others and tuple(OtherCycle(period_s=p, confidence=c) for p, c in others)
    return CycleResult(**{**plain, "others": pairs})

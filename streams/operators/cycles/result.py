"""Tells when two answers on a series' cycle say the same.

Such an answer is a ``CycleMetric``. Without a cycle all but ``cyclic`` is None. ``confidence`` is the chance
that the period is right, ``since_ms`` the start of the oldest period of the unbroken run that reaches to now.
"""

from dutycycle.contract.records.derived import CycleMetric

CHANGED = 0.02
"""Share by which a period has to move to be published again."""
SHARPER, MANY = 0.005, 6.0
"""The same for what was published of fewer than so many periods: these do not fix it exactly."""

NO_CYCLE = CycleMetric(cyclic=False)


def near(one_s: float, other_s: float, share: float = CHANGED) -> bool:
    """Tell whether two periods differ by no more than a ``share`` of the other."""
    return abs(one_s - other_s) <= share * other_s


def multiple(one_s: float, other_s: float) -> bool:
    """Tell whether one period is about two to six times the other."""
    ratio = max(one_s, other_s) / min(one_s, other_s)
    return round(ratio) in range(2, 7) and near(ratio, round(ratio), 2 * CHANGED)


def same(first: CycleMetric, other: CycleMetric) -> bool:
    """Tell whether both say the same periods."""
    if first.period_s is None or other.period_s is None:
        return first.cyclic == other.cyclic
    ours, theirs = first.others or (), other.others or ()
    return (
        near(first.period_s, other.period_s)
        and len(ours) == len(theirs)
        and all(near(a.period_s, b.period_s) for a, b in zip(ours, theirs, strict=True))
    )


def sharper(result: CycleMetric, published: CycleMetric, published_ms: int) -> bool:
    """Tell whether ``published`` was found in few periods, and its period is better known by now."""
    if result.period_s is None or published.period_s is None or published.since_ms is None:
        return False
    few = published_ms - published.since_ms < MANY * published.period_s * 1000
    return few and not near(result.period_s, published.period_s, SHARPER)

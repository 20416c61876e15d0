"""Sums the pods that a job no longer keeps one by one: one sum for all, so that its state stays small.

A job may run for years and start a pod every minute. Of a pod that has ended the job needs only what it adds
to the whole, and that can be kept exactly: a maximum with its time, a count, and the sum as the few floats
that ``math.fsum`` needs to round as it would with all values.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import fsum

from dutycycle.contract.records.parts import JobPart, Tally
from dutycycle.contract.units import Number
from streams.operators.peaks.histogram import merged

MAX_JOB_PODS = 2_000
"""Pods that a job keeps one by one; of more, those that ended longest ago depart."""
DEPART_AFTER_MS = 3_600_000
"""A pod may depart once its last moment is so far behind the newest of its job, in event time."""
MAX_REMEMBERED_PODS = 2_000
"""Pods that departed last whose uids are kept, so that a part of theirs that is repeated counts no more."""

_MOST_COUNT = 2**63 - 1
"""The largest integer that every JSON reader takes."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """Holds a metric of all departed pods: like ``Tally``, but ``sums`` are floats whose exact sum is the
    sum."""

    max: Number
    at_ms: int
    sums: list[float]
    count: int
    histogram: bytes | None = None

    def plus(self, tally: Tally) -> "_Sum":
        """Return the sum of this and one more ``tally``."""
        high, at_ms = max(
            (self.max, self.at_ms), (tally.max, tally.at_ms), key=lambda peak: (peak[0], -peak[1])
        )
        count = min(self.count + tally.count, _MOST_COUNT)
        counted = [of for of in (self.histogram, tally.histogram) if of is not None]
        return _Sum(high, at_ms, _exact([*self.sums, tally.sum]), count, merged(counted) if counted else None)

    def tallies(self) -> list[Tally]:
        """Return tallies that merge to this, at least one."""
        sums = self.sums or [0.0]
        return [
            Tally(
                max=self.max,
                at_ms=self.at_ms,
                sum=part,
                count=0 if rank else self.count,
                histogram=None if rank else self.histogram,
            )
            for rank, part in enumerate(sums)
        ]


def _exact(values: Iterable[float]) -> list[float]:
    """Return the fewest floats whose sum is exactly that of ``values``, the largest first; none for zero."""
    every, parts = list(values), list[float]()
    while rest := fsum([*every, *(-part for part in parts)]):
        parts.append(rest)
    return parts


@dataclass(slots=True)
class DepartedPods:
    """Holds what the departed pods of a job add to it. ``pods``: how many there are; ``with_gpus``: how many
    of them had metrics of single GPUs. ``uid in departed`` holds for those that departed last. ``span``:
    their first and last moment (Unix ms), None if no pod departed. ``sums`` by metric. ``uids``: in the order
    in which they departed. ``totals``: what they used, by name, as floats whose exact sum it is."""

    pods: int = 0
    with_gpus: int = 0
    span: tuple[int, int] | None = None
    sums: dict[str, _Sum] = field(default_factory=dict)
    uids: dict[str, None] = field(default_factory=dict)
    totals: dict[str, list[float]] = field(default_factory=dict)

    def __contains__(self, uid: str) -> bool:
        return uid in self.uids

    def add(self, part: JobPart) -> None:
        """Take the last part of a pod that departs."""
        self.pods += 1
        self.with_gpus += bool(part.gpus)
        first_ms, last_ms = self.span or (part.first_ms, part.last_ms)
        self.span = min(first_ms, part.first_ms), max(last_ms, part.last_ms)
        for metric, tally in part.metrics.items():
            known = self.sums.get(metric) or _Sum(tally.max, tally.at_ms, [], 0)
            self.sums[metric] = known.plus(tally)
        for name, value in (part.totals or {}).items():
            self.totals[name] = _exact([*self.totals.get(name, ()), value])
        self.uids[part.pod_uid] = None
        if len(self.uids) > MAX_REMEMBERED_PODS:
            del self.uids[next(iter(self.uids))]

    def all_totals(self) -> Iterable[dict[str, float]]:
        """Yield totals whose sum is theirs."""
        yield from ({name: value} for name, values in self.totals.items() for value in values)

    def tallies(self) -> Iterable[dict[str, Tally]]:
        """Yield tallies by metric that merge to what they add."""
        for metric, known in self.sums.items():
            yield from ({metric: tally} for tally in known.tallies())

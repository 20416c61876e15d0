"""The pods that a job no longer keeps one by one: one tally for all of them, so that its state stays small.

A job may live for years and begin a pod every minute, of which each would stay for ever. What the job as a
whole used needs of a pod that is over only what it adds, and that can be kept exactly: a maximum with its
moment, a count, and a sum as the few floats that it is made of, whose ``fsum`` rounds as that of all would.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import fsum
from typing import Any

from contract.records.parts import JobPart, Tally

MOST_PODS = 2_000
"""So many pods a job keeps one by one; of more, those leave that ended longest ago."""
GONE_AFTER_MS = 3_600_000
"""A pod leaves once its last moment lies so far behind the newest of its job (event time)."""
MOST_REMEMBERED = 2_000
"""So many of the pods that left last are known by uid: their parts, which may repeat, count no more."""

_MOST_COUNT = 2**63 - 1
"""The largest integer that every reader of JSON takes."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A metric of all that left: like ``Tally``, with the sum as floats that make it without an error."""

    max: float
    at_ms: int
    sums: list[float]
    count: int

    def plus(self, one: Tally) -> "_Sum":
        """This and ``one``."""
        high, at_ms = max((self.max, self.at_ms), (one.max, one.at_ms), key=lambda peak: (peak[0], -peak[1]))
        count = min(self.count + one.count, _MOST_COUNT)
        return _Sum(high, at_ms, _exact([*self.sums, one.sum]), count)

    def tallies(self) -> list[Tally]:
        """Tallies that add up to this, at least one."""
        sums = self.sums or [0.0]
        return [
            Tally(max=self.max, at_ms=self.at_ms, sum=part, count=0 if rank else self.count)
            for rank, part in enumerate(sums)
        ]


def _exact(values: Iterable[float]) -> list[float]:
    """The fewest floats whose sum is exactly that of ``values``, the largest first; none for zero."""
    every, parts = list(values), list[float]()
    while rest := fsum([*every, *(-part for part in parts)]):
        parts.append(rest)
    return parts


class GonePods:
    """What the pods that left add to their job, and the uids of the last of them."""

    def __init__(self) -> None:
        self.pods = 0
        self.with_gpus = 0
        """So many of them had figures of single GPUs."""
        self._span: tuple[int, int] | None = None
        self._sums: dict[str, _Sum] = {}
        self._uids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, uid: str) -> bool:
        return uid in self._uids

    def add(self, part: JobPart) -> None:
        """``part`` is the last of its pod, which leaves."""
        self.pods += 1
        self.with_gpus += bool(part.gpus)
        first_ms, last_ms = self._span or (part.first_ms, part.last_ms)
        self._span = min(first_ms, part.first_ms), max(last_ms, part.last_ms)
        for metric, one in part.metrics.items():
            known = self._sums.get(metric) or _Sum(one.max, one.at_ms, [], 0)
            self._sums[metric] = known.plus(one)
        self._uids[part.pod_uid] = None
        if len(self._uids) > MOST_REMEMBERED:
            self._uids.popitem(last=False)

    def moments(self) -> tuple[int, ...]:
        """Their first and last moment in Unix milliseconds, none if no pod left."""
        return self._span or ()

    def tallies(self) -> Iterable[dict[str, Tally]]:
        """Tallies by metric that merge to what they added."""
        for metric, known in self._sums.items():
            yield from ({metric: tally} for tally in known.tallies())

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "pods": self.pods,
            "with_gpus": self.with_gpus,
            "span": self._span and list(self._span),
            "sums": {metric: asdict(known) for metric, known in self._sums.items()},
            "uids": list(self._uids),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot."""
        self.pods, self.with_gpus = plain["pods"], plain["with_gpus"]
        self._span = plain["span"] and tuple(plain["span"])
        self._sums = {metric: _Sum(**known) for metric, known in plain["sums"].items()}
        self._uids = OrderedDict.fromkeys(plain["uids"])

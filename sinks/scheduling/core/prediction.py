"""Predicts what a new pod will need, from what similar pods used: order statistics, without any model of
their distribution.

Of ``n`` values and one more, in any order equally likely, the next one lies at or above the ``i``-th smallest
and at or below the ``j``-th with a probability of ``(j - i) / (n + 1)`` at least (David and Nagaraja, Order
Statistics, 2003, 7.2; the same that split conformal prediction rests on).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import floor

from dutycycle.contract.units import GIB
from sinks.scheduling.core.similar import FIGURES, SimilarPods


@dataclass(frozen=True, slots=True)
class Interval:
    """Holds where a next value lies. ``middle`` is the median of the values of ``pods`` pods; ``low`` and
    ``high`` are two of them.

    ``coverage``: the probability, 0 to 1, that the next value lies within; less than what was wanted where
    the values are too few, and 0 with one value. ``below``: the probability that it is at most ``high``.
    """

    low: float
    middle: float
    high: float
    coverage: float
    below: float
    pods: int


def interval(values: Iterable[float], wanted: float) -> Interval | None:
    """Return the narrowest symmetric interval that covers ``wanted`` (0 to 1), or all that was seen.

    None without values. Raises ``ValueError`` for a ``wanted`` that no interval can have.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"coverage {wanted}: expected a share between 0 and 1")
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    # a hair more: (1 - 0.8) / 2 * 10 is to be 1, and is less in binary
    lowest = max(floor((1 - wanted) / 2 * (count + 1) + 1e-9), 1)
    highest = count + 1 - lowest
    return Interval(
        low=ordered[lowest - 1],
        middle=(ordered[(count - 1) // 2] + ordered[count // 2]) / 2,
        high=ordered[highest - 1],
        coverage=max(highest - lowest, 0) / (count + 1),
        below=highest / (count + 1),
        pods=count,
    )


_COVERAGE = 0.8
"""Nine similar pods are enough for it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """Holds of each figure that similar pods had an interval; ``kind`` is what most of them did,
    ``agreement`` their share.

    ``pods``: how many there are, which are alike in ``likeness``.
    """

    figures: Mapping[str, Interval]
    kind: str | None
    agreement: float
    pods: int
    likeness: str

    def middle(self, figure: str) -> float | None:
        """Return what is as likely too much as too little."""
        stated = self.figures.get(figure)
        return None if stated is None else stated.middle

    def high(self, figure: str) -> float | None:
        """Return what is enough, with the probability ``below`` of its interval."""
        stated = self.figures.get(figure)
        return None if stated is None else stated.high

    def summary(self) -> str:
        """Return one line: what it takes, in the middle of similar pods, and whence that is known."""
        forms: dict[str, Callable[[Interval], str]] = {
            "duration_s": lambda seconds: f"takes {_duration(seconds.middle)}",
            "gpu_mem_bytes": lambda memory: f"{memory.high / GIB:.1f} GiB of a GPU's memory at most",
            "gpu_util_pct": lambda share: f"uses {share.middle:.0f} % of its GPUs at its peak",
            "cpu_cores": lambda cpus: f"{cpus.middle:.1f} CPUs (p95)",
        }
        figures = [form(self.figures[name]) for name, form in forms.items() if name in self.figures]
        return "; ".join([", ".join(figures), self.evidence()] if figures else [self.evidence()])

    def evidence(self) -> str:
        """Return one line: how many similar pods, and how alike."""
        pods = "1 ended pod" if self.pods == 1 else f"{self.pods} ended pods"
        kind = f"; {self.agreement:.0%} of them {self.kind}" if self.kind else ""
        few = {1: "; one says nothing of how it varies", 2: "; two cover a third of what comes"}
        return f"{pods} with the same {self.likeness}{kind}{few.get(self.pods, '')}"


def _duration(seconds: float) -> str:
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.1f} {unit}"
    return f"{seconds:.0f} s"


def predict(similar: SimilarPods | None) -> Prediction | None:
    """Return the prediction from ``similar``; None without similar pods."""
    if similar is None:
        return None
    figures = {}
    for name in FIGURES:
        stated = interval(
            (outcome.figures[name] for outcome in similar.outcomes if name in outcome.figures), _COVERAGE
        )
        if stated is not None:
            figures[name] = stated
    kinds = Counter(outcome.kind for outcome in similar.outcomes if outcome.kind is not None)
    kind, most = kinds.most_common(1)[0] if kinds else (None, 0)
    return Prediction(figures, kind, most / max(kinds.total(), 1), len(similar.outcomes), similar.likeness)

"""Predicts what a new pod will need, from what similar pods used."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from dutycycle.contract.units import GIB
from sinks.scheduling.core.intervals import Interval, interval
from sinks.scheduling.core.similar import FIGURES, SimilarPods

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

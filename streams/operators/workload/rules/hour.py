"""Whether a smaller GPU would do: a matter of an hour, as sizes of CPU and memory are, and not of minutes.

The rules look at a few minutes; a server with few requests now may have many soon.
"""

from dataclasses import replace
from typing import Any

from streams.operators.workload.rules import bottleneck
from streams.operators.workload.rules.bottleneck import Finding
from streams.operators.workload.rules.figures import Figures
from streams.operators.workload.rules.rightsizing import BLOCK_MS, note

_LEVEL, _MEMORY = "level_pct", "gpu_mem_pct"
_TOO_LARGE = "gpu_mem_most_pct"
"""The evidence of the only rule that is asked again."""


class Hour:
    """The highest level and the most GPU memory of the last hour, by five minutes, in half percents: a
    function of what it was told in the order of time."""

    def __init__(self) -> None:
        self._highs: dict[str, list[list[int]]] = {_LEVEL: [], _MEMORY: []}

    def find(self, end_ms: int, of: Figures | None, kind: str, gpus: int) -> Finding:
        """What holds the pod back, by its figures until ``end_ms``: a GPU is too large if it was so in all of
        the hour."""
        found = bottleneck.find(of, kind, gpus)
        if of is None:
            return found
        self._take(end_ms, of)
        if _TOO_LARGE not in found.evidence:
            return found
        level, memory = (max(high for _, high in self._highs[name]) / 2 for name in (_LEVEL, _MEMORY))
        all_hour = replace(of, level_pct=level, waits=0.0, most=of.most | {_MEMORY: memory})
        whole = bottleneck.find(all_hour, kind, gpus)
        if _TOO_LARGE in whole.evidence:
            return whole
        rest = {name: most for name, most in of.most.items() if name != _MEMORY}
        return bottleneck.find(replace(of, most=rest), kind, gpus)

    def _take(self, end_ms: int, of: Figures) -> None:
        block = end_ms // BLOCK_MS
        note(self._highs[_LEVEL], block, round(2 * of.level_pct))
        if _MEMORY in of.most:
            note(self._highs[_MEMORY], block, round(2 * of.most[_MEMORY]))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {name: [list(one) for one in highs] for name, highs in self._highs.items()}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._highs = {name: [list(one) for one in plain[name]] for name in self._highs}

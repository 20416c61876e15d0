"""What is known of one GPU, gathered from its samples and from what was found about it. Pure."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from contract.records.parts import NodePart
from contract.records.samples import Gpu
from sinks.annotations.core.values import gpu_now, number, significant

MAXIMA = {"gpu_util_pct": "max_gpu_util", "mem_copy_util_pct": "max_mem_util"}
"""The maxima in the value, by the metric whose windows give them."""
LOOK_BACK_MS = 3_600_000
"""The maxima are those of the last hour of the GPU's own time."""
_SECONDS_PER_HOUR = 3600


class RecentMaximum:
    """The largest value of the last hour; bounded, because what a later and larger value hides is dropped."""

    def __init__(self) -> None:
        self._falling: deque[tuple[int, float]] = deque()
        self._newest_ms = 0

    def add(self, end_ms: int, value: float) -> None:
        """A window that ended at ``end_ms`` had this maximum."""
        self._newest_ms = max(self._newest_ms, end_ms)
        while self._falling and self._falling[-1][1] <= value:
            end_ms = max(end_ms, self._falling.pop()[0])
        self._falling.append((end_ms, value))
        while self._falling[0][0] <= self._newest_ms - LOOK_BACK_MS:
            self._falling.popleft()

    @property
    def value(self) -> float | None:
        """None before the first window."""
        return self._falling[0][1] if self._falling else None


class GpuView:
    """One GPU. What was never heard of is not in the value; ``adopt`` takes it from before a restart."""

    def __init__(self) -> None:
        self.index: int | None = None
        self._now: dict[str, Any] = {}
        self._cycle: dict[str, Any] = {}
        self._trend: dict[str, Any] = {}
        self._maxima: dict[str, RecentMaximum] = {}

    def sampled(self, gpu: Gpu) -> None:
        """A tick, which says which index the GPU has."""
        self.index = gpu.index
        self._now = gpu_now(gpu)

    def found(self, part: NodePart) -> None:
        """What is new of the cycle, of the trend (in percent points an hour), and of the maxima."""
        if part.cyclic is not None:
            self._cycle = {"cyclic": part.cyclic}
            if part.cyclic and part.period_s is not None:
                self._cycle["period_s"] = significant(part.period_s)
        if part.slope_per_s is not None:
            self._trend = {"trend_pct_per_h": significant(part.slope_per_s * _SECONDS_PER_HOUR)}
        for metric, largest in part.maxima.items():
            if name := MAXIMA.get(metric):
                self._maxima.setdefault(name, RecentMaximum()).add(part.ts_ms, largest)

    def adopt(self, written: Mapping[str, Any], now_ms: int) -> None:
        """Take over from the annotation that is there what this process has not heard of itself."""
        if not self._cycle and isinstance(written.get("cyclic"), bool):
            self._cycle = _numbers(written, "period_s") | {"cyclic": written["cyclic"]}
        if not self._trend:
            self._trend = _numbers(written, "trend_pct_per_h")
        for name, value in _numbers(written, *MAXIMA.values()).items():
            self._maxima.setdefault(name, RecentMaximum()).add(now_ms, value)

    def value(self) -> dict[str, Any]:
        """The annotation, in the order of the contract."""
        found = self._now | {
            name: self._cycle[name] for name in ("cyclic", "period_s") if name in self._cycle
        }
        for name in MAXIMA.values():
            maximum = self._maxima[name].value if name in self._maxima else None
            if maximum is not None:
                found[name] = number(maximum)
        return found | self._trend


def _numbers(written: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: written[name] for name in names if type(written.get(name)) in (int, float)}

"""What is known of one GPU, gathered from its samples, windows, cycles and trends. Pure."""

from collections import deque
from collections.abc import Mapping
from typing import Any

from sinks.annotation_values import gpu_now, number, significant
from wire.derived import Cycle, Trend, WindowAggregate
from wire.samples import Gpu

METRIC = "gpu_util_pct"
"""Rhythm and trend are those of the GPU's utilization."""
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

    def window(self, record: WindowAggregate) -> None:
        """A closed window; those of other metrics are passed over."""
        if name := MAXIMA.get(record.metric):
            self._maxima.setdefault(name, RecentMaximum()).add(record.end_ms, record.max)

    def cycle(self, record: Cycle) -> None:
        """The rhythm, or that there is none."""
        if record.metric == METRIC:
            self._cycle = {"cyclic": record.cyclic}
            if record.cyclic and record.period_s is not None:
                self._cycle["period_s"] = significant(record.period_s)

    def trend(self, record: Trend) -> None:
        """Where utilization is heading, in percent points an hour."""
        if record.metric == METRIC:
            self._trend = {"trend_pct_per_h": significant(record.slope_per_s * _SECONDS_PER_HOUR)}

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

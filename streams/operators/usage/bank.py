"""The ledger of one node: each hour so far, once a minute. The times of ticks are those of the samples.

Ticks are counted some at a time: a call of a compiled loop costs more than what it does for one of them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from contract.codec import encode
from contract.log import ProducerRecord
from contract.records.hours import HOUR_MS, UsageHour, counted_ms, is_gap
from streams.operators.base import Emission
from streams.operators.columns.tick import Tick
from streams.operators.rounding import tidy
from streams.operators.usage.gpus import GpuMeter
from streams.operators.usage.pods import PodMeter

_MINUTE_MS = 60_000
_TOGETHER = 12
"""So many ticks of one layout wait at most to be counted."""


class UsageBank:
    """What was used of one node, by the samples of ``source``; of others than nvml and cgroup, nothing."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._gpus = GpuMeter() if source == "nvml" else None
        self._pods = PodMeter() if source == "cgroup" else None
        self._meter = self._gpus or self._pods
        self._last_ms: int | None = None
        self._before: dict[str, dict[str, float]] = {}
        """What each pod used before this hour; less what it did in it before it was forgotten."""
        self._waiting: list[Tick] = []
        self._seconds: list[float] = []
        self._gaps: list[bool] = []

    def add(self, tick: Tick) -> list[Emission]:
        """Take a tick that is newer than the last; the hour so far, if it is the first of another minute."""
        if self._meter is None:
            return []
        emissions: list[Emission] = []
        last_ms, interval_ms = self._last_ms, tick.interval_ms
        if last_ms is not None and last_ms // _MINUTE_MS != tick.ts_ms // _MINUTE_MS:
            emissions = self.flush()
            if last_ms // HOUR_MS != tick.ts_ms // HOUR_MS:
                self._before = {uid: of for uid, of in self._sums().items() if any(of.values())}
                self._meter.begin()
        step_ms = interval_ms if last_ms is None else tick.ts_ms - last_ms
        if self._waiting and (self._waiting[0].layout is not tick.layout or len(self._waiting) == _TOGETHER):
            self._count()
        self._waiting.append(tick)
        self._seconds.append(counted_ms(step_ms, interval_ms) / 1000)
        self._gaps.append(is_gap(step_ms, interval_ms))
        self._last_ms = tick.ts_ms
        return emissions

    def _count(self) -> None:
        """Count the ticks that wait."""
        if self._meter is not None and self._waiting:
            values = np.array([one.values for one in self._waiting])
            tallies = np.array([one.tallies for one in self._waiting])
            self._meter.add(
                self._waiting[0].layout, values, tallies, np.array(self._seconds), np.array(self._gaps)
            )
            self._waiting, self._seconds, self._gaps = [], [], []

    def flush(self) -> list[Emission]:
        """The rows of the hour that changed since the last call."""
        self._count()
        gpus = self._gpus.changed() if self._gpus else ()
        pods = self._pods.changed() if self._pods else ()
        if self._last_ms is None or not (gpus or pods):
            return []
        record = UsageHour(
            node=self._node, source=self._source, hour_ms=self._last_ms - self._last_ms % HOUR_MS,
            ts_ms=self._last_ms, gpus=gpus, pods=pods,
        )  # fmt: skip
        return [ProducerRecord("usage", self._node, encode(record), self._last_ms)]

    def totals(self) -> dict[str, dict[str, float]]:
        """What each pod used since it was first seen, or forgotten."""
        sums = self._sums()
        return {uid: {name: tidy(of[name]) for name in sorted(of)} for uid, of in sums.items()}

    def _sums(self) -> dict[str, dict[str, float]]:
        self._count()
        found = self._meter.sums() if self._meter else {}
        for uid, before in self._before.items():
            now = found.get(uid, {})
            names = before.keys() | now.keys()
            found[uid] = {name: before.get(name, 0.0) + now.get(name, 0.0) for name in names}
        return found

    def forget(self, pods: Iterable[str]) -> None:
        """These pods begin anew if they come back."""
        now = self._meter.sums() if self._meter else {}
        for uid in pods:
            self._before.pop(uid, None)
            if uid in now:
                self._before[uid] = {name: -value for name, value in now[uid].items()}

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        self._count()
        return {
            "last_ms": self._last_ms,
            "before": self._before,
            "meter": self._meter.snapshot() if self._meter else None,
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._last_ms = plain["last_ms"]
        self._before = {uid: dict(of) for uid, of in plain["before"].items()}
        if self._meter:
            self._meter.restore(plain["meter"])

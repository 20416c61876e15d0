"""Keeps the ledger of one node: each hour so far. The times of ticks are those of the samples."""

from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.metering import SET_BACK_MS, counted_ms
from dutycycle.contract.records.hours import HOUR_MS, UsageHour
from dutycycle.contract.records.parts import PodOnGpu
from streams.operators.base import Emission
from streams.operators.columns.block import TickBlock
from streams.operators.rounding import tidy
from streams.operators.usage.gpus import GpuMeter
from streams.operators.usage.pods import PodMeter
from streams.operators.usage.table import OnGpu

_MOST_LEFT = 4
"""So many hours that a jump of the clock has left are kept."""


class UsageBank:
    """Counts what was used of one node, by the samples of ``source``; of others than nvml and cgroup,
    nothing."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._gpus = GpuMeter() if source == "nvml" else None
        self._pods = PodMeter() if source == "cgroup" else None
        self._meter = self._gpus or self._pods
        self._last_ms: int | None = None
        self._before: dict[OnGpu, dict[str, float]] = {}
        """What each pod used of each GPU before this hour; less what it did in it before it was forgotten."""
        self._left: dict[int, dict[str, Any]] = {}
        """Hours that were left by a jump of the clock, which may come back, as snapshots of the meter."""

    def advance(self, ts_ms: int) -> list[Emission]:
        """Take the time ``ts_ms`` of a tick that comes, and return what is left of the hour that it ends."""
        if self._last_ms is None or self._meter is None or self._last_ms // HOUR_MS == ts_ms // HOUR_MS:
            return []
        emissions = self.flush()
        self._before = {key: of for key, of in self._sums().items() if any(of.values())}
        if abs(ts_ms - self._last_ms) > SET_BACK_MS:  # perhaps by a wrong clock
            self._left[self._last_ms // HOUR_MS] = self._meter.hour()
            if len(self._left) > _MOST_LEFT:
                del self._left[next(iter(self._left))]
        self._meter.begin()
        left = self._left.pop(ts_ms // HOUR_MS, None)
        if left is not None:
            self._meter.go_on(left)
            self._take_off(self._meter.sums())  # it counted when the hour was left
        return emissions

    def take_left(self, before: "UsageBank", ts_ms: int) -> None:
        """Take over the hours that ``before`` has left, the one of now among them: a jump leads to
        ``ts_ms``."""
        before.advance(ts_ms)
        self._left = before._left

    def extend(self, block: TickBlock) -> None:
        """Take ticks of one hour that are newer than the last."""
        if self._meter is None:
            return
        times, interval_ms = block.times.tolist(), block.interval_ms
        first_ms = interval_ms if self._last_ms is None else times[0] - self._last_ms
        steps_ms = [first_ms, *(later - earlier for earlier, later in pairwise(times))]
        seconds = np.array([counted_ms(step_ms, interval_ms) / 1000 for step_ms in steps_ms])
        self._meter.add(block, seconds)
        self._last_ms = times[-1]

    def flush(self) -> list[Emission]:
        """Write the rows of the hour that changed since they were written."""
        return self.unwritten(keep=False)

    def unwritten(self, *, keep: bool = True) -> list[Emission]:
        """Return the rows of the hour that changed since they were written, which they are not by this."""
        gpus = self._gpus.changed(keep=keep) if self._gpus else ()
        pods = self._pods.changed(keep=keep) if self._pods else ()
        if self._last_ms is None or not (gpus or pods):
            return []
        record = UsageHour(
            node=self._node, source=self._source, hour_ms=self._last_ms - self._last_ms % HOUR_MS,
            ts_ms=self._last_ms, gpus=gpus, pods=pods,
        )  # fmt: skip
        return [ProducerRecord("usage", self._node, encode(record), self._last_ms)]

    def totals(self) -> dict[str, dict[str, float]]:
        """Return what each pod used since it was first seen, or forgotten."""
        totals: dict[str, dict[str, float]] = {}
        sums = sorted(self._sums().items())  # a worker that took over has them in another order
        for (uid, _), used in sums:
            of_pod = totals.setdefault(uid, {})
            for name, amount in used.items():
                of_pod[name] = of_pod.get(name, 0.0) + amount
        return {uid: {name: tidy(of[name]) for name in sorted(of)} for uid, of in totals.items()}

    def of_gpus(self) -> dict[str, dict[str, float]]:
        """Return what each GPU did since it was first seen, by UUID."""
        return self._gpus.of_gpus() if self._gpus else {}

    def of_pods_on_gpus(self) -> tuple[PodOnGpu, ...]:
        """Return what each pod used of each GPU since it was first seen there, or forgotten."""
        if self._gpus is None:
            return ()
        sums = self._sums()
        return tuple(
            PodOnGpu(pod_uid=uid, gpu=gpu, attribution=word, totals=sums.get((uid, gpu), {}))
            for (uid, gpu), word in self._gpus.origins().items()
        )

    def _sums(self) -> dict[OnGpu, dict[str, float]]:
        sums = self._meter.sums() if self._meter else {}
        for key, before in self._before.items():
            used = dict(before)
            for name, amount in sums.get(key, {}).items():
                used[name] = used.get(name, 0.0) + amount
            sums[key] = used
        return sums

    def forget(self, pods: Collection[str]) -> None:
        """Let these pods begin anew if they come back."""
        self._before = {key: used for key, used in self._before.items() if key[0] not in pods}
        if self._gpus:
            self._gpus.forget(pods)
        if self._meter:
            self._take_off(key for key in self._meter.sums() if key[0] in pods)

    def _take_off(self, keys: Iterable[OnGpu]) -> None:
        """Take off what the hour has of these: it is no part of what they used since it began."""
        sums = self._meter.sums() if self._meter else {}
        for key in keys:
            before = self._before.setdefault(key, {})
            for name, amount in sums[key].items():
                before[name] = before.get(name, 0.0) - amount

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "last_ms": self._last_ms,
            "before": [[*key, used] for key, used in self._before.items()],
            "meter": self._meter.snapshot() if self._meter else None,
            "left": [[hour, meter] for hour, meter in self._left.items()],
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._last_ms = plain["last_ms"]
        self._before = {(uid, gpu): dict(used) for uid, gpu, used in plain["before"]}
        self._left = dict(plain["left"])
        if self._meter:
            self._meter.restore(plain["meter"])

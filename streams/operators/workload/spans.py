"""What a node says to the insights of its pods: every ten seconds of event time a part for each of them.

Spans are aligned to the Unix epoch. Only ticks that are newer than the last count, as for trends, so a span
is over when a tick of a later one comes.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from math import isnan
from typing import Any

import numpy as np
import orjson

from contract.log import ProducerRecord
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, pack, unpack
from streams.operators.columns.series import POD_CGROUP_METRICS
from streams.operators.columns.tick import Tick
from streams.operators.cycles.result import CycleResult
from streams.operators.rounding import tidy
from streams.operators.workload.channels import CgroupPicker, GpuPicker, Plan, plain_of, plan_from
from streams.operators.workload.codes import SLOTS, SPAN_MS, encode, to_text

TOPIC = "insight-parts"
_SLOT_MS = SPAN_MS // SLOTS
_LIMIT = POD_CGROUP_METRICS.index("mem_limit_bytes")


@dataclass(slots=True)
class _Run:
    """Ticks of one layout within the open span: (first slot, last slot) and picked numbers of each."""

    plan: Plan
    slots: list[list[int]] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)


class SpanBank:
    """Gathers one source's ticks of a node. ``source`` is ``nvml`` or ``cgroup``."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._picker: GpuPicker | CgroupPicker = GpuPicker() if source == "nvml" else CgroupPicker()
        self._start_ms = 0
        self._runs: list[_Run] = []
        self._periods: dict[str, tuple[float, float]] = {}

    def add(self, tick: Tick) -> list[Emission]:
        """Take a tick that is newer than the last; parts of the span that it ends."""
        start_ms = tick.ts_ms // SPAN_MS * SPAN_MS
        outs = self.close() if start_ms > self._start_ms else []
        self._start_ms = start_ms
        plan = self._picker.plan(tick)
        if not plan.uids:
            return outs
        if not self._runs or self._runs[-1].plan != plan:
            self._runs.append(_Run(plan))
        run = self._runs[-1]
        # A tick speaks for the interval before it; of longer ones that is more than its own second.
        last = (tick.ts_ms - start_ms) // _SLOT_MS
        run.slots.append([max(last - max(tick.interval_ms // _SLOT_MS, 1) + 1, 0), last])
        run.rows.append(self._picker.row(tick))
        return outs

    def heard(self, uid: str, cycle: CycleResult) -> None:
        """The cycle of a pod's utilization was found, changed or lost."""
        if cycle.cyclic and cycle.period_s is not None:
            self._periods[uid] = (cycle.period_s, cycle.confidence or 0.0)
        else:
            self._periods.pop(uid, None)

    def retain(self, uids: Collection[str]) -> None:
        """Of other pods no cycle is known any more."""
        self._periods = {uid: period for uid, period in self._periods.items() if uid in uids}

    def close(self) -> list[Emission]:
        """End the open span."""
        runs, self._runs = self._runs, []
        outs: list[Emission] = []
        said: set[str] = set()
        for run in reversed(runs):  # of a pod that is in several, the newest counts
            fresh = [pod for pod, uid in enumerate(run.plan.uids) if uid not in said]
            said.update(run.plan.uids)
            outs += self._parts(run, fresh)
        return outs

    def _parts(self, run: _Run, pods: list[int]) -> list[Emission]:
        rows = np.array(run.rows)
        codes = encode(self._source, _by_slot(self._picker.channels(run.plan, rows), run.slots))
        memory = self._picker.memory_bytes(run.plan, rows) if isinstance(self._picker, GpuPicker) else None
        limits = _limits(run.plan, rows) if self._source == "cgroup" else None
        outs: list[Emission] = []
        for pod in pods:
            plain = self._head(run.plan.uids[pod]) | {"codes": to_text(codes[:, pod].T)}
            if memory is not None:
                plain["gpus"] = run.plan.held[pod]
                if (total := memory[pod]) is not None:
                    plain["gpu_mem_total_bytes"] = tidy(total)
            if limits is not None and not isnan(limits[pod]):
                plain["mem_limit_bytes"] = tidy(limits[pod])
            outs.append(
                ProducerRecord(TOPIC, run.plan.uids[pod], orjson.dumps(plain), self._start_ms + SPAN_MS)
            )
        return outs

    def _head(self, uid: str) -> dict[str, Any]:
        # Written by hand in the form of contract.records.insight_parts.InsightPart.
        head = {"v": 1, "uid": uid, "source": self._source, "node": self._node, "start_ms": self._start_ms}
        if (period := self._periods.get(uid)) is not None:
            head |= {"period_s": period[0], "period_confidence": period[1]}
        return head

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        runs = [
            {
                "plan": plain_of(run.plan),
                "slots": [list(of) for of in run.slots],
                "rows": pack(np.array(run.rows)),
            }
            for run in self._runs
        ]
        periods = {uid: list(one) for uid, one in self._periods.items()}
        return {"start_ms": self._start_ms, "runs": runs, "periods": periods}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._start_ms = plain["start_ms"]
        self._periods = {uid: (period, chance) for uid, (period, chance) in plain["periods"].items()}
        self._runs = []
        for one in plain["runs"]:
            rows = unpack(one["rows"], "f8", (-1,)).reshape(len(one["slots"]), -1)
            self._runs.append(_Run(plan_from(one["plan"]), [list(of) for of in one["slots"]], list(rows)))


def _limits(plan: Plan, rows: Floats) -> list[float]:
    """Of each pod its limit of host memory at the newest tick, NaN for none: of ``CgroupPicker``'s numbers,
    ``POD_CGROUP_METRICS`` by pod, and the host's after them."""
    limits: list[float] = rows[-1, :-1].reshape(len(plan.uids), -1)[:, _LIMIT].tolist()
    return limits


def _by_slot(channels: Floats, slots: list[list[int]]) -> Floats:
    """Means by second, shape (SLOTS, pods, channels), of ticks that speak for seconds."""
    total = np.zeros((SLOTS, *channels.shape[1:]))
    count = np.zeros(total.shape)
    known = ~np.isnan(channels)
    filled = np.where(known, channels, 0.0)
    for tick, (first, last) in enumerate(slots):
        total[first : last + 1] += filled[tick]
        count[first : last + 1] += known[tick]
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)

"""What a node sends for the insights of its pods: every ten seconds of event time, a part for each pod.

Spans are aligned to the Unix epoch. Only ticks newer than the last are taken, as for trends. So a span ends
when the first tick of a later span comes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson

from contract.codec import from_plain, to_plain
from contract.log import ProducerRecord
from contract.units import END_OF_TIME_MS
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, pack, unpack
from streams.operators.columns.tick import Tick
from streams.operators.cycles.result import CycleResult
from streams.operators.workload.channels import CODINGS, SPAN_MS, SPAN_S, codes_to_text
from streams.operators.workload.loops import codes_by_second
from streams.operators.workload.tick_channels import (
    CgroupTickChannels,
    NoTickChannels,
    NvmlTickChannels,
    RowPlan,
    TickChannels,
)

_TOPIC = "insight-parts"
_SECOND_MS = 1000
_CHANNELS: Mapping[str, type[TickChannels]] = {"nvml": NvmlTickChannels, "cgroup": CgroupTickChannels}


@dataclass(slots=True)
class _Run:
    """Ticks of one plan within the open span: of each its row, and the first and last second that it
    covers."""

    plan: RowPlan
    seconds: list[list[int]] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)


class SpanBank:
    """Gathers the ticks of one node from one ``source`` into spans. Only ``nvml`` and ``cgroup`` have any."""

    def __init__(self, node: str, source: str) -> None:
        self._node = node
        self._source = source
        self._channels: TickChannels = _CHANNELS.get(source, NoTickChannels)()
        self._start_ms = 0
        self._runs: list[_Run] = []
        self._periods: dict[str, tuple[float, float]] = {}
        self._full_ms: dict[str, int] = {}

    def add(self, tick: Tick) -> list[Emission]:
        """Take a tick that is newer than the last. Returns the parts of the span that it ends."""
        start_ms = tick.ts_ms // SPAN_MS * SPAN_MS
        outs = self.close() if start_ms > self._start_ms else []
        self._start_ms = start_ms
        plan = self._channels.plan(tick)
        if not plan.uids:
            return outs
        run = self._runs[-1] if self._runs else None
        if run is None or (run.plan is not plan and run.plan != plan):
            run = _Run(plan)
            self._runs.append(run)
        # A tick measures the interval before it, which may be longer than a second.
        last = (tick.ts_ms - start_ms) // _SECOND_MS
        run.seconds.append([max(last - max(tick.interval_ms // _SECOND_MS, 1) + 1, 0), last])
        run.rows.append(self._channels.row(tick))
        return outs

    def set_cycle(self, uid: str, cycle: CycleResult) -> None:
        """The cycle of a pod's utilization was found, changed or lost."""
        if cycle.cyclic and cycle.period_s is not None:
            self._periods[uid] = (cycle.period_s, cycle.confidence or 0.0)
        else:
            self._periods.pop(uid, None)

    def set_memory_full(self, uid: str, full_ms: int | None) -> None:
        """When a pod's memory reaches its limit, if it does."""
        if full_ms is None:
            self._full_ms.pop(uid, None)
        else:
            self._full_ms[uid] = min(full_ms, END_OF_TIME_MS)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the cycles and forecasts of all other pods."""
        self._periods = {uid: period for uid, period in self._periods.items() if uid in uids}
        self._full_ms = {uid: full_ms for uid, full_ms in self._full_ms.items() if uid in uids}

    def close(self) -> list[Emission]:
        """End the open span. Returns its parts."""
        runs, self._runs = self._runs, []
        outs: list[Emission] = []
        done: set[str] = set()
        for run in reversed(runs):  # of a pod in several runs the newest counts
            outs += self._parts(run, done)
            done.update(run.plan.uids)
        return outs

    def _parts(self, run: _Run, done: set[str]) -> list[Emission]:
        rows, uids = np.array(run.rows), run.plan.uids
        channels = self._channels.channels(run.plan, rows)
        codes = np.empty((*channels.shape[1:], SPAN_S), np.uint8)
        codes_by_second(channels, np.array(run.seconds), CODINGS[self._source], codes)
        outs: list[Emission] = []
        for pod, (uid, fields) in enumerate(zip(uids, self._channels.fields(run.plan, rows), strict=True)):
            if uid not in done:
                plain = self._head(uid) | {"codes": codes_to_text(codes[pod])} | fields
                outs.append(ProducerRecord(_TOPIC, uid, orjson.dumps(plain), self._start_ms + SPAN_MS))
        return outs

    def _head(self, uid: str) -> dict[str, Any]:
        # Written by hand in the form of InsightPart: a node has a hundred pods, and each has a part.
        head = {"v": 1, "uid": uid, "source": self._source, "node": self._node, "start_ms": self._start_ms}
        if (period := self._periods.get(uid)) is not None:
            head |= {"period_s": period[0], "period_confidence": period[1]}
        if (full_ms := self._full_ms.get(uid)) is not None:
            head["mem_full_ms"] = full_ms
        return head

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        runs = [
            {
                "plan": to_plain(run.plan),
                "seconds": [list(of) for of in run.seconds],
                "rows": pack(np.array(run.rows)),
            }
            for run in self._runs
        ]
        periods = {uid: list(one) for uid, one in self._periods.items()}
        return {
            "start_ms": self._start_ms, "runs": runs, "periods": periods, "full_ms": dict(self._full_ms),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._start_ms = plain["start_ms"]
        self._periods = {uid: (period, chance) for uid, (period, chance) in plain["periods"].items()}
        self._full_ms = dict(plain["full_ms"])
        self._runs = []
        for one in plain["runs"]:
            rows = unpack(one["rows"], "f8", (-1,)).reshape(len(one["seconds"]), -1)
            plan = from_plain(RowPlan, one["plan"], _TOPIC)
            self._runs.append(_Run(plan, [list(of) for of in one["seconds"]], list(rows)))

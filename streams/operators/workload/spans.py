"""Makes what a node sends for the insights of its pods: every ten seconds of event time, a part for each pod.

Spans are aligned to the Unix epoch. Only ticks newer than the last are taken, as for trends. So a span ends
when the first tick of a later span comes. Its parts are made later, when the node asks for them: the spans of
all nodes end together, and what their pods' insights cost would delay the windows that close by then.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import numpy as np
import orjson

from dutycycle.contract.codec import from_plain, to_plain
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import CycleMetric
from dutycycle.contract.records.hours import MINUTE_MS
from dutycycle.contract.units import END_OF_TIME_MS
from streams.operators.base import Emission
from streams.operators.columns.arrays import Floats, pack, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.rounding import tidy
from streams.operators.workload.channels import CODINGS, SPAN_MS, SPAN_S, codes_to_text
from streams.operators.workload.loops import codes_by_second
from streams.operators.workload.rules.state import STATE_MS
from streams.operators.workload.tick_channels import (
    COARSE_MS,
    CgroupTickChannels,
    NvmlTickChannels,
    RowPlan,
    TickChannels,
)

TRENDS: Mapping[str, tuple[str, ...]] = {
    "nvml": ("gpu_util_pct", "gpu_mem_used_bytes"), "cgroup": ("mem_used_bytes",),
}  # fmt: skip
"""Whose trends a pod and its job have, by source."""
_TOPIC = "insight-parts"
_SECOND_MS = 1000
_CHANNELS: Mapping[str, type[TickChannels]] = {"nvml": NvmlTickChannels, "cgroup": CgroupTickChannels}


@dataclass(slots=True)
class _Run:
    """Holds ticks of one plan within the open span: of each the first and last second that it covers, and
    their rows, some in one array. ``tick_ms``: the time that the newest measures."""

    plan: RowPlan
    seconds: list[list[int]] = field(default_factory=list)
    rows: list[Floats] = field(default_factory=list)
    tick_ms: int = 0

    def all_rows(self) -> Floats:
        """Return all rows, shape (ticks, numbers)."""
        return np.concatenate(self.rows)


@dataclass(slots=True)
class _Span:
    """Holds the ticks from ``start_ms`` on."""

    start_ms: int = 0
    runs: list[_Run] = field(default_factory=list)


class SpanBank:
    """Gathers the ticks of one node from one ``source`` into spans. Only ``nvml`` and ``cgroup`` have any.
    ``epoch_ms``: that of the node's time (``node.watermark``)."""

    def __init__(self, node: str, source: str, epoch_ms: int = 0) -> None:
        self._node = node
        self._source = source
        self._epoch_ms = epoch_ms
        self._channels: TickChannels = _CHANNELS.get(source, TickChannels)()
        self._open = _Span()
        self._ended: _Span | None = None
        """Its parts are not made yet."""
        self._cycles: dict[str, dict[str, Any]] = {}
        self._trends: dict[str, dict[str, Any]] = {}
        self._full_ms: dict[str, int] = {}
        self._frozen: Mapping[str, tuple[str, int]] = {}

    @property
    def due_ms(self) -> int:
        """Return when a tick makes the parts of a span that has ended due, if none is asked for before: at
        the end of the one after it."""
        return self._open.start_ms + (2 * SPAN_MS if self._ended is None else SPAN_MS)

    def advance(self, ts_ms: int) -> list[Emission]:
        """Take the time ``ts_ms`` of a tick that comes, which may end the open span; return the parts of the
        one that ended before."""
        start_ms = ts_ms // SPAN_MS * SPAN_MS
        if start_ms <= self._open.start_ms:
            return []
        outs = self.ended()
        self._ended, self._open = self._open, _Span(start_ms)
        return outs

    def ended(self) -> list[Emission]:
        """Return the parts of the span that has ended, once."""
        span, self._ended = self._ended, None
        return [] if span is None else self._parts_of(span)

    def extend(self, block: TickBlock) -> None:
        """Take ticks that are newer than the last, and older than ``due_ms``."""
        plan = self._channels.plan(block.layout)
        if not plan.uids:
            self.advance(int(block.times[-1]))
            return
        rows = self._channels.rows(block)
        # A tick measures the interval before it, which may be longer than a second.
        before = max(block.interval_ms // _SECOND_MS, 1) - 1
        count = 0
        for start, times in groupby(block.times.tolist(), lambda ts_ms: ts_ms // SPAN_MS):
            self.advance(start * SPAN_MS)
            last = [(ts_ms - start * SPAN_MS) // _SECOND_MS for ts_ms in times]
            runs = self._open.runs
            if not runs or (runs[-1].plan is not plan and runs[-1].plan != plan):
                runs.append(_Run(plan))
            run = runs[-1]
            run.tick_ms = block.interval_ms
            run.seconds += [[max(second - before, 0), second] for second in last]
            run.rows.append(rows[count : count + len(last)])
            count += len(last)

    def set_cycle(self, member: str, ts_ms: int, cycle: CycleMetric, metric: str | None = None) -> None:
        """Note that the cycle of a pod's utilization, or of a GPU's ``metric``, was found, changed or lost at
        ``ts_ms``."""
        cycle_facts: dict[str, Any] = {"cycle_ms": ts_ms}
        if cycle.cyclic and cycle.period_s is not None:
            cycle_facts |= {"period_s": cycle.period_s, "period_confidence": cycle.confidence or 0.0}
            cycle_facts |= {} if metric is None else {"period_metric": metric}
            cycle_facts |= {} if cycle.since_ms is None else {"period_since_ms": cycle.since_ms}
            cycle_facts |= {"other_periods": [to_plain(other) for other in cycle.others or ()]}
        self._cycles[member] = cycle_facts

    def set_trend(self, uid: str, ts_ms: int, metrics: Mapping[str, Any]) -> None:
        """Note that the trends of a pod, as plain data, were published at ``ts_ms``."""
        known = {name: _short(metrics[name]) for name in TRENDS.get(self._source, ()) if name in metrics}
        if known:
            self._trends[uid] = {"ts_ms": ts_ms, "metrics": known}

    def set_memory_full(self, member: str, full_ms: int | None) -> None:
        """Note when a pod's memory reaches its limit, or that of a GPU is full; None if it does not."""
        if full_ms is None:
            self._full_ms.pop(member, None)
        else:
            self._full_ms[member] = min(full_ms, END_OF_TIME_MS)

    def set_frozen(self, since_ms: Mapping[str, tuple[str, int]]) -> None:
        """Note the GPUs whose source repeats itself, by uuid: ``<node>/<index>``, and since when."""
        self._frozen = since_ms

    def retain(self, members: Collection[str]) -> None:
        """Forget the cycles and forecasts of all other pods and GPUs."""
        self._cycles = {
            member: cycle_facts for member, cycle_facts in self._cycles.items() if member in members
        }
        self._trends = {uid: trend for uid, trend in self._trends.items() if uid in members}
        self._full_ms = {member: full_ms for member, full_ms in self._full_ms.items() if member in members}

    def close(self) -> list[Emission]:
        """End the open span. Returns all parts that are left."""
        span, self._open = self._open, _Span(self._open.start_ms)
        return self.ended() + self._parts_of(span)

    def _parts_of(self, span: _Span) -> list[Emission]:
        outs: list[Emission] = []
        done: set[str] = set()
        end_ms = span.start_ms + SPAN_MS
        for run in reversed(span.runs):  # of a pod in several runs the newest counts
            rows, uids = run.all_rows(), run.plan.uids
            channels = self._channels.channels(run.plan, rows)
            codes = np.empty((*channels.shape[1:], SPAN_S), np.uint8)
            codes_by_second(channels, np.array(run.seconds), CODINGS[self._source], codes)
            of_gpus = self._channels.gpu_fields(run.plan, rows) if end_ms % MINUTE_MS == 0 else None
            fields = self._channels.fields(run.plan, rows)
            for pod, (uid, of) in enumerate(zip(uids, fields, strict=True)):
                if uid in done:
                    continue
                plain = self._head(run.plan, pod, span.start_ms) | {"codes": codes_to_text(codes[pod])} | of
                if run.tick_ms > COARSE_MS:  # parts say how far ticks are apart
                    plain["tick_ms"] = run.tick_ms
                if of_gpus is not None:
                    plain |= of_gpus[pod]
                outs.append(ProducerRecord(_TOPIC, uid, orjson.dumps(plain), end_ms))
            done.update(uids)
        return outs

    def _head(self, plan: RowPlan, pod: int, start_ms: int) -> dict[str, Any]:
        """Return what a part says of its pod and of the cycle, the trend and the end of memory that are known
        of it. Written by hand in the form of ``InsightPart``: a node has a hundred pods."""
        uid = plan.uids[pod]
        head = {"v": 1, "uid": uid, "source": self._source, "node": self._node, "start_ms": start_ms}
        head |= {"epoch_ms": self._epoch_ms} if self._epoch_ms else {}
        # The cycle of a pod, or else of the work inside of one of its GPUs: utilization that is always full
        # shows none.
        cycles = [self._cycles[member] for member in (uid, *plan.own_gpus(pod)) if member in self._cycles]
        if cycles:
            head |= next((cycle for cycle in cycles if "period_s" in cycle), cycles[0])
            head["cycle_ms"] = max(cycle["cycle_ms"] for cycle in cycles)
        if (start_ms + SPAN_MS) % STATE_MS == 0 and (trend := self._trends.get(uid)) is not None:
            head["trend"] = trend
        if full_ms := [self._full_ms[member] for member in plan.fills[pod] if member in self._full_ms]:
            head["mem_full_ms"] = min(full_ms)
        if frozen := [self._frozen[member] for member in plan.fills[pod] if member in self._frozen]:
            head["frozen"] = dict(frozen)
        return head

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "epoch_ms": self._epoch_ms, "open": _span_to_plain(self._open),
            "ended": None if self._ended is None else _span_to_plain(self._ended),
            "cycles": dict(self._cycles), "trends": dict(self._trends), "full_ms": dict(self._full_ms),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._epoch_ms, self._open = plain["epoch_ms"], _span_from_plain(plain["open"])
        self._ended = None if plain["ended"] is None else _span_from_plain(plain["ended"])
        self._cycles, self._trends = dict(plain["cycles"]), dict(plain["trends"])
        self._full_ms = dict(plain["full_ms"])


def _span_to_plain(span: _Span) -> dict[str, Any]:
    runs = [
        {
            "plan": to_plain(run.plan),
            "tick_ms": run.tick_ms,
            "seconds": [list(of) for of in run.seconds],
            "rows": pack(run.all_rows()),
        }
        for run in span.runs
    ]
    return {"start_ms": span.start_ms, "runs": runs}


def _span_from_plain(plain: dict[str, Any]) -> _Span:
    span = _Span(plain["start_ms"])
    for run in plain["runs"]:
        rows = unpack(run["rows"], "f8", (-1,)).reshape(len(run["seconds"]), -1)
        plan = from_plain(RowPlan, run["plan"], _TOPIC)
        span.runs.append(_Run(plan, [list(of) for of in run["seconds"]], [rows], run["tick_ms"]))
    return span


def _short(plain: Any) -> Any:
    """Return a trend as plain data with six digits of each number: a part is sent for each pod, and kept."""
    if isinstance(plain, float):
        return tidy(float(f"{plain:.6g}"))
    if isinstance(plain, dict):
        return {name: _short(value) for name, value in plain.items()}
    return [_short(value) for value in plain] if isinstance(plain, list) else plain

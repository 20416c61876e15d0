"""A pod's last minutes, and what is judged of them at the end of each span."""

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np

from contract.records.insight_parts import InsightPart
from contract.units import END_OF_TIME_MS
from streams.operators.columns.arrays import Floats
from streams.operators.workload.classifier import UNKNOWN, Kind, answer, borne_out, chances
from streams.operators.workload.codes import ABSENT, CGROUP, CHANNELS, NVML, ROWS, SLOTS, decode, from_text
from streams.operators.workload.features import features
from streams.operators.workload.hysteresis import Teller
from streams.operators.workload.join import Joint
from streams.operators.workload.rules import advice, bottleneck
from streams.operators.workload.rules.figures import Figures, evidence, figures, short
from streams.operators.workload.rules.hour import Hour
from streams.operators.workload.rules.judgement import Judgement
from streams.operators.workload.rules.rightsizing import Sizer

KEPT_S = 240
_SPLIT = len(NVML)
_MEMORY = 0.5
"""Share of the chances before, in those of now: one odd span shall not change an answer."""
_SOON_S, _LATER_S = 60, 180
"""A pod that works in turns, or serves, is not idle because it rests for a minute; nor an unknown one."""
_JOULES_PER_KWH = 3.6e6
PATIENCE = 2
"""Spans that are passed over while all is as it was: judging is what costs."""
_ODD_PCT = 20.0
"""A span whose utilization is so far from that of the minute before is judged at once."""
_BEFORE_S = 60
_UTIL = ROWS["gpu_util_pct"]
_UNSEEN_MS = 20_000
"""After a longer time of which nothing is known, idleness begins anew: it is told and charged as seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a GPU costs, in any one currency; None where that is not known."""

    per_gpu_hour: float | None = None
    per_kwh: float | None = None


class Track:
    """One pod's history and what was told of it."""

    def __init__(self, prices: Prices) -> None:
        self._prices = prices
        self._codes = np.full((len(CHANNELS), KEPT_S), ABSENT, np.uint8)
        self._end_ms = 0
        self._chances: Floats | None = None
        self._idle_ms: int | None = None
        self._idle_j = 0.0
        self._waited = 0
        self.teller = Teller()
        self.sizer = Sizer()
        self._hour = Hour()

    def take(self, span: Joint) -> Judgement | None:
        """Take the next span; what to tell of the pod now, or None."""
        self._push(span)
        told = self._judge(span)
        self.sizer.take(span.end_ms, self._codes[:, -SLOTS:], self.teller.told)
        return told

    def _judge(self, span: Joint) -> Judgement | None:
        if self._may_wait():
            self._waited += 1
            self._rest(span, decode(self._codes[:, -SLOTS:]), self.teller.kind)
            return None
        self._waited = 0
        values = decode(self._codes)
        kind = self._kind(values, span.gpu.period_confidence or 0.0)
        self._rest(span, values, kind.kind)
        return self.teller.take(self._judged(span, values, kind), span.gpu.start_ms)

    def _may_wait(self) -> bool:
        """Whether this span need not be judged: all has been the same for long, and it looks like it."""
        if not self.teller.settled or self._waited >= PATIENCE:
            return False
        util = self._codes[_UTIL, -(SLOTS + _BEFORE_S) :]
        known = util != ABSENT
        newest, before = util[-SLOTS:][known[-SLOTS:]], util[:-SLOTS][known[:-SLOTS]]
        if not newest.size or not before.size:
            return False
        was = int(before.sum(dtype=np.int64)) / before.size
        now = int(newest.sum(dtype=np.int64)) / newest.size
        rests, rested = (one < bottleneck.IDLE_PCT for one in (now, was))
        return bool(abs(now - was) < _ODD_PCT) and rests == rested

    def recent(self) -> dict[str, float]:
        """Means of the last three minutes, for a comparison of ranks."""
        found = figures(decode(self._codes))
        told = {} if found is None else evidence(found)
        return {
            name: told[name] for name in ("gpu_util_pct", "power_pct", "mem_copy_util_pct") if name in told
        }

    def _push(self, span: Joint) -> None:
        """The new span at the end; seconds that nothing is known of are absent."""
        if span.gpu.start_ms - self._end_ms > _UNSEEN_MS:
            self._idle_ms, self._idle_j = None, 0.0
        seconds = (span.end_ms - self._end_ms) // 1000
        gap = KEPT_S if self._end_ms == 0 else min(seconds, KEPT_S)
        self._codes[:, :-gap] = self._codes[:, gap:].copy()
        self._codes[:, -gap:] = ABSENT
        self._end_ms = span.end_ms
        if span.gpu.codes is not None:
            self._codes[:_SPLIT, -SLOTS:] = from_text(span.gpu.codes, _SPLIT)
        if span.cgroup is not None and span.cgroup.codes is not None:
            self._codes[_SPLIT:, -SLOTS:] = from_text(span.cgroup.codes, len(CGROUP))

    def _kind(self, values: Floats, period_confidence: float) -> Kind:
        found = features(values, period_confidence)
        if found is None:
            self._chances = None
            return Kind(UNKNOWN, 1.0)
        now = chances(found)
        self._chances = now if self._chances is None else _MEMORY * self._chances + (1 - _MEMORY) * now
        told = self.teller.told
        return borne_out(answer(self._chances, None if told is None else told.kind), found)

    def _rest(self, span: Joint, values: Floats, kind: str) -> None:
        """Since when no GPU is used, and the energy since."""
        util = values[ROWS["gpu_util_pct"], -SLOTS:]
        if kind == "loading" or not (util < bottleneck.IDLE_PCT).any() or (util >= bottleneck.IDLE_PCT).any():
            self._idle_ms, self._idle_j = None, 0.0
            return
        if self._idle_ms is None:
            self._idle_ms = span.gpu.start_ms
        power = values[ROWS["power_w"], -SLOTS:]
        if not np.isnan(power).all():
            self._idle_j += float(np.nanmean(power)) * SLOTS

    def _judged(self, span: Joint, values: Floats, kind: Kind) -> Judgement:
        gpus = max(span.gpu.gpus or 1, 1)
        since_ms = self.teller.began_ms(kind.kind, span.gpu.start_ms)
        # What it did when it was something else says nothing of what holds it back now.
        if since_ms is not None:
            values = values[:, -max((span.end_ms - since_ms) // 1000, SLOTS) :]
        of = figures(values)
        idle_s = 0 if self._idle_ms is None else (span.end_ms - self._idle_ms) // 1000
        found = self._found(self._hour.find(span.end_ms, of, kind.kind, gpus), kind.kind, idle_s)
        told = ({} if of is None else evidence(of)) | found.evidence | {"gpus": float(gpus)}
        told |= _limits(of, span.cgroup)
        if found.bottleneck == bottleneck.IDLE:
            told |= self._wasted(idle_s, gpus)
        told = {name: short(value) for name, value in told.items()}
        return Judgement(
            ts_ms=min(span.end_ms, END_OF_TIME_MS), since_ms=span.gpu.start_ms,
            kind=kind.kind, confidence=round(kind.confidence, 3),
            bottleneck=found.bottleneck, bottleneck_confidence=round(found.confidence, 3),
            evidence=told, advice=advice.advice(found.bottleneck, kind.kind, told),
        )  # fmt: skip

    def _found(self, found: bottleneck.Finding, kind: str, idle_s: int) -> bottleneck.Finding:
        """Idleness is known from its own clock, which goes back further than the window."""
        enough_s = _SOON_S if kind == "idle" else _LATER_S
        if idle_s >= enough_s:
            return bottleneck.Finding(bottleneck.IDLE, min(0.8 + idle_s / 3000, 0.99))
        if found.bottleneck == bottleneck.IDLE:
            return bottleneck.Finding(bottleneck.UNKNOWN, 1.0)
        return found

    def _wasted(self, idle_s: int, gpus: int) -> dict[str, float]:
        costs = []
        if self._prices.per_gpu_hour is not None:
            costs.append(self._prices.per_gpu_hour * gpus * idle_s / 3600)
        if self._prices.per_kwh is not None and self._idle_j > 0:
            costs.append(self._prices.per_kwh * self._idle_j / _JOULES_PER_KWH)
        wasted = {"idle_s": float(idle_s)}
        wasted |= {"idle_energy_j": self._idle_j} if self._idle_j > 0 else {}
        return wasted | ({"idle_cost": sum(costs)} if costs else {})

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "codes": base64.b64encode(self._codes.tobytes()).decode("ascii"),
            "end_ms": self._end_ms,
            "chances": None if self._chances is None else self._chances.tolist(),
            "idle_ms": self._idle_ms,
            "idle_j": self._idle_j,
            "waited": self._waited,
            "teller": self.teller.snapshot(),
            "sizer": self.sizer.snapshot(),
            "hour": self._hour.snapshot(),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._codes = from_text(plain["codes"], len(CHANNELS)).copy()
        self._end_ms = plain["end_ms"]
        self._chances = None if plain["chances"] is None else np.array(plain["chances"])
        self._idle_ms, self._idle_j, self._waited = plain["idle_ms"], plain["idle_j"], plain["waited"]
        self.teller.restore(plain["teller"])
        self.sizer.restore(plain["sizer"])
        self._hour.restore(plain["hour"])


def _limits(of: Figures | None, cgroup: InsightPart | None) -> dict[str, float]:
    """How much of its memory limit a pod needs, once that is known for some minutes."""
    limit = None if cgroup is None else cgroup.mem_limit_bytes
    if of is None or of.seconds < _LATER_S - SLOTS or not limit:
        return {}
    used_mb = of.most.get("mem_mb", 0.0)
    if used_mb <= 0:
        return {}
    return {"mem_limit_used_pct": min(1e8 * used_mb / limit, 100.0), "mem_limit_bytes": limit}

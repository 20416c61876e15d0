"""Keeps a pod's last minutes, and what is judged of them at the end of each span."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dutycycle.contract.codec import from_plain, to_plain
from dutycycle.contract.records.hours import MINUTE_MS
from dutycycle.contract.records.parts import InsightPart, WorkloadState
from dutycycle.contract.units import END_OF_TIME_MS, JOULES_PER_KWH
from streams.operators.columns.arrays import Floats
from streams.operators.workload.anomalies.finder import AnomalyFinder
from streams.operators.workload.anomalies.kinds import Found
from streams.operators.workload.anomalies.minute import minute_of
from streams.operators.workload.channels import (
    ABSENT_CODE,
    CGROUP_CHANNELS,
    CHANNEL_ROW,
    CHANNELS,
    IDLE_PCT,
    NVML_CHANNELS,
    SPAN_S,
    codes_from_text,
    codes_to_text,
    dequantize,
)
from streams.operators.workload.debouncer import MAY_PASS, InsightDebouncer
from streams.operators.workload.join import TOPIC, JoinedSpan
from streams.operators.workload.kinds.classifier import (
    NOTHING_KNOWN,
    UNKNOWN_KIND,
    KindEstimate,
    checked_kind,
    checked_loading,
    choose_kind,
    is_blind,
    kind_probabilities,
    with_steps_inside,
)
from streams.operators.workload.kinds.features import features
from streams.operators.workload.kinds.gpu_classifier import (
    LEAST_WORK_S,
    choose_gpu_kind,
    gpu_kind_probabilities,
)
from streams.operators.workload.kinds.gpu_features import gpu_features, is_even, tries
from streams.operators.workload.kinds.history import GpuHistory
from streams.operators.workload.kinds.rest import is_at_rest, is_unused, works_unseen
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import IDLE, Assessment, BottleneckFinder
from streams.operators.workload.rules.finding import UNKNOWN_BOTTLENECK, Finding
from streams.operators.workload.rules.reported import ReportedSteps
from streams.operators.workload.rules.rightsizing import Sizer
from streams.operators.workload.rules.state import StateTracker
from streams.operators.workload.rules.stats import pod_stats, three_digits

# As far as the features look back (``kinds.features``): a pod's four minutes are 5 kB of state.
_KEPT_S = 240
_SPLIT = len(NVML_CHANNELS)
_MEMORY = 0.5
"""Weight of the earlier probabilities in those of now after one span, so that one odd span does not change an
answer. After several without a tick it is that much less; spans of a settled pod that are not judged do not
count, as more answers of the logs were wrong with them (docs/decisions/0053)."""
_IDLE_S, _RESTING_S = 60, 180
"""An idle pod's GPU holds it back after a minute; one that works in turns, or serves, may rest for longer."""
_LITTLE_S = 0.2 * _KEPT_S
"""Who does less than ``IDLE_PCT`` for longer uses a GPU all the same, for a small model or few requests: the
share of ``kinds.rest``. A health check each ten seconds, or a screen now and then, takes less time."""
_MAX_SKIPPED = 2
"""Spans of a settled pod that are not judged in a row: judging is what costs."""
_ODD_PCT = 20.0
"""A span whose utilization differs so much from that of the minute before is judged at once."""
_BEFORE_S = 60
_UTIL = CHANNEL_ROW["busiest_gpu_util_pct"]
_MEAN_UTIL = CHANNEL_ROW["gpu_util_pct"]
_POWER = CHANNEL_ROW["power_w"]
_MEMORY_PCT = CHANNEL_ROW["gpu_mem_pct"]
_WORKED_S = 30
"""A GPU that was busy for less may rest as one that never worked."""
_WORKS = frozenset({"training", "inference", "interactive"})
"""A pod of such a kind may rest for minutes and go on: that it has changed is up to the model."""
_LOADED_PCT = 3.0
_RESTS, _MAY_LOAD = 0.95, 0.85
"""How sure it is that GPUs at rest are idle; and that those are which never worked and hold nothing, in the
first minutes: what will run on them may still be on its way, which only a CPU's side shows."""
_LOADS_SPANS = 30
_TRAINING, _SUREST = "training", 0.99
"""How sure it is that a pod trains whose training loop says so. No guess from outside is surer than that."""
_RHYTHM_RISES, _RHYTHM_FADES = 0.4, 1 / 180
"""How much of a cycle counts after one span, and how much is lost in each without it. So it is evidence after
half a minute, and still so half an hour later: what trains by steps goes on to do so while it validates, or
while its steps differ too much to be told."""
_DOUBTFUL = 0.8
"""A cycle with less confidence says nothing of the kind: servers show such cycles by chance."""
_STEPS_INSIDE = "tensor_active_pct"
_FINE_TICK_S = 1.5
"""With ticks that are further apart, the CPU's side is not what the model knows: it was fitted to seconds."""
_LONG_TICK_S = 2.0
"""Ticks that are as far apart measure the whole seconds between them, and not one each."""
_MISSED_TICKS = 2
_MAX_GAP_MS = 20_000
"""After a longer time without any span idleness begins anew: only what was seen is counted and charged."""
_SILENT_MS, _SILENT_TICKS = 120_000, 3
"""After so long, and so many ticks, without any span nobody knows any more whether it is idle, or loads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Says what a GPU costs, in any one currency; None where that is not known."""

    per_gpu_hour: float | None = None
    per_kwh: float | None = None


class RecentMinutes:
    """Keeps the last four minutes of one pod, and what was published of it."""

    def __init__(self, prices: Prices, *, anomalies: bool = True) -> None:
        self._prices = prices
        self._codes = np.full((len(CHANNELS), _KEPT_S), ABSENT_CODE, np.uint8)
        self._end_ms = 0
        self._tick_s = 1.0
        self._history = GpuHistory()
        self._rhythm = 0.0
        """How sure a cycle was in the last minutes, 0-1."""
        self._work_s = 0.0
        self._probabilities: Floats | None = None
        self._idle_since_ms: int | None = None
        self._idle_j = 0.0
        self._skipped = 0
        self.debouncer = InsightDebouncer()
        self.sizer = Sizer()
        self._bottleneck = BottleneckFinder()
        self._states = StateTracker()
        self._anomalies = AnomalyFinder() if anomalies else None

    @property
    def anomalies(self) -> tuple[Found, ...]:
        """Return what is odd now; nothing where that is not looked for."""
        return self._anomalies.current if self._anomalies else ()

    @property
    def anomalies_changed_ms(self) -> int:
        """Return when that changed last; 0 before there was anything."""
        return self._anomalies.changed_ms if self._anomalies else 0

    @property
    def state(self) -> WorkloadState | None:
        """Return what holds beside the insight; None before the first span."""
        return self._states.state

    def add(self, span: JoinedSpan, steps: ReportedSteps | None = None) -> Assessment | None:
        """Take the next span. ``steps``: what a training in the pod reports, None for nothing. Returns what
        to publish, or None."""
        steps = steps or ReportedSteps()
        reported, before_ms = steps.figures(span.gpu.start_ms), self._end_ms
        self._append(span)
        judged = self._judge(span, reported, passed=max((span.end_ms - before_ms) // 1000 // SPAN_S, 1))
        published = self.debouncer.published
        self.sizer.add(span.end_ms, self._codes[:, -SPAN_S:], published)
        kind = None if published is None else published.kind
        self._states.add(span, kind, self._idle_since_ms, self._codes[_MEAN_UTIL], steps)
        # Spans without a tick are none: where ticks are further apart, any may be the first after a minute.
        passed = self._tick_s > SPAN_S and span.end_ms // MINUTE_MS > before_ms // MINUTE_MS
        if self._anomalies and (passed or span.end_ms % MINUTE_MS == 0):
            values = dequantize(self._codes[:, -MINUTE_MS // 1000 :])
            self._anomalies.add(
                minute_of(min(span.end_ms, END_OF_TIME_MS), values, span.gpu, reported.get("step_s"))
            )
        return judged

    def silence(self, start_ms: int) -> Assessment | None:
        """Return what is to be published of the time before the span that begins at ``start_ms``: where
        nothing came for minutes, nobody knew any more whether the pod was still idle, or loading. None if
        that is not so: what a job is at work does not change by nobody looking."""
        published = self.debouncer.published
        lost_ms = self._end_ms + max(_SILENT_MS, int(_SILENT_TICKS * 1000 * self._tick_s))
        if published is None or published.kind not in MAY_PASS or start_ms <= lost_ms:
            return None
        return self.debouncer.forget(
            Assessment(
                ts_ms=lost_ms, since_ms=lost_ms, kind=UNKNOWN_KIND, confidence=NOTHING_KNOWN,
                bottleneck=UNKNOWN_BOTTLENECK, bottleneck_confidence=1.0, evidence={},
                advice=advice(UNKNOWN_BOTTLENECK, UNKNOWN_KIND, {}),
            )
        )  # fmt: skip

    def recent(self) -> dict[str, float]:
        """Return the pod's evidence of the last three minutes, and how far it is from its past; empty if too
        little is known."""
        stats = pod_stats(dequantize(self._codes))
        drift = self._anomalies.drift.figures() if self._anomalies else {}
        return {} if stats is None else stats.evidence() | drift

    def _append(self, span: JoinedSpan) -> None:
        """Append the new span; seconds of which nothing is known are absent. A tick that measures longer than
        a span is what is known of the seconds before it."""
        self._tick_s = (span.gpu.tick_ms or 1000) / 1000
        if span.gpu.start_ms - self._end_ms > max(_MAX_GAP_MS, _MISSED_TICKS * 1000 * self._tick_s):
            self._idle_since_ms, self._idle_j = None, 0.0
        seconds = (span.end_ms - self._end_ms) // 1000
        gap = _KEPT_S if self._end_ms == 0 else min(seconds, _KEPT_S)
        self._codes[:, :-gap] = self._codes[:, gap:].copy()
        self._codes[:, -gap:] = ABSENT_CODE
        self._end_ms = span.end_ms
        if span.gpu.codes is not None:
            self._codes[:_SPLIT, -SPAN_S:] = codes_from_text(span.gpu.codes, _SPLIT)
        if (frozen_ms := _frozen_ms(span.gpu)) is not None:  # what was taken for figures since then was none
            self._codes[:_SPLIT, -max((span.end_ms - frozen_ms) // 1000, 1) :] = ABSENT_CODE
        if span.cgroup is not None and span.cgroup.codes is not None:
            self._codes[_SPLIT:, -SPAN_S:] = codes_from_text(span.cgroup.codes, len(CGROUP_CHANNELS))
        if self._tick_s >= _LONG_TICK_S:  # the first tick may measure the end of the span before, too
            for row in self._codes:
                known = np.flatnonzero(row[-SPAN_S:] != ABSENT_CODE)
                if known.size:
                    first = _KEPT_S - SPAN_S + int(known[0])
                    before = row[max(first - int(self._tick_s), 0) : first]
                    there = np.flatnonzero(before != ABSENT_CODE)
                    before[int(there[-1]) + 1 if there.size else 0 :] = row[first]
        self._history.add(self._codes[:, -gap:], seconds // SPAN_S)
        sure = max(((span.gpu.period_confidence or 0.0) - _DOUBTFUL) / (1 - _DOUBTFUL), 0.0)
        kept = 1 - _RHYTHM_RISES if sure > self._rhythm else (1 - _RHYTHM_FADES) ** (gap // SPAN_S)
        self._rhythm = sure + (self._rhythm - sure) * kept

    def _judge(self, span: JoinedSpan, reported: Mapping[str, float], passed: int) -> Assessment | None:
        """Judge the newest span; ``passed``: spans from the one before to it."""
        contradicted = bool(reported) and self.debouncer.kind.word != _TRAINING
        if not contradicted and self._may_skip():
            self._skipped += 1
            self._follow_idleness(span, dequantize(self._codes[:, -SPAN_S:]), self.debouncer.kind.word)
            return None
        self._skipped = 0
        values = dequantize(self._codes)
        published = self.debouncer.published
        if published is not None and published.kind in _WORKS and _frozen_ms(span.gpu) is not None:
            # A source that repeats itself says as little as one that is silent: see ``silence``.
            kind = KindEstimate(published.kind, published.confidence)
        else:
            kind = self._kind(values, span.gpu, passed)
        if reported:  # who does it says so: no guess from outside stands against that
            kind = KindEstimate(_TRAINING, _SUREST)
        self._follow_idleness(span, values, kind.kind)
        return self.debouncer.add(self._assessment(span, values, kind, reported), span.gpu.start_ms)

    def _may_skip(self) -> bool:
        """Tell whether the span need not be judged: the pod is settled, and the span looks like the minute
        before."""
        if not self.debouncer.is_settled or self._skipped >= _MAX_SKIPPED:
            return False
        util = self._codes[_UTIL, -(SPAN_S + _BEFORE_S) :]
        known = util != ABSENT_CODE
        newest, before = util[-SPAN_S:][known[-SPAN_S:]], util[:-SPAN_S][known[:-SPAN_S]]
        if not newest.size or not before.size:
            return False
        was = int(before.sum(dtype=np.int64)) / before.size
        now = int(newest.sum(dtype=np.int64)) / newest.size
        return bool(abs(now - was) < _ODD_PCT) and (now < IDLE_PCT) == (was < IDLE_PCT)

    def _kind(self, values: Floats, gpu: InsightPart, passed: int) -> KindEstimate:
        period_confidence, gpus = gpu.period_confidence or 0.0, gpu.gpus or 1
        values_of_features = features(values, period_confidence)
        is_fine = self._tick_s <= _FINE_TICK_S
        seen = (
            None
            if values_of_features is None or is_blind(values_of_features) or not is_fine
            else values_of_features
        )
        # What its GPUs did in the last half hour counts where a pod's CPU is not seen.
        spans = self._history.values() if seen is None else np.empty((0, 0))
        now: Floats | None = None
        if seen is not None:
            now = kind_probabilities(seen)
        elif values_of_features is not None or not is_fine or (self._codes[_SPLIT:] == ABSENT_CODE).all():
            tried = tries(spans) if self._tick_s <= SPAN_S else 0.0
            of_gpu = gpu_features(spans, self._tick_s, gpus, values_of_features)
            now = None if of_gpu is None else gpu_kind_probabilities(of_gpu, self._rhythm, tried)
        # else the CPU is seen, and soon for long enough
        has_steps_inside = gpu.period_metric == _STEPS_INSIDE
        if now is not None and has_steps_inside:
            now = with_steps_inside(now, period_confidence)
        before = self._probabilities
        published = None if self.debouncer.published is None else self.debouncer.published.kind
        kept = _MEMORY**passed
        if seen is None:
            # What was thought before there was any work says nothing of its kind: the probabilities of before
            # count by the share of all work that they had seen.
            work_before_s, self._work_s = self._work_s, self._history.work_s
            kept *= min(work_before_s / self._work_s, 1.0) if self._work_s >= LEAST_WORK_S else 1.0
        self._probabilities = now if before is None or now is None else kept * before + (1 - kept) * now
        worked = self._history.worked_s >= _WORKED_S
        if seen is None and not (worked and published in _WORKS) and is_at_rest(values, self._tick_s, gpus):
            may_load = not self._history.worked_s and not _loaded(values)
            young = spans.shape[1] < _LOADS_SPANS
            return KindEstimate(IDLE, _MAY_LOAD if may_load and young else _RESTS)
        if self._probabilities is None:
            return KindEstimate(UNKNOWN_KIND, NOTHING_KNOWN)
        if seen is None:
            kind = choose_gpu_kind(self._probabilities, published, self._history, rhythm=self._rhythm)
            is_doubtful = kind.kind == _TRAINING and not has_steps_inside
            if is_doubtful and is_even(spans, self._tick_s, gpus, self._rhythm):
                return KindEstimate(UNKNOWN_KIND, 1 - kind.confidence)
            if kind.kind == IDLE and (
                works_unseen(values, self._tick_s) or not is_unused(values, self._tick_s)
            ):
                return KindEstimate(UNKNOWN_KIND, 1 - kind.confidence)
            return checked_kind(kind, values[_UTIL])
        return checked_kind(checked_loading(choose_kind(self._probabilities, published), seen), values[_UTIL])

    def _follow_idleness(self, span: JoinedSpan, values: Floats, kind: str) -> None:
        """Follow since when no GPU is used, and the energy since. Where utilization is not measured, power
        has to tell, and with it the kind."""
        util = values[_UTIL, -SPAN_S:]
        rests = (util < IDLE_PCT).any() or (np.isnan(util).all() and kind == IDLE)
        little_s = ((self._codes[_UTIL] > 0) & (self._codes[_UTIL] < IDLE_PCT)).sum()
        works = (util >= IDLE_PCT).any() or little_s > max(_LITTLE_S, 2 * self._tick_s)
        if kind == "loading" or not rests or works:
            self._idle_since_ms, self._idle_j = None, 0.0
            return
        if self._idle_since_ms is None:
            self._idle_since_ms = span.gpu.start_ms
        power = values[_POWER, -SPAN_S:]
        if not np.isnan(power).all():
            self._idle_j += float(np.nanmean(power)) * SPAN_S

    def _assessment(
        self, span: JoinedSpan, values: Floats, kind: KindEstimate, reported: Mapping[str, float]
    ) -> Assessment:
        gpus = max(span.gpu.gpus or 1, 1)
        since_ms = self.debouncer.began_ms(kind.kind, span.gpu.start_ms)
        # What it did while it was of another kind says nothing of what holds it back now.
        if since_ms is not None:
            values = values[:, -max((span.end_ms - since_ms) // 1000, SPAN_S) :]
        stats = pod_stats(values, self._anomalies.siblings.held() if self._anomalies else None)
        idle_s = 0 if self._idle_since_ms is None else (span.end_ms - self._idle_since_ms) // 1000
        finding = self._bottleneck.find(span.end_ms, stats, kind.kind, gpus)
        # Idleness is judged by its own clock, which goes back further than the statistics.
        if idle_s >= (_IDLE_S if kind.kind == IDLE else _RESTING_S):
            finding = Finding(IDLE, min(0.8 + idle_s / 3000, 0.99))
        elif finding.bottleneck == IDLE:
            finding = Finding(UNKNOWN_BOTTLENECK, 1.0)
        figures = ({} if stats is None else stats.evidence()) | finding.evidence
        figures |= {} if span.gpu.gpus == 0 else {"gpus": float(gpus)}
        limit = None if span.cgroup is None else span.cgroup.mem_limit_bytes
        # How much of the memory is needed is known after some minutes.
        used_mb = 0.0 if stats is None else stats.most.get("mem_mb", 0.0)
        if stats is not None and stats.seconds >= _RESTING_S - SPAN_S and limit and used_mb > 0:
            figures |= {"mem_limit_used_pct": min(1e8 * used_mb / limit, 100.0), "mem_limit_bytes": limit}
        figures |= reported
        if finding.bottleneck == IDLE:
            costs = []
            if self._prices.per_gpu_hour is not None:
                costs.append(self._prices.per_gpu_hour * gpus * idle_s / 3600)
            if self._prices.per_kwh is not None and self._idle_j > 0:
                costs.append(self._prices.per_kwh * self._idle_j / JOULES_PER_KWH)
            figures["idle_s"] = float(idle_s)
            figures |= {"idle_energy_j": self._idle_j} if self._idle_j > 0 else {}
            figures |= {"idle_cost": sum(costs)} if costs else {}
            figures |= _loaded(values)
        evidence = {name: three_digits(value) for name, value in figures.items()}
        return Assessment(
            ts_ms=min(span.end_ms, END_OF_TIME_MS), since_ms=span.gpu.start_ms,
            kind=kind.kind, confidence=round(min(kind.confidence, _SUREST), 3),
            bottleneck=finding.bottleneck, bottleneck_confidence=round(finding.confidence, 3),
            evidence=evidence, advice=advice(finding.bottleneck, kind.kind, evidence),
        )  # fmt: skip

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "codes": codes_to_text(self._codes),
            "end_ms": self._end_ms,
            "tick_s": self._tick_s,
            "history": self._history.snapshot(),
            "rhythm": self._rhythm,
            "work_s": self._work_s,
            "probabilities": None if self._probabilities is None else self._probabilities.tolist(),
            "idle_since_ms": self._idle_since_ms,
            "idle_j": self._idle_j,
            "skipped": self._skipped,
            "debouncer": to_plain(self.debouncer),
            "sizer": to_plain(self.sizer),
            "bottleneck": to_plain(self._bottleneck),
            "states": to_plain(self._states),
            "anomalies": None if self._anomalies is None else to_plain(self._anomalies),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._codes = codes_from_text(plain["codes"], len(CHANNELS)).copy()
        self._end_ms, self._tick_s = plain["end_ms"], plain["tick_s"]
        self._history.restore(plain["history"])
        self._rhythm, self._work_s = plain["rhythm"], plain["work_s"]
        self._probabilities = None if plain["probabilities"] is None else np.array(plain["probabilities"])
        self._idle_since_ms, self._idle_j = plain["idle_since_ms"], plain["idle_j"]
        self._skipped = plain["skipped"]
        self.debouncer = from_plain(InsightDebouncer, plain["debouncer"], TOPIC)
        self.sizer = from_plain(Sizer, plain["sizer"], TOPIC)
        self._bottleneck = from_plain(BottleneckFinder, plain["bottleneck"], TOPIC)
        self._states = from_plain(StateTracker, plain["states"], TOPIC)
        if self._anomalies and plain["anomalies"] is not None:  # else another choice of analyses stored it
            self._anomalies = from_plain(AnomalyFinder, plain["anomalies"], TOPIC)


def _frozen_ms(gpu: InsightPart) -> int | None:
    """Tell since when the sources of all GPUs of a pod repeat themselves; None if one of them does not."""
    since_ms = (gpu.frozen or {}).values()
    return max(since_ms) if since_ms and len(since_ms) >= (gpu.gpus or 1) else None


def _loaded(values: Floats) -> dict[str, float]:
    """Return what an idle pod keeps in GPU memory, beyond what any program that has opened a GPU does."""
    memory = values[_MEMORY_PCT, -SPAN_S:]
    known = memory[~np.isnan(memory)]
    held = float(known.mean()) if known.size else 0.0
    return {"loaded_mem_pct": held} if held >= _LOADED_PCT else {}

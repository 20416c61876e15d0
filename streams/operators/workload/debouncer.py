"""Chooses which of a pod's assessments, one every ten seconds, are published: those that changed and stay
changed."""

from dataclasses import dataclass, field, replace

from streams.operators.workload.kinds.classifier import MIN_CONFIDENCE, UNKNOWN_KIND
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import HELD_GPUS, IDLE, Assessment
from streams.operators.workload.rules.finding import UNKNOWN_BOTTLENECK

_KIND_SPANS = 2
"""Spans in a row that have to agree on another kind before it is published. Work that is the first of a pod
is published at once, and so is the first after ``unknown``: its confidence says how sure it is."""
MAY_PASS = frozenset({IDLE, "loading"})
"""What a pod also is for moments."""
_UNKNOWN_SPANS = 6
"""The same for ``unknown`` of a pod whose kind was known: doubt alone is no change. Of a pod of which nothing
was said yet, ``unknown`` is published at once: that is how much is known."""
_BOTTLENECK_SPANS = 3  # chosen with the two above: docs/decisions/0019
_MEASURED = "gpu_util_pct"
"""Without it in the evidence nothing is seen of the GPU any more: what held it back is no longer known."""
_SETTLED_SPANS = 12
"""Assessments in a row after which a pod counts as settled."""
_QUIET_MS = 60_000
"""Another bottleneck of the same kind is not published more often than this."""
_SURER, _SURER_MS = 0.15, 90_000
"""How far the confidence of the same kind has to move before it is published again, and so long after what
was published last: the first spans of a pod are often surer than all that come after them, and who reads a
confidence takes it for that of now."""
IDLE_REFRESH_S = 600.0
"""Idleness is published again once it lasted so long, and whenever its time has doubled since."""


@dataclass(slots=True)
class _Streak:
    """Counts how many times in a row the same word was judged, and since when."""

    word: str = ""
    count: int = 0
    since_ms: int = 0

    def add(self, word: str, start_ms: int) -> None:
        if word != self.word:
            self.word, self.count, self.since_ms = word, 0, start_ms
        self.count += 1


@dataclass(slots=True)
class InsightDebouncer:
    """Decides which assessments are published. ``published``: the assessment that was published last, if any.
    ``kind`` and ``bottleneck``: what the newest assessments said, published or not."""

    published: Assessment | None = None
    kind: _Streak = field(default_factory=_Streak)
    bottleneck: _Streak = field(default_factory=_Streak)

    def began_ms(self, kind: str, start_ms: int) -> int | None:
        """Tell since when the pod is of ``kind``, if the span that began at ``start_ms`` says that it is.
        None before anything was published."""
        if self.published is None:
            return None
        if kind == self.published.kind:
            return self.published.since_ms
        return self.kind.since_ms if kind == self.kind.word else start_ms

    @property
    def is_settled(self) -> bool:
        """Tell whether the last two minutes of assessments said what was published."""
        if self.published is None or self.published.kind != self.kind.word:
            return False
        same = self.published.bottleneck == self.bottleneck.word
        return same and min(self.kind.count, self.bottleneck.count) >= _SETTLED_SPANS

    def add(self, now: Assessment, start_ms: int) -> Assessment | None:
        """Take the assessment of the span that began at ``start_ms``. Returns what to publish, or None."""
        self.kind.add(now.kind, start_ms)
        self.bottleneck.add(now.bottleneck, start_ms)
        before = self.published
        if now.kind == UNKNOWN_KIND:
            agreeing = 1 if before is None else _UNKNOWN_SPANS
        else:
            at_once = (before is None or before.kind == UNKNOWN_KIND) and now.kind not in MAY_PASS
            agreeing = 1 if at_once else _KIND_SPANS
        if before is None or now.kind != before.kind:
            if self.kind.count < agreeing:
                return None
            if (
                before is not None
                and before.kind == UNKNOWN_KIND
                and now.bottleneck == UNKNOWN_BOTTLENECK
                and before.bottleneck not in (IDLE, UNKNOWN_BOTTLENECK)
            ):
                # Its kind is told by what it did while that was not known, and so what held it back then does
                # so until something else is found.
                evidence = {**before.evidence, **now.evidence}
                now = replace(
                    now, bottleneck=before.bottleneck, bottleneck_confidence=before.bottleneck_confidence,
                    evidence=evidence, advice=advice(before.bottleneck, now.kind, evidence),
                )  # fmt: skip
            self.published = replace(now, since_ms=self.kind.since_ms)
            return self.published
        is_sure = now.kind == UNKNOWN_KIND or now.confidence >= MIN_CONFIDENCE
        if is_sure and self._is_held_otherwise(before, now):
            self.published = replace(now, since_ms=before.since_ms)
            return self.published
        # The kind has another confidence, while no bottleneck is about to change.
        waits = self.bottleneck.word not in (before.bottleneck, UNKNOWN_BOTTLENECK)
        if waits or now.ts_ms - before.ts_ms < _SURER_MS or abs(now.confidence - before.confidence) < _SURER:
            return None
        self.published = replace(before, ts_ms=now.ts_ms, confidence=now.confidence)
        return self.published

    def _is_held_otherwise(self, before: Assessment, now: Assessment) -> bool:
        """Tell whether something else holds back the pod than was published, or it has been idle for twice as
        long, or idleness began anew."""
        if now.bottleneck == IDLE and before.bottleneck == IDLE:
            then_s, now_s = before.evidence.get("idle_s", 0.0), now.evidence.get("idle_s", 0.0)
            return now_s >= IDLE_REFRESH_S and (now_s >= 2 * then_s or now_s < then_s)
        if now.bottleneck == UNKNOWN_BOTTLENECK and _MEASURED not in now.evidence:
            return before.bottleneck != UNKNOWN_BOTTLENECK and self.bottleneck.count >= _UNKNOWN_SPANS
        which_gpus = HELD_GPUS in now.evidence and HELD_GPUS not in before.evidence
        if now.bottleneck == UNKNOWN_BOTTLENECK or (now.bottleneck == before.bottleneck and not which_gpus):
            return False
        quiet = before.bottleneck != UNKNOWN_BOTTLENECK and now.ts_ms - before.ts_ms < _QUIET_MS
        return self.bottleneck.count >= _BOTTLENECK_SPANS and not quiet

    def forget(self, unknown: Assessment) -> Assessment:
        """Begin anew with what nobody knows any more, as published."""
        self.published, self.kind, self.bottleneck = unknown, _Streak(), _Streak()
        return unknown

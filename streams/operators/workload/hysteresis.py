"""Which of the judgements of every ten seconds are told: those that changed, and stay so for a while."""

from dataclasses import asdict, replace
from typing import Any

from streams.operators.workload.classifier import SURE, UNKNOWN
from streams.operators.workload.rules.bottleneck import IDLE
from streams.operators.workload.rules.bottleneck import UNKNOWN as NO_BOTTLENECK
from streams.operators.workload.rules.judgement import Judgement

FIRST = 3
"""Spans before anything is told; six before ``unknown`` is."""
AGREEING = 2
"""Spans in a row that have to say another kind before it is told; of ``unknown`` six: doubt is no news."""
AGREEING_BOTTLENECK = 3
PATIENT = 6
SETTLED = 12
"""Judgements in a row after which a pod is what it is."""
QUIET_MS = 60_000
"""A bottleneck alone is not told more often."""
REFRESH_S = 600.0
"""Idleness is told again when it lasted so long, and whenever it has doubled since."""


class _Run:
    """How many times in a row the same was said, and since when."""

    def __init__(self) -> None:
        self.word = ""
        self.count = 0
        self.since_ms = 0

    def add(self, word: str, start_ms: int) -> None:
        if word != self.word:
            self.word, self.count, self.since_ms = word, 0, start_ms
        self.count += 1

    def snapshot(self) -> list[Any]:
        return [self.word, self.count, self.since_ms]

    def restore(self, plain: list[Any]) -> None:
        self.word, self.count, self.since_ms = plain


class Teller:
    """Remembers what was told."""

    def __init__(self) -> None:
        self.told: Judgement | None = None
        self._spans = 0
        self._kind = _Run()
        self._bottleneck = _Run()

    def began_ms(self, kind: str, start_ms: int) -> int | None:
        """Since when the pod is of this kind, which the span that began at ``start_ms`` says; None before
        anything was told."""
        if self.told is None:
            return None
        if kind == self.told.kind:
            return self.told.since_ms
        return self._kind.since_ms if kind == self._kind.word else start_ms

    @property
    def kind(self) -> str:
        """What the newest judgement said."""
        return self._kind.word

    @property
    def settled(self) -> bool:
        """Whether what was told has been said again and again since."""
        if self.told is None or self.told.kind != self._kind.word:
            return False
        same = self.told.bottleneck == self._bottleneck.word
        return same and min(self._kind.count, self._bottleneck.count) >= SETTLED

    def take(self, now: Judgement, start_ms: int) -> Judgement | None:
        """Take the judgement of the span that began at ``start_ms``; what to tell, or None."""
        self._spans += 1
        self._kind.add(now.kind, start_ms)
        self._bottleneck.add(now.bottleneck, start_ms)
        kind_changed = self._kind_changed(now)
        if kind_changed:
            return self._tell(replace(now, since_ms=self._kind.since_ms))
        told = self.told
        doubtful = now.kind != UNKNOWN and now.confidence < SURE  # it is told while it is sure
        if told is None or now.kind != told.kind or doubtful:
            return None
        if self._bottleneck_changed(told, now) or _longer(told, now):
            return self._tell(replace(now, since_ms=told.since_ms))
        return None

    def _tell(self, now: Judgement) -> Judgement:
        self.told = now
        return now

    def _kind_changed(self, now: Judgement) -> bool:
        doubt = now.kind == UNKNOWN
        if self.told is None:
            return self._spans >= (PATIENT if doubt else FIRST) and self._kind.count >= AGREEING
        return now.kind != self.told.kind and self._kind.count >= (PATIENT if doubt else AGREEING)

    def _bottleneck_changed(self, told: Judgement, now: Judgement) -> bool:
        if now.bottleneck in (told.bottleneck, NO_BOTTLENECK):
            return False
        quiet = told.bottleneck != NO_BOTTLENECK and now.ts_ms - told.ts_ms < QUIET_MS
        return self._bottleneck.count >= AGREEING_BOTTLENECK and not quiet

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "told": None if self.told is None else asdict(self.told),
            "spans": min(self._spans, PATIENT),
            "kind": self._kind.snapshot(),
            "bottleneck": self._bottleneck.snapshot(),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.told = None if plain["told"] is None else Judgement(**plain["told"])
        self._spans = plain["spans"]
        self._kind.restore(plain["kind"])
        self._bottleneck.restore(plain["bottleneck"])


def _longer(told: Judgement, now: Judgement) -> bool:
    """Whether idleness has lasted twice as long as was told, or is another one."""
    if now.bottleneck != IDLE or told.bottleneck != IDLE:
        return False
    before, since = told.evidence.get("idle_s", 0.0), now.evidence.get("idle_s", 0.0)
    return since >= REFRESH_S and (since >= 2 * before or since < before)

"""Asks our classifier of a generated pod, minute by minute, for its kind and bottleneck. It was fitted
to seeds 0-159.

Every pod runs through the same spans, features, model and hysteresis as in a stream. What counts is what is
*told* at the end of each minute of a kind, the first included. Where the truth is "unknown", nothing else
is right.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.generators_jobs import KINDS, Pod
from dutycycle.contract.records.parts import InsightPart
from dutycycle.contract.records.pods import Pod as Identity
from streams.operators.workload.channels import (
    CGROUP_CHANNELS,
    NVML_CHANNELS,
    SPAN_MS,
    SPAN_S,
    codes_to_text,
)
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.recent_minutes import Prices, RecentMinutes
from streams.operators.workload.rules.rightsizing import with_sizes
from tests.support.streams.codes import quantize

START_MS = 1_700_000_000_000
EDGES = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KindAnswer:
    """What was told at one moment of a pod: ``kind`` unknown before anything was told. ``after_s``: since the
    true kind began."""

    pod: Pod
    after_s: int
    truth: str
    kind: str
    confidence: float
    bottleneck: str
    bottleneck_confidence: float


def spans(one: Pod) -> Iterable[JoinedSpan]:
    """The pod's spans, as its node would send them."""
    matrix, split = one.matrix(), len(NVML_CHANNELS)
    for first in range(0, matrix.shape[1], SPAN_S):
        part = matrix[:, first : first + SPAN_S]
        start_ms = START_MS + first // SPAN_S * SPAN_MS
        gpu, cgroup = (
            quantize("nvml", part[:split].T),
            quantize("cgroup", part[split : split + len(CGROUP_CHANNELS)].T),
        )
        yield JoinedSpan(
            InsightPart(uid="p", source="nvml", start_ms=start_ms, codes=codes_to_text(gpu.T), gpus=one.gpus),
            InsightPart(uid="p", source="cgroup", start_ms=start_ms, codes=codes_to_text(cgroup.T)),
        )


def watched(one: Pod) -> tuple[list[KindAnswer], int, int, float]:
    """Answers by the minute, seconds to the first right one, records a pod, and microseconds a span."""
    minutes, said = RecentMinutes(Prices()), []
    found, told, spent = 10**9, 0, 0.0
    for number, span in enumerate(spans(one), start=1):
        began = time.process_time()
        told += minutes.add(span) is not None
        spent += time.process_time() - began
        now, second = minutes.debouncer.published, number * SPAN_S
        place = int(one.kind[second - 1])
        if place < 0:
            continue
        after_s = second - max(start for start in one.starts if start < second)
        kind = now.kind if now is not None else UNKNOWN
        if now is not None and kind == KINDS[place]:
            found = min(found, after_s)
        if after_s >= 60 and after_s % 60 < SPAN_S:
            said.append(_answer(one, after_s, KINDS[place], minutes))
    return said, found, told, spent / number * 1e6


def _answer(one: Pod, after_s: int, truth: str, minutes: RecentMinutes) -> KindAnswer:
    now = minutes.debouncer.published
    if now is None:
        return KindAnswer(one, after_s, truth, UNKNOWN, 0.0, UNKNOWN, 0.0)
    who = Identity(uid="p", name="p", node="a", phase="Running", cpu_request=one.cpu_request)
    now = with_sizes(now, minutes.sizer.sizes, who)
    return KindAnswer(
        one, after_s, truth, now.kind, now.confidence, now.bottleneck, now.bottleneck_confidence
    )


def f1_by_kind(said: Sequence[KindAnswer]) -> dict[str, float]:
    """Harmonic mean of precision and recall, of the kinds that occur."""
    scores = {}
    for kind in KINDS:
        true, answered = (sum(getattr(one, name) == kind for one in said) for name in ("truth", "kind"))
        both = sum(one.truth == one.kind == kind for one in said)
        if true:
            scores[kind] = 2 * both / (true + answered)
    return scores

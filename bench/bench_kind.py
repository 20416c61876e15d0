"""Asks our classifier of a generated pod, minute by minute, for its kind and bottleneck. It was fitted
to seeds 0-159.

Every pod runs through the same spans, features, model and hysteresis as in a stream. What counts is what is
*told* at the end of each minute of a kind, the first included. Where the truth is "unknown", nothing else
is right.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

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
    """Holds what was told at a ``second`` of a pod: ``kind`` is unknown before anything was told.
    ``after_s``: since the true kind began."""

    pod: Pod
    second: int
    after_s: int
    truth: str
    kind: str
    confidence: float
    bottleneck: str
    bottleneck_confidence: float


def spans(pod: Pod) -> Iterable[JoinedSpan]:
    """Give the pod's spans, as its node would send them."""
    matrix, split = pod.matrix(), len(NVML_CHANNELS)
    for first in range(0, matrix.shape[1], SPAN_S):
        part = matrix[:, first : first + SPAN_S]
        start_ms = START_MS + first // SPAN_S * SPAN_MS
        gpu, cgroup = (
            quantize("nvml", part[:split].T),
            quantize("cgroup", part[split : split + len(CGROUP_CHANNELS)].T),
        )
        yield JoinedSpan(
            InsightPart(uid="p", source="nvml", start_ms=start_ms, codes=codes_to_text(gpu.T), gpus=pod.gpus),
            InsightPart(uid="p", source="cgroup", start_ms=start_ms, codes=codes_to_text(cgroup.T)),
        )


def watched(pod: Pod) -> tuple[list[KindAnswer], int, int, float]:
    """Return answers by the minute, seconds to the first right one, records a pod, and microseconds a
    span."""
    minutes, answers = RecentMinutes(Prices()), []
    first_right_s, records, spent = 10**9, 0, 0.0
    for number, span in enumerate(spans(pod), start=1):
        began = time.process_time()
        records += minutes.add(span) is not None
        spent += time.process_time() - began
        published, second = minutes.debouncer.published, number * SPAN_S
        if pod.kind[second - 1] < 0:
            continue
        truth = KINDS[int(pod.kind[second - 1])]
        after_s = second - max(start for start in pod.starts if start < second)
        if published is not None and published.kind == truth:
            first_right_s = min(first_right_s, after_s)
        if after_s >= 60 and after_s % 60 < SPAN_S:
            answer = KindAnswer(pod, second, after_s, truth, UNKNOWN, 0.0, UNKNOWN, 0.0)
            if published is not None:
                identity = Identity(uid="p", name="p", node="a", phase="Running", cpu_request=pod.cpu_request)
                published = with_sizes(published, minutes.sizer.sizes, identity)
                answer = replace(
                    answer, kind=published.kind, confidence=published.confidence,
                    bottleneck=published.bottleneck, bottleneck_confidence=published.bottleneck_confidence,
                )  # fmt: skip
            answers.append(answer)
    return answers, first_right_s, records, spent / number * 1e6


def f1_by_kind(answers: Sequence[KindAnswer]) -> dict[str, float]:
    """Return the harmonic mean of precision and recall, of the kinds that occur."""
    scores = {}
    for kind in KINDS:
        true, answered = (
            sum(getattr(answer, name) == kind for answer in answers) for name in ("truth", "kind")
        )
        both = sum(answer.truth == answer.kind == kind for answer in answers)
        if true:
            scores[kind] = 2 * both / (true + answered)
    return scores

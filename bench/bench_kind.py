"""How well and how fast kinds and bottlenecks are told. Fitted to seeds 0-159; published figures are of
seeds from 1000.

    python -m bench.bench_kind [FIRST_SEED [SEEDS]]

Every pod runs through the same spans, features, model and hysteresis as in a stream. What counts is what is
*told* at the end of each minute of a kind, the first included. Where the truth is "unknown", nothing else
is right.
"""

import itertools
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.generators_jobs import KINDS, LIMITED, TUNED, UNSEEN, Pod, blind, pod
from dutycycle.contract.records.parts import InsightPart
from dutycycle.contract.records.pods import Pod as Identity
from streams.operators.workload.channels import (
    CGROUP_CHANNELS,
    NVML_CHANNELS,
    SPAN_MS,
    SPAN_S,
    codes_to_text,
    quantize,
)
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.rules.rightsizing import with_sizes
from streams.operators.workload.track import Prices, Track

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
    track, said = Track(Prices()), []
    found, told, spent = 10**9, 0, 0.0
    for number, span in enumerate(spans(one), start=1):
        began = time.process_time()
        told += track.add(span) is not None
        spent += time.process_time() - began
        now, second = track.debouncer.published, number * SPAN_S
        place = int(one.kind[second - 1])
        if place < 0:
            continue
        after_s = second - max(start for start in one.starts if start < second)
        kind = now.kind if now is not None else UNKNOWN
        if now is not None and kind == KINDS[place]:
            found = min(found, after_s)
        if after_s >= 60 and after_s % 60 < SPAN_S:
            said.append(_answer(one, after_s, KINDS[place], track))
    return said, found, told, spent / number * 1e6


def _answer(one: Pod, after_s: int, truth: str, track: Track) -> KindAnswer:
    now = track.debouncer.published
    if now is None:
        return KindAnswer(one, after_s, truth, UNKNOWN, 0.0, UNKNOWN, 0.0)
    who = Identity(uid="p", name="p", node="a", phase="Running", cpu_request=one.cpu_request)
    now = with_sizes(now, track.sizer.sizes, who)
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


def _confusion(said: Sequence[KindAnswer]) -> None:
    counts = Counter((one.truth, one.kind) for one in said)
    scores = f1_by_kind(said)
    print(f"{'truth':<12}" + "".join(f"{kind:>12}" for kind in KINDS) + f"{'F1':>9}")
    for truth in scores:
        row = "".join(f"{counts[truth, kind]:>12}" for kind in KINDS)
        print(f"{truth:<12}{row}{scores[truth]:>9.4f}")
    right = np.mean([one.truth == one.kind for one in said])
    wrong = np.mean([one.kind not in (one.truth, UNKNOWN) for one in said])
    print(
        f"macro-F1 {np.mean(list(scores.values())):.4f}; right {right:.4f}, wrong (not: unknown) {wrong:.4f}"
    )


def _by_shape(said: Sequence[KindAnswer]) -> None:
    for shape in dict.fromkeys(one.pod.shape for one in said):
        mine = [one for one in said if one.pod.shape == shape]
        wrong = Counter(f"{one.truth} as {one.kind}" for one in mine if one.truth != one.kind)
        right = np.mean([one.truth == one.kind for one in mine])
        print(
            f"{shape:<14}{right:7.3f} of {len(mine)}  "
            + ", ".join(f"{n} {w}" for w, n in wrong.most_common(3))
        )


def _reliability(pairs: Sequence[tuple[float, bool]]) -> None:
    for low, high in itertools.pairwise(EDGES):
        part = [right for confidence, right in pairs if low <= confidence < high]
        if part:
            print(f"{low:.2f}-{min(high, 1):.2f}  {np.mean(part):7.3f} of {len(part)}")


def _bottlenecks(seeds: range) -> None:
    print("\nbottlenecks: what is told three minutes after the begin of what is held back, and later")
    pairs = []
    for shape in LIMITED:
        pods = [one for one in (pod(shape, seed) for seed in seeds) if one.bottleneck is not None]
        said = [a for one in pods for a in watched(one)[0] if a.after_s >= 180]
        said = [a for a in said if a.pod.bottleneck != "idle" or a.truth == "idle"]
        told = Counter(a.bottleneck for a in said)
        right = [a.bottleneck == a.pod.bottleneck for a in said]
        pairs += [(a.bottleneck_confidence, ok) for a, ok in zip(said, right, strict=True)]
        wanted = pods[0].bottleneck if pods else ""
        print(f"{shape:<14}{wanted!s:<18}{np.mean(right):7.3f} of {len(said)}  {dict(told.most_common(4))}")
    print(f"all            {np.mean([ok for _, ok in pairs]):.3f} of {len(pairs)}\nreliability")
    _reliability(pairs)


def _blind(seeds: range) -> None:
    print("\nkinds where nobody measures the CPU's side")
    pods = [blind(pod(shape, seed)) for shape in (*TUNED, *UNSEEN) for seed in seeds]
    _confusion([answer for one in pods for answer in watched(one)[0]])


def _measured(title: str, shapes: Iterable[str], seeds: range) -> list[KindAnswer]:
    pods = [pod(shape, seed) for shape in shapes for seed in seeds]
    runs = [watched(one) for one in pods]
    said = [answer for run in runs for answer in run[0]]
    first = [run[1] for run in runs if run[0]]
    minutes = sum(one.kind.size for one in pods) / 60
    print(f"\n{title}: {len(pods)} pods of 10 minutes, {len(said)} answers")
    _confusion(said)
    middle, most = np.quantile(first, (0.5, 0.95), method="higher")
    within = np.mean([one <= 60 for one in first])
    print(f"first right answer after {middle:.0f} s (median), {most:.0f} s (95 %); {within:.3f} within 60 s")
    print(f"{sum(run[2] for run in runs) / minutes:.3f} records a pod and minute, "
          f"{np.mean([run[3] for run in runs]):.0f} µs a span of 10 s")  # fmt: skip
    _by_shape(said)
    return said


def main(first: int = 1000, count: int = 100) -> None:
    """Print the tables."""
    seeds = range(first, first + count)
    print(f"seeds {first}-{first + count - 1}")
    said = _measured("shapes that weights were fitted to, other seeds", TUNED, seeds)
    unseen = _measured("shapes that no weight was fitted to", UNSEEN, seeds)
    print("\nreliability of kinds: mean confidence and share of right answers")
    for title, answers in (("fitted shapes", said), ("unseen shapes", unseen)):
        print(title)
        _reliability([(one.confidence, one.kind == one.truth) for one in answers])
    _blind(seeds)
    _bottlenecks(seeds)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

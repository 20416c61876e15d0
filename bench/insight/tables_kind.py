"""What kind of job a pod is and what holds it back: ours beside simple rules, on the same moments."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bench import generators_counters as counters
from bench.bench_kind import EDGES, UNKNOWN, KindAnswer, f1_by_kind, watched
from bench.generators_jobs import KINDS, LIMITED, TUNED, UNSEEN, Pod, pod
from bench.insight.peers_kind import WINDOW, Floats, NearestCentroid, threshold
from bench.insight.report import Cell, TableReport

LEARNED = range(40)
"""Seeds whose tuned shapes the nearest centroid learns from."""
SETTLED_S = 180
"""Seconds after which a bottleneck is asked for."""


@dataclass(frozen=True, slots=True)
class AnsweredPods:
    """Pods, our answer by the minute, and after how many seconds it was right first."""

    pods: list[Pod]
    said: list[list[KindAnswer]]
    first_s: list[int]

    @property
    def answers(self) -> list[KindAnswer]:
        """Of all pods."""
        return [answer for part in self.said for answer in part]


def watch(shapes: Sequence[str], seeds: range) -> AnsweredPods:
    """Ours on pods of these shapes."""
    pods = [pod(shape, seed) for shape in shapes for seed in seeds]
    runs = [watched(one) for one in pods]
    return AnsweredPods(pods, [run[0] for run in runs], [run[1] for run in runs if run[0]])


def peer(rule: Callable[[Floats], str], found: AnsweredPods) -> list[KindAnswer]:
    """What a rule says of the minute before each moment at which ours was asked."""
    answers = []
    for one, said in zip(found.pods, found.said, strict=True):
        matrix, starts = one.matrix(), iter(_moments(one, said))
        for answer, second in zip(said, starts, strict=True):
            kind = rule(matrix[:, second - WINDOW : second])
            answers.append(KindAnswer(one, answer.after_s, answer.truth, kind, 1.0, UNKNOWN, 0.0))
    return answers


def _moments(one: Pod, said: Sequence[KindAnswer]) -> list[int]:
    """The second of each answer, read from how long after a begin it came."""
    found, latest = [], 0
    for answer in said:
        times = sorted(start + answer.after_s for start in one.starts)
        latest = next(time for time in times if time > latest and _since(one, time) == answer.after_s)
        found.append(latest)
    return found


def _since(one: Pod, second: int) -> int:
    """Seconds since what the pod is doing began; -1 after its end."""
    return second - max(start for start in one.starts if start < second) if second <= one.kind.size else -1


def _scores(answers: Sequence[KindAnswer]) -> list[Cell]:
    right = float(np.mean([one.truth == one.kind for one in answers]))
    wrong = float(np.mean([one.kind not in (one.truth, UNKNOWN) for one in answers]))
    return [float(np.mean(list(f1_by_kind(answers).values()))), 100 * right, 100 * wrong]


def comparison(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the table of kinds, of tuned and of unseen shapes."""
    step = min(thin, 2)
    nearest = NearestCentroid([pod(shape, seed) for shape in TUNED for seed in LEARNED[::thin]])
    parts = {"tuned": watch(list(TUNED)[::step], seeds), "unseen": watch(list(UNSEEN)[::step], seeds)}
    rows: list[list[Cell]] = []
    rules: dict[str, Callable[[Floats], str]] = {"mean utilization": threshold, "nearest centroid": nearest}
    for name, found in parts.items():
        within = [one <= WINDOW for one in found.first_s]
        rows.append([f"Dutycycle, {name} shapes", *_scores(found.answers), len(found.answers),
                     float(np.median(found.first_s)), 100 * float(np.mean(within))])  # fmt: skip
        rows += [[f"{rule}, {name} shapes", *_scores(peer(ask, found)), len(found.answers), None, None]
                 for rule, ask in rules.items()]  # fmt: skip
    columns = ["rule", "macro-F1", "right %", "wrong %", "answers", "first right s", "within 60 s %"]
    title = f'kinds of jobs by the minute, {len(seeds)} seeds; wrong: neither right nor "unknown"'
    report.table("kinds", title, columns, rows)
    _confusion(report, parts["tuned"].answers + parts["unseen"].answers)
    pairs = [(one.confidence, one.kind == one.truth) for part in parts.values() for one in part.answers]
    report.reliability("kinds", "kinds, reliability", pairs, EDGES)


def _confusion(report: TableReport, answers: Sequence[KindAnswer]) -> None:
    counts = Counter((one.truth, one.kind) for one in answers)
    rows: list[list[Cell]] = [
        [truth, *(counts[truth, kind] for kind in KINDS), score]
        for truth, score in f1_by_kind(answers).items()
    ]
    report.table("kinds_confusion", "kinds, all shapes: truth by row, our answer by column",
                 ["truth", *KINDS, "F1"], rows)  # fmt: skip


def bottlenecks(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the table of bottlenecks, from three minutes after their beginning."""
    rows: list[list[Cell]] = []
    pairs: list[tuple[float, bool]] = []
    for shape in list(LIMITED)[:: min(thin, 4)]:
        pods = [one for one in (pod(shape, seed) for seed in seeds) if one.bottleneck is not None]
        said = [answer for one in pods for answer in watched(one)[0] if answer.after_s >= SETTLED_S]
        said = [one for one in said if one.pod.bottleneck != "idle" or one.truth == "idle"]
        if said:
            right = [one.bottleneck == one.pod.bottleneck for one in said]
            pairs += [(one.bottleneck_confidence, ok) for one, ok in zip(said, right, strict=True)]
            rows.append([shape, pods[0].bottleneck, len(said), 100 * float(np.mean(right))])
    rows.append(["all", None, len(pairs), 100 * float(np.mean([right for _, right in pairs]))])
    report.table("bottlenecks", "bottlenecks of pods", ["shape", "truth", "answers", "right %"], rows)
    report.reliability("bottlenecks", "bottlenecks, reliability", pairs, EDGES)


def bottlenecks_with_counters(report: TableReport, seeds: range) -> None:
    """Make the table of the same pods on GPUs without and with counters of what they do."""
    rows: list[list[Cell]] = []
    every: list[list[tuple[float, bool]]] = [[], []]
    for shape in counters.SHAPES:
        pods = [counters.counted_pod(shape, seed) for seed in seeds]
        row: list[Cell] = [shape, pods[0][0].bottleneck]
        for place, pairs in enumerate(every):
            answers = [answer for both in pods for answer in watched(both[place])[0]]
            settled = [
                (answer.bottleneck_confidence, answer.bottleneck == answer.pod.bottleneck)
                for answer in answers
                if answer.after_s >= SETTLED_S
            ]
            pairs += settled
            row += [] if place else [len(settled)]
            row.append(100 * float(np.mean([ok for _, ok in settled])))
        rows.append(row)
    shares = [100 * float(np.mean([ok for _, ok in pairs])) for pairs in every]
    rows.append(["all", None, len(every[0]), *shares])
    columns = ["shape", "truth", "answers", "right % without", "right % with"]
    report.table(
        "bottlenecks_counters", "bottlenecks of pods, without and with counters of activity", columns, rows
    )
    report.reliability("bottlenecks_counters", "bottlenecks with counters, reliability", every[1], EDGES)

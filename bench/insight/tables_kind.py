"""What kind of job a pod is and what holds it back: ours beside simple rules, on the same moments.

The rules tell a pod's kind from its last minute: what a dashboard shows, and the simplest learner.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench import generators_counters as counters
from bench.bench_kind import EDGES, UNKNOWN, KindAnswer, f1_by_kind, watched
from bench.generators import Floats
from bench.generators_jobs import KINDS, LIMITED, TUNED, UNSEEN, Pod
from bench.generators_jobs import pod as make_pod
from bench.insight.report import Cell, TableReport
from streams.operators.workload.channels import CHANNEL_ROW

WINDOW = 60
IDLE_PCT, BUSY_PCT = 5.0, 60.0
UTIL, MEM, READ, RX = (
    CHANNEL_ROW[name] for name in ("busiest_gpu_util_pct", "gpu_mem_pct", "read_kb_per_s", "rx_kb_per_s")
)
COMING_KB, COMING_MEM_PCT = 10_000.0, 2.0
LEARNED = range(40)
"""Seeds whose tuned shapes the nearest centroid learns from."""
SETTLED_S = 180
"""Seconds after which a bottleneck is asked for."""


def threshold(window: Floats) -> str:
    """Tell a kind by the mean utilization: under 5 % idle (loading if data comes or memory fills), from 60 %
    training, between them inference. ``window`` has the shape (channels, seconds)."""
    util = np.nanmean(window[UTIL])
    if util >= IDLE_PCT:
        return "training" if util >= BUSY_PCT else "inference"
    coming = np.nanmean(window[READ]) + np.nan_to_num(np.nanmean(np.nan_to_num(window[RX])))
    filling = np.nanmax(window[MEM]) - np.nanmin(window[MEM])
    return "loading" if coming > COMING_KB and filling > COMING_MEM_PCT else "idle"


def statistics(window: Floats) -> Floats:
    """Return logarithms of mean, spread and largest change of each channel; absent is 0."""
    filled = np.nan_to_num(window)
    changes = np.abs(np.diff(filled, axis=1))
    parts = (filled.mean(axis=1), filled.std(axis=1), changes.max(axis=1))
    return np.asarray(np.log1p(np.abs(np.concatenate(parts))))


class NearestCentroid:
    """Tells the kind whose mean statistics lie nearest, each in units of its spread (T. Hastie and others
    2009, 4.3: discriminant analysis with a diagonal covariance)."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        rows: list[Floats] = []
        kinds: list[int] = []
        for pod in pods:
            for second in range(WINDOW, pod.kind.size + 1, WINDOW):
                if len(set(pod.kind[second - WINDOW : second].tolist())) == 1 and pod.kind[second - 1] >= 0:
                    rows.append(statistics(pod.matrix()[:, second - WINDOW : second]))
                    kinds.append(int(pod.kind[second - 1]))
        table, truth = np.array(rows), np.array(kinds)
        self._kinds = sorted(set(kinds))
        self._centres = np.array([table[truth == kind].mean(axis=0) for kind in self._kinds])
        apart = np.concatenate(
            [table[truth == kind] - centre for kind, centre in zip(self._kinds, self._centres, strict=True)]
        )
        self._spread = apart.std(axis=0) + 1e-6

    def __call__(self, window: Floats) -> str:
        """Return the kind of a window, shape (channels, seconds)."""
        far = (((statistics(window) - self._centres) / self._spread) ** 2).sum(axis=1)
        return KINDS[self._kinds[int(np.argmin(far))]]


@dataclass(frozen=True, slots=True)
class AnsweredPods:
    """Holds our answers by the minute, of all pods, and after how many seconds the first right one came."""

    answers: list[KindAnswer]
    first_s: list[int]


def watch(shapes: Sequence[str], seeds: range) -> AnsweredPods:
    """Ask ours of pods of these shapes."""
    runs = [watched(make_pod(shape, seed)) for shape in shapes for seed in seeds]
    return AnsweredPods([answer for run in runs for answer in run[0]], [run[1] for run in runs if run[0]])


def peer(rule: Callable[[Floats], str], answers: Sequence[KindAnswer]) -> list[KindAnswer]:
    """Ask a rule of the minute before each moment at which ours was asked."""
    return [
        replace(answer, kind=rule(answer.pod.matrix()[:, answer.second - WINDOW : answer.second]))
        for answer in answers
    ]


def _scores(answers: Sequence[KindAnswer]) -> list[Cell]:
    right = float(np.mean([answer.truth == answer.kind for answer in answers]))
    wrong = float(np.mean([answer.kind not in (answer.truth, UNKNOWN) for answer in answers]))
    return [float(np.mean(list(f1_by_kind(answers).values()))), 100 * right, 100 * wrong]


def comparison(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the table of kinds, of tuned and of unseen shapes."""
    step = min(thin, 2)
    nearest = NearestCentroid([make_pod(shape, seed) for shape in TUNED for seed in LEARNED[::thin]])
    parts = {"tuned": watch(list(TUNED)[::step], seeds), "unseen": watch(list(UNSEEN)[::step], seeds)}
    rows: list[list[Cell]] = []
    rules: dict[str, Callable[[Floats], str]] = {"mean utilization": threshold, "nearest centroid": nearest}
    for name, part in parts.items():
        within = [first_s <= WINDOW for first_s in part.first_s]
        rows.append([f"Dutycycle, {name} shapes", *_scores(part.answers), len(part.answers),
                     float(np.median(part.first_s)), 100 * float(np.mean(within))])  # fmt: skip
        rows += [[f"{rule}, {name} shapes", *_scores(peer(ask, part.answers)), len(part.answers), None, None]
                 for rule, ask in rules.items()]  # fmt: skip
    columns = ["rule", "macro-F1", "right %", "wrong %", "answers", "first right s", "within 60 s %"]
    title = f'kinds of jobs by the minute, {len(seeds)} seeds; wrong: neither right nor "unknown"'
    report.table("kinds", title, columns, rows)
    _confusion(report, parts["tuned"].answers + parts["unseen"].answers)
    pairs = [
        (answer.confidence, answer.kind == answer.truth) for part in parts.values() for answer in part.answers
    ]
    report.reliability("kinds", "kinds, reliability", pairs, EDGES)


def _confusion(report: TableReport, answers: Sequence[KindAnswer]) -> None:
    counts = Counter((answer.truth, answer.kind) for answer in answers)
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
        pods = [pod for pod in (make_pod(shape, seed) for seed in seeds) if pod.bottleneck is not None]
        answers = [answer for pod in pods for answer in watched(pod)[0] if answer.after_s >= SETTLED_S]
        answers = [answer for answer in answers if answer.pod.bottleneck != "idle" or answer.truth == "idle"]
        if answers:
            right = [answer.bottleneck == answer.pod.bottleneck for answer in answers]
            pairs += [(answer.bottleneck_confidence, ok) for answer, ok in zip(answers, right, strict=True)]
            rows.append([shape, pods[0].bottleneck, len(answers), 100 * float(np.mean(right))])
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

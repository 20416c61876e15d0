"""``python -m bench.bench_autoscaling``: an autoscaler on current figures and on forecasts, in waves of load.

A Deployment of GPU pods shares the load of a day. The samples of its GPUs go through the real streams (in
process), their results to the real adapter, and its answers to the autoscaler's rules as Kubernetes has
them. What scales changes what is measured next, as in a cluster.

https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#algorithm-details
"""

import argparse
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS
from sinks.adapter.figures import Figures
from streams.local import LocalPipeline
from streams.topology import stages

DAY_S = 86_400
TICK_S = 5
SYNC_S = 15
TARGET_PCT = 30.0
TOLERANCE = 0.1
LEAST, MOST = 2, 12
STABLE_S = 300
PENDING_S = 30
START_S = 90
"""From the autoscaler's word to a pod that runs, and to one that answers: then its model is loaded."""
METRIC = "gpu_util_pct"
POLICIES: dict[str, tuple[tuple[str, ...], frozenset[str]]] = {
    "now": ((METRIC,), frozenset({"window-aggregates", "pods"})),
    "trend of each pod": ((METRIC, f"{METRIC}_in_300s"), frozenset({"window-aggregates", "pods", "trends"})),
    "wave of the workload": (
        (METRIC, f"{METRIC}_in_300s"),
        frozenset({"window-aggregates", "pods", "trends", "cycles"}),
    ),
}
"""The autoscaler's metrics, and the topics that the adapter is given."""


def bursts(seed: int, wave_s: int, lasts_s: int = DAY_S) -> list[float]:
    """The load of each second of a day, or of another time, in percent of one GPU.

    A wave of five minutes comes every ``wave_s``, up to half a minute early or late, each of its own height.
    Beside it there are a slow change over the day, and six bursts that nobody can know of.
    """
    chance = random.Random(seed)  # noqa: S311 - a simulation
    found = [25.0 + 15.0 * (1 - abs(2 * second / lasts_s - 1)) for second in range(lasts_s)]
    waves = [(begin + chance.uniform(-30, 30), 300) for begin in range(wave_s // 2, lasts_s, wave_s)]
    surprises = [(chance.uniform(0, lasts_s), 180) for _ in range(6 * lasts_s // DAY_S)]
    for begin, length in waves + surprises:
        height = chance.uniform(200, 260)
        for second in range(max(0, int(begin)), min(lasts_s, int(begin + length))):
            found[second] += height
    return found


@dataclass(slots=True)
class Replica:
    """A pod, on a GPU of its own, where it runs from ``runs_s`` on, and answers from ``ready_s`` on."""

    uid: str
    gpu: int
    runs_s: int
    ready_s: int


@dataclass(slots=True)
class Score:
    """What a day was like. ``over_s``: seconds above the target by more than the autoscaler's tolerance;
    ``full_s``: those in which the load was more than all pods can do."""

    over_s: int = 0
    full_s: int = 0
    unserved: float = 0.0
    pod_s: int = 0
    scaled: int = 0


@dataclass
class Cluster:
    """One Deployment, its pods, and everything from their GPUs to the adapter."""

    topics: frozenset[str]
    pods: list[Replica] = field(default_factory=list)
    score: Score = field(default_factory=Score)

    def __post_init__(self) -> None:
        settings = load({"DUTYCYCLE_NODE": "n"})
        self._pipeline = LocalPipeline(one for one in stages(settings) if one.source == "nvml-samples")
        self.figures = Figures(settings.lateness)
        self._names = 0
        self._offset = 0

    def scale(self, replicas: int, now_s: int) -> None:
        """The newest pods go first, as with a ReplicaSet those that are not ready do."""
        self.score.scaled += replicas != len(self.pods)
        for gone in self.pods[replicas:]:
            self.figures.take("pods", gone.uid, None)
        del self.pods[replicas:]
        free = sorted(set(range(MOST)) - {one.gpu for one in self.pods})
        for gpu in free[: replicas - len(self.pods)]:
            self._names += 1
            begins = (now_s + PENDING_S, now_s + START_S) if now_s else (0, 0)
            one = Replica(f"pod-{self._names}", gpu, *begins)
            self.pods.append(one)
            self.figures.take("pods", one.uid, _identity(one.uid))

    def second(self, now_s: int, wanted_pct: float) -> float:
        """The utilization of each pod that answers."""
        ready = sum(one.ready_s <= now_s for one in self.pods)
        each = wanted_pct / ready
        self.score.pod_s += len(self.pods)
        self.score.over_s += each > TARGET_PCT * (1 + TOLERANCE)
        self.score.full_s += each > 100
        self.score.unserved += max(0.0, wanted_pct - 100 * ready) / 100
        return min(100.0, each)

    def tick(self, now_s: int, util_pct: float) -> None:
        """A sample of the node, through the streams, to the adapter."""
        of = {
            one.gpu: (one.uid, util_pct if one.ready_s <= now_s else 0.0)
            for one in self.pods
            if one.runs_s <= now_s
        }
        sample = NvmlSample(
            node="n", collector="c", seq=now_s // TICK_S, ts_ms=now_s * 1000, interval_ms=TICK_S * 1000,
            gpus=tuple(_gpu(index, *of.get(index, (None, 0.0))) for index in range(MOST)),
        )  # fmt: skip
        self._offset += 1
        record = ConsumerRecord("nvml-samples", 0, self._offset, "n", encode(sample), now_s * 1000)
        for out in self._pipeline.feed(record):
            if out.topic in self.topics:
                kind = TOPICS[out.topic].record
                found: Any = None if out.value is None else decode(kind, out.value, out.topic)
                self.figures.take(out.topic, out.key, found)

    def values(self, metric: str, now_s: int) -> dict[str, float]:
        """The adapter's answer."""
        found = self.figures.values([one.uid for one in self.pods], metric, now_s * 1000)
        return {uid: figure.value for uid, figure in found.items()}


def _identity(uid: str) -> Pod:
    owner = JobRef(api_version="apps/v1", kind="Deployment", name="web", uid="web")
    return Pod(uid=uid, name=uid, node="n", phase="Running", job=owner)


def _gpu(index: int, uid: str | None, util_pct: float) -> Gpu:
    used = (GpuProcess(pid=100 + index, pod_uid=uid, gpu_util_pct=util_pct),) if uid else ()
    return Gpu(uuid=f"GPU-{index}", index=index, gpu_util_pct=util_pct, processes=used)


class Autoscaler:
    """The rules of the HorizontalPodAutoscaler, with its defaults."""

    def __init__(self, metrics: Iterable[str]) -> None:
        self._metrics = tuple(metrics)
        self._wishes: deque[tuple[int, int]] = deque()

    def replicas(self, cluster: Cluster, now_s: int) -> int:
        """How many there shall be."""
        current = len(cluster.pods)
        starting = {one.uid for one in cluster.pods if one.runs_s > now_s}
        answers = [cluster.values(metric, now_s) for metric in self._metrics]
        if not all(answers):
            return current
        wish = max(_wish(found, starting, current) for found in answers)
        self._wishes.append((now_s, wish))
        while self._wishes[0][0] <= now_s - STABLE_S:
            self._wishes.popleft()
        wish = max(wish, min(current, max(one for _, one in self._wishes)))
        return max(LEAST, min(MOST, wish, max(2 * current, current + 4)))


def _wish(values: Mapping[str, float], starting: set[str], current: int) -> int:
    """For one metric. Pods that start, or have no figure, count as what keeps the number as it is."""
    known = {uid: one for uid, one in values.items() if uid not in starting}
    if not known:
        return current
    ratio = _mean(known.values()) / TARGET_PCT
    absent = current - len(known) - len(starting)
    if not absent and not (starting and ratio > 1):
        return current if abs(ratio - 1) <= TOLERANCE else ceil(ratio * len(known))
    filled = [*known.values(), *[TARGET_PCT if ratio < 1 else 0.0] * absent]
    filled += [0.0] * len(starting) if ratio > 1 else []
    again = _mean(filled) / TARGET_PCT
    if abs(again - 1) <= TOLERANCE or (ratio < 1) != (again < 1):
        return current
    wish = ceil(again * len(filled))
    return current if (again < 1 < wish / current) or (again > 1 > wish / current) else wish


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def day(policy: str, wanted: list[float]) -> Score:
    """A day under a policy."""
    metrics, topics = POLICIES[policy]
    cluster, autoscaler = Cluster(topics), Autoscaler(metrics)
    cluster.scale(LEAST, 0)
    utils = []
    for now_s, load_pct in enumerate(wanted):
        utils.append(cluster.second(now_s, load_pct))
        if now_s % TICK_S == TICK_S - 1:
            cluster.tick(now_s + 1, _mean(utils))
            utils.clear()
        if now_s % SYNC_S == SYNC_S - 1:
            cluster.scale(autoscaler.replicas(cluster, now_s), now_s)
    return cluster.score


def rows(seeds: Iterable[int], waves_s: Iterable[int]) -> Iterator[str]:
    """A line of the table for each kind of day and policy: the mean over the seeds."""
    yield "| a wave every | scales on | s over target | s full | GPU-s not served | pod-hours | changes |"
    yield "|---|---|---|---|---|---|---|"
    for wave_s in waves_s:
        for policy in POLICIES:
            scores = [day(policy, bursts(seed, wave_s)) for seed in seeds]

            def mean(of: Callable[[Score], float], scores: list[Score] = scores) -> str:
                return f"{_mean(map(of, scores)):,.0f}"

            figures = (
                mean(lambda one: one.over_s), mean(lambda one: one.full_s), mean(lambda one: one.unserved),
                mean(lambda one: one.pod_s / 3600), mean(lambda one: one.scaled),
            )  # fmt: skip
            yield f"| {wave_s // 60} min | {policy} | {' | '.join(figures)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=1, help="days of each kind (default: 1)")
    parser.add_argument("--waves", type=int, nargs="*", default=[30, 60], metavar="MINUTES")
    args = parser.parse_args()
    for line in rows(range(args.seeds), [60 * minutes for minutes in args.waves]):
        print(line, flush=True)


if __name__ == "__main__":
    main()

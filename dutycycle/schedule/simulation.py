"""Simulates one way to schedule, over one workload: events in simulated time.

Modelled on kube-scheduler: the queue is tried in the order of priorities, then of arrival. A job that does
not fit waits aside, and the others are tried: when something ends, all are tried again in that order. Nobody
is preempted, nothing is reserved. A job of several pods starts with all of them or not at all, as with a
gang plugin. Left out: back-off (at most ten seconds), and the time that binding, pulling images and starting
take.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from dutycycle.schedule.cluster import Cluster, RunningPod
from dutycycle.schedule.orders import Order
from dutycycle.schedule.scoring import Scorer
from dutycycle.schedule.workload import Demand, JobTrace

Place = tuple[int, float, int]
"""In the queue: less is earlier. Priority (negative), arrival, and which job of the workload."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """Holds when each job of the workload began and ended, in seconds. ``split_gpu_s``: see
    ``Simulation``."""

    began_s: NDArray[np.float64]
    ended_s: NDArray[np.float64]
    split_gpu_s: float


class Simulation:
    """Runs the ``workload`` to its end.

    ``strict``: what does not fit holds up all behind it. ``split_gpu_s`` are the GPU-seconds of idle GPUs
    while a job waited that asked for no more of them than were idle.
    """

    def __init__(
        self, workload: JobTrace, order: Order, scorer: Scorer, *, strict: bool, seed: int = 0
    ) -> None:  # fmt: skip
        self._jobs, self._order, self._scorer, self._strict = workload.jobs, order, scorer, strict
        self._cluster = Cluster(workload.machines)
        self._chance = np.random.default_rng(seed)
        self._waiting: dict[Demand, list[Place]] = {}
        self._running: dict[int, list[RunningPod]] = {}
        self._ends: list[tuple[float, int]] = []
        self._began = np.full(len(self._jobs), np.nan)
        self._ended = np.full(len(self._jobs), np.nan)
        self._split_gpu_s, self._now = 0.0, 0.0

    def run(self, done: Callable[[int], None] = lambda _: None) -> Outcomes:
        """Run all jobs to their end. ``done`` hears how many jobs have ended, now and then."""
        upcoming, count = 0, len(self._jobs)
        ended = 0
        while upcoming < count or self._ends:
            arrival = self._jobs[upcoming].arrival_s if upcoming < count else np.inf
            if self._ends and self._ends[0][0] <= arrival:
                now, freed = self._ends[0][0], set[int]()
                self._advance(now)
                while self._ends and self._ends[0][0] <= now:
                    _, index = heappop(self._ends)
                    demand = self._jobs[index].demand
                    for pod in self._running.pop(index):
                        self._cluster.give(pod, demand)
                        freed.add(pod.row)
                    self._ended[index] = now
                    self._order.ended(self._jobs[index], now)
                    ended += 1
                self._try_all(freed)
                done(ended)
            else:
                self._advance(arrival)
                job = self._jobs[upcoming]
                place = (-self._order.arrived(job), job.arrival_s, upcoming)
                # Nothing has become free since the others were tried: what is like one that waits
                # does not fit.
                must_wait = bool(self._waiting) if self._strict else job.demand in self._waiting
                if must_wait or not self._start(upcoming):
                    heappush(self._waiting.setdefault(job.demand, []), place)
                upcoming += 1
        return Outcomes(self._began, self._ended, self._split_gpu_s)

    def _advance(self, now: float) -> None:
        free = self._cluster.free_gpus
        if free and any(0 < demand.gpus <= free for demand in self._waiting):
            self._split_gpu_s += free * (now - self._now)
        self._now = now

    def _try_all(self, freed: set[int]) -> None:
        """Try what waits, in order. What did not fit before needs one of the nodes that were freed."""
        heads = [
            (places[0], demand)
            for demand, places in self._waiting.items()
            if self._strict or any(self._cluster.fits_on(row, demand) for row in freed)
        ]
        order = [(place, number) for number, (place, _) in enumerate(heads)]
        heapify(order)
        while order:
            place, number = heappop(order)
            demand = heads[number][1]
            if not self._start(place[2]):
                if self._strict:
                    return
                continue  # nor does any other with this demand
            places = self._waiting[demand]
            heappop(places)
            if places:
                heappush(order, (places[0], number))
            else:
                del self._waiting[demand]

    def _start(self, index: int) -> bool:
        """Start all pods of a job, or none."""
        job, cluster = self._jobs[index], self._cluster
        demand = job.demand
        pods: list[RunningPod] = []
        ranks: dict[int, int] = {}
        for _ in range(demand.pods):
            rows = cluster.fitting(demand)
            if not len(rows):
                for pod in pods:
                    cluster.give(pod, demand)
                return False
            scores = self._scorer(cluster, rows, demand, ranks)
            best = rows[scores == scores.max()]
            row = int(best[self._chance.integers(len(best))] if len(best) > 1 else best[0])
            pods.append(cluster.take(row, demand))
            ranks[row] = ranks.get(row, 0) + 1
        self._running[index] = pods
        self._began[index] = self._now
        heappush(self._ends, (self._now + job.duration_s, index))
        return True

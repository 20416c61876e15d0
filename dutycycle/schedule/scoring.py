"""Scores which of the nodes that fit is taken: as kube-scheduler does, and with the scores of an extender."""

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from dutycycle.schedule.cluster import Cluster, Rows
from dutycycle.schedule.workload import WHOLE, Demand
from sinks.scheduling.core.node import Need, NodeGpu, NodeResources, Nodes
from sinks.scheduling.core.score import HIGHEST_EXTENDER_SCORE, score

Scores = NDArray[np.int64]
_EXTENDER_WEIGHT = 10
"""So that one step of the extender's score counts as much as all of LeastAllocated's range."""
_FREE, _TAKEN = NodeGpu(taken=False), NodeGpu(taken=True)


Scorer = Callable[[Cluster, Rows, Demand, Mapping[int, int]], Scores]
"""Scores nodes for one more pod of a demand; the mapping has the pods of the same job by node."""


def default_scores(cluster: Cluster, rows: Rows, demand: Demand, _: Mapping[int, int]) -> Scores:
    """Score by LeastAllocated of NodeResourcesFit, and BalancedAllocation: each 0 to 100, of CPU and memory.

    These are their resources by default: GPUs have no part in it. (kubernetes,
    pkg/scheduler/framework/plugins/ noderesources: least_allocated.go, balanced_allocation.go.)
    """
    cpu = _free_share(cluster.cpu[rows] - demand.cpu_cores, cluster.cpu_capacity[rows])
    mem = _free_share(cluster.mem[rows] - demand.mem_gib, cluster.mem_capacity[rows])
    least = (np.floor(100 * cpu) + np.floor(100 * mem)) // 2
    balanced = np.floor(100 * (1 - np.abs(cpu - mem) / 2))
    return np.asarray(least + balanced, dtype=np.int64)


def _free_share(free: NDArray[np.float64], capacity: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.clip(np.divide(free, capacity, out=np.zeros_like(free), where=capacity > 0), 0.0, 1.0)


class ExtenderScores:
    """Adds up the default's scores, and ours, which go from 0 to 10 in whole numbers, times ten and the
    weight.

    The simulation knows of a node which GPUs are free, and where the job's other ranks are. Nodes that are
    alike in this are scored once.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}

    def __call__(self, cluster: Cluster, rows: Rows, demand: Demand, ranks: Mapping[int, int]) -> Scores:
        shares = 0 < demand.gpu_milli < WHOLE
        wanted = 1 if shares else demand.gpu_milli // WHOLE
        ours = []
        for row in rows.tolist():
            gpus, whole, near = int(cluster.gpus[row]), int(cluster.whole[row]), ranks.get(row, 0)
            key = (gpus, whole, near, wanted, demand.pods, shares)
            if key not in self._known:
                taken = (_FREE,) * whole + (_TAKEN,) * (gpus - whole)
                node = NodeResources("", taken, ranks=near, near_ranks=near)
                need = Need(wanted, ranks=demand.pods, shares=shares)
                self._known[key] = score(Nodes.of([node]), need).at(0).extender_score
            ours.append(self._known[key])
        weight = _EXTENDER_WEIGHT * 100 // HIGHEST_EXTENDER_SCORE
        return default_scores(cluster, rows, demand, ranks) + weight * np.array(ours, dtype=np.int64)

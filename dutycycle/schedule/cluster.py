"""Keeps what is free on the nodes, as arrays with a row a node."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dutycycle.schedule.workload import WHOLE, Demand, TraceNode

Rows = NDArray[np.intp]
_HAIR = 1e-6
"""Of cores and GiB: sums of fractions are not exact."""


class RunningPod(NamedTuple):
    """Holds where a pod runs: its node's row, and its GPUs there."""

    row: int
    gpus: tuple[int, ...]


class Cluster:
    """Free GPUs in thousandths (``gpu_milli``: nodes by GPUs, -1 where a node has fewer), CPUs and memory."""

    def __init__(self, machines: Sequence[TraceNode]) -> None:
        widest = max((machine.gpus for machine in machines), default=0)
        self.gpu_milli = np.full((len(machines), max(widest, 1)), -1, dtype=np.int32)
        for row, machine in enumerate(machines):
            self.gpu_milli[row, : machine.gpus] = WHOLE
        self.gpus = np.array([machine.gpus for machine in machines], dtype=np.int64)
        self.whole = self.gpus.copy()
        self.most = self.gpu_milli.max(axis=1)
        self.cpu_capacity = np.array([machine.cpu_cores for machine in machines], dtype=float)
        self.mem_capacity = np.array([machine.mem_gib for machine in machines], dtype=float)
        self.cpu, self.mem = self.cpu_capacity.copy(), self.mem_capacity.copy()
        self.models = np.array([machine.model for machine in machines])
        self._of_models: dict[frozenset[str], NDArray[np.bool_]] = {}

    @property
    def free_gpus(self) -> int:
        """Return the number of GPUs that nobody has any part of."""
        return int(self.whole.sum())

    def fitting(self, demand: Demand) -> Rows:
        """Return the nodes where one more pod of ``demand`` fits."""
        fits = (self.cpu >= demand.cpu_cores - _HAIR) & (self.mem >= demand.mem_gib - _HAIR)
        if demand.gpu_milli >= WHOLE:
            fits &= self.whole >= demand.gpu_milli // WHOLE
        elif demand.gpu_milli:
            fits &= self.most >= demand.gpu_milli
        if demand.models:
            if demand.models not in self._of_models:
                self._of_models[demand.models] = np.isin(self.models, list(demand.models))
            fits &= self._of_models[demand.models]
        return np.flatnonzero(fits)

    def fits_on(self, row: int, demand: Demand) -> bool:
        """Tell whether one more pod of ``demand`` fits on one node."""
        if demand.gpu_milli >= WHOLE:
            if self.whole[row] * WHOLE < demand.gpu_milli:
                return False
        elif self.most[row] < demand.gpu_milli:
            return False
        if demand.models and self.models[row] not in demand.models:
            return False
        return bool(self.cpu[row] >= demand.cpu_cores - _HAIR and self.mem[row] >= demand.mem_gib - _HAIR)

    def take(self, row: int, demand: Demand) -> RunningPod:
        """Start a pod. A part of a GPU is taken from the one with the least left of those that suffice."""
        free = self.gpu_milli[row]
        if demand.gpu_milli >= WHOLE:
            gpus = tuple(np.flatnonzero(free == WHOLE)[: demand.gpu_milli // WHOLE].tolist())
        elif demand.gpu_milli:
            gpus = (int(np.argmin(np.where(free >= demand.gpu_milli, free, WHOLE + 1))),)
        else:
            gpus = ()
        self._change(RunningPod(row, gpus), demand, -1)
        return RunningPod(row, gpus)

    def give(self, pod: RunningPod, demand: Demand) -> None:
        """Give back what a pod had, which has ended."""
        self._change(pod, demand, 1)

    def _change(self, pod: RunningPod, demand: Demand, sign: int) -> None:
        row = pod.row
        if pod.gpus:
            each = min(demand.gpu_milli, WHOLE)
            self.gpu_milli[row, list(pod.gpus)] += sign * each
            self.whole[row] = np.count_nonzero(self.gpu_milli[row] == WHOLE)
            self.most[row] = self.gpu_milli[row].max()
        self.cpu[row] += sign * demand.cpu_cores
        self.mem[row] += sign * demand.mem_gib

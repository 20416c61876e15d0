"""Reads an ``nvml-samples`` record into columns: its GPUs, their MIG slices, and the pods that use them."""

from operator import attrgetter
from typing import Any

import numpy as np

from contract.records.samples import Gpu, NvmlSample
from streams.operators.columns.arrays import Floats
from streams.operators.columns.ownership import (
    USE_METRICS,
    Cell,
    Cells,
    UsePlan,
    cells_of,
    shape_of,
    use_plan,
)
from streams.operators.columns.series import GPU_METRICS, MIG_METRICS, POD_GPU_METRICS, Series, TallySeries
from streams.operators.columns.tick import Tick, make_layout

_MEMORY = POD_GPU_METRICS.index("gpu_mem_used_bytes")
_cells_of_gpu = attrgetter(*GPU_METRICS)
_cells_of_slice = attrgetter(*MIG_METRICS)
_POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})
_HEAT = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
"""What holds clocks down, by NVML's names as ``nvml-samples`` have them."""


class NvmlReader:
    """Keeps the layout, and who uses what, from tick to tick: so an unchanged node costs no look-up."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._shape: Any = None
        self._plan = UsePlan()
        self._layout = make_layout((), ())

    def read(self, sample: NvmlSample) -> Tick:
        """The tick in columns."""
        gpus = sample.gpus
        if (shape := shape_of(gpus)) != self._shape:
            self._shape = shape
            self._lay_out(gpus)
        cells = cells_of(gpus)
        uses = self._plan.uses(cells)
        of_pods = self._plan.of_pods(uses).values()
        values: Cells = []
        for gpu in gpus:
            values += _cells_of_gpu(gpu)
        for gpu in gpus:
            for slice_ in gpu.mig or ():
                values += _cells_of_slice(slice_)
        tallies: Cells = [use[_MEMORY] for use in of_pods]
        for use in uses:
            tallies += use
        for use in of_pods:
            values += use
        tallied = np.array(tallies, np.float64)
        return Tick(
            sample.collector, sample.seq, sample.ts_ms, sample.interval_ms,
            self._layout, np.array(values, np.float64), tallied, self._highs(gpus, cells, uses, tallied),
            _facts(gpus), self._bursts(gpus),
        )  # fmt: skip

    def _lay_out(self, gpus: tuple[Gpu, ...]) -> None:
        self._plan = use_plan(self._node, gpus)
        slices = [slice_.uuid for gpu in gpus for slice_ in gpu.mig or ()]
        series = [Series("gpu", gpu.uuid, metric) for gpu in gpus for metric in GPU_METRICS]
        series += [Series("gpu", uuid, metric) for uuid in slices for metric in MIG_METRICS]
        series += [Series("pod", uid, metric) for uid in self._plan.pods for metric in POD_GPU_METRICS]
        tallies = [TallySeries(uid, "", POD_GPU_METRICS[_MEMORY]) for uid in self._plan.pods]
        tallies += [
            TallySeries(uid, scope, metric) for uid, scope in self._plan.sources for metric in USE_METRICS
        ]
        scopes = tuple(f"{self._node}/{gpu.index}" for gpu in gpus)
        self._layout = make_layout(series, tallies, self._plan.attribution, scopes)

    def _highs(self, gpus: tuple[Gpu, ...], cells: Cells, uses: list[Cells], tallied: Floats) -> Floats:
        """``tallied`` with utilization lifted to the highest of a moment."""
        if not self._plan.sliced and not any(gpu.util_burst for gpu in gpus):
            return tallied
        bursts = [max(value for _, value in gpu.util_burst) if gpu.util_burst else None for gpu in gpus]
        highs = self._plan.highs(cells, uses, bursts)
        lifted = tallied.copy()
        lifted[len(self._plan.pods) :: len(USE_METRICS)] = np.array(highs, np.float64)
        return lifted

    def _bursts(self, gpus: tuple[Gpu, ...]) -> tuple[tuple[Series, Any], ...]:
        """The driver's samples of each GPU, and of each pod that has one to itself (of its first)."""
        found: list[tuple[Series, Any]] = []
        for gpu in gpus:
            if gpu.util_burst:
                found.append((Series("gpu", gpu.uuid, "gpu_util_pct"), gpu.util_burst))
            if gpu.power_burst:
                found.append((Series("gpu", gpu.uuid, "power_w"), gpu.power_burst))
        if found:
            first = {uid: burst for (uid, _), gpu in self._plan.alone() if (burst := gpus[gpu].util_burst)}
            found += [(Series("pod", uid, "gpu_util_pct"), burst) for uid, burst in first.items()]
        return tuple(found)


def _facts(gpus: tuple[Gpu, ...]) -> Floats:
    """See ``Tick.facts``."""
    cells: list[Cell] = []
    for gpu in gpus:
        reasons = gpu.throttle
        cells += gpu.power_limit_w, _held_down(reasons, _POWER), _held_down(reasons, _HEAT)
    return np.array(cells, np.float64)


def _held_down(reasons: tuple[str, ...] | None, by: frozenset[str]) -> Cell:
    """100 where one of the reasons holds the clocks down, else 0; None where they are unknown."""
    return None if reasons is None else 0.0 if by.isdisjoint(reasons) else 100.0

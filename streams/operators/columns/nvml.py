"""Reads an ``nvml-samples`` record into columns: its GPUs, their MIG slices, and the pods that use them."""

from operator import attrgetter
from typing import Any

import numpy as np

from contract.records.samples import Gpu, NvmlSample
from streams.operators.columns.arrays import Floats
from streams.operators.columns.ownership import USE_METRICS, Cell, Place, PodUse, pod_use
from streams.operators.columns.series import GPU_METRICS, MIG_METRICS, POD_GPU_METRICS, Series, TallySeries
from streams.operators.columns.tick import Layout, Tick, make_layout

_MEMORY = POD_GPU_METRICS.index("gpu_mem_used_bytes")
_cells_of_gpu = attrgetter(*GPU_METRICS)
_cells_of_slice = attrgetter(*MIG_METRICS)
_POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})
_HEAT = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
"""What holds clocks down, by NVML's names as ``nvml-samples`` have them."""


class NvmlReader:
    """Keeps the layout from tick to tick, so that an unchanged node costs no look-up."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._names: Any = None
        self._layout = make_layout((), ())

    def read(self, sample: NvmlSample) -> Tick:
        """The tick in columns."""
        gpus = sample.gpus
        slices = [slice_ for gpu in gpus for slice_ in gpu.mig or ()]
        found = pod_use(self._node, gpus)
        pods = found.of_pods()
        cells: list[Cell] = [cell for gpu in gpus for cell in _cells_of_gpu(gpu)]
        cells += [cell for slice_ in slices for cell in _cells_of_slice(slice_)]
        of_pods = [cell for use in pods.values() for cell in use]
        layout = self._layout_of(gpus, tuple(slice_.uuid for slice_ in slices), tuple(pods), found)
        memory = [use[_MEMORY] for use in pods.values()]
        tallies = np.array([*memory, *(cell for use in found.use.values() for cell in use)], np.float64)
        return Tick(
            sample.collector, sample.seq, sample.ts_ms, sample.interval_ms,
            layout, np.array(cells + of_pods, np.float64), tallies, _highs(tallies, layout, found.highs),
            _facts(gpus), self._bursts(gpus, found.highs),
        )  # fmt: skip

    def _layout_of(
        self, gpus: tuple[Gpu, ...], slices: tuple[str, ...], pods: tuple[str, ...], found: PodUse
    ) -> Layout:
        scopes = tuple(f"{self._node}/{gpu.index}" for gpu in gpus)
        uuids = tuple(gpu.uuid for gpu in gpus)
        names = (uuids, slices, pods, tuple(found.use), found.attribution, scopes)
        if names != self._names:
            self._names = names
            series = [Series("gpu", uuid, metric) for uuid in uuids for metric in GPU_METRICS]
            series += [Series("gpu", uuid, metric) for uuid in slices for metric in MIG_METRICS]
            series += [Series("pod", uid, metric) for uid in pods for metric in POD_GPU_METRICS]
            tallies = [TallySeries(uid, "", POD_GPU_METRICS[_MEMORY]) for uid in pods]
            tallies += [TallySeries(uid, scope, metric) for uid, scope in found.use for metric in USE_METRICS]
            self._layout = make_layout(series, tallies, found.attribution, scopes)
        return self._layout

    def _bursts(self, gpus: tuple[Gpu, ...], highs: dict[Place, float]) -> tuple[tuple[Series, Any], ...]:
        """The driver's samples of each GPU, and of each pod that has one to itself (of its first)."""
        found = [
            (Series("gpu", gpu.uuid, metric), burst)
            for gpu in gpus
            for metric, burst in (("gpu_util_pct", gpu.util_burst), ("power_w", gpu.power_burst))
            if burst
        ]
        if highs:
            of = {f"{self._node}/{gpu.index}": gpu.util_burst for gpu in gpus}
            first = dict(sorted(highs, reverse=True))
            pods = ((uid, of[scope]) for uid, scope in first.items())
            found += [(Series("pod", uid, "gpu_util_pct"), burst) for uid, burst in pods if burst]
        return tuple(found)


def _highs(tallies: Floats, layout: Layout, highs: dict[Place, float]) -> Floats:
    """Utilization lifted to ``PodUse.highs``."""
    if not highs:
        return tallies
    lifted = tallies.copy()
    for column, one in enumerate(layout.tallies):
        if one.metric == "gpu_util_pct":
            lifted[column] = np.fmax(lifted[column], highs.get((one.pod_uid, one.scope), np.nan))
    return lifted


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

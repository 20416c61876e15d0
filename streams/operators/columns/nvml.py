"""Reads an ``nvml-samples`` record into columns: its GPUs, their MIG slices, and the pods that use them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from contract.records.attribution import ALLOCATED, MEASURED, UNKNOWN, less_sure
from contract.records.samples import Allocation, Gpu, GpuProcess, NvmlSample
from streams.operators.columns.arrays import Floats
from streams.operators.columns.ownership import holders
from streams.operators.columns.series import GPU_METRICS, MIG_METRICS, POD_GPU_METRICS, Series, TallySeries
from streams.operators.columns.tick import Layout, Tick, make_layout, numbers

_PROCESS_METRICS = ("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes")
_of_gpu = attrgetter(*GPU_METRICS)
_of_slice = attrgetter(*MIG_METRICS)
_of_process = attrgetter(*_PROCESS_METRICS)
_FULL_PCT = 100.0
_POWER = frozenset({"sw_power_cap", "hw_power_brake_slowdown"})
_HEAT = frozenset({"sw_thermal_slowdown", "hw_thermal_slowdown"})
"""Names of what holds clocks down, as ``collectors.throttle`` has them."""

Cell = float | None
Cells = dict[tuple[str, str], tuple[Cell, Cell, Cell]]
"""By (pod uid, scope): utilization, memory controller's utilization, memory used."""
Origins = dict[tuple[str, str], str]
"""By (pod uid, scope): see ``contract.records.attribution``."""


class NvmlReader:
    """Keeps the layout from tick to tick, so that an unchanged node costs no look-up."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._names: Any = None
        self._layout = make_layout((), ())

    def read(self, sample: NvmlSample) -> Tick:
        """The tick in columns."""
        gpus = sample.gpus
        cells: list[Cell] = []
        for gpu in gpus:
            cells += _of_gpu(gpu)
        for gpu in gpus:
            for slice_ in gpu.mig or ():
                cells += _of_slice(slice_)
        use, highs, origins = self._pods(gpus)
        pods = _whole_pods(use)
        for pod in pods.values():
            cells += pod
        layout = self._laid_out(gpus, pods, use, origins)
        tallies = numbers([cell for group in (pods, use) for three in group.values() for cell in three])
        return Tick(
            sample.collector, sample.seq, sample.ts_ms, sample.interval_ms,
            layout, numbers(cells), tallies, _raised(tallies, layout, highs), _facts(gpus),
            bursts=self._bursts(gpus, highs),
        )  # fmt: skip

    def _pods(self, gpus: tuple[Gpu, ...]) -> tuple[Cells, dict[tuple[str, str], float], Origins]:
        use: Cells = {}
        highs: dict[tuple[str, str], float] = {}
        origins: Origins = {}
        for gpu in gpus:
            scope = f"{self._node}/{gpu.index}"
            owned, users = _by_pod(gpu.processes or ())
            for pod_uid, mine in owned.items():
                alone = len(users) == 1
                use[pod_uid, scope] = _on_gpu(mine, gpu if alone else None)
                origins[pod_uid, scope] = MEASURED
                if alone and gpu.util_burst:
                    highs[pod_uid, scope] = max(value for _, value in gpu.util_burst)
                for process in mine:
                    use[pod_uid, f"{scope}/{process.pid}"] = _of_process(process)
            if gpu.allocated:
                given, words = _given(gpu, gpu.allocated, owned, scope)
                use |= given
                origins |= words
                if gpu.util_burst and not gpu.mig:
                    highs |= dict.fromkeys(given, max(value for _, value in gpu.util_burst))
        return use, highs, origins

    def _bursts(self, gpus: tuple[Gpu, ...], alone: Iterable[tuple[str, str]]) -> tuple[Any, ...]:
        """The driver's samples of each GPU, and of each pod that has one to itself (of its first)."""
        found = [
            (Series("gpu", gpu.uuid, metric), burst)
            for gpu in gpus
            for metric, burst in (("gpu_util_pct", gpu.util_burst), ("power_w", gpu.power_burst))
            if burst
        ]
        if found:
            of = {f"{self._node}/{gpu.index}": gpu.util_burst for gpu in gpus}
            first = dict(sorted(alone, reverse=True))
            pods = ((uid, of[scope]) for uid, scope in first.items())
            found += [(Series("pod", uid, "gpu_util_pct"), burst) for uid, burst in pods if burst]
        return tuple(found)

    def _laid_out(self, gpus: tuple[Gpu, ...], pods: Any, use: Cells, origins: Origins) -> Layout:
        migs = tuple(slice_.uuid for gpu in gpus for slice_ in gpu.mig or ())
        scopes = tuple(f"{self._node}/{gpu.index}" for gpu in gpus)
        names = (tuple(gpu.uuid for gpu in gpus), migs, tuple(pods), tuple(use), origins, scopes)
        if names != self._names:
            self._names = names
            self._layout = _layout(*names)
        return self._layout


def _given(
    gpu: Gpu, allocated: tuple[Allocation, ...], owned: Mapping[str, Any], scope: str
) -> tuple[Cells, Origins]:
    """What a GPU's pods that were given it, and have no known process there, can be said to use."""
    by_pod: dict[str, list[tuple[Cell, Cell, Cell]]] = defaultdict(list)
    origins: Origins = {}
    for one in holders(allocated):
        if one.pod_uid in owned:
            continue
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        cells = None if not one.alone or (owned and one.mig is None) else _of_device(gpu, one.mig)
        word = UNKNOWN if cells is None else ALLOCATED
        origins[one.pod_uid, scope] = less_sure(origins.get((one.pod_uid, scope)), word)
        if cells is not None:
            by_pod[one.pod_uid].append(cells)
    return {(pod_uid, scope): _merged(cells) for pod_uid, cells in by_pod.items()}, origins


def _of_device(gpu: Gpu, mig: str | None) -> tuple[Cell, Cell, Cell] | None:
    """What is measured of the whole GPU, or of its slice ``mig``; None for a slice that is not there."""
    if mig is None:
        return gpu.gpu_util_pct, gpu.mem_copy_util_pct, gpu.mem_used_bytes
    slices = (one for one in gpu.mig or () if one.uuid == mig)
    return next(((one.gpu_util_pct, None, one.mem_used_bytes) for one in slices), None)


def _by_pod(processes: Iterable[GpuProcess]) -> tuple[dict[str, list[GpuProcess]], set[str | None]]:
    owned: dict[str, list[GpuProcess]] = defaultdict(list)
    users: set[str | None] = set()
    for process in processes:
        users.add(process.pod_uid)
        if process.pod_uid is not None:
            owned[process.pod_uid].append(process)
    return owned, users


def _on_gpu(mine: list[GpuProcess], device: Gpu | None) -> tuple[Cell, Cell, Cell]:
    """One pod on one GPU; what its processes cannot tell, the device tells when the pod is alone on it."""
    util, copy = (
        getattr(device, metric, None) if (total := _sum(mine, metric)) is None else min(total, _FULL_PCT)
        for metric in ("gpu_util_pct", "mem_copy_util_pct")
    )
    return util, copy, _sum(mine, "mem_used_bytes")


def _sum(mine: list[GpuProcess], metric: str) -> Cell:
    known = [value for process in mine if (value := getattr(process, metric)) is not None]
    return sum(known) if known else None


def _whole_pods(use: Cells) -> dict[str, tuple[Cell, Cell, Cell]]:
    """Each pod over its GPUs: the busiest GPU's percent, the sum of memory."""
    by_pod: dict[str, list[tuple[Cell, Cell, Cell]]] = defaultdict(list)
    for (pod_uid, scope), cells in use.items():
        if scope.count("/") == 1:
            by_pod[pod_uid].append(cells)
    return {pod_uid: _merged(cells) for pod_uid, cells in by_pod.items()}


def _merged(cells: list[tuple[Cell, Cell, Cell]]) -> tuple[Cell, Cell, Cell]:
    utils, copies, memories = (
        [cell for cell in column if cell is not None] for column in zip(*cells, strict=True)
    )
    return max(utils, default=None), max(copies, default=None), sum(memories) if memories else None


def _raised(tallies: Any, layout: Layout, highs: dict[tuple[str, str], float]) -> Any:
    """Utilization lifted to the highest burst of a pod that has its GPU alone."""
    if not highs:
        return tallies
    raised = tallies.copy()
    for column, one in enumerate(layout.tallies):
        if one.metric == "gpu_util_pct" and one.scope.count("/") <= 1:
            spans = [
                high
                for (uid, scope), high in highs.items()
                if uid == one.pod_uid and one.scope in ("", scope)
            ]
            raised[column] = np.fmax(raised[column], max(spans, default=np.nan))
    return raised


def _facts(gpus: tuple[Gpu, ...]) -> Floats:
    cells: list[Cell] = []
    for gpu in gpus:
        cells += gpu.power_limit_w, *_held_down(gpu.throttle)
    return numbers(cells)


def _held_down(throttle: tuple[str, ...] | None) -> tuple[Cell, Cell]:
    """Whether power and heat hold the clocks down: 0 or 100, absent where that is unknown."""
    if throttle is None:
        return None, None
    if not throttle:
        return 0.0, 0.0
    return (0.0 if _POWER.isdisjoint(throttle) else 100.0), (0.0 if _HEAT.isdisjoint(throttle) else 100.0)


def _layout(gpus: Any, migs: Any, pods: Any, use: Any, origins: Origins, scopes: Any) -> Layout:
    series = [Series("gpu", uuid, metric) for uuid in gpus for metric in GPU_METRICS]
    series += [Series("gpu", uuid, metric) for uuid in migs for metric in MIG_METRICS]
    series += [Series("pod", uid, metric) for uid in pods for metric in POD_GPU_METRICS]
    tallies = [TallySeries(uid, "", metric) for uid in pods for metric in POD_GPU_METRICS]
    tallies += [TallySeries(uid, scope, metric) for uid, scope in use for metric in _PROCESS_METRICS]
    return make_layout(series, tallies, origins, scopes)

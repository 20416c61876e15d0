"""Reads an ``nvml-samples`` record into columns: its GPUs, their MIG slices, and the pods that use them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from contract.codec import check
from contract.records.attribution import ALLOCATED, MEASURED, UNKNOWN, less_sure
from contract.units import Count, NodeName, Uid
from streams.operators.columns.arrays import Floats
from streams.operators.columns.ownership import holders
from streams.operators.columns.series import GPU_METRICS, MIG_METRICS, POD_GPU_METRICS, Series, TallySeries
from streams.operators.columns.tick import Layout, Tick, check_header, explained, make_layout, numbers

TOPIC = "nvml-samples"
_PROCESS_METRICS = ("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes")
_FULL_PCT = 100.0
_BURSTS = (("gpu_util_pct", "util_burst"), ("power_w", "power_burst"))
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

    def read(self, plain: dict[str, Any]) -> Tick:
        """The tick in columns. Raises ``DecodeError`` that names the field."""
        return explained(self._read, plain, TOPIC)

    def _read(self, plain: dict[str, Any]) -> Tick:
        check_header(plain, "gpus")
        gpus = plain["gpus"]
        cells: list[Any] = []
        for gpu in gpus:
            cells += map(gpu.get, GPU_METRICS)
        for gpu in gpus:
            for slice_ in gpu.get("mig") or ():
                cells += map(slice_.get, MIG_METRICS)
        use, highs, origins = self._pods(gpus)
        pods = _whole_pods(use)
        for pod in pods.values():
            cells += pod
        layout = self._laid_out(plain, pods, use, origins)
        tallies = numbers([cell for group in (pods, use) for three in group.values() for cell in three])
        return Tick(
            plain["collector"], plain["seq"], plain["ts_ms"], plain["interval_ms"],
            layout, numbers(cells), tallies, _raised(tallies, layout, highs), _facts(gpus),
            bursts=self._bursts(gpus, highs),
        ).check()  # fmt: skip

    def _pods(self, gpus: list[dict[str, Any]]) -> tuple[Cells, dict[tuple[str, str], float], Origins]:
        use: Cells = {}
        highs: dict[tuple[str, str], float] = {}
        origins: Origins = {}
        for gpu in gpus:
            scope = f"{self._node}/{gpu['index']}"
            owned, users = _by_pod(gpu.get("processes") or ())
            for pod_uid, mine in owned.items():
                alone = len(users) == 1
                use[pod_uid, scope] = _on_gpu(mine, gpu if alone else {})
                origins[pod_uid, scope] = MEASURED
                if alone and gpu.get("util_burst"):
                    highs[pod_uid, scope] = max(value for _, value in gpu["util_burst"])
                for process in mine:
                    cells = (process.get(metric) for metric in _PROCESS_METRICS)
                    use[pod_uid, f"{scope}/{process['pid']}"] = tuple(cells)  # type: ignore[assignment]  # three
            if allocated := gpu.get("allocated"):
                given, words = _given(gpu, allocated, owned, scope)
                use |= given
                origins |= words
                if gpu.get("util_burst") and not gpu.get("mig"):
                    highs |= dict.fromkeys(given, max(value for _, value in gpu["util_burst"]))
        return use, highs, origins

    def _bursts(self, gpus: list[dict[str, Any]], alone: Iterable[tuple[str, str]]) -> tuple[Any, ...]:
        """The driver's samples of each GPU, and of each pod that has one to itself (of its first)."""
        found = [
            (Series("gpu", gpu["uuid"], metric), burst)
            for gpu in gpus
            for metric, name in _BURSTS
            if (burst := gpu.get(name))
        ]
        if found:
            of = {f"{self._node}/{gpu['index']}": gpu.get("util_burst") for gpu in gpus}
            first = dict(sorted(alone, reverse=True))
            found += [(Series("pod", uid, "gpu_util_pct"), of[scope]) for uid, scope in first.items()]
        return tuple(found)

    def _laid_out(self, plain: dict[str, Any], pods: Any, use: Cells, origins: Origins) -> Layout:
        gpus = plain["gpus"]
        migs = tuple(s["uuid"] for gpu in gpus for s in gpu.get("mig") or ())
        scopes = tuple(f"{self._node}/{gpu['index']}" for gpu in gpus)
        names = (tuple(gpu["uuid"] for gpu in gpus), migs, tuple(pods), tuple(use), origins, scopes)
        if names != self._names:
            _check_names(plain)  # once: equal names are as good
            self._names = names
            self._layout = _layout(*names)
        return self._layout


def _given(
    gpu: dict[str, Any], allocated: list[dict[str, Any]], owned: Mapping[str, Any], scope: str
) -> tuple[Cells, Origins]:
    """What a GPU's pods that were given it, and have no known process there, can be said to use."""
    by_pod: dict[str, list[tuple[Cell, Cell, Cell]]] = defaultdict(list)
    origins: Origins = {}
    for one in holders(allocated):
        if one.pod_uid in owned:
            continue
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        device = None if not one.alone or (owned and one.mig is None) else _device(gpu, one.mig)
        word = UNKNOWN if device is None else ALLOCATED
        origins[one.pod_uid, scope] = less_sure(origins.get((one.pod_uid, scope)), word)
        if device is not None:
            cells = (device.get(metric) for metric in _PROCESS_METRICS)
            by_pod[one.pod_uid].append(tuple(cells))  # type: ignore[arg-type]  # three
    return {(pod_uid, scope): _merged(cells) for pod_uid, cells in by_pod.items()}, origins


def _device(gpu: dict[str, Any], mig: str | None) -> dict[str, Any] | None:
    if mig is None:
        return gpu
    return next((slice_ for slice_ in gpu.get("mig") or () if slice_["uuid"] == mig), None)


def _check_names(plain: dict[str, Any]) -> None:
    """Raise ``ValueError`` for a name that a record must not have; what is not used here is not checked."""
    check(NodeName, plain["node"])
    for gpu in plain["gpus"]:
        check(Uid, gpu["uuid"])
        check(Count, gpu["index"])
        for slice_ in gpu.get("mig") or ():
            check(Uid, slice_["uuid"])
        for process in gpu.get("processes") or ():
            check(Count, process["pid"])
            if process.get("pod_uid") is not None:
                check(Uid, process["pod_uid"])
        for allocation in gpu.get("allocated") or ():
            if allocation.get("pod_uid") is not None:
                check(Uid, allocation["pod_uid"])


def _by_pod(processes: Iterable[dict[str, Any]]) -> tuple[dict[str, list[dict[str, Any]]], set[str | None]]:
    owned: dict[str, list[dict[str, Any]]] = defaultdict(list)
    users: set[str | None] = set()
    for process in processes:
        pod_uid = process.get("pod_uid")
        users.add(pod_uid)
        if pod_uid is not None:
            owned[pod_uid].append(process)
    return owned, users


def _on_gpu(mine: list[dict[str, Any]], device: dict[str, Any]) -> tuple[Cell, Cell, Cell]:
    """One pod on one GPU; what its processes cannot tell, the device tells when the pod is alone on it."""
    util, copy = (
        device.get(metric) if (total := _sum(mine, metric)) is None else min(total, _FULL_PCT)
        for metric in ("gpu_util_pct", "mem_copy_util_pct")
    )
    return util, copy, _sum(mine, "mem_used_bytes")


def _sum(mine: list[dict[str, Any]], metric: str) -> Cell:
    if len(mine) == 1:
        return mine[0].get(metric)
    known = [value for process in mine if (value := process.get(metric)) is not None]
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


def _facts(gpus: list[dict[str, Any]]) -> Floats:
    cells: list[Any] = []
    for gpu in gpus:
        cells.append(gpu.get("power_limit_w"))
        cells += _held_down(gpu.get("throttle"))
    return numbers(cells)


def _held_down(throttle: Any) -> tuple[Cell, Cell]:
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

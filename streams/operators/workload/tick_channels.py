"""From the ticks of a node to the channels of its pods: one class for each source.

A tick is reduced to a row of the numbers that are needed, and the rows of a span become channels at its end.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from contract.records.attribution import UNKNOWN
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import POD_CGROUP_METRICS, POD_GPU_METRICS, Series, remapped
from streams.operators.columns.tick import Layout, Tick
from streams.operators.rounding import tidy
from streams.operators.workload.channels import IDLE_PCT

_GPU_METRICS = ("gpu_util_pct", "power_w", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "mem_total_bytes")
# The columns of one GPU: its metrics, then the tick's facts about it.
_UTIL, _POWER, _RX, _TX, _MEMORY, _POWER_LIMIT, _POWER_CAPPED, _HEAT_CAPPED = range(8)
_METRICS, _FACTS, _COLUMNS = 5, 3, 8
_LIMIT = POD_CGROUP_METRICS.index("mem_limit_bytes")
_KILO, _MEGA = 1e3, 1e6


@dataclass(frozen=True, slots=True)
class RowPlan:
    """What a row holds: the pods, and for each the GPUs that it holds.

    ``alone``: of each pod, the places (0 to ``gpus`` - 1) of the GPUs that no other pod uses. ``held``: of
    each pod, how many GPUs it holds in all. ``gpus``: how many GPUs the row has.
    """

    uids: tuple[str, ...]
    alone: tuple[tuple[int, ...], ...] = ()
    held: tuple[int, ...] = ()
    gpus: int = 0


class TickChannels(ABC):
    """Turns ticks of one source into channels."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._plan = RowPlan(())
        self._columns: Ints = np.zeros(0, np.int64)

    def plan(self, tick: Tick) -> RowPlan:
        """What ``row`` holds of this tick: the same object as long as the layout is the same."""
        if tick.layout is not self._layout:
            self._layout = tick.layout
            self._plan, series = self._plan_of(tick.layout)
            self._columns = remapped(tick.layout.series, series)
        return self._plan

    def row(self, tick: Tick) -> Floats:
        """The numbers that are needed of a tick whose ``plan`` was just asked for, shape (numbers,)."""
        return np.concatenate((tick.values[self._columns], tick.facts))

    @abstractmethod
    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        """The plan of a layout's rows, and the series that a row begins with; the tick's facts follow
        them."""

    @abstractmethod
    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """The source's channels, shape (ticks, pods, channels), of rows of shape (ticks, numbers)."""

    @abstractmethod
    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """Of each pod the fields of ``InsightPart`` that are no channels, as of the newest row."""


class NvmlTickChannels(TickChannels):
    """``nvml-samples``: pods on GPUs."""

    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        uids = _pods_of(layout)
        uuids = [one.member for one in layout.series if one.kind == "gpu" and one.metric == "power_w"]
        series = [Series("pod", uid, metric) for uid in uids for metric in POD_GPU_METRICS]
        series += [Series("gpu", uuid, metric) for uuid in uuids for metric in _GPU_METRICS]
        holders: dict[str, list[str]] = {}
        for uid, scope in layout.attribution:
            holders.setdefault(scope, []).append(uid)
        alone = tuple(
            tuple(
                place
                for place, scope in enumerate(layout.gpus)
                if holders.get(scope) == [uid] and layout.attribution[uid, scope] != UNKNOWN
            )
            for uid in uids
        )
        held = tuple(sum(uid in of for of in holders.values()) for uid in uids)
        return RowPlan(uids, alone, held, len(uuids)), series

    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """See ``TickChannels``."""
        pods = len(plan.uids)
        of_pods, of_gpus = self._split(plan, rows)
        util, copy, memory, busiest = np.moveaxis(of_pods.reshape(len(rows), pods, -1), 2, 0)
        gpus = self._gpus_alone(plan, of_gpus)
        known = ~np.isnan(gpus)
        total = np.where(known.any(axis=2), np.where(known, gpus, 0).sum(axis=2), np.nan)
        mean = total / np.maximum(known.sum(axis=2), 1)
        busy, busy_known = gpus[..., _UTIL], known[..., _UTIL]
        idle = np.where(busy_known.any(axis=2), (busy < IDLE_PCT).sum(axis=2), np.nan)
        least = np.where(busy_known, busy, np.inf).min(axis=2, initial=np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            memory_pct = 100 * memory / _positive(total[..., _MEMORY])
            power_pct = 100 * total[..., _POWER] / _positive(total[..., _POWER_LIMIT])
        return np.stack([
            util, copy, np.minimum(memory_pct, 100), power_pct, total[..., _POWER],
            np.minimum(mean[..., _RX], mean[..., _TX]) / _KILO,
            mean[..., _POWER_CAPPED], mean[..., _HEAT_CAPPED],
            idle, np.where(np.isfinite(least), least, np.nan), busiest,
        ], axis=2)  # fmt: skip

    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """See ``TickChannels``: the GPUs that it holds, and the memory of those that it holds alone."""
        memory = self._gpus_alone(plan, self._split(plan, rows[-1:])[1])[0, :, :, _MEMORY]
        known = ~np.isnan(memory)
        totals, counts = np.where(known, memory, 0).sum(axis=1).tolist(), known.sum(axis=1).tolist()
        return [
            {"gpus": held} | ({"gpu_mem_total_bytes": tidy(total)} if count else {})
            for held, total, count in zip(plan.held, totals, counts, strict=True)
        ]

    def _split(self, plan: RowPlan, rows: Floats) -> tuple[Floats, Floats]:
        """The rows' numbers of pods, and those of GPUs."""
        width = len(POD_GPU_METRICS) * len(plan.uids)
        return rows[:, :width], rows[:, width:]

    def _gpus_alone(self, plan: RowPlan, of_gpus: Floats) -> Floats:
        """Of each pod the GPUs that it holds alone, shape (ticks, pods, most GPUs of one pod, ``_COLUMNS``);
        a pod with fewer GPUs is filled up with NaN."""
        ticks, width = len(of_gpus), _METRICS * plan.gpus
        every = np.full((ticks, plan.gpus + 1, _COLUMNS), np.nan)  # the last one is nobody's
        every[:, :-1, :_METRICS] = of_gpus[:, :width].reshape(ticks, plan.gpus, _METRICS)
        every[:, :-1, _METRICS:] = of_gpus[:, width:].reshape(ticks, plan.gpus, _FACTS)
        most = max((len(of) for of in plan.alone), default=0) or 1
        places = np.full((len(plan.uids), most), plan.gpus)
        for pod, of in enumerate(plan.alone):
            places[pod, : len(of)] = of
        return np.asarray(every[:, places])


class CgroupTickChannels(TickChannels):
    """``cgroup-samples``: all pods of the node. The source does not know which of them have GPUs."""

    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        uids = _pods_of(layout)
        return RowPlan(uids), [Series("pod", uid, metric) for uid in uids for metric in POD_CGROUP_METRICS]

    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """See ``TickChannels``."""
        cpu, throttled, memory, limit, read, write, rx, tx = np.moveaxis(self._of_pods(plan, rows), 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 100 * memory / _positive(limit)
        return np.stack([
            cpu, throttled, read / _KILO, write / _KILO, rx / _KILO, tx / _KILO,
            np.minimum(share, 100), memory / _MEGA, np.broadcast_to(rows[:, -1:], cpu.shape),
        ], axis=2)  # fmt: skip

    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """See ``TickChannels``: its limit of host memory, if there is one."""
        limits: list[float] = self._of_pods(plan, rows[-1:])[0, :, _LIMIT].tolist()
        return [{} if isnan(limit) else {"mem_limit_bytes": tidy(limit)} for limit in limits]

    def _of_pods(self, plan: RowPlan, rows: Floats) -> Floats:
        """Shape (ticks, pods, ``POD_CGROUP_METRICS``): all but the last number, which is of the host."""
        return rows[:, :-1].reshape(len(rows), len(plan.uids), -1)


def _pods_of(layout: Layout) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.member for one in layout.series if one.kind == "pod"))


def _positive(values: Floats) -> Floats:
    """The values to divide by: NaN for what is 0 or absent."""
    return np.where(values > 0, values, np.nan)

"""Which of a tick's columns insights need, and what channels they become: one picker for each source."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from contract.records.attribution import UNKNOWN
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import POD_CGROUP_METRICS, POD_GPU_METRICS, Series, remapped
from streams.operators.columns.tick import Layout, Tick

IDLE_PCT = 5.0
"""A GPU that is busy for less of the time is idle."""
_GPU = ("gpu_util_pct", "power_w", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "mem_total_bytes")
_FACTS = 3
_WIDTH = len(_GPU) + _FACTS
_KILO, _MEGA = 1e3, 1e6


@dataclass(frozen=True, slots=True)
class Plan:
    """What a row of picked numbers holds: ``uids`` of the pods; of each the places of the GPUs that it holds
    alone, among ``gpus``, and how many it holds in all. Plain data but for its type."""

    uids: tuple[str, ...]
    alone: tuple[tuple[int, ...], ...] = ()
    held: tuple[int, ...] = ()
    gpus: int = 0


class Picker(Protocol):
    """Picks what is needed from ticks of one source."""

    def plan(self, tick: Tick) -> Plan:
        """What ``row`` gives of this tick; the same object as long as the layout is."""
        ...

    def row(self, tick: Tick) -> Floats:
        """The numbers that are needed, of a tick of the planned layout."""
        ...

    def channels(self, plan: Plan, rows: Floats) -> Floats:
        """Channels of every pod, shape (ticks, pods, channels), from (ticks, picked)."""
        ...


class _LayoutPicker(ABC):
    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._plan = Plan(())
        self._columns: Ints = np.zeros(0, np.int64)

    def plan(self, tick: Tick) -> Plan:
        """See ``Picker``."""
        if tick.layout is not self._layout:
            self._layout = tick.layout
            self._plan, wanted = self._planned(tick.layout)
            self._columns = remapped(tick.layout.series, wanted)
        return self._plan

    @abstractmethod
    def _planned(self, layout: Layout) -> tuple[Plan, list[Series]]:
        """The plan of ticks of a layout, and the series that ``row`` picks for it."""

    def row(self, tick: Tick) -> Floats:
        """See ``Picker``."""
        return np.concatenate((tick.values[self._columns], tick.facts))


class GpuPicker(_LayoutPicker):
    """Pods on GPUs."""

    def _planned(self, layout: Layout) -> tuple[Plan, list[Series]]:
        uids = _members(layout, "pod")
        uuids = [one.member for one in layout.series if one.kind == "gpu" and one.metric == "power_w"]
        wanted = [Series("pod", uid, metric) for uid in uids for metric in POD_GPU_METRICS]
        wanted += [Series("gpu", uuid, metric) for uuid in uuids for metric in _GPU]
        holders: dict[str, list[str]] = {}
        for uid, scope in layout.origins:
            holders.setdefault(scope, []).append(uid)
        alone = tuple(
            tuple(
                place
                for place, scope in enumerate(layout.gpus)
                if holders.get(scope) == [uid] and layout.origins[uid, scope] != UNKNOWN
            )
            for uid in uids
        )
        held = tuple(sum(uid in of for of in holders.values()) for uid in uids)
        return Plan(uids, alone, held, len(uuids)), wanted

    def channels(self, plan: Plan, rows: Floats) -> Floats:
        """See ``Picker``."""
        pods = len(plan.uids)
        split = len(POD_GPU_METRICS) * pods
        util, copy, memory = np.moveaxis(rows[:, :split].reshape(len(rows), pods, -1), 2, 0)
        gpus = self._gpus(plan, rows[:, split:])
        known = ~np.isnan(gpus)
        total = np.where(known.any(axis=2), np.where(known, gpus, 0).sum(axis=2), np.nan)
        mean = total / np.maximum(known.sum(axis=2), 1)
        pcie = np.minimum(mean[..., 2], mean[..., 3])
        busy = gpus[..., 0]
        idle = np.where(known[..., 0].any(axis=2), (busy < IDLE_PCT).sum(axis=2), np.nan)
        least = np.where(known[..., 0], busy, np.inf).min(axis=2, initial=np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            memory_pct = 100 * memory / np.where(total[..., 4] > 0, total[..., 4], np.nan)
            power_pct = 100 * total[..., 1] / np.where(total[..., 5] > 0, total[..., 5], np.nan)
        return np.stack([
            util, copy, np.minimum(memory_pct, 100), power_pct, total[..., 1], pcie / _KILO,
            mean[..., 6], mean[..., 7], idle, np.where(np.isfinite(least), least, np.nan),
        ], axis=2)  # fmt: skip

    def _gpus(self, plan: Plan, rows: Floats) -> Floats:
        """By pod the GPUs that it holds alone, shape (ticks, pods, most, _WIDTH), filled up with NaN."""
        ticks, cut = len(rows), len(_GPU) * plan.gpus
        every = np.full((ticks, plan.gpus + 1, _WIDTH), np.nan)
        every[:, :-1, : len(_GPU)] = rows[:, :cut].reshape(ticks, plan.gpus, len(_GPU))
        every[:, :-1, len(_GPU) :] = rows[:, cut:].reshape(ticks, plan.gpus, _FACTS)
        most = max((len(of) for of in plan.alone), default=0) or 1
        places = np.full((len(plan.uids), most), plan.gpus)
        for pod, of in enumerate(plan.alone):
            places[pod, : len(of)] = of
        return np.asarray(every[:, places])

    def memory_bytes(self, plan: Plan, rows: Floats) -> list[float | None]:
        """The memory of the GPUs that each pod holds alone, at the newest tick."""
        split = len(POD_GPU_METRICS) * len(plan.uids)
        totals = self._gpus(plan, rows[-1:, split:])[0, :, :, 4]
        known = ~np.isnan(totals)
        sums, there = np.where(known, totals, 0).sum(axis=1), known.sum(axis=1)
        return [total if count else None for total, count in zip(sums.tolist(), there.tolist(), strict=True)]


class CgroupPicker(_LayoutPicker):
    """Pods in cgroups, whether they have a GPU or not: the source does not know."""

    def _planned(self, layout: Layout) -> tuple[Plan, list[Series]]:
        uids = _members(layout, "pod")
        return Plan(uids), [Series("pod", uid, metric) for uid in uids for metric in POD_CGROUP_METRICS]

    def channels(self, plan: Plan, rows: Floats) -> Floats:
        """See ``Picker``."""
        picked = rows[:, :-1].reshape(len(rows), len(plan.uids), -1)
        cpu, throttled, memory, limit, read, write, rx, tx = np.moveaxis(picked, 2, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = 100 * memory / np.where(limit > 0, limit, np.nan)
        return np.stack([
            cpu, throttled, read / _KILO, write / _KILO, rx / _KILO, tx / _KILO,
            np.minimum(share, 100), memory / _MEGA, np.broadcast_to(rows[:, -1:], cpu.shape),
        ], axis=2)  # fmt: skip


def _members(layout: Layout, kind: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.member for one in layout.series if one.kind == kind))


def plain_of(plan: Plan) -> list[Any]:
    """A plan as plain data."""
    return [list(plan.uids), [list(of) for of in plan.alone], list(plan.held), plan.gpus]


def plan_from(plain: Sequence[Any]) -> Plan:
    """The plan that ``plain_of`` wrote."""
    uids, alone, held, gpus = plain
    return Plan(tuple(uids), tuple(tuple(of) for of in alone), tuple(held), gpus)

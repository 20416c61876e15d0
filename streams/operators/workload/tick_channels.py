"""Turns the ticks of a node into the channels of its pods: one class for each source that tells of pods.

A tick is reduced to a row of the numbers that are needed, and the rows of a span become channels at its end.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np

from dutycycle.contract.catalogue import POD_CGROUP_METRICS, POD_GPU_METRICS
from dutycycle.contract.ownership.words import UNKNOWN
from streams.operators.columns.arrays import Bools, Floats, Ints
from streams.operators.columns.block import GPU_FACTS, TickBlock
from streams.operators.columns.series import Series, remapped
from streams.operators.columns.tick import Layout
from streams.operators.rounding import tidy
from streams.operators.workload.channels import CGROUP_CHANNELS, IDLE_PCT, NVML_CHANNELS
from streams.operators.workload.loops import NO_GPU, cgroup_channels, gpu_means, nvml_channels

_GPU_METRICS = ("gpu_util_pct", "power_w", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s", "mem_total_bytes",
                "temp_c", "sm_clock_mhz", "sm_active_pct", "tensor_active_pct", "dram_active_pct",
                "fp32_active_pct", "nvlink_rx_bytes_per_s", "sm_occupancy_pct",
                "nvlink_bytes_per_s")  # fmt: skip
_UTIL = _GPU_METRICS.index("gpu_util_pct")
_AT_WORK = tuple(map(_GPU_METRICS.index, ("sm_active_pct", "tensor_active_pct")))
_VIDEO = ("enc_util_pct", "dec_util_pct")
_POD_UTIL, _POD_BUSIEST = map(POD_GPU_METRICS.index, ("gpu_util_pct", "busiest_gpu_util_pct"))
COARSE_MS = 1500
"""Of ticks that are further apart no second has a value of its own."""
_LIMIT = POD_CGROUP_METRICS.index("mem_limit_bytes")


@dataclass(frozen=True, slots=True)
class RowPlan:
    """Says what a row holds: the pods, and for each the GPUs that it holds.

    ``alone``: of each pod, the places (0 to ``gpus`` - 1) of the GPUs that no other pod uses. ``held``: of
    each pod, how many GPUs it holds in all. ``gpus``: how many GPUs the row has, ``scopes``: what they are
    called. ``slices``: how many MIG slices the row has behind them; ``own_slices``: of each pod the places of
    those that it has to itself. ``fills``: of each pod whose memory it fills:
    that of GPUs, by their uuids, or its own.
    """

    uids: tuple[str, ...]
    alone: tuple[tuple[int, ...], ...] = ()
    held: tuple[int, ...] = ()
    gpus: int = 0
    fills: tuple[tuple[str, ...], ...] = ()
    slices: int = 0
    own_slices: tuple[tuple[int, ...], ...] = ()
    scopes: tuple[str, ...] = ()

    def own_gpus(self, pod: int) -> tuple[str, ...]:
        """Return uuids of a pod's GPUs if it has all of them to itself; none of a source that has no GPUs."""
        return self.fills[pod] if self.gpus and len(self.alone[pod]) == self.held[pod] else ()


class TickChannels:
    """Turns ticks of one source into channels; as it is, into none, for a source that tells of no pods."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._plan = RowPlan(())
        self._columns: Ints = np.zeros(0, np.int64)
        self._missing: Ints = np.zeros(0, np.int64)
        """What a row has a place for, and the layout has no series of."""

    def plan(self, layout: Layout) -> RowPlan:
        """Return what ``rows`` hold of ticks of this layout: the same object as long as that is the same."""
        if layout is not self._layout:
            self._layout = layout
            self._plan, series = self._plan_of(layout)
            self._columns = remapped(layout.series, series)
            self._missing = np.flatnonzero(self._columns < 0)
        return self._plan

    def rows(self, block: TickBlock) -> Floats:
        """Return the numbers that are needed of ticks whose ``plan`` was just asked for, shape (ticks,
        numbers)."""
        values = block.values.take(self._columns, axis=1)
        values[:, self._missing] = np.nan
        return np.concatenate((values, block.facts), axis=1)

    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        """Return the plan of a layout's rows, and the series that a row begins with; the tick's facts follow
        them."""
        return RowPlan(()), []

    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """Return the source's channels, shape (ticks, pods, channels), of rows of shape (ticks, numbers)."""
        return np.empty((len(rows), 0, 0))

    def gpu_fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """Return of each pod the fields of ``InsightPart`` that are of each GPU that it holds alone: means of
        these rows, and whether power and heat hold it down."""
        return [{} for _ in plan.uids]

    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """Return of each pod the fields of ``InsightPart`` that are no channels, as of the newest row."""
        return []


class NvmlTickChannels(TickChannels):
    """Reads ``nvml-samples``: pods on GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self._video: Ints = np.zeros(0, np.int64)
        """The columns in a block of what the GPUs' encoders do, then those of their decoders."""
        self._shared: list[list[int]] = []
        """Of each pod the places of the GPUs that it has with others."""

    def rows(self, block: TickBlock) -> Floats:
        """See ``TickChannels``. Utilization is of a second at most, and so of the end of a longer tick, where
        a job that works in turns may rest each time. Counters are of the whole tick: a kernel ran for as long
        as multiprocessors or tensor cores were active, at least."""
        rows, plan, width = super().rows(block), self._plan, len(_GPU_METRICS)
        begin = len(POD_GPU_METRICS) * len(plan.uids)
        of_gpus = rows[:, begin : begin + width * plan.gpus]
        util = of_gpus[:, _UTIL::width]
        if block.interval_ms > COARSE_MS:
            for counter in _AT_WORK:
                np.fmax(util, of_gpus[:, counter::width], out=util, where=~np.isnan(util))
            for pod, (places, held) in enumerate(zip(plan.alone, plan.held, strict=True)):
                if places and len(places) == held:
                    mine, at = util[:, places], len(POD_GPU_METRICS) * pod
                    rows[:, at + _POD_UTIL] = np.fmax(rows[:, at + _POD_UTIL], mine.mean(axis=1))
                    rows[:, at + _POD_BUSIEST] = np.fmax(rows[:, at + _POD_BUSIEST], mine.max(axis=1))
        video = block.values.take(self._video, axis=1).reshape(len(rows), len(_VIDEO), plan.gpus)
        at_video: Bools = np.any(video >= IDLE_PCT, axis=1)
        if not at_video.any():
            return rows
        # Where video engines work and no kernel runs, a GPU counts as used, and no more than that: it is of
        # kernels alone that utilization tells.
        util[at_video & ~(util >= IDLE_PCT)] = IDLE_PCT
        for pod, (alone, shared) in enumerate(zip(map(list, plan.alone), self._shared, strict=True)):
            busiest = rows[:, len(POD_GPU_METRICS) * pod + _POD_BUSIEST]
            rests = ~(busiest >= IDLE_PCT)
            # On a GPU of several nobody tells whose video it is.
            busiest[rests & at_video[:, shared].any(axis=1)] = np.nan
            busiest[rests & at_video[:, alone].any(axis=1)] = IDLE_PCT
        return rows

    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        uids = _pods_of(layout)
        uuids = [
            column.member for column in layout.series if column.kind == "gpu" and column.metric == "power_w"
        ]
        series = [Series("pod", uid, metric) for uid in uids for metric in POD_GPU_METRICS]
        slices = [uuid for uid in uids for uuid in layout.slices.get(uid, ())]
        series += [Series("gpu", uuid, metric) for uuid in [*uuids, *slices] for metric in _GPU_METRICS]
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
        self._video = remapped(
            layout.series, [Series("gpu", uuid, engine) for engine in _VIDEO for uuid in uuids]
        )
        self._shared = [
            [
                place for place, scope in enumerate(layout.gpus)
                if uid in holders.get(scope, ()) and place not in alone[at]
            ]
            for at, uid in enumerate(uids)
        ]  # fmt: skip
        fills = tuple(
            tuple(
                uuid for uuid, scope in zip(uuids, layout.gpus, strict=False) if uid in holders.get(scope, ())
            )
            for uid in uids
        )
        own_slices = tuple(
            tuple(len(uuids) + slices.index(uuid) for uuid in layout.slices.get(uid, ())) for uid in uids
        )
        return RowPlan(uids, alone, held, len(uuids), fills, len(slices), own_slices, layout.gpus), series

    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """See ``TickChannels``."""
        channels = np.empty((len(rows), len(plan.uids), len(NVML_CHANNELS)))
        nvml_channels(rows, _places(plan.alone, plan.own_slices), plan.gpus, plan.slices, channels)
        return channels

    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """See ``TickChannels``: how many GPUs it holds."""
        return [{"gpus": held} for held in plan.held]

    def gpu_fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """See ``TickChannels``."""
        begin = len(POD_GPU_METRICS) * len(plan.uids)
        means = np.empty((plan.gpus, 4))
        gpu_means(rows, begin, plan.slices, means)
        each = [[None if isnan(value) else round(value, 1) for value in row] for row in means.tolist()]
        begin += len(_GPU_METRICS) * (plan.gpus + plan.slices)
        facts = rows[:, begin : begin + GPU_FACTS * plan.gpus].reshape(len(rows), plan.gpus, GPU_FACTS)
        held = np.nan_to_num(facts[:, :, 1:]).mean(axis=0).round(1).tolist()
        fields = []
        for places in plan.alone:
            of_pod: dict[str, Any] = {}
            if places:
                of_pod["gpu_means"] = {plan.scopes[at]: each[at] for at in places}
            if held_down := {plan.scopes[at]: held[at] for at in places if any(held[at])}:
                of_pod["held_down"] = held_down
            fields.append(of_pod)
        return fields


class CgroupTickChannels(TickChannels):
    """Reads ``cgroup-samples``: all pods of the node. The source does not know which of them have GPUs."""

    def _plan_of(self, layout: Layout) -> tuple[RowPlan, list[Series]]:
        uids = _pods_of(layout)
        fills = tuple((uid,) for uid in uids)
        return RowPlan(uids, fills=fills), [
            Series("pod", uid, metric) for uid in uids for metric in POD_CGROUP_METRICS
        ]

    def channels(self, plan: RowPlan, rows: Floats) -> Floats:
        """See ``TickChannels``."""
        channels = np.empty((len(rows), len(plan.uids), len(CGROUP_CHANNELS)))
        cgroup_channels(rows, channels)
        return channels

    def fields(self, plan: RowPlan, rows: Floats) -> list[dict[str, Any]]:
        """See ``TickChannels``: its limit of host memory, if there is one."""
        limits: list[float] = rows[-1, _LIMIT : -1 : len(POD_CGROUP_METRICS)].tolist()
        return [{} if isnan(limit) else {"mem_limit_bytes": tidy(limit)} for limit in limits]


def _pods_of(layout: Layout) -> tuple[str, ...]:
    return tuple(dict.fromkeys(column.member for column in layout.series if column.kind == "pod"))


@lru_cache(maxsize=1024)
def _places(alone: tuple[tuple[int, ...], ...], slices: tuple[tuple[int, ...], ...]) -> Ints:
    """Return of each pod the GPUs, then the slices that it holds alone, filled up with ``NO_GPU``."""
    own = [(*gpus, *of) for gpus, of in zip(alone, slices, strict=True)]
    places = np.full((len(own), max((len(of) for of in own), default=0)), NO_GPU)
    for pod, of in enumerate(own):
        places[pod, : len(of)] = of
    return places

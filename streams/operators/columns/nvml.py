"""Reads an ``nvml-samples`` record into columns: its GPUs, their MIG slices, and the pods that use them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from operator import itemgetter
from typing import Any

import numpy as np
from msgspec.structs import astuple

from dutycycle.contract.catalogue import GPU_METRICS, MIG_METRICS, OWN_GPU_METRICS, POD_GPU_METRICS
from dutycycle.contract.metering import BY_HEAT, BY_POWER, mean_of_samples
from dutycycle.contract.ownership.division import holdings_of
from dutycycle.contract.ownership.who_uses import USE_METRICS, has_part, highs_of, pods_of, use_plan, uses_of
from dutycycle.contract.records.samples import Allocation, Gpu, GpuProcess, MigDevice, NvmlSample
from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats, Ints, keep_once
from streams.operators.columns.series import Series, TallySeries
from streams.operators.columns.template import Cells, GapValues, Pairs, TickReader
from streams.operators.columns.tick import Begins, make_layout
from streams.operators.columns.vectors import copy_into, largest

_MEMORY = POD_GPU_METRICS.index("gpu_mem_used_bytes")
_CELLS = (*GPU_METRICS, "power_limit_w", "thermal_pct", "gpu_util_max_pct")
"""The numbers that are read of a GPU."""
_HELD_BY_POWER = ("sw_power_cap_pct", "power_brake_pct")
_HELD_BY_HEAT = ("sw_thermal_pct", "hw_thermal_pct", "thermal_pct")
"""Shares of the time in which the clocks were held down: they tell what came between two looks at the
reasons, and some sources have them alone."""
_BY_POWER, _BY_HEAT = len(_HELD_BY_POWER), len(_HELD_BY_HEAT)
_UTIL, _UTIL_MAX = map(_CELLS.index, ("gpu_util_pct", "gpu_util_max_pct"))
_SAMPLED = [GPU_METRICS.index(metric) for metric in ("gpu_util_pct", "power_w")]
_DEVICES = 4
"""So many parts of a sample's shape are those of its GPUs and slices."""
_NONE = (None,)


def _fields(record: Any, *names: str) -> Any:
    """Takes the fields ``names`` out of the columns of a record's fields."""
    return itemgetter(*(record.__struct_fields__.index(name) for name in names))


_cells_of_gpus = _fields(Gpu, *_CELLS)
_shape_of_gpus = _fields(Gpu, "uuid", "index", "allocated", "mig", "processes")
_throttles_of_gpus = _fields(Gpu, "throttle")
_own_of_gpus = _fields(Gpu, "uuid", *OWN_GPU_METRICS)
_own_of_slices = _fields(MigDevice, "uuid", *OWN_GPU_METRICS)
_cells_of_slices = _fields(MigDevice, *MIG_METRICS)
_uuids_of_slices = _fields(MigDevice, "uuid")
_cells_of_processes = _fields(GpuProcess, *USE_METRICS)
_shape_of_processes = _fields(GpuProcess, "pid", "pod_uid")
_parts_of_allocations = _fields(Allocation, "gpu_util_pct", "mem_used_bytes")
_shape_of_allocations = _fields(Allocation, "pod_uid", "namespace", "pod", "mig", "shared")

_uses, _highs, _pods, _mean = kernel(uses_of), kernel(highs_of), kernel(pods_of), kernel(mean_of_samples)


@kernel
def _take_means(
    cells: Floats, pairs: Floats, pair_ends: Ints, sampled_cells: Ints, interval_ms: float, highest: Floats
) -> Floats:
    """Put the means of the driver's samples into ``cells``, and the largest of utilization into ``highest``,
    by GPU; the cells with the largest values instead."""
    high_cells, first = cells.copy(), 0
    for at in range(pair_ends.size):
        cell, gpu = sampled_cells[at]
        samples = pairs[first : pair_ends[at]]
        cells[cell] = _mean(samples, interval_ms, gpu >= 0)
        high_cells[cell] = largest(samples[:, 1])
        if gpu >= 0:
            highest[gpu] = high_cells[cell]
        first = pair_ends[at]
    return high_cells


@kernel
def _take_largest(high_cells: Floats, util_cells: Ints, highest: Floats) -> None:
    """Put the largest utilization that a source has beside its mean where ``_take_means`` puts that of the
    driver's samples. ``util_cells``: of each GPU the cells of the mean and of the largest."""
    for gpu in range(len(util_cells)):
        util_max = high_cells[util_cells[gpu, 1]]
        highest[gpu] = np.fmax(highest[gpu], util_max)
        high_cells[util_cells[gpu, 0]] = np.fmax(high_cells[util_cells[gpu, 0]], util_max)


@kernel
def _take_own(cells: Floats, ends: Ints, own_cells: Ints, means: Floats, highs: Floats) -> None:
    """Put what pods have to themselves into ``means`` and ``highs``: over the devices of a place, whose cells
    end at ``ends``."""
    first = 0
    for at in range(ends.size):
        total, known = 0.0, 0
        highs[at] = np.nan
        for cell in own_cells[first : ends[at]]:
            if not np.isnan(cells[cell]):
                total += cells[cell]
                known += 1
                highs[at] = np.fmax(highs[at], cells[cell])
        means[at] = total / known if known > 0 else np.nan
        first = ends[at]


@kernel
def _take_facts(cells: Floats, fact_cells: Ints, held_down: Floats, facts: Floats) -> None:
    """Put of each GPU its power limit, and for which share of the time power and heat hold it down, into
    ``facts``. ``held_down``: of each the same two by the reasons of the moment."""
    for gpu in range(len(fact_cells)):
        facts[3 * gpu] = cells[fact_cells[gpu, 0]]
        copy_into(facts[3 * gpu + 1 :], held_down[2 * gpu : 2 * gpu + 2])
        for at, cell in enumerate(fact_cells[gpu, 1:]):
            place = 3 * gpu + (1 if at < _BY_POWER else 2)
            facts[place] = np.fmax(facts[place], cells[cell])


def _packed(arrays: Iterable[Ints]) -> Ints:
    """Return arrays in one, because each that is given to a compiled loop takes time; ``_array`` takes one
    out."""
    flat = [array.ravel() for array in arrays]
    return keep_once(np.concatenate((np.cumsum([len(flat) + 1, *map(len, flat)]), *flat)))


@kernel
def _array(packed: Ints, number: int) -> Ints:
    return packed[packed[number] : packed[number + 1]]


@entry(
    "void(float64[::1], float64[:, ::1], int64[::1], int64[:, ::1], float64, int64[::1], float64[::1],"
    " float64[::1])"
)
def _columns(
    cells: Floats, pairs: Floats, pair_ends: Ints, sampled_cells: Ints, interval_ms: float, plan: Ints,
    held_down: Floats, out: Floats,
) -> None:  # fmt: skip
    """Write values, tallies, highs, facts, value highs and readings of a tick one after the other into
    ``out``. The last two are written if there is room.

    ``cells``: those of the tick, the last of which is NaN. ``pairs``: the driver's samples; of each list of
    them ``pair_ends`` has its end, and ``sampled_cells`` its cell and, of utilization, its GPU, else -1.
    ``plan``, packed: ``_cells``, ``UseArrays`` and ``_own_cells``.
    """
    table_cells, util_cells = _array(plan, 0).reshape(-1, 3), _array(plan, 3).reshape(-1, 2)
    value_cells, fact_cells = _array(plan, 1), _array(plan, 2).reshape(-1, 1 + _BY_POWER + _BY_HEAT)
    ends, processes, device_ends, devices = (
        _array(plan, 4), _array(plan, 5), _array(plan, 6), _array(plan, 7),
    )  # fmt: skip
    bursts, pod_ends, places = _array(plan, 8), _array(plan, 9), _array(plan, 10)
    own_ends, own_cells = _array(plan, 11), _array(plan, 12)
    highest, readings = np.full(len(fact_cells), np.nan), cells.copy()
    high_cells = _take_means(cells, pairs, pair_ends, sampled_cells, interval_ms, highest)
    sampled = ~np.isnan(highest)
    _take_largest(high_cells, util_cells, highest)
    table = np.empty(table_cells.shape)
    for row in range(len(table)):
        for metric in range(3):
            table[row, metric] = cells[table_cells[row, metric]]
    uses = _uses(table, ends, processes, device_ends, devices, bursts, sampled)
    pods = _pods(uses, pod_ends, places)
    begin = value_cells.size
    for at in range(begin):
        out[at] = cells[value_cells[at]]
    copy_into(out[begin:], pods.reshape(-1))
    begin += pods.size
    tallies = out[begin : begin + len(pods) + uses.size + own_ends.size]
    used = len(pods) + uses.size
    copy_into(tallies, pods[:, _MEMORY])
    copy_into(tallies[len(pods) :], uses.reshape(-1))
    begin += tallies.size
    highs = out[begin : begin + tallies.size]
    copy_into(highs, tallies[:used])
    _take_own(cells, own_ends, own_cells, tallies[used:], highs[used:])
    most = _highs(table, uses, highest, ends, processes, device_ends, devices, bursts)
    copy_into(highs[len(pods) : used : 3], most)
    begin += tallies.size
    _take_facts(cells, fact_cells, held_down, out[begin:])
    begin += 3 * len(fact_cells)
    if begin == out.size:
        return
    for at in range(value_cells.size):
        out[begin + at] = high_cells[value_cells[at]]
    for place in range(len(uses)):
        if bursts[place] >= 0:
            uses[place, 0] = np.fmax(uses[place, 0], highest[bursts[place]])
    begin += value_cells.size
    copy_into(out[begin:], _pods(uses, pod_ends, places).reshape(-1))
    begin += pods.size
    for at in range(value_cells.size):
        out[begin + at] = readings[value_cells[at]]
    copy_into(out[begin + value_cells.size :], pods.reshape(-1))


class NvmlReader(TickReader[NvmlSample]):
    """Reads the GPUs of a node, and keeps who uses what of them from tick to tick."""

    def __init__(self, node: str) -> None:
        super().__init__(
            NvmlSample, "nvml-samples", _cells_of, lambda sample: [pairs for _, _, pairs in _bursts(sample)]
        )  # fmt: skip
        self._node = node
        self._shape: Any = None
        self._throttles: Any = None
        self._held_down: Floats = np.zeros(0)
        self._with_bursts: list[tuple[int, str]] = []
        """The bursts that there are: of which GPU by position, of which metric."""
        self._has_highs = False
        """Whether there are bursts, or the largest utilization beside its mean."""
        self._counted: set[str] = set()
        """The GPUs and slices that have ever told what they really do: the others have no columns for it."""
        self._measured: Bools = np.zeros(0, np.bool_)
        """Of the values of GPUs and slices, which were ever measured since these are there."""
        self._sampled_cells: Ints = np.zeros((0, 2), np.int64)
        """Of each of them the cell, and of those of utilization the GPU, else -1."""
        self._lay_out((), np.full(1, np.nan), 0, 0, 0)

    def _take(self, sample: NvmlSample) -> GapValues:
        gpus = _columns_of(sample.gpus, Gpu)
        uuids, indexes, allocated, slices, processes = _shape_of_gpus(gpus)
        of_slices = _columns_of(_all(slices), MigDevice)
        of_processes = _columns_of(_all(processes), GpuProcess)
        allocations = _all(allocated)
        of_allocations = _columns_of(allocations, Allocation)
        shape = (
            uuids, indexes, _counts(slices), _uuids_of_slices(of_slices), _counts(processes),
            _shape_of_processes(of_processes), _counts(allocated), _shape_of_allocations(of_allocations),
            [*map(has_part, allocations)],
        )  # fmt: skip
        counted = {*_counted(_own_of_gpus(gpus)), *_counted(_own_of_slices(of_slices))}
        cells = np.fromiter(_cells_of_columns(gpus, of_slices, of_processes, of_allocations), np.float64)
        if self._shape is None or shape[:_DEVICES] != self._shape[:_DEVICES]:
            self._measured = self._measured[:0]
        if (
            shape != self._shape
            or not counted <= self._counted
            # A metric has its first value among these cells.
            or (~np.isnan(cells[self._value_cells]) & ~self._measured).any()
        ):
            self._counted |= counted
            self._lay_out(sample.gpus, cells, len(of_slices[0]), len(of_processes[0]), len(allocations))
            self._shape = shape
        throttles = _throttles_of_gpus(gpus)
        if throttles != self._throttles:
            self._throttles = throttles
            self._held_down = np.array([*chain.from_iterable(map(_held_down, throttles))], np.float64)
        bursts = list(_bursts(sample))
        self._has_highs = bool(bursts) or any(gpu.gpu_util_max_pct is not None for gpu in sample.gpus)
        self._with_bursts = [(gpu, name) for gpu, name, _ in bursts]
        self._sampled_cells = _sampled_cells(len(sample.gpus), self._with_bursts)
        pairs = np.array(
            [pair for _, _, pairs_of_burst in bursts for pair in pairs_of_burst], np.float64
        ).reshape(-1, 2)
        ends = np.cumsum([len(pairs_of_burst) for _, _, pairs_of_burst in bursts], dtype=np.int64)
        return GapValues(sample.seq, sample.ts_ms, cells, pairs, ends)

    def _row(self, record: GapValues) -> Floats:
        layout = self._layout
        row = np.empty(layout.begins.value_highs + (2 * layout.width if self._has_highs else 0))
        _columns(
            record.cells, record.pairs, record.pair_ends, self._sampled_cells, self._interval_ms, self._plan,
            self._held_down, row,
        )  # fmt: skip
        return row

    def _bursts_of(self, record: GapValues) -> tuple[tuple[Series, Floats], ...]:
        """Return the driver's samples of each GPU, and of each pod that has one to itself (of its first)."""
        if not record.pair_ends.size:
            return ()
        bursts: list[tuple[Series, Floats]] = []
        util: dict[int, Floats] = {}
        for (gpu, metric), burst in zip(self._with_bursts, record.lists(), strict=True):
            bursts.append((Series("gpu", self._uuids[gpu], metric), burst))
            if metric == "gpu_util_pct":
                util[gpu] = burst
        of_pods = {uid: util[gpu] for (uid, _), gpu in self._alone if gpu in util}
        bursts += [(Series("pod", uid, "gpu_util_pct"), burst) for uid, burst in of_pods.items()]
        return tuple(bursts)

    def _lay_out(
        self, gpus: tuple[Gpu, ...], cells: Floats, slices: int, processes: int, allocations: int
    ) -> None:
        """Lay out columns anew, for other GPUs, slices, processes or allocations than before, so many of
        each, or for others of their metrics that have a value among these ``cells``."""
        plan = use_plan(self._node, gpus)
        self._alone = plan.alone()
        self._uuids = [gpu.uuid for gpu in gpus]
        uuids = [slice_.uuid for gpu in gpus for slice_ in gpu.mig or ()]
        series = [Series("gpu", gpu.uuid, metric) for gpu in gpus for metric in GPU_METRICS]
        series += [Series("gpu", uuid, metric) for uuid in uuids for metric in MIG_METRICS]
        series += [Series("pod", uid, metric) for uid in plan.pods for metric in POD_GPU_METRICS]
        tallies = [TallySeries(uid, "", POD_GPU_METRICS[_MEMORY]) for uid in plan.pods]
        tallies += [TallySeries(uid, scope, metric) for uid, scope in plan.sources for metric in USE_METRICS]
        devices = [*self._uuids, *uuids]
        self._counted.intersection_update(devices)
        own = [
            (place, known)
            for place, rows in plan.owned().items()
            if (known := [row for row in rows if devices[row] in self._counted])
        ]
        table, self._value_cells, facts, utils = _cells(len(gpus), slices, processes, allocations)
        present = ~np.isnan(cells[self._value_cells])
        # The driver's samples, or a largest value, may tell what has no value of its own.
        present[: len(GPU_METRICS) * len(gpus)].reshape(-1, len(GPU_METRICS))[:, _SAMPLED] = True
        self._measured = present | self._measured if self._measured.size else present
        self._plan = _packed((
            table, self._value_cells[self._measured], facts, utils, *plan.arrays(),
            *_own_cells([known for _, known in own], len(gpus), slices),
        ))  # fmt: skip
        tallies += [TallySeries(*place, metric) for place, _ in own for metric in OWN_GPU_METRICS]
        scopes = tuple(f"{self._node}/{gpu.index}" for gpu in gpus)
        pods = np.arange(self._measured.size, len(series))
        measured = keep_once(np.append(np.flatnonzero(self._measured), pods))
        begins = Begins(*accumulate((measured.size, len(tallies), len(tallies), 3 * len(gpus))))
        held = holdings_of(self._node, gpus, plan)
        of_pods: dict[str, tuple[str, ...]] = {}
        for (uid, _), known in own:
            of_pods[uid] = of_pods.get(uid, ()) + tuple(devices[row] for row in known if row >= len(gpus))
        self._layout = make_layout(series, tallies, plan.attribution, scopes, held, of_pods, begins, measured)


def _bursts(sample: NvmlSample) -> Iterator[tuple[int, str, Pairs]]:
    """Yield the driver's samples that there are: of which GPU by position, of which metric."""
    for at, gpu in enumerate(sample.gpus):
        if gpu.util_burst:
            yield at, "gpu_util_pct", gpu.util_burst
        if gpu.power_burst:
            yield at, "power_w", gpu.power_burst


def _cells_of(sample: NvmlSample) -> Cells:
    gpus = _columns_of(sample.gpus, Gpu)
    *_, allocated, slices, processes = _shape_of_gpus(gpus)
    return _cells_of_columns(
        gpus, _columns_of(_all(slices), MigDevice), _columns_of(_all(processes), GpuProcess),
        _columns_of(_all(allocated), Allocation),
    )  # fmt: skip


def _cells_of_columns(gpus: Any, slices: Any, processes: Any, allocations: Any) -> Cells:
    """Yield one metric of all GPUs after the other, of all slices, of all processes, of all allocations; then
    None."""
    return chain.from_iterable((
        *_cells_of_gpus(gpus), *_cells_of_slices(slices), *_cells_of_processes(processes),
        *_parts_of_allocations(allocations), _NONE,
    ))  # fmt: skip


def _columns_of(records: Sequence[Any], kind: Any) -> Sequence[tuple[Any, ...]]:
    """Return a column for each field of the records."""
    return tuple(zip(*map(astuple, records), strict=True)) or ((),) * len(kind.__struct_fields__)


def _all(groups: Iterable[Sequence[Any] | None]) -> list[Any]:
    return [burst for group in groups if group for burst in group]


def _counts(groups: Iterable[Sequence[Any] | None]) -> list[int]:
    return [len(group) if group else 0 for group in groups]


def _cells(gpus: int, slices: int, processes: int, allocations: int) -> tuple[Ints, Ints, Ints, Ints]:
    """Return where the cells are: of the rows of a use table, of the values of GPUs and slices, of each
    GPU's power limit and what holds it down, of its utilization and the largest."""
    sizes = (len(_CELLS) * gpus, len(MIG_METRICS) * slices, len(USE_METRICS) * processes, 2 * allocations)
    each = np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:3])
    of_gpus = each[0].reshape(len(_CELLS), gpus)
    of_slices = each[1].reshape(len(MIG_METRICS), slices)
    of_processes = each[2].reshape(len(USE_METRICS), processes)
    util, memory = each[3].reshape(2, allocations)
    use = of_gpus[[_CELLS.index(metric) for metric in USE_METRICS]]
    no_copy = np.full(max(slices, allocations), sum(sizes))
    parts = np.stack((util, no_copy[:allocations], memory))
    table = np.hstack((use, (of_slices[0], no_copy[:slices], of_slices[1]), of_processes, parts)).T
    values = keep_once(np.append(of_gpus[: len(GPU_METRICS)].T, of_slices.T))
    utils = np.ascontiguousarray(of_gpus[[_UTIL, _UTIL_MAX]].T)
    facts = of_gpus[[_CELLS.index(name) for name in ("power_limit_w", *_HELD_BY_POWER, *_HELD_BY_HEAT)]]
    return np.ascontiguousarray(table), values, np.ascontiguousarray(facts.T), utils


def _own_cells(owned: Sequence[Sequence[int]], gpus: int, slices: int) -> tuple[Ints, Ints]:
    """Return where the groups of ``OWN_GPU_METRICS`` end, and their cells; ``owned``: the rows of each
    place."""
    groups = [
        [
            _CELLS.index(metric) * gpus + row
            if row < gpus
            else (len(_CELLS) - 1) * gpus + MIG_METRICS.index(metric) * slices + row
            for row in rows
        ]
        for rows in owned
        for metric in OWN_GPU_METRICS
    ]
    ends = np.cumsum([len(group) for group in groups], dtype=np.int64)
    return ends, np.array([cell for group in groups for cell in group], np.int64)


def _counted(columns: Sequence[tuple[Any, ...]]) -> Iterator[str]:
    """Yield the devices of which a metric of ``OWN_GPU_METRICS`` is known; the first column has their
    uuids."""
    uuids, *metrics = columns
    return (uuid for uuid, *cells in zip(uuids, *metrics, strict=True) if cells.count(None) < len(cells))


def _sampled_cells(gpus: int, bursts: Sequence[tuple[int, str]]) -> Ints:
    """Return of each burst, of a GPU by position and a metric, the cell of that; and of utilization the
    GPU."""
    cells = [
        (_CELLS.index(metric) * gpus + gpu, gpu if metric == "gpu_util_pct" else -1) for gpu, metric in bursts
    ]
    return np.array(cells, np.int64).reshape(-1, 2)


@lru_cache(maxsize=1024)
def _held_down(reasons: tuple[str, ...] | None) -> tuple[float | None, float | None]:
    """Tell whether power and heat hold the clocks down, 0 or 100; None where the reasons are unknown."""
    if reasons is None:
        return None, None
    return 0.0 if BY_POWER.isdisjoint(reasons) else 100.0, 0.0 if BY_HEAT.isdisjoint(reasons) else 100.0

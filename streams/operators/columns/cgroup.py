"""Reads a ``cgroup-samples`` record into columns: the host, and each pod over its containers."""

from operator import attrgetter

import numpy as np

from dutycycle.contract.catalogue import CAPACITIES, HOST_METRICS, POD_CGROUP_METRICS
from dutycycle.contract.records.samples import CgroupSample, PodCgroup
from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints, keep_once
from streams.operators.columns.series import Series, TallySeries
from streams.operators.columns.template import Cells, GapValues, TickReader
from streams.operators.columns.tick import Begins, make_layout
from streams.operators.columns.vectors import copy_into

_CELLS = (*HOST_METRICS, "cpu_count")
"""The numbers that are read of the host."""
_OF_CONTAINERS = POD_CGROUP_METRICS[:6]
_HOST, _CONTAINER, _POD = len(HOST_METRICS), len(_OF_CONTAINERS), len(POD_CGROUP_METRICS)
_THROTTLED, _LIMIT = _OF_CONTAINERS.index("cpu_throttled_pct"), _OF_CONTAINERS.index("mem_limit_bytes")
_cells_of_host = attrgetter(*_CELLS)
_cells_of_container = attrgetter(*_OF_CONTAINERS)
_cells_of_pod = attrgetter(*POD_CGROUP_METRICS[6:])


@entry("float64[::1](float64[::1], int64[::1], int64[::1])")
def _columns(cells: Floats, containers: Ints, tallied: Ints) -> Floats:
    """Return the host's values, of each pod (so many ``containers``) sums over them, but of the most
    throttled one; of these once more those that are ``tallied``; and how busy the host is in percent of all
    its CPUs. NaN is unknown."""
    begin_tallies, begin = _HOST + _POD * containers.size, _HOST + 1
    values = np.empty(begin_tallies + tallied.size + 1)
    copy_into(values, cells[:_HOST])
    for pod in range(containers.size):
        of_it = values[_HOST + _POD * pod : _HOST + _POD * (pod + 1)]
        of_it[:] = np.nan
        for container in range(containers[pod]):
            for metric in range(_CONTAINER):
                cell = cells[begin + metric]
                if metric == _LIMIT and container > 0:
                    # What all containers may use together; one without a limit makes the pod unlimited.
                    of_it[metric] += cell
                elif np.isnan(of_it[metric]):
                    of_it[metric] = cell
                elif metric == _THROTTLED:
                    of_it[metric] = np.fmax(of_it[metric], cell)
                elif not np.isnan(cell):
                    of_it[metric] += cell
            begin += _CONTAINER
        for metric in range(_CONTAINER, _POD):
            of_it[metric] = cells[begin]
            begin += 1
    for at in range(tallied.size):
        values[begin_tallies + at] = values[tallied[at]]
    values[-1] = cells[0] / cells[_HOST] if cells[_HOST] > 0 else np.nan
    return values


class CgroupReader(TickReader[CgroupSample]):
    """Reads the host and the pods of a node."""

    def __init__(self) -> None:
        super().__init__(CgroupSample, "cgroup-samples", _cells)
        self._lay_out(())

    def _take(self, sample: CgroupSample) -> GapValues:
        pods = _pods(sample)
        if (names := tuple(pods)) != self._names:
            self._lay_out(names)
        self._containers = np.array([len(pod.containers) for pod in pods.values()], np.int64)
        return GapValues(sample.seq, sample.ts_ms, np.array(_cells(sample), np.float64))

    def _row(self, record: GapValues) -> Floats:
        return _columns(record.cells, self._containers, self._tallied)

    def _lay_out(self, pods: tuple[str, ...]) -> None:
        """Lay out columns anew, for other pods than before."""
        self._names = pods
        series = [Series("node", "", metric) for metric in HOST_METRICS]
        series += [Series("pod", uid, metric) for uid in pods for metric in POD_CGROUP_METRICS]
        tallies = [
            (at, column)
            for at, column in enumerate(series)
            if column.kind == "pod" and column.metric not in CAPACITIES
        ]
        facts = len(series) + len(tallies)
        self._layout = make_layout(
            series,
            (TallySeries(column.member, "", column.metric) for _, column in tallies),
            begins=Begins(len(series), len(series), facts, facts + 1),
        )
        self._tallied = keep_once(np.array([at for at, _ in tallies], np.int64))
        self._containers = np.zeros(0, np.int64)


def _pods(sample: CgroupSample) -> dict[str, PodCgroup]:
    return {pod.uid: pod for pod in sample.pods}


def _cells(sample: CgroupSample) -> Cells:
    """Return the cells of the host, then of each pod those of its containers, and its own."""
    cells: list[float | None] = [*_cells_of_host(sample.host)]
    for pod in _pods(sample).values():
        for container in pod.containers:
            cells += _cells_of_container(container)
        cells += _cells_of_pod(pod)
    return cells

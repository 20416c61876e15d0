"""Reads a ``cgroup-samples`` record into columns: the host, and each pod over its containers."""

from operator import attrgetter

import numpy as np

from contract.records.samples import CgroupSample, Host, PodCgroup
from streams.operators.columns.series import CAPACITIES, HOST_METRICS, POD_CGROUP_METRICS, Series, TallySeries
from streams.operators.columns.tick import Tick, make_layout

_cells_of_host = attrgetter(*HOST_METRICS)
_cells_of_container = attrgetter(*POD_CGROUP_METRICS[:6])
Cells = list[float | None]


class CgroupReader:
    """Keeps the layout from tick to tick, so that an unchanged node costs no look-up."""

    def __init__(self) -> None:
        self._lay_out(())

    def read(self, sample: CgroupSample) -> Tick:
        """The tick in columns."""
        pods = {pod.uid: pod for pod in sample.pods}
        cells: Cells = [*_cells_of_host(sample.host)]
        for pod in pods.values():
            cells += _pod(pod)
        cells.append(_busy(sample.host))
        if (names := tuple(pods)) != self._names:
            self._lay_out(names)
        numbers = np.array(cells, np.float64)
        tallies = numbers.take(self._tallied)
        return Tick(
            sample.collector, sample.seq, sample.ts_ms, sample.interval_ms, self._layout,
            numbers[:-1], tallies, tallies, numbers[-1:],
        )  # fmt: skip

    def _lay_out(self, pods: tuple[str, ...]) -> None:
        """Other pods than before."""
        self._names = pods
        series = [Series("node", "", metric) for metric in HOST_METRICS]
        series += [Series("pod", uid, metric) for uid in pods for metric in POD_CGROUP_METRICS]
        tallies = [
            (at, one) for at, one in enumerate(series) if one.kind == "pod" and one.metric not in CAPACITIES
        ]
        self._layout = make_layout(series, (TallySeries(one.member, "", one.metric) for _, one in tallies))
        self._tallied = np.array([at for at, _ in tallies], np.int64)


def _busy(host: Host) -> float | None:
    """The share of all CPUs that is busy, in percent."""
    return host.cpu_util_pct / host.cpu_count if host.cpu_util_pct is not None and host.cpu_count else None


def _pod(pod: PodCgroup) -> Cells:
    """One pod in the order of ``POD_CGROUP_METRICS``: sums, but the most throttled container."""
    rows = list(map(_cells_of_container, pod.containers))
    if len(rows) == 1:
        return [*rows[0], pod.net_rx_bytes_per_s, pod.net_tx_bytes_per_s]
    cpu, throttled, memory, limits, read, write = map(_known, zip(*rows, strict=True)) if rows else [[]] * 6
    return [
        _sum(cpu),
        max(throttled, default=None),
        _sum(memory),
        # What all containers may use together; one without a limit makes the pod unlimited.
        _sum(limits) if len(limits) == len(rows) else None,
        _sum(read),
        _sum(write),
        pod.net_rx_bytes_per_s,
        pod.net_tx_bytes_per_s,
    ]


def _known(column: tuple[float | None, ...]) -> list[float]:
    return [cell for cell in column if cell is not None]


def _sum(known: list[float]) -> float | None:
    return sum(known) if known else None

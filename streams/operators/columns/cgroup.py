"""Reads a ``cgroup-samples`` record into columns: the host, and each pod over its containers."""

from operator import attrgetter

import numpy as np

from contract.records.samples import CgroupSample, Container, Host, PodCgroup
from streams.operators.columns.series import CAPACITIES, HOST_METRICS, POD_CGROUP_METRICS, Series, TallySeries
from streams.operators.columns.tick import Layout, Tick, make_layout

_TALLIED = [column for column, metric in enumerate(POD_CGROUP_METRICS) if metric not in CAPACITIES]
_cells_of_host = attrgetter(*HOST_METRICS)


class CgroupReader:
    """Keeps the layout from tick to tick, so that an unchanged node costs no look-up."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] | None = None
        self._layout = make_layout((), ())

    def read(self, sample: CgroupSample) -> Tick:
        """The tick in columns."""
        pods = {pod.uid: pod for pod in sample.pods}
        cells: list[float | None] = [*_cells_of_host(sample.host)]
        for pod in pods.values():
            cells += _pod(pod)
        values = np.array(cells, np.float64)
        tallies = values[len(HOST_METRICS) :].reshape(-1, len(POD_CGROUP_METRICS))[:, _TALLIED].ravel()
        return Tick(
            sample.collector, sample.seq, sample.ts_ms, sample.interval_ms, self._layout_of(tuple(pods)),
            values, tallies, tallies, np.array([_busy(sample.host)], np.float64),
        )  # fmt: skip

    def _layout_of(self, pods: tuple[str, ...]) -> Layout:
        if pods != self._names:
            self._names = pods
            series = [Series("node", "", metric) for metric in HOST_METRICS]
            series += [Series("pod", uid, metric) for uid in pods for metric in POD_CGROUP_METRICS]
            tallies = [TallySeries(uid, "", POD_CGROUP_METRICS[at]) for uid in pods for at in _TALLIED]
            self._layout = make_layout(series, tallies)
        return self._layout


def _busy(host: Host) -> float | None:
    """The share of all CPUs that is busy, in percent."""
    return host.cpu_util_pct / host.cpu_count if host.cpu_util_pct is not None and host.cpu_count else None


def _pod(pod: PodCgroup) -> list[float | None]:
    """One pod in the order of ``POD_CGROUP_METRICS``: sums, but the most throttled container."""
    containers = pod.containers
    throttled = [one.cpu_throttled_pct for one in containers if one.cpu_throttled_pct is not None]
    return [
        _sum(containers, "cpu_util_pct"),
        max(throttled, default=None),
        _sum(containers, "mem_used_bytes"),
        _limit(containers),
        _sum(containers, "io_read_bytes_per_s"),
        _sum(containers, "io_write_bytes_per_s"),
        pod.net_rx_bytes_per_s,
        pod.net_tx_bytes_per_s,
    ]


def _sum(containers: tuple[Container, ...], metric: str) -> float | None:
    known = [value for one in containers if (value := getattr(one, metric)) is not None]
    return sum(known) if known else None


def _limit(containers: tuple[Container, ...]) -> float | None:
    """What all containers may use together; one without a limit makes the pod unlimited."""
    limits = [one.mem_limit_bytes for one in containers if one.mem_limit_bytes is not None]
    return sum(limits) if limits and len(limits) == len(containers) else None

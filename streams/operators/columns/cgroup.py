"""Reads a ``cgroup-samples`` record into columns: the host, and each pod over its containers."""

from typing import Any

from contract.codec import check
from contract.units import NodeName, Uid
from streams.operators.columns.series import HOST_METRICS, POD_CGROUP_METRICS, Series, TallySeries
from streams.operators.columns.tick import Layout, Tick, check_header, explained, make_layout, numbers

TOPIC = "cgroup-samples"
_TALLIED = tuple(metric for metric in POD_CGROUP_METRICS if metric != "mem_limit_bytes")
_LIMIT = POD_CGROUP_METRICS.index("mem_limit_bytes")


class CgroupReader:
    """Keeps the layout from tick to tick, so that an unchanged node costs no look-up."""

    def __init__(self) -> None:
        self._names: tuple[str, ...] | None = None
        self._layout = make_layout((), ())

    def read(self, plain: dict[str, Any]) -> Tick:
        """The tick in columns. Raises ``DecodeError`` that names the field."""
        return explained(self._read, plain, TOPIC)

    def _read(self, plain: dict[str, Any]) -> Tick:
        check_header(plain, "pods")
        host, pods = plain["host"], {pod["uid"]: pod for pod in plain["pods"]}
        cells: list[Any] = list(map(host.get, HOST_METRICS))
        tallied: list[Any] = []
        for pod in pods.values():
            whole = _pod(pod)
            cells += whole
            tallied += whole[:_LIMIT]
            tallied += whole[_LIMIT + 1 :]
        layout = self._laid_out(plain, tuple(pods))
        values, tallies = numbers(cells), numbers(tallied)
        header = plain["collector"], plain["seq"], plain["ts_ms"], plain["interval_ms"]
        return Tick(*header, layout, values, tallies, tallies, numbers([_busy(host)])).check()

    def _laid_out(self, plain: dict[str, Any], pods: tuple[str, ...]) -> Layout:
        if pods != self._names:
            check(NodeName, plain["node"])  # once: equal names are as good
            for uid in pods:
                check(Uid, uid)
            self._names = pods
            series = [Series("node", "", metric) for metric in HOST_METRICS]
            series += [Series("pod", uid, metric) for uid in pods for metric in POD_CGROUP_METRICS]
            self._layout = make_layout(series, (TallySeries(uid, "", m) for uid in pods for m in _TALLIED))
        return self._layout


def _busy(host: dict[str, Any]) -> float | None:
    """The share of all CPUs that is busy, in percent."""
    count, util = host.get("cpu_count"), host.get("cpu_util_pct")
    return util / count if util is not None and count else None


def _pod(pod: dict[str, Any]) -> list[Any]:
    """One pod in the order of ``POD_CGROUP_METRICS``: sums, but the most throttled container."""
    containers = pod.get("containers") or ()
    throttled = [c["cpu_throttled_pct"] for c in containers if c.get("cpu_throttled_pct") is not None]
    return [
        _sum(containers, "cpu_util_pct"),
        max(throttled, default=None),
        _sum(containers, "mem_used_bytes"),
        _limit(containers),
        _sum(containers, "io_read_bytes_per_s"),
        _sum(containers, "io_write_bytes_per_s"),
        pod.get("net_rx_bytes_per_s"),
        pod.get("net_tx_bytes_per_s"),
    ]


def _sum(containers: Any, metric: str) -> float | None:
    known = [value for one in containers if (value := one.get(metric)) is not None]
    return sum(known) if known else None


def _limit(containers: Any) -> float | None:
    """What all containers may use together; one without a limit makes the pod unlimited."""
    limits = [one.get("mem_limit_bytes") for one in containers]
    return None if not limits or None in limits else sum(limits)

"""Measures the node itself: from node_exporter where it is scraped, else from cAdvisor's root cgroup.
Pure."""

import os
from collections.abc import Hashable, Iterable

from collectors.interfaces import physical
from collectors.prometheus.containers import (
    CORES,
    MEMORY,
    RECEIVED,
    SENT,
    TOTAL,
    cpu_pct,
    of_disks,
    total_per_s,
    value_of,
)
from collectors.prometheus.identity.nodes import UNAME
from collectors.prometheus.series import NewSample, SeriesLabels
from collectors.rates import rounded, rounded_pct
from dutycycle.contract.records.samples import Host

_CPU = "node_cpu_seconds_total"
_TOTAL, _AVAILABLE = "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes"
_READ, _WRITTEN = "node_disk_read_bytes_total", "node_disk_written_bytes_total"
_RECEIVED, _SENT = "node_network_receive_bytes_total", "node_network_transmit_bytes_total"
_SPEED = "node_network_speed_bytes"
_METRICS = "|".join([_CPU, _TOTAL, _AVAILABLE, _READ, _WRITTEN, _RECEIVED, _SENT, _SPEED, UNAME])
HOST_COUNTERS = (_CPU, _READ, _WRITTEN, _RECEIVED, _SENT)
# Three modes instead of five busy ones; the empty one is for metrics that have no mode.
HOST_SELECTOR = '{__name__=~"' + _METRICS + '",mode=~"idle|iowait|steal|"}'
_MOST_IDLE = 1.5


def host_part(labels: SeriesLabels) -> Hashable:
    """Return what of a node a series of node_exporter measures, whoever scrapes it."""
    return tuple(labels.get(name) for name in ("cpu", "mode", "device"))


def from_node_exporter(samples: list[NewSample]) -> Host:
    """Return the host from node_exporter's metrics of one node."""
    total, available = value_of(samples, _TOTAL), value_of(samples, _AVAILABLE)
    disks = of_disks(samples)
    links = _of_hardware(samples, "device")
    # Sum the speed of all links that ever received anything; absent unless known of each
    values = {(sample.name, sample.labels["device"]): sample.value for sample in links}
    used = [device for (name, device), value in values.items() if name == _RECEIVED and value > 0]
    speeds = [values.get((_SPEED, device), 0.0) for device in used]
    speed = round(sum(speeds)) if speeds and min(speeds) > 0 else None
    # All CPUs' time less the idle; absent unless it is known of each CPU, and where more was idle than there
    # is, by more than what the moment of a scrape makes
    busy_pct, cpus = None, len({sample.labels.get("cpu") for sample in samples if sample.name == _CPU})
    rates = [sample.per_s for sample in samples if sample.name == _CPU]
    idle = [rate for rate in rates if rate is not None]
    if idle and len(idle) == len(rates) and sum(idle) <= _MOST_IDLE * cpus:
        busy_pct = rounded_pct(max(0.0, 100 * (cpus - sum(idle))))
    return Host(
        cpu_util_pct=busy_pct,
        cpu_count=cpus or None,
        mem_used_bytes=rounded(total - available)
        if total and available is not None and available <= total
        else None,
        mem_total_bytes=rounded(total),
        disk_read_bytes_per_s=rounded(total_per_s(disks, _READ)),
        disk_write_bytes_per_s=rounded(total_per_s(disks, _WRITTEN)),
        net_rx_bytes_per_s=rounded(total_per_s(links, _RECEIVED)),
        net_tx_bytes_per_s=rounded(total_per_s(links, _SENT)),
        net_speed_bytes_per_s=speed,
    )


def from_root_cgroup(samples: Iterable[NewSample]) -> Host:
    """Return the host from cAdvisor's metrics of one node: working set and CPU of its root cgroup, no
    disks."""
    samples = list(samples)
    root = [sample for sample in samples if sample.labels.get("id") == "/"]
    links = _of_hardware(root, "interface")
    return Host(
        cpu_util_pct=cpu_pct(root),
        cpu_count=rounded(value_of(samples, CORES)),
        mem_used_bytes=rounded(value_of(root, MEMORY)),
        mem_total_bytes=rounded(value_of(samples, TOTAL)),
        net_rx_bytes_per_s=rounded(total_per_s(links, RECEIVED)),
        net_tx_bytes_per_s=rounded(total_per_s(links, SENT)),
    )


def _of_hardware(samples: Iterable[NewSample], label: str) -> list[NewSample]:
    named = [(sample.labels[label], sample) for sample in samples if sample.labels.get(label)]
    # That node's sysfs is not here, so the names have to do.
    kept = physical([name for name, _ in named], os.devnull)
    return [sample for name, sample in named if name in kept]

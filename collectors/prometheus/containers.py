"""Makes pods and their containers of cAdvisor's metrics. Pure."""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence

from collectors.attribution.cgroup_path import parse_cgroup_path
from collectors.prometheus.identity.labels import workload_of
from collectors.prometheus.identity.pods import PodIndex, PodRef
from collectors.prometheus.series import NewSample, ScrapedSeries, SeriesLabels
from collectors.rates import rounded, rounded_pct
from dutycycle.contract.records.samples import Container, PodCgroup

CPU, MEMORY = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
RECEIVED, SENT = "container_network_receive_bytes_total", "container_network_transmit_bytes_total"
CORES, TOTAL = "machine_cpu_cores", "machine_memory_bytes"
_LIMIT = "container_spec_memory_limit_bytes"
PERIODS, THROTTLED = "container_cpu_cfs_periods_total", "container_cpu_cfs_throttled_periods_total"
READ, WRITTEN = "container_fs_reads_bytes_total", "container_fs_writes_bytes_total"
CONTAINER_SELECTOR = (
    '{__name__=~"'
    + "|".join([CPU, MEMORY, _LIMIT, PERIODS, THROTTLED, READ, WRITTEN, RECEIVED, SENT, CORES, TOTAL])
    + '"}'
)
_STACKED = re.compile(r"(?:/dev/)?(?:dm-|md|sr|zram|loop|ram|zd|drbd|bcache)\d+")
"""Disks that stand on others, whose bytes are counted there."""
_MOST_CORES, _MOST_PER_S = 1e5, 1e13
_NO_LIMIT = 2.0**62
"""A limit of this size is none: version 1 cgroups write almost 2^63 for it."""


def container_part(labels: SeriesLabels) -> Hashable:
    """Return which cgroup, and what of it, a series of cAdvisor measures, whoever scrapes it. Without its
    path, that of the labels that name it."""
    who = labels.get("id") or (workload_of(labels), labels.get("container"), labels.get("name"))
    return who, labels.get("cpu", "total"), labels.get("device"), labels.get("interface")


def of_containers_once(series: Sequence[ScrapedSeries]) -> list[ScrapedSeries]:
    """Return series without those that a container's or a pod's other ones count already.

    A pod's own cgroup adds up its containers, where these have series: some runtimes have series of pods
    alone (a kubelet with cri-dockerd). Cgroups inside a container are a part of it, where it has some itself.
    """
    own = {(scraped.labels.get("__name__"), path) for scraped in series if (path := scraped.labels.get("id"))}
    by_container = {
        (scraped.labels.get("__name__"), who.namespace, who.pod)
        for scraped in series
        if (who := workload_of(scraped.labels)) is not None and who.container
    }
    kept = []
    for scraped in series:
        name, who, path = (
            scraped.labels.get("__name__"),
            workload_of(scraped.labels),
            scraped.labels.get("id"),
        )
        group = parse_cgroup_path(path) if path else None
        if group is not None and group.container_id and group.path != path and (name, group.path) in own:
            continue
        is_sum = who is not None and not who.container and (name, who.namespace, who.pod) in by_container
        if not is_sum or name in (RECEIVED, SENT):
            kept.append(scraped)
    return kept


def pod_cgroups(samples: Iterable[NewSample], pod_index: PodIndex) -> Iterator[PodCgroup]:
    """Yield the pods of one node. A pod whose uid is not known is left out."""
    members: dict[str, list[tuple[PodRef, NewSample]]] = defaultdict(list)
    for sample in samples:
        if (pod := pod_index.of(sample.labels)) is not None:
            members[pod.uid].append((pod, sample))
    for uid in sorted(members):
        containers: dict[str, list[NewSample]] = defaultdict(list)
        network: list[NewSample] = []
        whole: list[NewSample] = []
        for pod, sample in members[uid]:
            if sample.name in (RECEIVED, SENT):
                # On the host's network the counters are the node's.
                if sample.labels.get("interface") != "lo" and not pod.on_host_network:
                    network.append(sample)
            elif pod.container_id is not None:
                containers[pod.container_id].append(sample)
            elif pod.is_whole:
                whole.append(sample)
        if whole and not containers:
            containers[uid] = whole
        yield PodCgroup(
            uid=uid,
            qos=next((pod.qos for pod, _ in members[uid] if pod.qos), None),
            net_rx_bytes_per_s=rounded(total_per_s(network, RECEIVED)),
            net_tx_bytes_per_s=rounded(total_per_s(network, SENT)),
            containers=tuple(_container(name, containers[name]) for name in sorted(containers)),
        )


def _container(name: str, samples: list[NewSample]) -> Container:
    memory, limit = value_of(samples, MEMORY), value_of(samples, _LIMIT)
    all_io = [sample for sample in samples if sample.name in (READ, WRITTEN)]
    io = of_disks(all_io) or all_io
    # Of the scheduler's periods those in which it was held back; without a CPU limit there are none.
    periods, throttled = total_per_s(samples, PERIODS), total_per_s(samples, THROTTLED)
    throttled_pct = None
    if periods is not None and throttled is not None:
        throttled_pct = rounded_pct(min(100.0, 100 * throttled / periods)) if periods else 0.0
    return Container(
        id=name,
        cpu_util_pct=cpu_pct(samples),
        cpu_throttled_pct=throttled_pct,
        mem_used_bytes=rounded(memory),
        mem_limit_bytes=rounded(limit) if limit and limit < _NO_LIMIT else None,
        io_read_bytes_per_s=rounded(total_per_s(io, READ)),
        io_write_bytes_per_s=rounded(total_per_s(io, WRITTEN)),
    )


def of_disks(samples: Iterable[NewSample]) -> list[NewSample]:
    """Return the samples but for those of disks that stand on others."""
    return [sample for sample in samples if not _STACKED.fullmatch(sample.labels.get("device", ""))]


def cpu_pct(samples: Iterable[NewSample]) -> float | None:
    """Return percent of a core. An exporter gives the total, or each CPU on its own."""
    of = [sample for sample in samples if sample.name == CPU]
    total = [sample for sample in of if sample.labels.get("cpu", "total") == "total"]
    rate = total_per_s(total or of, CPU)
    return rounded_pct(100 * rate) if rate is not None else None


def total_per_s(samples: Iterable[NewSample], name: str) -> float | None:
    """Return the growth per second of a counter over all its devices; absent as long as none has one, and
    where it is more than a machine has."""
    rates = [sample.per_s for sample in samples if sample.name == name and sample.per_s is not None]
    most = _MOST_CORES if name == CPU else _MOST_PER_S
    return sum(rates) if rates and sum(rates) <= most else None


def value_of(samples: Iterable[NewSample], name: str) -> float | None:
    """Return the value of the first sample of this name; None without one."""
    return next((sample.value for sample in samples if sample.name == name), None)

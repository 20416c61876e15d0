"""Makes of the samples of one tick the records of each node. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from msgspec.structs import replace

from collectors.base import Tick
from collectors.prometheus.containers import CPU, MEMORY, pod_cgroups
from collectors.prometheus.dcgm.devices import GpuReader
from collectors.prometheus.host import from_node_exporter, from_root_cgroup
from collectors.prometheus.identity.nodes import NodeNames
from collectors.prometheus.identity.pods import PodIndex
from collectors.prometheus.series import NewSample
from collectors.within_host import within_host
from dutycycle.contract.records.samples import CgroupSample, Container, Host, NvmlSample

ByNode = Mapping[str, Sequence[NewSample]]
_Part = TypeVar("_Part", Container, Host)
APART_MS = {"gpus": 1000, "hosts": 1000, "containers": 30_000}
"""How far apart the samples of one record may be: cAdvisor measures each container at a time of its own."""

WAITING_MS = 60_000
"""How long a scrape of node_exporter waits for one of cAdvisor, for a record of both."""


def by_node(samples: Iterable[NewSample], nodes: NodeNames, apart_ms: int) -> dict[str, list[NewSample]]:
    """Return new samples by node; under the empty name those whose node has none that a record may carry.

    A record is of one moment: what is more than ``apart_ms`` older than the node's newest is left out.
    """
    samples_by_node: dict[str, list[NewSample]] = defaultdict(list)
    for sample in samples:
        samples_by_node[nodes.name_of(sample.labels)].append(sample)
    for node, of in samples_by_node.items():
        oldest_ms = _ts_ms(of) - apart_ms
        samples_by_node[node] = [sample for sample in of if sample.ts_ms >= oldest_ms]
    return samples_by_node


def nvml_samples(nodes: ByNode, reader: GpuReader, pod_index: PodIndex, tick: Tick) -> Iterator[NvmlSample]:
    """Yield one record for each node with new samples of GPUs."""
    for node, samples in nodes.items():
        if gpus := reader.gpus(samples, pod_index):
            yield NvmlSample(
                node=node, collector=tick.collector, seq=tick.seq, ts_ms=_ts_ms(samples),
                interval_ms=_interval_ms(samples, tick), gpus=gpus,
            )  # fmt: skip


def cgroup_samples(
    containers: ByNode, hosts: ByNode, pod_index: PodIndex, tick: Tick, no_numbers: Counter[tuple[str, str]]
) -> Iterator[CgroupSample]:
    """Yield one record for each node with new samples of its containers, of itself, or of both.

    Where node_exporter is scraped it speaks for the host, in the record of cAdvisor's next scrape, where
    this comes. ``hosts`` holds every node that node_exporter speaks for, with an empty list where it has no
    samples. What is more than the node has is absent, and counted in ``no_numbers`` by metric and value.
    """
    for node in containers.keys() | {node for node, samples in hosts.items() if samples}:
        of_containers, of_host = containers.get(node, ()), hosts.get(node)
        samples = [*of_containers, *(of_host or ())]
        pods = tuple(pod_cgroups(of_containers, pod_index))
        host = from_root_cgroup(of_containers) if of_host is None else from_node_exporter(list(of_host))
        pods = tuple(
            replace(pod, containers=tuple(_within(part, host, no_numbers) for part in pod.containers))
            for pod in pods
        )
        host = _within(host, host, no_numbers)
        if pods or host != Host():
            yield CgroupSample(
                node=node, collector=tick.collector, seq=tick.seq, ts_ms=_ts_ms(samples),
                interval_ms=_interval_ms(samples, tick), host=host, pods=pods,
            )  # fmt: skip


def _within(part: _Part, host: Host, no_numbers: Counter[tuple[str, str]]) -> _Part:
    """Return a container, or the host itself, without what is more than the host has; counted."""
    part, left_out = within_host(part, host)
    for field, value in left_out.items():
        no_numbers[(CPU, f"{value:g} %") if field == "cpu_util_pct" else (MEMORY, f"{value:g}")] += 1
    return part


def _ts_ms(samples: Iterable[NewSample]) -> int:
    """Return the newest sample's time: dcgm-exporter's are all of one moment, cAdvisor's of the last
    seconds."""
    return max(sample.ts_ms for sample in samples)


def _interval_ms(samples: Iterable[NewSample], tick: Tick) -> int:
    """Return the time since the scrape before; the collector's own interval where there was none."""
    return min((sample.passed_ms for sample in samples if sample.passed_ms), default=tick.interval_ms)

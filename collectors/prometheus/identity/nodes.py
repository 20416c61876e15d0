"""Finds the node that a series is about. Pure.

A scrape configuration may name it; else the exporter does, and may be wrong: dcgm-exporter in a pod of its
own takes the pod's name, or ``localhost``, for the node's. What kube-state-metrics says of pods mends that.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from collectors.prometheus.identity.clusters import CLUSTER
from collectors.prometheus.identity.labels import (
    NODE_LABELS,
    OWN_HOST,
    POD_INFO,
    RENAMED,
    Target,
    address_of,
    first_of,
    target_of,
    workload_of,
)
from collectors.prometheus.series import ScrapedSeries, SeriesLabels
from dutycycle.contract.units import NAME_PATTERN

UNAME = "node_uname_info"
_BY_NAME = (*NODE_LABELS, "nodename")
_BY_EXPORTER = ("Hostname", "hostname")
_NODE = re.compile(NAME_PATTERN)
_MOST_LETTERS = 253  # no name of a Kubernetes node is longer
_FORGOTTEN_MS = 15 * 60_000
"""After so long a GPU may be in another machine: a cloud gives it to the next one."""
GpuPlace = tuple[str, str, int]
"""A GPU's UUID, its node, and when it was there last."""


class NodeNames:
    """Learns from answers which host is which node.

    ``refused``: names that no record may carry, with how many samples had each.
    """

    def __init__(self) -> None:
        self.hosts: dict[Target, str] = {}
        """The host name that each target of node_exporter gives; its other metrics do not have it."""
        self.refused: Counter[str] = Counter()
        self._nodes: set[str] = set()
        self._of_first_parts: dict[str, str] = {}
        """Nodes with a domain by what stands before it; empty where that is so of several."""
        self._of_pods: dict[tuple[str, str], str] = {}
        self._of_names: dict[str, str] = {}
        """By cluster and pod, whatever its namespace; empty where pods of one name are on several nodes."""
        self._of_addresses: dict[str, str] = {}
        self._gpus: dict[str, tuple[str, int]] = {}
        self._renamed: dict[str, str] = {}
        """What an exporter calls its node now, by what it was called before: its GPUs are the same."""

    def snapshot(self) -> tuple[tuple[GpuPlace, ...], tuple[tuple[str, str], ...]]:
        """Tell where GPUs are, and hosts that got another name."""
        places = ((uuid, *place) for uuid, place in sorted(self._gpus.items()))
        return tuple(places), tuple(sorted(self._renamed.items()))

    def restore(self, gpus: Iterable[GpuPlace], renamed: Iterable[tuple[str, str]]) -> None:
        """Go on with what was known."""
        self._gpus = {uuid: (node, ts_ms) for uuid, node, ts_ms in gpus}
        self._renamed = dict(renamed)

    def learn_hosts(self, series: Iterable[ScrapedSeries]) -> None:
        """Take the host names of node_exporter, and the nodes that any scrape configuration names."""
        for scraped in series:
            if scraped.labels.get("__name__") == POD_INFO:
                continue  # its label is the node of the pod
            if scraped.labels.get("__name__") == UNAME:
                host = self.hosts[target_of(scraped.labels)] = scraped.labels.get("nodename", "")
                self._learn_domain(scraped.labels, host)  # and no node: the kubelet may know it without
            if node := _of_scrape(scraped.labels):
                self._learn_node(scraped.labels, node)

    def learn_pods(self, series: Iterable[ScrapedSeries]) -> None:
        """Take ``kube_pod_info``; series of other names are left out."""
        infos = [scraped for scraped in series if scraped.labels.get("__name__") == POD_INFO]
        if infos:  # what it said before is kept where it says nothing
            self._of_pods, self._of_names, self._of_addresses = {}, {}, {}
        for info in infos:
            who, node = workload_of(info.labels), first_of(info.labels, (f"{RENAMED}node", "node"))
            if who is None or not node:
                continue
            self._learn_node(info.labels, node)
            self._of_pods[who.namespace, who.pod] = node
            name = _in_cluster(info.labels, who.pod)
            self._of_names[name] = node if self._of_names.get(name, node) == node else ""
            for label in ("pod_ip", "host_ip"):
                if address := info.labels.get(label):
                    self._of_addresses[_in_cluster(info.labels, address)] = node

    def _learn_node(self, labels: SeriesLabels, node: str) -> None:
        self._nodes.add(_in_cluster(labels, node))
        self._learn_domain(labels, node)

    def _learn_domain(self, labels: SeriesLabels, node: str) -> None:
        first, _, domain = node.partition(".")
        if domain and not first.isdigit():  # an address has no domain
            name = _in_cluster(labels, first.lower())
            self._of_first_parts[name] = node if self._of_first_parts.get(name, node) == node else ""

    def learn_gpus(self, series: Iterable[ScrapedSeries]) -> None:
        """Take where GPUs are. One that an exporter of another name shows next has not moved."""
        for scraped in sorted(
            (scraped for scraped in series if scraped.points), key=lambda scraped: scraped.points[0][0]
        ):
            uuid = scraped.labels.get("UUID", "")
            host = _in_cluster(scraped.labels, first_of(scraped.labels, _BY_EXPORTER))
            node = self.node_of(scraped.labels)
            known, last_ms = self._gpus.get(uuid, (node, 0))
            first_ms = scraped.points[0][0]
            if (
                known != node == host
                and host not in self._nodes
                and last_ms < first_ms < last_ms + _FORGOTTEN_MS
            ):
                self._renamed[host] = node = known
            if uuid:
                self._gpus[uuid] = node, max(last_ms, scraped.points[-1][0])

    def name_of(self, labels: SeriesLabels, samples: int = 1) -> str:
        """Return the node's name; empty where no record may carry it: then ``samples`` are ``refused``."""
        node = self.node_of(labels)
        if len(node) <= _MOST_LETTERS and _NODE.match(node):
            return node
        self.refused += Counter({node: samples})  # without an entry for none
        return ""

    def node_of(self, labels: SeriesLabels) -> str:
        """Return the node as the scrape configuration says it, as the exporter does if it can know it, or by
        the address."""
        if node := _of_scrape(labels):
            return _in_cluster(labels, node)
        own_name = first_of(labels, _BY_EXPORTER) or self.hosts.get(target_of(labels), "")
        # A kubelet calls its node by the name of the host in small letters.
        host = own_name if _in_cluster(labels, own_name) in self._nodes else own_name.lower()
        address = address_of(labels)
        # The exporter may know its domain, and the kubelet not, or the other way.
        first, _, _ = host.partition(".")
        of_pod = self._of_pods.get((labels.get("namespace", ""), labels.get("pod", "")), "")
        ways = (
            host if _in_cluster(labels, host) in self._nodes else "",
            self._of_names.get(_in_cluster(labels, host), ""),
            self._of_addresses.get(_in_cluster(labels, host), ""),
            self._of_first_parts.get(_in_cluster(labels, host), ""),
            first if _in_cluster(labels, first) in self._nodes else "",
            of_pod if any(name.startswith(RENAMED) for name in labels) else "",
            "" if host in OWN_HOST or host == labels.get("pod") else own_name,
            self._of_addresses.get(_in_cluster(labels, address), ""),
            address,
        )
        node = _in_cluster(labels, next((way for way in ways if way), ""))
        return self._renamed.get(node, node)


def _of_scrape(labels: SeriesLabels) -> str:
    """Return the node as the scrape configuration says it; ``nodename`` of ``UNAME`` is the exporter's."""
    return first_of(labels, NODE_LABELS if labels.get("__name__") == UNAME else _BY_NAME)


def _in_cluster(labels: Mapping[str, str], name: str) -> str:
    """Return a name with its cluster's before it, where there are several clusters."""
    cluster = labels.get(CLUSTER)
    return f"{cluster}.{name}" if cluster and name else name


def explain(refused: Mapping[str, int]) -> str:
    """Tell which names of nodes no record may carry, and what helps."""
    names = ", ".join(repr(name) if name else "none at all" for name in sorted(refused)[:3])
    return (
        f"{sum(refused.values())} samples whose node has a name that no record may carry ({names}): expected "
        f"up to {_MOST_LETTERS} letters, digits, '.', '_' and '-', with a letter or digit at both ends; a "
        "relabeling to the label node in the scrape configuration names them"
    )

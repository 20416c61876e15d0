"""Keeps apart what one Prometheus, Thanos or Mimir has of several clusters. Pure.

Clusters may have nodes, namespaces and pods of equal names. A label tells them apart, such as the external
label ``cluster``. Where it has several values, namespaces become ``<cluster>.<namespace>`` and nodes
``<cluster>.<node>``; where it has one, names stay as they are.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, pairwise

from collectors.prometheus.identity.labels import NODE_LABELS, OWN_HOST, first_of
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.errors import DutycycleError

CLUSTER = "__cluster__"
"""The label, of ours, that a series has where there are several clusters: the cluster as part of a name."""
_USUAL = ("cluster", "cluster_name", "k8s_cluster_name", "k8s_cluster", "kubernetes_cluster", "cluster_id",
          "clusterName")  # fmt: skip
_NAMESPACES = ("namespace", "exported_namespace", "pod_namespace", "exported_pod_namespace", "job",
               "exported_job", "hpc_job", "container_label_io_kubernetes_pod_namespace")  # fmt: skip
"""Labels that mean nothing without their cluster; a job is a set of targets of one cluster."""
_OF_THE_GPU = re.compile(
    r"__(?!tenant_id__)\w+|UUID|gpu|device|modelName|pci_bus_id|DCGM_\w+|GPU_I_\w+|vgpu|(?:exported_)?(?:instance|job)|endpoint|service|\w*pod\w*|"
    r"hpc_job|dra_\w+|\w*namespace|\w*container\w*|\w*uid|Hostname|hostname|node"
)
"""Labels that differ between GPUs, targets or pods of one cluster. Mimir's federation of
tenants adds ``__tenant_id__`` (https://grafana.com/docs/mimir, "Query federation")."""
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")
Answers = Mapping[str, Sequence[ScrapedSeries]]


class ClustersMixedError(DutycycleError):
    """Says that there are machines of one name, and several labels that could tell them apart."""


class Clusters:
    """Keeps clusters apart. ``label``: the one that has the cluster's name; None where it is to be found."""

    def __init__(self, label: str | None = None) -> None:
        self._given = label
        self.label = label
        """None while there is only one cluster."""

    def apart(self, answers: Answers) -> dict[str, list[ScrapedSeries]]:
        """Return the same answers, with namespaces and ``CLUSTER`` as names need them.

        Raises ``ClustersMixedError`` where that cannot be decided.
        """
        if not self.label:
            # A usual label with several values; else the only label that tells machines of one name apart.
            values: dict[str, set[str]] = defaultdict(set)
            for scraped in chain.from_iterable(answers.values()):
                for name in _USUAL:
                    if text := scraped.labels.get(name):
                        values[name].add(text)
            several = [name for name in _USUAL if len(values[name]) > 1]
            self.label = several[0] if several else _label_of_collision(answers.get("gpus", ()))
        label = self.label
        if label is None:
            return {what: list(series) for what, series in answers.items()}
        # Each scrape may have a label of its own: where none was given, another usual one is as good.
        labels = (label,) if self._given or label not in _USUAL else (label, *_USUAL)
        return {what: [_named(scraped, labels) for scraped in series] for what, series in answers.items()}


def _named(series: ScrapedSeries, labels: Sequence[str]) -> ScrapedSeries:
    cluster = next((series.labels[label] for label in labels if series.labels.get(label)), None)
    if not cluster:
        return series
    part = _NO_NAME.sub("-", cluster).strip("._-")
    if not cluster.isascii() or not part:  # what is left of it may be left of another one, too
        part = f"{part}-{sha256(cluster.encode()).hexdigest()[:8]}".lstrip("-")
    of = {name: f"{part}.{series.labels[name]}" for name in _NAMESPACES if series.labels.get(name)}
    return replace(series, labels={**series.labels, **of, CLUSTER: part})


def _label_of_collision(gpus: Iterable[ScrapedSeries]) -> str | None:
    """Return the label of GPUs that have one node's name and one number at one time, but are two."""
    places: dict[tuple[str, str], dict[str, list[ScrapedSeries]]] = defaultdict(lambda: defaultdict(list))
    for scraped in gpus:
        host = first_of(scraped.labels, (*NODE_LABELS, "Hostname"))
        if host and host not in OWN_HOST and scraped.points and scraped.labels.get("UUID"):
            places[host, scraped.labels.get("gpu", "")][scraped.labels["UUID"]].append(scraped)
    for (host, gpu), of_uuids in sorted(places.items()):
        several = [of for _, of in sorted(of_uuids.items())]
        for first, second in pairwise(several):
            spans = [
                (min(scraped.points[0][0] for scraped in of), max(scraped.points[-1][0] for scraped in of))
                for of in (first, second)
            ]
            if spans[0][0] >= spans[1][1] or spans[1][0] >= spans[0][1]:  # one came when the other had gone
                continue
            # Labels that both have and that differ; a usual one of a cluster may be in one of them alone.
            ours, theirs = first[0].labels, second[0].labels
            shown = (ours.keys() & theirs.keys()) | ((ours.keys() ^ theirs.keys()) & set(_USUAL))
            names = [
                name for name in sorted(shown)
                if ours.get(name) != theirs.get(name) and not _OF_THE_GPU.fullmatch(name)
            ]  # fmt: skip
            if len(names) == 1:
                return names[0]
            if names:
                raise ClustersMixedError(
                    f"two machines are called {host}: GPU {gpu} of it is {first[0].labels['UUID']} and "
                    f"{second[0].labels['UUID']}, and the labels {', '.join(names)} differ: give "
                    "DUTYCYCLE_PROMETHEUS_CLUSTER the one that has the cluster's name"
                )
    return None

"""Tells which exporter a series of dcgm-exporter is of, and whose pod it names. Pure."""

from collections.abc import Iterable

from collectors.prometheus.identity.labels import (
    POD_INFO,
    RENAMED,
    Workload,
    address_of,
    target_of,
    workload_of,
    workloads,
)
from collectors.prometheus.series import ScrapedSeries, SeriesLabels
from dutycycle.kube.resources import is_gpu, is_like_gpu

_REQUESTS = "kube_pod_container_resource_requests"
_NVIDIA_S_OWN = "dcgm-exporter"
"""In the name of the exporter's pod as NVIDIA's charts make it: the last resort, where nothing else tells."""
_Name = tuple[str, str]


class Exporters:
    """Tells whether the pod that a series of dcgm-exporter names is the exporter's own.

    A scrape adds the labels of the target: in place of the exporter's own, or where a free GPU has none.
    """

    def __init__(self) -> None:
        self.renaming: set[str] = set()
        """Scrape jobs that rename the exporter's labels: all their targets do."""
        self._asking: set[_Name] = set()
        self._requests_known = False
        self._daemons: set[_Name] = set()
        self._of_others: set[_Name] = set()
        self._addresses: dict[_Name, str] = {}

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take series of GPUs."""
        for scraped in series:
            # Or the pod's name is there in the old form, beside the form in which a scrape writes its own.
            has_both = scraped.labels.get("pod_name") and scraped.labels.get("pod")
            if has_both or any(name.startswith(f"{RENAMED}pod") for name in scraped.labels):
                self.renaming.add(_scrape_of(scraped.labels))

    def learn_pods(self, series: Iterable[ScrapedSeries]) -> None:
        """Take what kube-state-metrics says of pods now; where it says nothing, what was known stays."""
        named = [(scraped, who) for scraped in series if (who := workload_of(scraped.labels)) is not None]
        if named:
            self._asking, self._daemons, self._of_others, self._addresses = set(), set(), set(), {}
        for scraped, who in named:
            metric = scraped.labels.get("__name__")
            name = who.namespace, who.pod
            if metric == POD_INFO:
                owner = scraped.labels.get("created_by_kind")
                if owner == "DaemonSet":
                    self._daemons.add(name)
                elif owner:  # series without it are of a version that does not say it
                    self._of_others.add(name)
                if (address := scraped.labels.get("pod_ip")) and scraped.labels.get("host_network") != "true":
                    self._addresses[name] = address
            elif metric == _REQUESTS:
                self._requests_known = True
                resource = scraped.labels.get("resource", "")
                if is_gpu(resource) or is_like_gpu(resource):
                    self._asking.add(name)

    def holder_of(self, labels: SeriesLabels) -> Workload | None:
        """Return the workload that a GPU was given to; None for none."""
        for may_be_own, who in workloads(labels):
            if not (may_be_own and self._is_own_pod(labels, who)):
                return who
        return None

    def _is_own_pod(self, labels: SeriesLabels, who: Workload) -> bool:
        name = who.namespace, who.pod
        if (scrape := _scrape_of(labels)) and scrape in self.renaming:
            return True
        if labels.get("Hostname") == who.pod:
            return True
        if name in self._asking:
            return False
        at_target = name in self._addresses and self._addresses[name] == address_of(labels)
        is_daemon = self._requests_known and name in self._daemons
        return at_target or is_daemon or (_NVIDIA_S_OWN in who.pod and name not in self._of_others)


def _scrape_of(labels: SeriesLabels) -> str:
    """Return the scrape job, or the target alone where a series does not say it; empty without either."""
    job, instance = target_of(labels)
    return job or instance

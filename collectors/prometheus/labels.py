"""Who a series is about: the node, and the pod that a workload belongs to. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from collectors.attribution.cgroup_path import CgroupId, parse_cgroup_path
from collectors.prometheus.series import NewSample, ScrapedSeries, SeriesLabels

_NODE = ("node", "Hostname", "hostname", "kubernetes_node", "nodename", "kubernetes_io_hostname")
_SANDBOX = ("", "POD")


def node_of(labels: SeriesLabels, host_name: str = "") -> str:
    """The node's name: as the scrape configuration says it, as the exporter does, or the target's host.

    ``host_name``: what else is known of the target, empty for nothing.
    """
    named = next((labels[key] for key in _NODE if labels.get(key)), None)
    return named or host_name or labels.get("instance", "").rpartition(":")[0]


@dataclass(frozen=True, slots=True)
class Workload:
    """A pod by its names, and the container inside, which is empty for the pod as a whole."""

    namespace: str
    pod: str
    container: str = ""


def workload_of(labels: SeriesLabels) -> Workload | None:
    """The workload that a series is about; None for none.

    A scrape without ``honor_labels`` renames the exporter's labels to ``exported_…`` and puts the
    exporter's own pod in their place. cAdvisor on its own shows the runtime's labels.
    """
    for prefix, suffix in (("exported_", ""), ("container_label_io_kubernetes_", "_name"), ("", "")):
        if pod := labels.get(f"{prefix}pod{suffix}"):
            container = labels.get(f"{prefix}container{suffix}", "")
            namespace = labels.get(f"{prefix}namespace") or labels.get(f"{prefix}pod_namespace", "")
            return Workload(namespace, pod, "" if container in _SANDBOX else container)
    return None


def gpu_workload_of(labels: SeriesLabels) -> Workload | None:
    """The workload that a GPU was given to: never the exporter itself, whose pod a scrape may name."""
    who = workload_of(labels)
    return None if who is None or "dcgm" in who.container or "dcgm-exporter" in who.pod else who


@dataclass(frozen=True, slots=True)
class PodRef:
    """A pod, as the cgroup samples name it; ``container_id`` is absent for the pod as a whole."""

    uid: str
    container_id: str | None = None
    qos: str | None = None
    on_host_network: bool = False


class PodIndex:
    """From names to uids: by the cgroup's path where cAdvisor shows it, else by ``kube_pod_info``."""

    def __init__(self, cgroup: Callable[[str], CgroupId | None] = parse_cgroup_path) -> None:
        self._cgroup = cgroup
        self._uids: dict[tuple[str, str], str] = {}
        self._containers: dict[Workload, str] = {}
        self._on_host_network: frozenset[str] = frozenset()

    def learn_pods(self, infos: Iterable[ScrapedSeries]) -> None:
        """Take ``kube_pod_info`` as it is now."""
        infos = list(infos)
        named = [(one, one.labels.get("uid", "")) for one in infos if one.labels.get("uid")]
        for one, uid in named:
            if (who := workload_of(one.labels)) is not None:
                self._uids[who.namespace, who.pod] = uid
        self._on_host_network = frozenset(
            uid for one, uid in named if one.labels.get("host_network") == "true"
        )

    def learn_containers(self, samples: Iterable[NewSample]) -> None:
        """Take what cAdvisor's paths say about names."""
        for one in samples:
            who, pod = workload_of(one.labels), self.of(one.labels)
            if who is None or pod is None:
                continue
            self._uids[who.namespace, who.pod] = pod.uid
            if who.container and pod.container_id:
                self._containers[who] = pod.container_id

    def of(self, labels: SeriesLabels) -> PodRef | None:
        """The pod or container that a series of cAdvisor is about; None for what is no pod's."""
        who, group = workload_of(labels), self._cgroup(labels.get("id", ""))
        uid = group.pod_uid if group else self._uids.get((who.namespace, who.pod)) if who else None
        if uid is None:
            return None
        container_id = None  # a pod as a whole, or the sandbox that holds its network
        if who is None:
            container_id = group.container_id if group else None
        elif who.container:
            container_id = (group.container_id if group else None) or labels.get("name") or who.container
        return PodRef(uid, container_id, group.qos if group else None, uid in self._on_host_network)

    def find(self, who: Workload) -> PodRef | None:
        """The pod of these names; None while it is not known."""
        uid = self._uids.get((who.namespace, who.pod))
        return None if uid is None else PodRef(uid, self._containers.get(who))

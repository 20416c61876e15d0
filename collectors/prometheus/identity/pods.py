"""Finds the uids of pods by their names. Pure."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from collectors.attribution.cgroup_path import parse_cgroup_path
from collectors.prometheus.identity.labels import POD_INFO, Workload, workload_of
from collectors.prometheus.series import NewSample, ScrapedSeries, SeriesLabels
from dutycycle.contract.records.pods import name_key

_PATIENT_ANSWERS = 4
"""Answers without a pod's uid, while others have theirs, after which it has none: a new pod's comes later."""
UidOf = Callable[[str, str], str | None]
"""The uid of a pod by its namespace and name; None while it is not known."""
_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PodRef:
    """Names a pod, as the cgroup samples name it. ``container_id`` is absent for what is no container's: the
    cgroup of the pod as a whole (``is_whole``), and its sandbox, which has the network."""

    uid: str
    container_id: str | None = None
    qos: str | None = None
    on_host_network: bool = False
    is_whole: bool = False


class PodIndex:
    """Finds uids by names: by the cgroup's path where cAdvisor shows it, else by ``kube_pod_info``.

    ``uid_of``: the API server, where there is one. Without one a pod whose uid no series tells is known by a
    ``name_key``. While series do tell those of others, that waits for some answers: a uid that came after it
    would make two pods of one.
    """

    def __init__(
        self,
        uid_of: UidOf | None = None,
        patient_answers: int = _PATIENT_ANSWERS,
    ) -> None:
        self._uid_of = uid_of
        self._patient_answers = patient_answers
        self._answers = 0
        self._unknown: dict[tuple[str, str], tuple[int, int]] = {}
        """Pods without a uid: with which answer each was first asked for, and with which last."""
        self._uids: dict[_Name, str] = {}
        self._on_host_network: set[str] = set()

    def learn_pods(self, infos: Iterable[ScrapedSeries]) -> None:
        """Take ``kube_pod_info`` as it is now; series of other names are left out."""
        self._answers += 1
        oldest = self._answers - 2 * self._patient_answers
        self._unknown = {name: times for name, times in self._unknown.items() if times[1] >= oldest}
        infos = [info for info in infos if info.labels.get("__name__") == POD_INFO]
        named = [(info, info.labels.get("uid", "")) for info in infos if info.labels.get("uid")]
        for info, uid in named:
            if (who := workload_of(info.labels)) is not None:
                self._uids[who.namespace, who.pod] = uid
        self._on_host_network |= {uid for info, uid in named if info.labels.get("host_network") == "true"}

    def learn_containers(self, samples: Iterable[NewSample | ScrapedSeries]) -> None:
        """Take what cAdvisor's paths say about names."""
        for sample in samples:
            who, group = workload_of(sample.labels), parse_cgroup_path(sample.labels.get("id", ""))
            if who is not None and group is not None and group.pod_uid is not None:
                self._uids[who.namespace, who.pod] = group.pod_uid

    def of(self, labels: SeriesLabels) -> PodRef | None:
        """Return the pod or container that a series of cAdvisor is about; None for what is no pod's."""
        who, path = workload_of(labels), labels.get("id", "")
        group = parse_cgroup_path(path)
        if group is not None:
            uid: str | None = group.pod_uid
        elif who is not None:
            # A path that is no pod's may come with the labels of the exporter's own pod.
            uid = self._uids.get((who.namespace, who.pod)) if path else self._key_of(who)
        else:
            uid = None
        if uid is None:
            return None
        container_id = None  # a pod as a whole, or the sandbox that holds its network
        if who is None:
            container_id = group.container_id if group else None
        elif who.container:
            container_id = (group.container_id if group else None) or labels.get("name") or who.container
        of_container = group.container_id if group else labels.get("name")
        return PodRef(
            uid, container_id, group.qos if group else None, uid in self._on_host_network,
            is_whole=container_id is None and not of_container,
        )  # fmt: skip

    def find(self, who: Workload, labels: SeriesLabels) -> str | None:
        """Return the uid of the pod that a series of dcgm-exporter names, which may have it in a label; None
        while it is not known."""
        return labels.get("pod_uid") or self._key_of(who)

    def placed(self, who: Workload) -> Workload | None:
        """Return a workload with its namespace: that of the only known pod of its name, where the labels have
        none; else None."""
        if who.namespace:
            return who
        spaces = {namespace for namespace, pod in self._uids if pod == who.pod and namespace}
        return replace(who, namespace=spaces.pop()) if len(spaces) == 1 else None

    def _key_of(self, who: Workload) -> str | None:
        name = who.namespace, who.pod
        if (uid := self._uids.get(name)) is not None:
            return uid
        if self._uid_of is not None:
            return self._uid_of(*name)
        since, _ = self._unknown.get(name, (self._answers, 0))
        self._unknown[name] = since, self._answers
        if self._uids and self._answers - since < self._patient_answers:
            return None
        return name_key(*name)

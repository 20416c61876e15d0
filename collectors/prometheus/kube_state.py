"""Reads what kube-state-metrics tells of pods: owners, phase, times, and what they request. Pure.

Init containers have metrics of their own, which are not read: what they request counts rarely.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from collectors.prometheus.identity.labels import POD_INFO, Workload, namespace_of, workload_of
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.records.pods import UNENDING, JobRef, Pod, name_key
from dutycycle.contract.units import MAX_AMOUNT, sum_of_known
from dutycycle.kube.resources import is_gpu, is_like_gpu

OWNED = {"kube_replicaset_owner": ("ReplicaSet", "replicaset"), "kube_job_owner": ("Job", "job_name")}
"""By metric: the kind that has an owner, and the label with its name."""
_NO_JOBS = frozenset({"", "<none>", "Node"})
"""Kinds that own no job: a static pod belongs to its node."""
_API_VERSIONS = {
    "ReplicationController": "v1", "ReplicaSet": "apps/v1", "Deployment": "apps/v1", "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1", "Job": "batch/v1", "CronJob": "batch/v1",
}  # fmt: skip
_UNKNOWN_VERSION = "unknown"
_MOST_LEVELS = 16
_Owned = tuple[str, str, str]
"""Kind, namespace and name."""


class OwnerIndex:
    """Keeps the owners that were there when it was last asked for them. Nobody tells their uids, so a job is
    known by its name: see ``name_key``."""

    def __init__(self) -> None:
        self._owners: dict[_Owned, tuple[str, str]] = {}

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take the owners as they are now; series of other names are left out."""
        self._owners = {}
        for labels in (scraped.labels for scraped in series):
            metric = labels.get("__name__", "")
            prefix = "created_by" if metric == POD_INFO else "owner"
            owner = labels.get(f"{prefix}_kind", ""), labels.get(f"{prefix}_name", "")
            if owner[0] in _NO_JOBS:
                continue
            if metric in OWNED:
                kind, label = OWNED[metric]
                self._owners[kind, namespace_of(labels), labels.get(label, "")] = owner
            elif metric == POD_INFO and (who := workload_of(labels)) is not None:
                self._owners["Pod", who.namespace, who.pod] = owner

    def job_of(self, who: Workload) -> JobRef | None:
        """Return the topmost owner that is known; None without any."""
        at: tuple[str, str] | None = None
        above = own = self._owners.get(("Pod", who.namespace, who.pod))
        for _ in range(_MOST_LEVELS):
            if above is None:
                break
            at, above = above, self._owners.get((above[0], who.namespace, above[1]))
        if at is None or own is None:
            return None
        kind, name = at
        # The ReplicaSet of a Deployment, the Job of a CronJob; what owns pods itself tells no revisions.
        revision = own[1] if own != at else kind.lower()
        return JobRef(
            api_version=_API_VERSIONS.get(kind, _UNKNOWN_VERSION), kind=kind, name=name,
            uid=name_key(who.namespace, kind, name), revision=revision if kind in UNENDING else None,
        )  # fmt: skip


def own_job(uid: str, name: str) -> JobRef:
    """Return the job of a pod whose owner is not known, or that has none: the pod itself."""
    return JobRef(api_version="v1", kind="Pod", name=name, uid=uid)


_TIMES = {
    "kube_pod_created": "created_ms",
    "kube_pod_start_time": "started_ms",
    "kube_pod_completion_time": "finished_ms",
}
_LATEST_S = 1e10
"""No pod is of the year 2286."""
_PHASE = "kube_pod_status_phase"
_CONTAINER = "kube_pod_container_info"
_REQUESTS, _LIMITS = "kube_pod_container_resource_requests", "kube_pod_container_resource_limits"
_NAMES = "|".join([POD_INFO, *OWNED, *_TIMES, _CONTAINER, _REQUESTS, _LIMITS])
KUBE_SELECTOR = f'{{__name__=~"{_NAMES}|{_PHASE}"}}'
KUBE_NOW = f'{{__name__=~"{_NAMES}"}} or {_PHASE} == 1'
"""The same as it is now, without the phases that a pod is not in."""
_Name = tuple[str, str]
_Amounts = dict[tuple[str, str], float]
"""By container and resource."""


class KubeState:
    """Holds what was there when it was last asked for, and how often that was (``answers``).

    A fact that is gone since changes nothing of a pod.
    """

    def __init__(self) -> None:
        self._owners = OwnerIndex()
        self._facts: Mapping[_Name, Mapping[str, Any]] = {}
        self.answers = 0

    def learn(self, series: Iterable[ScrapedSeries]) -> None:
        """Take the answer to ``KUBE_SELECTOR`` or ``KUBE_NOW``."""
        every = list(series)
        self.answers += 1
        self._owners.learn(every)
        pods: dict[_Name, _Facts] = defaultdict(_Facts)
        for scraped in every:
            if scraped.points and (who := workload_of(scraped.labels)) is not None:
                pods[who.namespace, who.pod].add(scraped, who.container)
        self._facts = {name: facts.fields() for name, facts in pods.items()}

    def known_of(self, pod: Pod) -> Pod:
        """Return the pod with all that is known of it."""
        who = Workload(pod.namespace or "", pod.name)
        job = self._owners.job_of(who)
        fields = self._facts.get((who.namespace, who.pod), {})
        return replace(pod, **fields, **({} if job is None else {"job": job}))


class _Facts:
    """Collects the facts of one pod."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._containers: set[str] = set()
        self._requests: _Amounts = {}
        self._limits: _Amounts = {}

    def add(self, series: ScrapedSeries, container: str) -> None:
        metric, value = series.labels.get("__name__", ""), series.points[-1][1]
        if not 0 <= value <= (_LATEST_S if metric in _TIMES else MAX_AMOUNT):
            return
        if metric in _TIMES:
            self._fields[_TIMES[metric]] = round(value * 1000)
        elif metric == _PHASE and value == 1:
            self._fields["phase"] = series.labels.get("phase") or "Unknown"
        elif metric == _CONTAINER:
            self._containers.add(container)
        elif metric in (_REQUESTS, _LIMITS):
            amounts = self._requests if metric == _REQUESTS else self._limits
            amounts[container, series.labels.get("resource", "")] = value

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of a ``Pod`` that are known."""
        all_limited = all((container, "cpu") in self._limits for container in self._containers)
        fields = self._fields | {
            "cpu_request": _sum(self._requests, "cpu"),
            "mem_request_bytes": _sum(self._requests, "memory"),
            "cpu_limit": _sum(self._limits, "cpu") if all_limited else None,
        }
        if self._containers:
            asked = {name for (_, name), value in self._requests.items() if value}
            gpus = sum(value for (_, name), value in self._requests.items() if is_gpu(name))
            fields["gpu_request"] = None if not gpus and any(map(is_like_gpu, asked)) else gpus
        return {name: value for name, value in fields.items() if value is not None}


def _sum(amounts: _Amounts, resource: str) -> float | None:
    return sum_of_known(value for (_, name), value in amounts.items() if name == resource)

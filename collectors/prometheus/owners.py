"""Finds which job a pod belongs to, from the metrics of kube-state-metrics. Pure.

They have no uid of an owner, so a job is known by its name: see ``name_key``.
"""

from collections.abc import Iterable

from collectors.prometheus.identity.labels import POD_INFO, Workload, namespace_of, workload_of
from collectors.prometheus.series import ScrapedSeries
from dutycycle.contract.records.pods import UNENDING, JobRef, name_key

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
    """Keeps the owners that were there when it was last asked for them."""

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

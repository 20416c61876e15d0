"""Says who a pod is, and which job owns it."""

from collections.abc import Mapping

from dutycycle.contract.records.base import RecordBase, VersionedRecord
from dutycycle.contract.units import Amount, Count, Label, Millis, NodeName, Uid

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
TRIAL_OF = "dutycycle.io/trial-of"
"""Label of the Jobs and pods of a trial: the name of the Job that is tried."""
UNENDING = frozenset({
    "Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "ReplicationController", "LeaderWorkerSet",
    "InferenceService", "Notebook", "CronJob", "RayCluster", "RayService",
})  # fmt: skip
"""Kinds of owners that do not end: their pods are of a ``revision``."""
_BY_NAME = "name:"


def name_key(*names: str) -> str:
    """Return what stands instead of a uid that nobody knows: ``name:<namespace>/<pod>``, of a job
    ``name:<namespace>/<kind>/<name>``."""
    return _BY_NAME + "/".join(names)


def is_name_key(uid: str) -> bool:
    """Tell whether it was made by ``name_key``: no uid of a Kubernetes object has a colon."""
    return uid.startswith(_BY_NAME)


class JobRef(RecordBase, frozen=True, kw_only=True):
    """Names the object that a user would call the job: the topmost owner that could be read.

    ``revision``: of an owner that does not end, such as a Deployment or a CronJob, which of its templates, or
    of its runs, the pod is of; absent for a job that ends.
    """

    api_version: Label
    kind: Label
    name: Label
    uid: Uid
    role: Label | None = None
    replica: Count | None = None
    revision: Label | None = None


class Pod(VersionedRecord, frozen=True, kw_only=True):
    """A pod, or outside Kubernetes a container or unit that stands for one (``finished_ms``: it is gone).

    ``uid`` may be a ``name_key``: then pods that had one name, one after the other, cannot be told apart.
    ``object_uid``: of a static pod, whose ``uid`` is then its manifest's hash, that of its object on the API
    server. ``cpu_request`` and ``cpu_limit`` are in cores. ``labels``: those that the setting ``pod_labels``
    names.
    """

    uid: Uid
    namespace: Label | None = None
    name: Label
    node: NodeName
    phase: Label
    created_ms: Millis | None = None
    started_ms: Millis | None = None
    finished_ms: Millis | None = None
    images: tuple[str, ...] | None = None
    program: Uid | None = None
    template: Uid | None = None
    gpu_uuids: tuple[str, ...] | None = None
    gpu_request: Amount | None = None
    cpu_request: Amount | None = None
    cpu_limit: Amount | None = None
    mem_request_bytes: Amount | None = None
    job: JobRef | None = None
    trial_of: Label | None = None
    labels: Mapping[str, Label] | None = None
    object_uid: Uid | None = None

    def first_seen_ms(self, first_ms: int) -> int:
        """Return when it was seen first, by the first sample: not before it was started, whatever a node's
        clock said then."""
        return max(first_ms, self.started_ms or 0)

    @property
    def finished(self) -> bool:
        """Tell whether the pod will use nothing any more."""
        return self.finished_ms is not None or self.phase in FINISHED_PHASES

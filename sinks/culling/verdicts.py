"""Decides which workloads are proven idle: each pod of theirs that holds GPUs is, now and for hours. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dutycycle.contract.records.parts import PodInsight
from dutycycle.contract.records.pods import JobRef, is_name_key
from dutycycle.kube.references import KubeObject, deployment_of
from dutycycle.kube.resources import gpu_request
from dutycycle.view.newest import NewestRecords

FRESH_MS = 300_000
"""A pod whose newest record is older proves nothing: its source, the broker or the streams are silent."""


@dataclass(frozen=True, slots=True)
class IdlePod:
    """Holds what a pod's newest record says of the moment ``ts_ms``. ``idle_since_ms``: None while it uses a
    GPU, or nobody knows."""

    uid: str
    name: str
    namespace: str
    job: JobRef
    idle_since_ms: int | None
    ts_ms: int


@dataclass(frozen=True, slots=True)
class IdleWorkload:
    """Names the topmost owner of ``pods``, none of which has used a GPU since ``since_ms``."""

    job: JobRef
    namespace: str
    pods: tuple[IdlePod, ...]
    since_ms: int

    def __str__(self) -> str:
        return f"{self.job.kind} {self.namespace}/{self.job.name}"


class IdlePods:
    """Keeps the newest record of each pod that holds GPUs and has an owner."""

    def __init__(self) -> None:
        self._newest = NewestRecords()
        self._pods = self._newest.of(IdlePod)

    def take(self, record: PodInsight) -> None:
        """Take a record of ``pod-insights``."""
        pod, state = record.pod, record.state
        if state is None or pod.job is None or pod.namespace is None or is_name_key(pod.job.uid):
            return
        if not pod.gpu_request and not pod.gpu_uuids:
            return
        self._newest.put(
            pod.uid,
            IdlePod(pod.uid, pod.name, pod.namespace, pod.job, state.idle_since_ms, state.seen_ms),
        )

    def workloads(self, now_ms: int, after_ms: int) -> list[IdleWorkload]:
        """Return those of which no pod has used a GPU for ``after_ms``. What was not heard of lately is
        forgotten: it proves nothing. Nor does what was measured in the future: that clock is wrong."""
        self._newest.forget([IdlePod], now_ms - FRESH_MS - 1)
        by_job: dict[str, list[IdlePod]] = {}
        for pod in self._pods.values():
            by_job.setdefault(pod.job.uid, []).append(pod)
        idle = []
        for pods in by_job.values():
            since = [pod.idle_since_ms for pod in pods if pod.idle_since_ms is not None]
            are_known = len(since) == len(pods) and all(pod.ts_ms <= now_ms + FRESH_MS for pod in pods)
            if are_known and max(since) <= now_ms - after_ms:
                ordered = tuple(sorted(pods, key=lambda pod: pod.name))
                idle.append(IdleWorkload(pods[0].job, pods[0].namespace, ordered, max(since)))
        return idle


def unproven(workload: IdleWorkload, pods: Iterable[KubeObject]) -> str | None:
    """Tell why the pods of the namespace, as they are now, do not bear it out; None if they do.

    A pod of the workload that waits, or that nobody measures, may be about to work.
    """
    proven = {pod.uid for pod in workload.pods}
    here = [pod for pod in pods if pod["status"].get("phase") not in ("Succeeded", "Failed")]
    controllers = {uid for pod in here if pod["metadata"]["uid"] in proven for uid in _controllers(pod)}
    if not any(pod["metadata"]["uid"] in proven for pod in here):
        return "its pods are gone"
    for pod in here:
        meta = pod["metadata"]
        ours = not controllers.isdisjoint(_controllers(pod)) or deployment_of(meta) == workload.job.name
        # Of a claim, or of GPU memory, it is not known how many GPUs there are: some, perhaps.
        if ours and meta["uid"] not in proven and gpu_request(pod["spec"], meta.get("annotations")) != 0:
            return f"of its pod {meta['name']} it is not known"
    return None


def _controllers(pod: KubeObject) -> Iterator[str]:
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            yield owner["uid"]

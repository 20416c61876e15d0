"""Says how a pod is, in words: what it waits for, that it runs, how it ended. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from dutycycle.kube.references import KubeObject

_PULL = frozenset({"ErrImagePull", "ImagePullBackOff"})
_NO_IMAGE = frozenset({"InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_NOT_MADE = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_STARTING = frozenset({"ContainerCreating", "PodInitializing", ""})
_MOST = 240


@dataclass(frozen=True, slots=True)
class JobPodState:
    """Says how a pod is. ``words``: for people; ``started``: a container of it runs or has run; ``ended``: it
    is over for good.

    ``cannot_start``: what its image lacks, as long as it does; ``hopeless``: that cannot mend itself.
    """

    words: str
    started: bool = False
    ended: bool = False
    cannot_start: str | None = None
    hopeless: bool = False


@dataclass(frozen=True, slots=True)
class Exit:
    """Says how a container ended: ``code`` is not 0."""

    code: int
    container: str
    reason: str
    finished: str

    def __str__(self) -> str:
        reason = f" ({self.reason})" if self.reason not in ("", "Error") else ""
        return f"exit code {self.code}{reason}"


def state_of(pod: KubeObject, events: Iterable[KubeObject] = ()) -> JobPodState:
    """Return the state of a pod. ``events``: of this pod, oldest first; they tell what is done before a
    container starts."""
    status = pod.get("status") or {}
    phase = status.get("phase") or "Pending"
    node = (pod.get("spec") or {}).get("nodeName")
    where = f" on {node}" if node else ""
    if phase == "Succeeded":
        return JobPodState("succeeded", started=True, ended=True)
    if phase == "Failed":
        why = " ".join(f"{status.get('reason') or ''} {status.get('message') or ''}".split())
        exits = exits_of(pod)
        reasons = [str(exits[0])] if exits else []
        words = ", ".join(reasons + ([one_line(why)] if why else [])) or "no reason is given"
        return JobPodState(f"failed: {words}", started=True, ended=True)
    if pod["metadata"].get("deletionTimestamp"):
        return JobPodState(f"is being deleted{where}", started=_has_run(pod))
    waiting = _waiting(pod)
    if waiting is not None:
        return waiting
    if phase == "Unknown":
        return JobPodState(f"unknown: its node does not answer{where}", started=True)
    if phase == "Running":
        return JobPodState(f"running{where}", started=True)
    if not node:
        return JobPodState(f"pending: {_unscheduled(status)}")
    return JobPodState(f"pending{where}: {_before_start(events)}")


def exits_of(pod: KubeObject) -> list[Exit]:
    """Return how containers ended with a code other than 0, the first one first; of a restarted one, the
    last."""
    exits = []
    for container in _containers(pod):
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            ended = state.get("terminated")
            if ended and ended.get("exitCode"):
                reason, at = str(ended.get("reason") or ""), str(ended.get("finishedAt") or "")
                exits.append(Exit(int(ended["exitCode"]), str(container.get("name")), reason, at))
                break
    return sorted(exits, key=lambda container_exit: container_exit.finished)


def _waiting(pod: KubeObject) -> JobPodState | None:
    """Return what a container waits for that is more than its start."""
    for container in _containers(pod):
        waiting = (container.get("state") or {}).get("waiting") or {}
        reason, says = waiting.get("reason") or "", one_line(str(waiting.get("message") or ""))
        if reason in _STARTING:
            continue
        if reason == "CrashLoopBackOff":
            exits = [exit_ for exit_ in exits_of(pod) if exit_.container == container.get("name")]
            after = f" after {exits[0]}" if exits else ""
            return JobPodState(
                f"waits to restart{after}, {container.get('restartCount')} restarts", started=True
            )
        if reason in _PULL | _NO_IMAGE:
            says = f"image {container.get('image')} cannot be pulled: {says or reason}"
            return JobPodState(f"pending: {says}", _has_run(pod), False, says, reason in _NO_IMAGE)
        says = f"{reason}: {says}" if says else reason
        what = f"container {container.get('name')} cannot be started: {says}"
        return JobPodState(f"pending: {what}", _has_run(pod), False, what if reason in _NOT_MADE else None)
    return None


def _unscheduled(status: KubeObject) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            says = one_line(str(condition.get("message") or ""))
            if condition.get("reason") == "SchedulingGated":
                return f"held back by its scheduling gates{f': {says}' if says else ''}"
            return f"unschedulable: {says}" if says else "unschedulable"
    return "no node was chosen yet"


def _before_start(events: Iterable[KubeObject]) -> str:
    newest = next(reversed(list(events)), None)
    if newest is None:
        return "its containers are being made"
    says = one_line(str(newest.get("message") or ""))
    if newest.get("reason") == "Pulling":
        return f"pulling: {says}"
    return says if newest.get("type") == "Warning" else f"its containers are being made: {says}"


def _containers(pod: KubeObject) -> Iterator[KubeObject]:
    status = pod.get("status") or {}
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _has_run(pod: KubeObject) -> bool:
    states = [
        state
        for container in _containers(pod)
        for state in (container.get("state"), container.get("lastState"))
        if state
    ]
    return any("running" in state or "terminated" in state for state in states)


def one_line(text: str) -> str:
    """Fit what somebody else says on a line: blanks for breaks, and at most 240 characters."""
    line = " ".join(text.split())
    return line if len(line) <= _MOST else line[: _MOST - 2] + " …"

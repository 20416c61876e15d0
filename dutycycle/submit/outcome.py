"""Tells how a job ended: by its conditions, by its pods, and as an exit status. Pure.

===  ==========================================================================
0    it succeeded; what never ends by itself ran for as long as ``--for`` says
n    it failed: the exit code of the first of its containers that failed, from 1 to 255
1    it failed, and no container did, or with another code
124  ``--timeout`` is over
125  it was not run: refused, not permitted, its image cannot be pulled
130  Ctrl-C; 143: SIGTERM
===  ==========================================================================
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.kube.references import KubeObject
from dutycycle.submit.states import exits_of, one_line, state_of

FAILED, TIMED_OUT, NOT_RUN, OF_A_SIGNAL = 1, 124, 125, 128
_ENDED_WELL = {
    **dict.fromkeys(("complete", "completed", "succeeded", "successful"), True),
    **dict.fromkeys(("failed", "error", "stopped", "aborted", "terminated", "validationfailed"), False),
}
"""What conditions and states say in the end, some in capitals."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Says how a run ended: ``words`` are for people."""

    status: int
    words: str


def outcome_of(thing: KubeObject, pods: Collection[KubeObject]) -> Outcome | None:
    """Return the outcome of one object and its pods; None while it has not ended."""
    verdict = _verdict(thing)
    if verdict is None:
        return None
    succeeded, why = verdict
    return Outcome(0, "succeeded") if succeeded else _failure(pods, why)


def outcome_of_lost(pods: Collection[KubeObject]) -> Outcome:
    """Return the outcome of an object that somebody has deleted, perhaps because it had ended
    (``ttlSecondsAfterFinished``)."""
    phases = {(pod.get("status") or {}).get("phase") for pod in pods}
    if phases == {"Succeeded"}:
        return Outcome(0, "succeeded")
    why = "somebody has deleted it"
    return _failure(pods, why) if phases and phases <= {"Succeeded", "Failed"} else Outcome(FAILED, why)


def _failure(pods: Collection[KubeObject], why: str) -> Outcome:
    exits = sorted(
        ((container_exit, pod) for pod in pods for container_exit in exits_of(pod)),
        key=lambda exit_and_pod: exit_and_pod[0].finished,
    )
    if not exits:
        return Outcome(FAILED, f"failed: {one_line(why)}" if why else "failed")
    first, pod = exits[0]
    status = first.code if 0 < first.code < 256 else FAILED  # no more fits in the status of a process
    return Outcome(status, f"failed: {first} of {first.container} in pod {pod['metadata']['name']}")


def held_back(thing: KubeObject) -> str | None:
    """Tell why an object makes no pods: it is suspended, or its pods are refused; None where it does not
    say."""
    for condition in _conditions(_object(thing.get("status"))):
        if condition.get("status") == "True" and condition.get("type") in ("Suspended", "ReplicaFailure"):
            says = one_line(str(condition.get("message") or condition.get("reason") or ""))
            what = "suspended" if condition["type"] == "Suspended" else "its pods are refused"
            return f"{what}: {says}" if says else what
    return None


def _verdict(thing: KubeObject) -> tuple[bool, str] | None:
    """Tell whether it has succeeded, and why not; None while it goes on."""
    status = _object(thing.get("status"))
    if thing.get("kind") == "Pod":
        state = state_of(thing)
        return (
            (status.get("phase") == "Succeeded", state.words.removeprefix("failed: "))
            if state.ended
            else None
        )
    stage, spark = status.get("state"), _object(status.get("applicationState"))
    deployment = status.get("jobDeploymentStatus")
    words = (
        None if deployment == "Retrying" else status.get("jobStatus"),  # RayJob
        deployment,  # one that was not begun, or not in time
        _object(stage).get("phase"),  # Volcano's Job
        stage,  # RayCluster, and others in which it is a word
        spark.get("state"),  # SparkApplication
        status.get("phase"),  # Argo's Workflow, whose condition Completed tells of a failed one, too
    )
    for word in words:
        if (well := _ENDED_WELL.get(str(word).lower())) is not None:
            return well, str(status.get("message") or spark.get("errorMessage") or word)
    for condition in _conditions(status):
        well = _ENDED_WELL.get(str(condition.get("type")).lower())
        # The one condition of a run of Tekton, Succeeded, is false when it has failed.
        is_of_tekton = str(thing.get("apiVersion")).startswith("tekton.dev/")
        has_failed = is_of_tekton and well is True and condition.get("status") == "False"
        if has_failed or (condition.get("status") == "True" and well is not None):
            says = " ".join(
                f"{condition.get('reason') or ''}: {condition.get('message') or ''}".split()
            ).strip(": ")
            return bool(well) and not has_failed, says
    return None


def _object(part: Any) -> KubeObject:
    return part if isinstance(part, Mapping) else {}


def _conditions(status: KubeObject) -> Iterator[KubeObject]:
    conditions = status.get("conditions")
    yield from filter(None, map(_object, conditions if isinstance(conditions, list) else ()))

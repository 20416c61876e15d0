"""Tells how a job ended: by its conditions, by its pods, and as an exit status. Pure.

===  ==========================================================================
0    it succeeded; what never ends by itself ran for as long as ``--for`` says
n    it failed: the exit code of the first of its containers that failed
1    it failed, and no container did
124  ``--timeout`` is over
125  it was not run: refused, not permitted, its image cannot be pulled
130  Ctrl-C; 143: SIGTERM
===  ==========================================================================
"""

from collections.abc import Collection
from dataclasses import dataclass

from dutycycle.kube.references import KubeObject
from dutycycle.submit.states import exits_of, one_line, state_of

FAILED, TIMED_OUT, NOT_RUN, OF_A_SIGNAL = 1, 124, 125, 128
_ENDED_WELL = {
    **dict.fromkeys(("complete", "completed", "succeeded"), True),
    **dict.fromkeys(("failed", "error", "stopped", "aborted", "terminated"), False),
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
    return Outcome(first.code, f"failed: {first} of {first.container} in pod {pod['metadata']['name']}")


def held_back(thing: KubeObject) -> str | None:
    """Tell why an object makes no pods: it is suspended, or its pods are refused; None where it does not
    say."""
    for condition in (thing.get("status") or {}).get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Suspended", "ReplicaFailure"):
            says = one_line(str(condition.get("message") or condition.get("reason") or ""))
            what = "suspended" if condition["type"] == "Suspended" else "its pods are refused"
            return f"{what}: {says}" if says else what
    return None


def _verdict(thing: KubeObject) -> tuple[bool, str] | None:
    """Tell whether it has succeeded, and why not; None while it goes on."""
    status = thing.get("status") or {}
    if thing.get("kind") == "Pod":
        state = state_of(thing)
        return (
            (status.get("phase") == "Succeeded", state.words.removeprefix("failed: "))
            if state.ended
            else None
        )
    words = (
        status.get("jobStatus"),  # RayJob
        status.get("jobDeploymentStatus"),  # one that was not begun, or not in time
        (status.get("state") or {}).get("phase"),  # Volcano's Job
        (status.get("applicationState") or {}).get("state"),  # SparkApplication
        status.get("phase"),  # Argo's Workflow, whose condition Completed tells of a failed one, too
    )
    for word in words:
        if (well := _ENDED_WELL.get(str(word).lower())) is not None:
            error = (status.get("applicationState") or {}).get("errorMessage")
            return well, str(status.get("message") or error or word)
    for condition in status.get("conditions") or ():
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

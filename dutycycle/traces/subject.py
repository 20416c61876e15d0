"""Finds whom a name means: the pods of a job, or one pod."""

from collections.abc import Collection
from dataclasses import dataclass

from dutycycle.contract.errors import DutycycleError, NotMeasuredError
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.words import listed

NAMED = 8
"""So many names are listed where none or several fit."""


@dataclass(frozen=True, slots=True)
class TraceSubject:
    """Holds the pods, and their job if it was the job that was named."""

    pods: list[Pod]
    job: JobRef | None


def subject_of(
    known: Collection[Pod], *, job: str | None = None, pod: str | None = None, where: str = "the trace"
) -> TraceSubject:
    """Return a job or pod by its name, with or without its namespace, or by its uid. If ``job`` and ``pod``
    are both given, a job comes first. ``where``: what ``known`` was read from.

    Raises ``DutycycleError`` for a name that is not there, and for one that several have.
    """
    if job is not None:
        jobs_of_name = {
            entry.job.uid: entry.job for entry in known
            if entry.job and job in (entry.job.name, entry.job.uid, qualified(entry, entry.job.name))
        }  # fmt: skip
        if len(jobs_of_name) > 1:
            names = {f"{qualified(entry, entry.job.name)} ({entry.job.uid})" for entry in known
                     if entry.job and entry.job.uid in jobs_of_name}  # fmt: skip
            raise DutycycleError(f"several jobs are {job!r}: {listed(sorted(names), NAMED)}: give the uid")
        for uid, ref in jobs_of_name.items():
            return TraceSubject([entry for entry in known if entry.job and entry.job.uid == uid], ref)
    pods = [entry for entry in known if pod in (entry.name, entry.uid, qualified(entry, entry.name))]
    names = {qualified(entry, entry.name) for entry in pods}
    if len(names) > 1:
        raise DutycycleError(f"several pods are {pod!r}: {listed(sorted(names), NAMED)}: give the namespace")
    if not pods:
        jobs = {qualified(entry, entry.job.name) for entry in known if entry.job}
        there = {"job": (job, jobs), "pod": (pod, {qualified(entry, entry.name) for entry in known})}
        asked = {what: names for what, (name, names) in there.items() if name is not None}
        known_names = "; ".join(f"{what}s: {listed(sorted(names), NAMED)}" for what, names in asked.items())
        raise NotMeasuredError(
            f"no {' or '.join(asked)} {pod if job is None else job!r} in {where}; there are {known_names}"
        )
    return TraceSubject(pods, None)


def the_one(pods: Collection[Pod]) -> tuple[str | None, str | None]:
    """Return the uid of the one job that all belong to, or of the one pod; neither where they are several."""
    jobs = {pod.job.uid if pod.job is not None else None for pod in pods}
    job = jobs.pop() if len(jobs) == 1 else None
    return job, next(iter(pods)).uid if job is None and len(pods) == 1 else None


def qualified(pod: Pod, name: str) -> str:
    """Return the name with the namespace of the pod, if it has one."""
    return f"{pod.namespace}/{name}" if pod.namespace else name

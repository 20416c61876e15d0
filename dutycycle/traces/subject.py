"""Whom a name means: the pods of a job, or one pod."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.pods import JobRef, Pod

NAMED = 8
"""So many names are listed where none or several fit."""


@dataclass(frozen=True, slots=True)
class TraceSubject:
    """The pods, and their job if it was the job that was named."""

    pods: list[Pod]
    job: JobRef | None


def subject_of(
    known: Collection[Pod], *, job: str | None = None, pod: str | None = None, where: str = "the trace"
) -> TraceSubject:
    """A job or pod by its name, with or without its namespace, or by its uid. If ``job`` and ``pod`` are both
    given, a job comes first. ``where``: what ``known`` was read from.

    Raises ``DutycycleError`` for a name that is not there, and for one that several have.
    """
    if job is not None:
        found = {one.job.uid: one.job for one in known if one.job and job in _names_of_job(one)}
        if len(found) > 1:
            names = {f"{qualified(one, one.job.name)} ({one.job.uid})" for one in known
                     if one.job and one.job.uid in found}  # fmt: skip
            raise DutycycleError(f"several jobs are {job!r}: {_listed(names)}: give the uid")
        for uid, ref in found.items():
            return TraceSubject([one for one in known if one.job and one.job.uid == uid], ref)
    pods = [one for one in known if pod in (one.name, one.uid, qualified(one, one.name))]
    names = {qualified(one, one.name) for one in pods}
    if len(names) > 1:
        raise DutycycleError(f"several pods are {pod!r}: {_listed(names)}: give the namespace")
    if not pods:
        raise DutycycleError(_unknown(known, job, pod, where))
    return TraceSubject(pods, None)


def the_one(pods: Collection[Pod]) -> tuple[str | None, str | None]:
    """The uid of the one job that all belong to, or of the one pod; neither where they are several."""
    jobs = {pod.job.uid if pod.job is not None else None for pod in pods}
    job = jobs.pop() if len(jobs) == 1 else None
    return job, next(iter(pods)).uid if job is None and len(pods) == 1 else None


def qualified(pod: Pod, name: str) -> str:
    """With the namespace of the pod, if it has one."""
    return f"{pod.namespace}/{name}" if pod.namespace else name


def _names_of_job(pod: Pod) -> tuple[str, ...]:
    return () if pod.job is None else (pod.job.name, pod.job.uid, qualified(pod, pod.job.name))


def _unknown(known: Iterable[Pod], job: str | None, pod: str | None, where: str) -> str:
    jobs = {qualified(one, one.job.name) for one in known if one.job}
    pods = {qualified(one, one.name) for one in known}
    there = {"job": (job, jobs), "pod": (pod, pods)}
    asked = {what: found for what, (name, found) in there.items() if name is not None}
    listed = "; ".join(f"{what}s: {_listed(found)}" for what, found in asked.items())
    return f"no {' or '.join(asked)} {job or pod!r} in {where}; there are {listed}"


def _listed(names: Collection[str]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(sorted(names)[:NAMED]) or "none") + more

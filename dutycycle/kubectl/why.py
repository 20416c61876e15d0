"""``why POD``: what is known of a pod or job, and what holds it up; what is not known is said to be so."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from contract.codec import to_plain
from contract.records.derived import JobPeaks, PodPeaks
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    INSIGHTS,
    Json,
    MaxUsage,
    attribution,
    by_process,
    insights,
    of_job,
    of_pod,
    of_whole_job,
    omitted,
    ours,
)
from dutycycle.kubectl.api import Api, KubectlError, NotThereError
from dutycycle.kubectl.jobs import OWNERS, Jobs, called, job_and_word, name_of, words_of
from dutycycle.kubectl.top import age_s
from kube.discovery import POD
from sinks.annotations.core.job import job_summary, job_values
from sinks.annotations.core.keys import GPU_UTIL, PODS_SUMMARY, UPDATED
from sinks.annotations.core.pod import pod_values


@dataclass(frozen=True, slots=True)
class _Subject:
    """The pod or job that is asked about. ``found``: its annotations, or what they would be by its record.

    ``is_deleted``: the record alone is left of it.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    found: Json
    record: PodPeaks | JobPeaks | None
    is_deleted: bool = False

    @property
    def usage(self) -> MaxUsage:
        return of_pod(self.found) if self.kind == POD.name else of_whole_job(self.found)


def show_why(api: Api, args: argparse.Namespace) -> None:
    """Print it. Raises ``KubectlError`` for a pod or job of which nothing at all is known."""
    word = args.what.rpartition("/")[0].lower()
    subject = _job(api, args) if word and word not in words_of(POD) else _pod(api, args)
    if not subject.found and subject.record is None:
        raise KubectlError(
            f"nothing is known of {subject.kind.lower()} {subject.name}: it carries no {args.prefix}/ "
            "annotation. They come within a minute of its first sample; "
            "`kubectl dutycycle top pods` shows whether others have some"
        )
    known = insights(subject.found)
    if output.is_data(args.output):
        output.emit(_plain(subject, known), args.output)
        return
    deleted = " (deleted: this is its peak record)" if subject.is_deleted else ""
    print(f"{subject.kind.lower()} {subject.namespace}/{subject.name}{deleted}")  # noqa: T201
    for line in (*_figures(subject), *_means(subject.record), *_insights(known, subject)):
        sys.stdout.write(f"  {line}\n")


def _pod(api: Api, args: argparse.Namespace) -> _Subject:
    name = name_of(POD, args.what)
    try:
        meta = api.read(POD, args.namespace, name)
    except NotThereError as error:
        records = _pod_records(args.records, args.namespace, name) if args.records else []
        if not records:
            raise _gone(error, args.records) from error
        newest = records[-1]  # of several that had the name, one after the other
        uid, found = newest.pod.uid, pod_values(newest)
        return _Subject(POD.name, args.namespace, name, uid, found, newest, is_deleted=True)
    uid, found = str(meta["uid"]), ours(meta.get("annotations"), args.prefix)
    records = _pod_records(args.records, args.namespace, name) if args.records else []
    record = next((one for one in records if one.pod.uid == uid), None)
    return _Subject(POD.name, args.namespace, name, uid, found, record)


def _job(api: Api, args: argparse.Namespace) -> _Subject:
    try:
        job = Jobs(api, args.prefix).one(args.what, args.namespace)
    except NotThereError as error:
        name, word = job_and_word(args.what)
        kinds = {kind.name for kind in called(word, (*OWNERS, *api.kinds()))}
        records = _job_records(args.records, args.namespace, name) if args.records else []
        named = [one for one in records if one.job.kind in kinds]
        if not named:
            raise _gone(error, args.records) from error
        newest = max(named, key=lambda one: one.last_ms)
        found = _as_annotations(newest)
        return _Subject(newest.job.kind, args.namespace, name, newest.job.uid, found, newest, is_deleted=True)
    uid = str(job.meta["uid"])
    records = _job_records(args.records, args.namespace, uid) if args.records else []
    return _Subject(
        job.kind.name, args.namespace, str(job.meta["name"]), uid, job.found, next(iter(records), None)
    )


def _gone(error: NotThereError, records: str | None) -> NotThereError:
    hint = "and has no peak record" if records else "--records finds what deleted ones used"
    return NotThereError(f"{error}; {hint}")


def _as_annotations(record: JobPeaks) -> Json:
    return {pod: {"pod": pod} | value for pod, value in job_values(record).items()} | {
        PODS_SUMMARY: job_summary(record)
    }


def _plain(subject: _Subject, known: dict[str, str]) -> dict[str, Any]:
    where: dict[str, Any] = {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name}
    where |= {"uid": subject.uid, "deleted": subject.is_deleted}
    not_known = [name for name in INSIGHTS if name not in known]
    record = {"record": to_plain(subject.record)} if subject.record else {}
    return where | {"insight": known, "not_known": not_known, "annotations": subject.found} | record


def _figures(subject: _Subject) -> Iterator[str]:
    """What it used at most, and where that is known from."""
    found = subject.found
    if parts := list(_parts(subject.usage)):
        yield f"at most      {_joined(parts)}"
    if subject.kind != POD.name:
        yield f"pods         {len(of_job(found)) + omitted(found)}"
        return
    shares = by_process(found, GPU_UTIL)
    if len(shares) > 1:
        each = (f"{_process(*key)} {output.format_percent(value)}" for key, value in shares.items())
        yield f"of which     {_joined(each)}"
    if words := attribution(found):
        yield f"attribution  {_joined(f'GPU {index} {word}' for index, word in words.items())}"
    if (seconds := age_s(found.get(UPDATED))) is not None:
        yield f"last sample  {output.format_age(seconds)} ago"


def _parts(usage: MaxUsage) -> Iterator[str]:
    figures = {
        "GPU {}": output.format_percent(usage.gpu_pct),
        "GPU memory bus {}": output.format_percent(usage.gpu_mem_bus_pct),
        "GPU memory {}": output.format_megabytes(usage.gpu_mem_mb),
        "CPU {} of a core": output.format_percent(usage.cpu_pct),
        "memory {}": output.format_megabytes(usage.mem_mb),
        "network {} Mbit/s": output.format_number(usage.net_mbps),
        "disk {} MB/s": output.format_number(usage.disk),
    }
    return (form.format(text) for form, text in figures.items() if text != output.DASH)


def _means(record: PodPeaks | JobPeaks | None) -> Iterator[str]:
    """What only the records have: means, and over which time."""
    if record is None:
        return
    names = {"gpu_util_pct": "GPU", "cpu_util_pct": "CPU", "cpu_throttled_pct": "CPU throttled"}
    means = (
        f"{words} {output.format_percent(record.metrics[name].mean)}"
        for name, words in names.items()
        if name in record.metrics
    )
    length = output.format_age((record.last_ms - record.first_ms) / 1000)
    yield f"on average   {_joined(means)}, over {length}"


def _insights(known: dict[str, str], subject: _Subject) -> Iterator[str]:
    missing = "not known: peak records do not have it" if subject.is_deleted else "not known yet"
    for name in INSIGHTS:
        yield f"{name:<12} {known.get(name, missing)}"


def _pod_records(url: str, namespace: str, name: str) -> list[PodPeaks]:
    """The peak records of all pods that ever had the name, in the order of their starts."""
    from sinks.records.query import pod_peaks  # SQLAlchemy takes longer to import than all the rest

    return pod_peaks(url, namespace, name=name)


def _job_records(url: str, namespace: str, name_or_uid: str) -> list[JobPeaks]:
    from sinks.records.query import job_peaks  # as above

    return job_peaks(url, namespace, name_or_uid)


def _process(gpu: int, pid: int | None) -> str:
    return f"GPU {gpu}" if pid is None else f"process {pid} on GPU {gpu}"


def _joined(parts: Iterable[str]) -> str:
    return ", ".join(parts)

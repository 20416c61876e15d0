"""Shows ``why POD``: what is known of a pod or job, and what holds it up; what is not known is said to be
so. Of annotations that somebody else has spoilt the values are as if they were not there."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.codec import to_plain
from dutycycle.contract.records.derived import JobPeaks, PodPeaks
from dutycycle.contract.units import unix_ms
from dutycycle.kube.discovery import NODE, POD
from dutycycle.kubectl import output
from dutycycle.kubectl.annotations import (
    INSIGHTS,
    Json,
    MaxUsage,
    anomaly,
    attribution,
    by_process,
    counts_of_job,
    earlier_revisions,
    insights,
    of_pod,
    of_whole_job,
    ours,
    priority,
    profiled,
)
from dutycycle.kubectl.api import Api, KubectlError, NotThereError
from dutycycle.kubectl.jobs import OWNERS, Jobs, called, job_and_word, name_of, words_of
from dutycycle.kubectl.last_sample import JobSamples, LastSample, LastSamples, Sampling, ended
from dutycycle.kubectl.nodes import show_why_node
from sinks.annotations.core import keys
from sinks.annotations.core.job import job_summary, job_values
from sinks.annotations.core.keys import GPU_UNTOUCHED, GPU_UTIL, PODS_SUMMARY, UPDATED
from sinks.annotations.core.values import pod_values

_FORECASTS = {
    "gpu_util_pct": ("GPU", output.format_percent),
    "gpu_mem_used_mb": ("GPU memory", output.format_megabytes),
    "mem_used_mb": ("memory", output.format_megabytes),
}
_FULL = {keys.GPU_MEM_FULL: "GPU memory", keys.MEM_FULL: "memory"}
_MEANS = {
    "gpu_util_pct": "GPU",
    "sm_active_pct": "SM",
    "tensor_active_pct": "tensor cores",
    "dram_active_pct": "GPU memory bandwidth",
    "cpu_util_pct": "CPU",
    "cpu_throttled_pct": "CPU throttled",
}
_USED = {
    "gpu_pct": "GPU {}", "gpu_mem_bus_pct": "GPU memory bus {}", "gpu_mem_mb": "GPU memory {}",
    "cpu_pct": "CPU {} of a core", "cpu_p95_pct": "CPU p95 {}", "mem_mb": "memory {}",
    "net_mbps": "network {} Mbit/s", "disk": "disk {} MB/s",
}  # fmt: skip


def outlook(annotations: Json, now_ms: int) -> dict[str, str]:
    """Return ``cycle``, ``forecast`` and ``full`` as text, those that are known."""
    levels, forecasts, full = annotations.get(keys.LEVEL_FORECAST), [], []
    for name, (words, form) in _FORECASTS.items():
        ahead = levels.get(name) if isinstance(levels, dict) else None
        if isinstance(ahead, dict) and ahead:
            horizon, level = list(ahead.items())[-1]  # the farthest
            if type(level) in (int, float):
                forecasts.append(f"{words} {form(level)} in {horizon}")
    for key, words in _FULL.items():
        with suppress(ValueError):
            at_ms = unix_ms(str(annotations.get(key)))
            full.append(f"{words} in {output.format_age((at_ms - now_ms) / 1000)}")
    period_s, sure = annotations.get(keys.CYCLE_PERIOD), annotations.get(keys.CYCLE_CONFIDENCE)
    cycle = ""
    if type(period_s) in (int, float):
        cycle = f"{period_s:g}s" + (f", {100 * sure:.0f}% sure" if isinstance(sure, int | float) else "")
        steps = annotations.get(keys.CYCLE_STEPS)
        if annotations.get(keys.CYCLE_SOURCE) is not None:
            cycle += ", as the training reports"
        elif isinstance(steps, int | float) and steps != 1:
            cycle += f", {steps:g} steps"
    lines = {"cycle": cycle, "forecast": ", ".join(forecasts), "full": ", ".join(full)}
    return {name: text for name, text in lines.items() if text}


def placement(annotations: Json, node: str | None) -> Iterator[tuple[str, str]]:
    """Name and text of each line about where the pod is to run: what it is expected to need, and the scores
    of the best nodes; ``node`` is its own."""
    placement = annotations.get(keys.PLACEMENT)
    if isinstance(placement, dict):
        yield "expected", str(placement.get("expected", "not known: no pod like it has ended"))
        listed = placement.get("nodes")
        nodes = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        left_out = placement.get("left_out")
        lacking = f", {left_out} left out for want of GPU memory" if left_out else ""
        yield "nodes", f"the best {len(nodes)} of {placement.get('considered', '?')}, scores of 10{lacking}"
        for entry in nodes:
            here = " (it is here)" if entry.get("node") == node else ""
            yield "", f"{entry.get('score')} {entry.get('node')}{here}: {entry.get('why')}"
        if node is not None and nodes and all(entry.get("node") != node for entry in nodes):
            yield "", f"it is on {node}: the scheduler weighs more than these scores"


def trials(annotations: Json) -> Iterator[tuple[str, str]]:
    """Name and text of each line about the trials of a job: the best, and the figures of each."""
    best, figures = annotations.get(keys.TRIAL_BEST), annotations.get(keys.TRIAL_FIGURES)
    if isinstance(figures, dict):
        yield "trials", f"best: {best}" if isinstance(best, str) else "which is best is not known"
        for name, text in figures.items():
            yield "", f"{name}: {text}"


@dataclass(frozen=True, slots=True)
class _AskedSubject:
    """Holds the pod or job that is asked about. ``found``: its annotations, or what they would be by its
    record.

    ``is_deleted``: the record alone is left of it.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    annotations: Json
    record: PodPeaks | JobPeaks | None
    sample: LastSample
    problem: str | None = None
    """Why its last sample is not known."""
    is_deleted: bool = False
    node: str | None = None
    remark: str = ""
    """Why this job is shown and not the one that was asked for."""

    @property
    def usage(self) -> MaxUsage:
        return of_pod(self.annotations) if self.kind == POD.name else of_whole_job(self.annotations)


def show_why(api: Api, args: argparse.Namespace) -> None:
    """Print it. Raises ``KubectlError`` for a pod, job or node of which nothing at all is known."""
    word = args.what.rpartition("/")[0].lower()
    if word in words_of(NODE):
        show_why_node(api, args)
        return
    subject = _job(api, args) if word and word not in words_of(POD) else _pod(api, args)
    if not subject.annotations and subject.record is None:
        raise KubectlError(
            f"nothing is known of {subject.kind.lower()} {subject.name}: it carries no {args.prefix}/ "
            "annotation. They come within a minute of its first sample; "
            "`kubectl dutycycle top pods` shows whether others have some"
        )
    known = insights(subject.annotations)
    odd, profile = anomaly(subject.annotations), profiled(subject.annotations)
    if output.is_data(args.output):
        where: dict[str, Any] = {"kind": subject.kind, "namespace": subject.namespace, "name": subject.name}
        where |= {"uid": subject.uid, "deleted": subject.is_deleted} | subject.sample.plain()
        not_known = [name for name in INSIGHTS if name not in known]
        record = to_plain(subject.record) if subject.record else None
        where |= {"insight": known, "not_known": not_known, "annotations": subject.annotations}
        rest = {"record": record, "anomaly": odd, "profile": profile}
        output.emit(where | {name: value for name, value in rest.items() if value}, args.output)
        return
    deleted = " (deleted: this is its peak record)" if subject.is_deleted else ""
    print(f"{subject.kind.lower()} {subject.namespace}/{subject.name}{deleted}")  # noqa: T201
    lines = [subject.remark] if subject.remark else []
    lines += _figures(subject)
    if (peaks := subject.record) is not None:  # only records have means, and over which time
        means = (
            f"{words} {output.format_percent(peaks.metrics[name].mean)}"
            for name, words in _MEANS.items()
            if name in peaks.metrics
        )
        length = output.format_age((peaks.last_ms - peaks.first_ms) / 1000)
        lines.append(f"on average   {', '.join(means)}, over {length}")
    missing = "not known: peak records do not have it" if subject.is_deleted else "not known yet"
    lines += [f"{name:<12} {known.get(name, missing)}" for name in INSIGHTS]
    lines += [f"{'anomaly':<12} {odd}"] if odd else []
    lines += [f"{'profile':<12} {': '.join(profile.values())}"] if profile else []
    for line in lines:
        sys.stdout.write(f"  {line}\n")


def _pod(api: Api, args: argparse.Namespace) -> _AskedSubject:
    name = name_of(POD, args.what)
    try:
        pod = api.pod(args.namespace, name)
    except NotThereError as error:
        records = _pod_records(args.records, args.namespace, name)
        if not records:
            raise _gone(error, args.records) from error
        newest = records[-1]  # of several that had the name, one after the other
        uid, annotations = newest.pod.uid, pod_values(newest)
        sample = LastSample(Sampling.ENDED, newest.last_ms)
        return _AskedSubject(
            POD.name, args.namespace, name, uid, annotations, newest, sample, is_deleted=True
        )
    uid, annotations = str(pod.meta["uid"]), ours(pod.meta.get("annotations"), args.prefix)
    samples = LastSamples.read(api)
    records = _pod_records(args.records, args.namespace, name)
    record = next((peaks for peaks in records if peaks.pod.uid == uid), None)
    sample = samples.of_pod(pod, annotations)
    return _AskedSubject(
        POD.name, args.namespace, name, uid, annotations, record, sample, samples.problem, node=pod.node
    )


def _job(api: Api, args: argparse.Namespace) -> _AskedSubject:
    try:
        job = Jobs(api, args.prefix).one(args.what, args.namespace)
    except NotThereError as error:
        name, word = job_and_word(args.what)
        kinds = {kind.name for kind in called(word, (*OWNERS, *api.kinds()))}
        records = _job_records(args.records, args.namespace, name)
        named = [peaks for peaks in records if peaks.job.kind in kinds]
        if not named:
            raise _gone(error, args.records) from error
        newest = max(named, key=lambda peaks: peaks.last_ms)
        annotations = {pod: {"pod": pod} | value for pod, value in job_values(newest).items()} | {
            PODS_SUMMARY: job_summary(newest)
        }
        kind, uid = newest.job.kind, newest.job.uid
        sample = LastSample(Sampling.ENDED, newest.last_ms)
        return _AskedSubject(kind, args.namespace, name, uid, annotations, newest, sample, is_deleted=True)
    uid, name = str(job.meta["uid"]), str(job.meta["name"])
    records = _job_records(args.records, args.namespace, uid)
    record = next(iter(records), None)
    samples = JobSamples(api, args.prefix, args.namespace)
    sample = samples.of_job(args.namespace, job.annotations)
    return _AskedSubject(
        job.kind.name, args.namespace, name, uid, job.annotations, record, sample, samples.problem,
        remark=job.remark,
    )  # fmt: skip


def _gone(error: NotThereError, records: str | None) -> NotThereError:
    hint = "and has no peak record" if records else "--records finds what deleted ones used"
    return NotThereError(f"{error}; {hint}")


def _figures(subject: _AskedSubject) -> Iterator[str]:
    """Yield what it used at most, and where that is known from."""
    annotations = subject.annotations
    if parts := list(_parts(subject.usage)):
        yield f"at most      {', '.join(parts)}"
    if subject.kind != POD.name:
        counts = counts_of_job(annotations)
        now = "" if counts.pods_now is None else f"{counts.pods_now} now, "
        yield f"pods         {now}{counts.pods_ever}{' ever' * bool(now)}"
        for revision, usage in earlier_revisions(annotations).items():
            yield f"earlier      {revision}: {', '.join(_parts(usage)) or 'nothing was measured'}"
        silent = "its pods are gone, or a node of theirs has no heartbeat"
    else:
        shares = by_process(annotations, GPU_UTIL)
        if len(shares) > 1:
            each = (
                f"{'' if pid is None else f'process {pid} on '}GPU {gpu} {output.format_percent(value)}"
                for (gpu, pid), value in shares.items()
            )
            yield f"of which     {', '.join(each)}"
        if untouched_h := annotations.get(GPU_UNTOUCHED):
            yield f"untouched    {untouched_h} GPU-hours held without a process on them"
        if words := attribution(annotations):
            yield f"attribution  {', '.join(f'GPU {index} {word}' for index, word in words.items())}"
        silent = "its node has no heartbeat (only nodes with GPUs have one)"
    if placed := priority(annotations):
        yield f"priority     {placed}"
    now_ms = round(time.time() * 1000)
    expected = outlook(annotations, now_ms).items()
    for name, text in (*expected, *placement(annotations, subject.node), *trials(annotations)):
        yield f"{name:<12} {text}"
    if subject.sample.at_ms is not None:
        yield f"last sample  {subject.sample.text(now_ms, ' ago')}"
        return
    written = ended(annotations.get(UPDATED))
    of = "" if written.at_ms is None else f"; the figures are {output.age_of(written.at_ms, now_ms)} old"
    yield f"last sample  not known: {subject.problem or silent}{of}"


def _parts(usage: MaxUsage) -> Iterator[str]:
    figures = zip(_USED.values(), output.format_usage(usage, *_USED), strict=True)
    return (form.format(text) for form, text in figures if text != output.DASH)


def _pod_records(url: str | None, namespace: str, name: str) -> list[PodPeaks]:
    """Return the peak records of all pods that ever had the name, in the order of their starts; without a
    ``url`` none are asked for."""
    if not url:
        return []
    from sinks.records.query import Which, pod_peaks  # SQLAlchemy takes longer to import than all the rest

    return pod_peaks(url, Which(namespace=namespace, name=name))


def _job_records(url: str | None, namespace: str, name_or_uid: str) -> list[JobPeaks]:
    """Return those of the jobs of a name or uid; as above."""
    if not url:
        return []
    from sinks.records.query import Which, job_peaks  # as above

    return job_peaks(url, Which(namespace=namespace, job=name_or_uid))

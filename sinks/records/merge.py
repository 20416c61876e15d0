"""Merges a stored record and one that arrives, so that no maximum is ever lowered. Pure.

A record of the streams is cumulative: it says everything since its accumulation began. Along one
accumulation each record *covers* those before it, and replaces them as it is, bit for bit. But an
accumulation can be lost: the state of a pod that was silent for long is evicted, a damaged one begins anew.
The records that follow know less, and must not replace what is stored. Then both are merged:

- every maximum is the greater of the two, with its moment; of equal ones the earlier;
- first and last moment are those of both together;
- ``samples``, means and percentiles are those of the larger accumulation (of a job: the newer), where it has
  the metric;
- name, phase and ``final`` are those of the newest record that knows the pod's name.

A row of usage says everything of its hour so far: that with more time counts, of equal ones the later. What
was lost of an hour is not added, for it may have been counted twice. So it is with a node's day: the record
with more samples counts. Of an insight the newest counts.

The greater of two does not depend on order, and a record merged twice changes nothing. So repeats, disorder
and writers side by side end with the same maxima.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from dutycycle.contract.codec import decode
from dutycycle.contract.ownership.words import merged
from dutycycle.contract.records.derived import JobPeaks, Peak, Peaks, PodOfJob, PodPeaks
from sinks.records.rows import (
    COUNTS,
    HOUR_TABLE,
    JOB_TABLE,
    MAXIMA,
    NODE_TABLE,
    POD_TABLE,
    SqlRow,
    in_order,
    job_row,
    pod_row,
)

Scopes = Mapping[str, Peaks]
_NO_POD = PodOfJob(node="", metrics={})


def covers(new: SqlRow, old: SqlRow) -> bool:
    """Tell whether ``new`` says all that ``old`` does; both of one key. See also ``store.covering``."""
    ours, theirs = new.values, old.values
    if new.table == HOUR_TABLE:
        return (_seconds(ours), ours["until"]) >= (_seconds(theirs), theirs["until"])
    if new.table == NODE_TABLE:
        return bool((ours["samples"], ours["last_at"]) >= (theirs["samples"], theirs["last_at"]))
    if new.table not in COUNTS:
        return bool(ours["at"] >= theirs["at"])
    growing = ("last_at", COUNTS[new.table])
    return (
        ours["first_at"] <= theirs["first_at"]
        and all(ours[name] >= theirs[name] for name in growing)
        and (ours["final"] >= theirs["final"] or any(ours[name] > theirs[name] for name in growing))
        and new.named >= old.named
        and all(
            theirs[name] is None or (ours[name] is not None and ours[name] >= theirs[name]) for name in MAXIMA
        )
    )


def _seconds(values: dict[str, Any]) -> float:
    """Tell how much time a row of usage is made of."""
    return (values["gpu_s"] or 0.0) + (values["pod_s"] or 0.0)


def merge(old: SqlRow, new: SqlRow) -> SqlRow:
    """Return the row that says what both do: one of them if it covers the other, ``new`` if both do."""
    if covers(new, old):
        return new
    if covers(old, new):
        return old
    if new.table == POD_TABLE:
        return pod_row(_pod(old, new))
    return job_row(_job(old, new)) if new.table == JOB_TABLE else old


def _pod(first: SqlRow, other: SqlRow) -> PodPeaks:
    main, lesser = (_pod_of(row) for row in _ordered(first, other, "samples", "last_at"))
    newest = _ordered(first, other, "last_at", "samples", "final")
    known = _pod_of(next((row for row in newest if row.named), newest[0]))
    return PodPeaks(
        pod=known.pod, final=known.final,
        first_ms=min(main.first_ms, lesser.first_ms), last_ms=max(main.last_ms, lesser.last_ms),
        samples=main.samples,
        metrics=_peaks(main.metrics, lesser.metrics), gpus=_scopes(main.gpus, lesser.gpus),
        processes=_scopes(main.processes or {}, lesser.processes or {}) or None,
        processes_omitted=max(main.processes_omitted or 0, lesser.processes_omitted or 0) or None,
        attribution=merged((main.attribution or {}, lesser.attribution or {})) or None,
        totals=main.totals or lesser.totals,
    )  # fmt: skip


def _job(first: SqlRow, other: SqlRow) -> JobPeaks:
    main, lesser = (
        decode(JobPeaks, in_order(row.values["record"]), "job-peaks")
        for row in _ordered(first, other, "last_at", "pods", "final")
    )
    pods = {}
    for name in sorted(main.pods.keys() | lesser.pods.keys()):
        pod, other_pod = main.pods.get(name, _NO_POD), lesser.pods.get(name, _NO_POD)
        pods[name] = PodOfJob(
            node=pod.node or other_pod.node, metrics=_peaks(pod.metrics, other_pod.metrics),
            gpus=_scopes(pod.gpus, other_pod.gpus),
            attribution=merged((pod.attribution or {}, other_pod.attribution or {})) or None,
        )  # fmt: skip
    return replace(
        main,
        first_ms=min(main.first_ms, lesser.first_ms), metrics=_peaks(main.metrics, lesser.metrics),
        pods=pods,
        gpus_omitted=max(main.gpus_omitted or 0, lesser.gpus_omitted or 0) or None,
        pods_omitted=max(main.pods_omitted or 0, lesser.pods_omitted or 0) or None,
    )  # fmt: skip


def _ordered(first: SqlRow, other: SqlRow, *columns: str) -> list[SqlRow]:
    """Return the greater first, by ``columns``, then by the record's text: in whatever order they came."""

    def key(row: SqlRow) -> tuple[Any, ...]:
        return *(row.values[name] for name in columns), in_order(row.values["record"])

    return sorted((first, other), key=key, reverse=True)


def _pod_of(row: SqlRow) -> PodPeaks:
    return decode(PodPeaks, in_order(row.values["record"]), "pod-peaks")


def _scopes(main: Scopes, lesser: Scopes) -> dict[str, dict[str, Peak]]:
    """Merge peaks by GPU or process."""
    names = sorted(main.keys() | lesser.keys())
    return {name: _peaks(main.get(name, {}), lesser.get(name, {})) for name in names}


def _peaks(main: Peaks, lesser: Peaks) -> dict[str, Peak]:
    merged_peaks = {**lesser, **main}
    for metric in main.keys() & lesser.keys():
        high = max(main[metric], lesser[metric], key=lambda peak: (peak.max, -peak.at_ms))
        merged_peaks[metric] = replace(main[metric], max=high.max, at_ms=high.at_ms)
    return {metric: merged_peaks[metric] for metric in sorted(merged_peaks)}

"""Jobs from the records: those that run and those that ended, and one of them with the runs before it."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from dutycycle.contract.records.derived import Subject
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.units import END_OF_TIME_MS, unix_ms
from dutycycle.web.questions import SPANS, PageError, Query, Viewer, choice, span_of
from dutycycle.web.subject.predicted import predicted_pods
from dutycycle.words import evidence_figures, held_back, kind_words
from sinks.records.jobs import ORDERS, JobQuery, read_job, read_jobs
from sinks.records.usage import is_part

REPORTS = {"15m": "15 minutes", "1h": "an hour", "6h": "6 hours", "24h": "a day"}
"""Of how much a report can be made, counted from the end of a job, or from now."""
DEFAULT_REPORT = "1h"
_MOST_GROUPS = 20
_HEARD_S = 600.0
"""A job of which nothing was written for longer may have ended."""
_STATES = {"": "all", "ended": "ended", "running": "not ended"}


@dataclass(frozen=True, slots=True)
class JobUse:
    """Shows a job in words and figures; None is not known. Times in milliseconds, GPU time in seconds."""

    uid: str
    title: str
    kind: str
    is_ended: bool
    first_ms: int
    last_ms: int
    pods: int
    gpus: int
    mean_util_pct: float | None
    max_util_pct: float | None
    gpu_mem_bytes: float | None
    mem_bytes: float | None
    period_s: float | None
    steps_per_min: float | None
    does: str
    held_back: str
    advice: str
    evidence: list[tuple[str, str]]
    gpu_s: float | None
    busy_s: float | None
    idle_s: float | None
    untouched_s: float | None
    energy_j: float | None
    cost: float | None
    is_cost_part: bool
    is_idle_cost_part: bool
    idle_cost: float | None

    @property
    def state(self) -> str:
        """Tell whether it has ended, or still runs, in words."""
        if self.is_ended:
            return "ended"
        return "runs" if time.time() - self.last_ms / 1000 < _HEARD_S else "not heard of any more"

    @property
    def lasted_s(self) -> float:
        """From the first to the last that was seen of it."""
        return (self.last_ms - self.first_ms) / 1000


def job_use(row: Mapping[str, Any]) -> JobUse:
    """Make it of a row of ``sinks.records.jobs``."""
    insight = insight_of(row)
    known_s, busy_s, steps = row["gpu_known_s"], row["gpu_busy_s"], row["steps_per_s"]
    return JobUse(
        uid=row["job_uid"],
        title="/".join(filter(None, (row["namespace"], row["name"]))),
        kind=row["kind"],
        is_ended=bool(row["final"]),
        first_ms=unix_ms(row["first_at"]),
        last_ms=unix_ms(row["last_at"]),
        pods=row["pods"],
        gpus=row["gpus"],
        mean_util_pct=row["mean_gpu_util_pct"],
        max_util_pct=row["max_gpu_util_pct"],
        gpu_mem_bytes=row["max_gpu_mem_used_bytes"],
        mem_bytes=row["max_mem_used_bytes"],
        period_s=row["period_s"],
        steps_per_min=None if steps is None else 60 * steps,
        does="" if insight is None else kind_words(insight.kind, insight.confidence),
        held_back="" if insight is None else held_back(insight),
        advice=row["advice"] or "",
        evidence=[] if insight is None else evidence_figures(insight.evidence),
        gpu_s=row["gpu_s"],
        busy_s=busy_s,
        idle_s=None if known_s is None or busy_s is None else max(0.0, known_s - busy_s),
        untouched_s=row["gpu_untouched_s"],
        energy_j=row["energy_j"],
        cost=row["cost"],
        is_cost_part=is_part(row, "cost"),
        is_idle_cost_part=is_part(row, "gpu_idle_cost"),
        idle_cost=row["gpu_idle_cost"],
    )


def history_values(url: str, query: Query, viewer: Viewer) -> dict[str, Any]:
    """Give what the page of all jobs shows. ``compare``: the job that each may be compared with, by a link.
    Raises ``DutycycleError``."""
    since = query.get("since") or "7d"
    state = choice(query, "state", _STATES, "")
    key, equals, value = query.get("label", "").partition("=")
    if bool(key) != bool(equals):
        raise PageError(f"label={key}: expected a label and its value, such as team=nlp")
    namespace, now_ms = query.get("namespace", ""), time.time_ns() // 1_000_000
    since_ms, until_ms = span_of(since, now_ms)
    asked = JobQuery(
        since_ms=since_ms,
        # A node whose clock is ahead has jobs that begin later than now.
        until_ms=until_ms if until_ms < now_ms else END_OF_TIME_MS,
        order=choice(query, "sort", ORDERS, "waste"),
        namespace=namespace or None,
        namespaces=viewer.namespaces,
        kind=query.get("kind") or None,
        words=query.get("q", ""),
        label=(key.strip(), value.strip()) if key else None,
        ended=None if not state else state == "ended",
    )
    jobs = read_jobs(url, asked)
    chosen = {"q": asked.words, "since": since, "sort": asked.order, "state": state, "namespace": namespace,
              "kind": asked.kind or "", "label": query.get("label", ""),
              "compare": query.get("compare", "")}  # fmt: skip
    return {
        "jobs": [job_use(row) for row in jobs.rows], "count": jobs.count, "chosen": chosen,
        "since_ms": since_ms, "until_ms": until_ms if until_ms < now_ms else None, "spans": SPANS,
        "choices": {
            "namespace": _with_chosen(jobs.namespaces, namespace),
            "kind": _with_chosen(jobs.kinds, asked.kind),
        },
        "states": _STATES, "orders": ORDERS,
    }  # fmt: skip


def job_values(url: str, query: Query, viewer: Viewer) -> dict[str, Any]:
    """Give what the page of one job shows. Raises ``DutycycleError``."""
    uid = query.get("uid", "")
    record = read_job(url, uid, viewer.namespaces)
    if record is None:
        raise PageError(f"{uid}: the records have no such job", 404)
    earlier = [job_use(row) for row in record.earlier]
    job = job_use(record.row)
    groups, unreadable = predicted_pods(url, record.row, viewer.namespaces)
    pods = [
        {
            "name": pod["name"], "node": pod["node"], "phase": pod["phase"], "gpus": pod["gpus"],
            "gpu_request": pod["gpu_request"], "mean_util_pct": pod["mean_gpu_util_pct"],
            "gpu_mem_bytes": pod["max_gpu_mem_used_bytes"],
            "cpu_cores": None if pod["max_cpu_util_pct"] is None else pod["max_cpu_util_pct"] / 100,
            "cpu_request": pod["cpu_request"], "mem_bytes": pod["max_mem_used_bytes"],
            "mem_request_bytes": pod["mem_request_bytes"],
        }
        for pod in record.pods
    ]  # fmt: skip
    return {
        "job": job, "pods": pods, "pod_count": record.pod_count,
        "events": [{**event, "at_ms": unix_ms(event["at"])} for event in record.events], "earlier": earlier,
        "reports": REPORTS, "groups": groups[:_MOST_GROUPS], "group_count": len(groups),
        "unreadable": unreadable,
    }  # fmt: skip


def insight_of(row: Mapping[str, Any]) -> Insight | None:
    """Return the newest verdict of a row of ``sinks.records.jobs``; None where there is none."""
    if row["does"] is None:
        return None
    return Insight(
        subject=Subject(kind="job", job_uid=row["job_uid"]),
        ts_ms=unix_ms(row["at"]), since_ms=unix_ms(row["since"]), kind=row["does"],
        confidence=row["sure"], bottleneck=row["bottleneck"],
        bottleneck_confidence=row["bottleneck_confidence"], evidence=orjson.loads(row["evidence"]),
    )  # fmt: skip


def _with_chosen(names: list[str], chosen: str | None) -> list[str]:
    """Return the names with the one that is asked for, also where nothing is like that."""
    return sorted({*names, chosen}) if chosen else names

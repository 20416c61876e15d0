"""Finds the runs that a report or a comparison is asked of: among what is known now, and in the records."""

import time

from msgspec import structs

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.derived import PodPeaks
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import PodRow
from dutycycle.web.jobs import job_use
from dutycycle.web.questions import PageError
from dutycycle.web.studies.study import RunSpan
from sinks.records.jobs import MOST_JOBS, read_job, read_neighbors, read_pods


def run_of(state: LiveState, url: str, uid: str, back_ms: int, namespaces: frozenset[str] | None) -> RunSpan:
    """Find a job, or a pod without one: from ``back_ms`` before its end on, or before now while it runs.

    ``state``: what may be seen of now. ``url``: of the records; ``namespaces``: of which they may tell, None
    for all. Raises ``PageError`` for one that nothing is known of, ``DutycycleError`` where the records
    cannot be read.
    """
    now_ms = time.time_ns() // 1_000_000
    row = state.row(f"job/{uid}") or next((pod for pod in state.pods() if pod.uid == uid), None)
    if row is not None:
        name, span, pod_count = row.title, (now_ms - back_ms, now_ms), 0
    else:
        record = read_job(url, uid, namespaces)
        if record is None:
            raise PageError(f"{uid}: no such job runs, and the records have none", 404)
        job, pod_count = job_use(record.row), record.pod_count
        end_ms = job.last_ms + 1000 if job.is_ended else now_ms
        name, span = job.title, (max(end_ms - back_ms, job.first_ms), end_ms)
    # Those that are known now or by the records, and those beside them, by uid; none where more are recorded
    # than can be read
    known = [row.identity for row in tuple(state.rows.values()) if isinstance(row, PodRow)]
    pods = {pod.uid: pod for pod in known if pod and uid in (pod.uid, pod.job and pod.job.uid)}
    recorded: list[PodPeaks] = []
    try:
        recorded = read_pods(url, uid, namespaces)
        nodes = {pod.node for pod in (*pods.values(), *(peaks.pod for peaks in recorded))}
        if pod_count <= len(recorded) < MOST_JOBS:
            recorded += read_neighbors(url, nodes, span, namespaces)
        else:
            pods, recorded = {}, []
    except DutycycleError:  # said on the pages of the records; it runs, and is known
        nodes = {pod.node for pod in pods.values()}
    if pods or recorded:
        pods = {pod.uid: pod for pod in known if pod and pod.node in nodes} | pods
        # A pod had ended when its record was final.
        pods = {
            peaks.pod.uid: structs.replace(peaks.pod, finished_ms=peaks.last_ms)
            if peaks.final and peaks.pod.finished_ms is None else peaks.pod
            for peaks in recorded
        } | pods  # fmt: skip
    return RunSpan(uid, name, *span, tuple(pods.values()))

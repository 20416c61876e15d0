"""Reads peak records back, also while a sink writes: what ``dutycycle peaks`` and other tools use."""

from contract.codec import decode
from contract.records.derived import JobPeaks, PodPeaks
from sinks.records.read import select_records
from sinks.records.rows import JOB_TABLE, POD_TABLE, started_ms


def pod_peaks(
    url: str, namespace: str | None = None, job: str | None = None, name: str | None = None
) -> list[PodPeaks]:
    """Every pod's record, sorted by namespace, job, name, start, uid; ``job`` is a job's name or uid.

    A name that was used again has a record for each of its lives (``started_ms`` tells them apart).

    Raises ``DutycycleError`` when the database is not there, is not ours, or cannot be read.
    """
    found = [
        decode(PodPeaks, text.encode(), "pod-peaks")
        for text in select_records(url, POD_TABLE, namespace, job, name)
    ]
    return sorted(found, key=_pod_order)


def job_peaks(url: str, namespace: str | None = None, job: str | None = None) -> list[JobPeaks]:
    """Every job's record, sorted by namespace, name, uid; ``job`` is a job's name or uid."""
    found = [
        decode(JobPeaks, text.encode(), "job-peaks")
        for text in select_records(url, JOB_TABLE, namespace, job)
    ]
    return sorted(found, key=lambda record: (record.namespace or "", record.job.name, record.job.uid))


def _pod_order(record: PodPeaks) -> tuple[str, str, str, int, str]:
    pod = record.pod
    return pod.namespace or "", pod.job.name if pod.job else "", pod.name, started_ms(record), pod.uid

"""A job's peaks: all its pods on all nodes, merged, kept after they are gone."""

from dataclasses import replace

from streams.operators.bank_state import check_version
from streams.operators.base import Emission, Input, Out, Snapshot
from streams.operators.job_bound import encode_within
from streams.operators.keyed import decode_under_key
from streams.operators.merge import merge_tallies, peaks_of
from wire.codec import from_plain, to_plain
from wire.derived import JobPeaks, PodOfJob
from wire.parts import JobPart
from wire.pods import JobRef
from wire.topics import TOPICS

SNAPSHOT_VERSION = 1
TOPIC = "job-parts"


class JobOperator:
    """The state of one job: the newest part of each of its pods."""

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._parts: dict[str, JobPart] = {}
        self._changed = False

    def update(self, record: Input) -> list[Emission]:
        """Take a part; nothing is sent before ``settle``. Raises ``DecodeError``."""
        part = decode_under_key(JobPart, record.value, TOPIC, key=self._uid, field="job.uid", whose="job")
        known = self._parts.get(part.pod_uid)
        if known is None or (part.samples, part.final) >= (known.samples, known.final):
            self._parts[part.pod_uid] = part
            self._changed = True
        return []

    def settle(self) -> list[Emission]:
        """The job's peaks so far."""
        if not self._changed:
            return []
        self._changed = False
        peaks = self._merged()
        text = encode_within(peaks, TOPICS["job-peaks"].max_bytes)
        return [Out("job-peaks", self._uid, text, peaks.last_ms)]

    def close(self) -> list[Emission]:
        """The input has ended."""
        return self.settle()

    def _merged(self) -> JobPeaks:
        parts = sorted(self._parts.values(), key=lambda one: (one.pod_name, one.first_ms, one.pod_uid))
        newest = max(parts, key=lambda one: (one.last_ms, one.pod_uid))
        return JobPeaks(
            job=_of_the_whole(newest), namespace=newest.namespace,
            first_ms=min(one.first_ms for one in parts), last_ms=newest.last_ms,
            final=all(one.final for one in parts),
            metrics=peaks_of(merge_tallies(one.metrics for one in parts)),
            pods=_by_name(parts),
        )  # fmt: skip

    def snapshot(self) -> Snapshot:
        """Plain data."""
        parts = {uid: to_plain(part) for uid, part in self._parts.items()}
        return {"v": SNAPSHOT_VERSION, "parts": parts, "changed": self._changed}

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for a version that is not ours."""
        check_version(plain, SNAPSHOT_VERSION, "a job")
        self._parts = {uid: from_plain(JobPart, part, TOPIC) for uid, part in plain["parts"].items()}
        self._changed = plain["changed"]


def _of_the_whole(part: JobPart) -> JobRef:
    """The job without the role and replica of one pod."""
    return replace(part.job, role=None, replica=None)


def _by_name(parts: list[JobPart]) -> dict[str, PodOfJob]:
    """Pods by name; of pods that had the same name one after the other, the later carry their start."""
    pods: dict[str, PodOfJob] = {}
    for one in parts:
        name = one.pod_name if one.pod_name not in pods else f"{one.pod_name}@{one.first_ms}"
        pods[name] = PodOfJob(
            node=one.node, metrics=peaks_of(one.metrics), gpus=one.gpus, attribution=one.attribution or None
        )
    return pods

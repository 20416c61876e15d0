"""A job's peaks: all its pods on all nodes, merged, kept after they are gone."""

from dataclasses import replace
from heapq import heapify, heappop, heappush

from contract.codec import from_plain, to_plain
from contract.log import ConsumerRecord, ProducerRecord
from contract.records.derived import JobPeaks, PodOfJob
from contract.records.parts import JobPart
from contract.records.pods import JobRef
from contract.topics import TOPICS
from streams.operators.base import Emission, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key
from streams.operators.peaks.departed import GONE_AFTER_MS, MOST_PODS, GonePods
from streams.operators.peaks.merge import merge_tallies, peaks_of
from streams.operators.peaks.size_limit import encode_within

SNAPSHOT_VERSION = 2
TOPIC = "job-parts"


class JobOperator:
    """The state of one job: the newest part of each of its pods, and one tally of those that left.

    A pod leaves as its parts come, never when the job is flushed: which left is then the same whenever a
    commit or a restart happened to be.
    """

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._parts: dict[str, JobPart] = {}
        self._gone = GonePods()
        self._newest_ms = 0
        self._ended: list[tuple[int, str]] = []  # a heap: last moment and uid of final parts, some outdated
        self._changed = False

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part; nothing is sent before ``flush``. Raises ``DecodeError``."""
        part = decode_under_key(JobPart, record.value, TOPIC, key=self._uid, field="job.uid", whose="job")
        if part.pod_uid in self._gone:
            return []
        known = self._parts.get(part.pod_uid)
        if known is None or (part.samples, part.final) >= (known.samples, known.final):
            self._parts[part.pod_uid] = part
            self._changed = True
            self._newest_ms = max(self._newest_ms, part.last_ms)
            if part.final and part != known:
                self._note_end(part)
            self._let_go()
        return []

    def _note_end(self, part: JobPart) -> None:
        heappush(self._ended, (part.last_ms, part.pod_uid))
        if len(self._ended) > 2 * len(self._parts):
            self._ended = self._ends()

    def _ends(self) -> list[tuple[int, str]]:
        ends = [(one.last_ms, uid) for uid, one in self._parts.items() if one.final]
        heapify(ends)
        return ends

    def _let_go(self) -> None:
        """Of too many pods, those that ended longest ago leave; one that may still change stays."""
        before_ms = self._newest_ms - GONE_AFTER_MS
        while len(self._parts) > MOST_PODS and self._ended and self._ended[0][0] <= before_ms:
            last_ms, uid = heappop(self._ended)
            part = self._parts.get(uid)
            if part is not None and part.final and part.last_ms == last_ms:
                self._gone.add(self._parts.pop(uid))

    def flush(self) -> list[Emission]:
        """The job's peaks so far."""
        if not self._changed:
            return []
        self._changed = False
        peaks = self._merged()
        text = encode_within(peaks, TOPICS["job-peaks"].max_bytes)
        return [ProducerRecord("job-peaks", self._uid, text, peaks.last_ms)]

    def close(self) -> list[Emission]:
        """The input has ended."""
        return self.flush()

    def _merged(self) -> JobPeaks:
        parts = sorted(self._parts.values(), key=lambda one: (one.pod_name, one.first_ms, one.pod_uid))
        newest = max(parts, key=lambda one: (one.last_ms, one.pod_uid))
        moments = self._gone.moments()
        return JobPeaks(
            job=_of_the_whole(newest), namespace=newest.namespace,
            first_ms=min([*moments, *(one.first_ms for one in parts)]),
            last_ms=max([*moments, newest.last_ms]),
            final=all(one.final for one in parts),
            metrics=peaks_of(merge_tallies([*(one.metrics for one in parts), *self._gone.tallies()])),
            pods=_by_name(parts),
            gpus_omitted=self._gone.with_gpus or None, pods_omitted=self._gone.pods or None,
        )  # fmt: skip

    def snapshot(self) -> Snapshot:
        """Plain data."""
        parts = {uid: to_plain(part) for uid, part in self._parts.items()}
        return {
            "v": SNAPSHOT_VERSION,
            "parts": parts,
            "gone": self._gone.snapshot(),
            "newest_ms": self._newest_ms,
            "changed": self._changed,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for a version that is not ours."""
        check_version(plain, SNAPSHOT_VERSION, "a job")
        self._parts = {uid: from_plain(JobPart, part, TOPIC) for uid, part in plain["parts"].items()}
        self._gone.restore(plain["gone"])
        self._newest_ms = plain["newest_ms"]
        self._ended = self._ends()
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

"""Merges the peaks of all pods of one job on all nodes, and keeps them after the pods are gone."""

from collections.abc import Set
from heapq import heapify, heappop, heappush

import orjson
from msgspec.structs import replace

from dutycycle.contract.codec import encode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import JobPeaks, Peaks, PodOfJob
from dutycycle.contract.records.parts import JobPart
from dutycycle.contract.topics import TOPICS
from streams.operators.base import Emission, Operator, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key
from streams.operators.peaks.departed import DEPART_AFTER_MS, MAX_JOB_PODS, DepartedPods
from streams.operators.peaks.merge import merge_tallies, merge_totals, to_peaks

SNAPSHOT_VERSION = 5
_TOPIC = "job-parts"
MOST_EARLIER = 8
"""Revisions or runs before the current one whose peaks are told: the newest."""
_LEAST_PEAK_BYTES = len('"m":{"max":0,"mean":0,"at_ms":0},')


class JobOperator(Operator):
    """Keeps the state of one job: the newest part of each of its pods, and the sum of those that departed.

    Pods depart in ``update``, never in ``flush``. So which of them have departed does not depend on when
    commits and restarts happened.
    """

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._parts: dict[str, JobPart] = {}
        self._departed = DepartedPods()
        self._departed_of: dict[str, DepartedPods] = {}
        """The same by revision, while the job has another pod of it."""
        self._newest_ms = 0
        self._ended: list[tuple[int, str]] = []  # heap: last moment, uid; some are outdated
        self._changed = False

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part; nothing is sent before ``flush``. Raises ``DecodeError``."""
        part = decode_under_key(JobPart, record.value, _TOPIC, key=self._uid, field="job.uid")
        if part.pod_uid in self._departed:
            return []
        known = self._parts.get(part.pod_uid)
        if known is None or _newness(part) >= _newness(known):
            self._parts[part.pod_uid] = part
            self._changed = True
            self._newest_ms = max(self._newest_ms, part.last_ms)
            if part.final and part != known:
                heappush(self._ended, (part.last_ms, part.pod_uid))
                if len(self._ended) > 2 * len(self._parts):
                    self._ended = self._ends()
            self._depart()
        return []

    def _ends(self) -> list[tuple[int, str]]:
        ends = [(part.last_ms, uid) for uid, part in self._parts.items() if part.final]
        heapify(ends)
        return ends

    def _depart(self) -> None:
        """Let depart of too many pods those that ended longest ago; a pod that may still change stays."""
        before_ms, departed = self._newest_ms - DEPART_AFTER_MS, self._departed.pods
        while len(self._parts) > MAX_JOB_PODS and self._ended and self._ended[0][0] <= before_ms:
            last_ms, uid = heappop(self._ended)
            part = self._parts.get(uid)
            if part is not None and part.final and part.last_ms == last_ms:
                self._departed.add(self._parts.pop(uid))
                if part.job.revision is not None:
                    self._departed_of.setdefault(part.job.revision, DepartedPods()).add(part)
        if self._departed_of and self._departed.pods > departed:
            there = {part.job.revision for part in self._parts.values()}
            self._departed_of = {name: pods for name, pods in self._departed_of.items() if name in there}

    def flush(self) -> list[Emission]:
        """Return the job's peaks so far."""
        if not self._changed:
            return []
        self._changed = False
        parts = sorted(self._parts.values(), key=lambda part: (part.pod_name, part.first_ms, part.pod_uid))
        newest = max(parts, key=lambda part: (part.last_ms, part.pod_uid))
        moments, current = self._departed.span or (), self._current(parts)
        # The pods by name. Of pods that had one name one after the other, the later ones carry their start
        # in it.
        pods: dict[str, PodOfJob] = {}
        for part in parts:
            name = part.pod_name if part.pod_name not in pods else f"{part.pod_name}@{part.first_ms}"
            pods[name] = PodOfJob(
                node=part.node, metrics=to_peaks(part.metrics), gpus=part.gpus,
                attribution=part.attribution or None,
                former=part.job.revision is not None and (part.gone or part.job.revision not in current),
            )  # fmt: skip
        peaks = JobPeaks(
            job=replace(newest.job, role=None, replica=None, revision=None), namespace=newest.namespace,
            first_ms=min([*moments, *(part.first_ms for part in parts)]),
            last_ms=max([*moments, newest.last_ms]),
            final=all(part.final for part in parts),
            metrics=to_peaks(merge_tallies([*(part.metrics for part in parts), *self._departed.tallies()])),
            pods=pods,
            gpus_omitted=self._departed.with_gpus or None, pods_omitted=self._departed.pods or None,
            totals=merge_totals([*(part.totals for part in parts), *self._departed.all_totals()]) or None,
            pods_now=sum(not part.final for part in parts),
            gpus_now=len({gpu for part in parts if not part.final for gpu in part.gpus}),
            current=self._peaks_of(current, parts) if current else None,
            earlier=self._earlier(parts, current) or None,
        )  # fmt: skip
        text = encode_within(peaks, TOPICS["job-peaks"].max_bytes)
        return [ProducerRecord("job-peaks", self._uid, text, peaks.last_ms)]

    def _current(self, parts: list[JobPart]) -> Set[str]:
        """Return the revisions of an owner that does not end: those with pods that have not ended, or the
        newest."""
        began = [
            (not part.final, part.first_ms, revision)
            for part in parts
            if (revision := part.job.revision) is not None
        ]
        running = {revision for runs, _, revision in began if runs}
        return running or {revision for _, _, revision in sorted(began)[-1:]}

    def _earlier(self, parts: list[JobPart], current: Set[str]) -> dict[str, Peaks]:
        """Return the peaks of the revisions before, the newest first."""
        began: dict[str, int] = {}
        for part in parts:
            if part.job.revision is not None and part.job.revision not in current:
                began[part.job.revision] = max(began.get(part.job.revision, 0), part.first_ms)
        newest = sorted(began, key=lambda revision: (-began[revision], revision))[:MOST_EARLIER]
        return {revision: self._peaks_of({revision}, parts) for revision in newest}

    def _peaks_of(self, revisions: Set[str], parts: list[JobPart]) -> Peaks:
        departed = [pods for name, pods in sorted(self._departed_of.items()) if name in revisions]
        tallies = [part.metrics for part in parts if part.job.revision in revisions]
        return to_peaks(merge_tallies([*tallies, *(tally for pods in departed for tally in pods.tallies())]))

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        parts = {uid: to_plain(part) for uid, part in self._parts.items()}
        return {
            "v": SNAPSHOT_VERSION,
            "parts": parts,
            "departed": to_plain(self._departed),
            "departed_of": {name: to_plain(pods) for name, pods in self._departed_of.items()},
            "newest_ms": self._newest_ms,
            "changed": self._changed,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a job")
        self._parts = {uid: from_plain(JobPart, part, _TOPIC) for uid, part in plain["parts"].items()}
        self._departed = from_plain(DepartedPods, plain["departed"], _TOPIC)
        self._departed_of = {
            name: from_plain(DepartedPods, pods, _TOPIC) for name, pods in plain["departed_of"].items()
        }
        self._newest_ms = plain["newest_ms"]
        self._ended = self._ends()
        self._changed = plain["changed"]


def _newness(part: JobPart) -> tuple[int, bool]:
    return part.samples, part.final or bool(part.returned)


def encode_within(peaks: JobPeaks, most_bytes: int) -> bytes:
    """Return the record, with as much of its pods as fits into ``most_bytes``, however many pods the job has.

    A job of 1,000 pods with 8 GPUs each would make several MB at every commit. Past the bound the GPUs of all
    pods are left out; where that is not enough, the last pods by name. Both are counted in the record, with
    those pods that the job no longer keeps one by one (``departed``). The metrics of the whole job are of
    all pods either way, and each pod's own record has its GPUs.
    """
    if _least_bytes(peaks) <= most_bytes and len(text := encode(peaks)) <= most_bytes:
        return text
    pods = {name: replace(pod, gpus={}) for name, pod in peaks.pods.items()}
    omitted = (peaks.gpus_omitted or 0) + sum(bool(pod.gpus) for pod in peaks.pods.values())
    slim = replace(peaks, pods=pods, gpus_omitted=omitted or None)
    if _least_bytes(slim) <= most_bytes and len(text := encode(slim)) <= most_bytes:
        return text
    every = len(pods) + (peaks.pods_omitted or 0)
    left = most_bytes - len(encode(replace(slim, pods={}, pods_omitted=every)))
    few = {}
    for name, pod in pods.items():
        left -= len(orjson.dumps(name)) + len(encode(pod)) + len(":,")
        if left < 0:
            break
        few[name] = pod
    return encode(replace(slim, pods=few, pods_omitted=every - len(few)))


def _least_bytes(peaks: JobPeaks) -> int:
    """Return what the record takes at least: so one that is far too large is not encoded to find out."""
    scopes = (of for pod in peaks.pods.values() for of in (pod.metrics, *pod.gpus.values()))
    return _LEAST_PEAK_BYTES * sum(map(len, scopes))

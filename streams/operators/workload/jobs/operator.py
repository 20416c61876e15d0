"""Finds the insight of one job: what its pods do, and whether some of them wait for others.

The newest part of each pod counts, and of pods that had one name the newest pod, so the order in which parts
come does not matter. A pod that has ended counts no more; of a job that has, those pods count that ended
last. Nor does a pod count that was silent for long, by a clock that follows the parts in the order of their
log: the clocks of two nodes are never compared, as one of them may be wrong.
"""

from collections import defaultdict
from collections.abc import Iterable
from itertools import takewhile

from msgspec.structs import replace

from dutycycle.contract.codec import encode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.derived import job_subject
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import JobInsight, JobInsightPart, WorkloadState
from streams.operators.base import Emission, Operator, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.event_clock import EventClock
from streams.operators.keyed import decode_under_key
from streams.operators.workload.anomalies.job import job_anomalies
from streams.operators.workload.jobs.analysis import JobAnalyses, merged_state
from streams.operators.workload.jobs.cycle import Rank
from streams.operators.workload.ranks import RANK_SAMPLE_MS, LatestChange, largest_gap
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import FAR_BELOW_LIMIT_PCT, HELD_GPUS
from streams.operators.workload.rules.stats import three_digits

SNAPSHOT_VERSION = 10
_TOPIC = "job-insight-parts"
STALE_MS = 900_000
"""A pod that was silent for so long, while others were not, is gone; each pod sends a part every three
minutes, and no part moves the job's clock by more."""
CONFIRMING_PARTS = 1_000
"""So many parts in a row that are all behind set the reference of the job's clock back: until then what comes
late, such as a partition that was not read for hours, makes no other pod silent."""
_TOGETHER_MS = 60_000
"""Pods that end within so long end together."""
_GAP_PCT = (20.0, 40.0)
"""From the first difference between ranks on they are imbalanced; from the second on that is sure."""
_SURELY_HELD = 0.75
"""A pod that is less sure to be held down says nothing of its job."""
_EACH_ALONE = frozenset({
    "Deployment", "DaemonSet", "ReplicaSet", "ReplicationController", "InferenceService", "RayService",
})  # fmt: skip
"""Kinds of owners whose pods serve each on its own: none waits for one that is held down."""
_HELD_BY = ("throttled_heat_pct", "throttled_power_pct")
"""The evidence of pods that are held down: it is that of the job, too, where few others have it."""
_NAMED = 3
"""Pods that a sentence names."""
_SUMS = {
    HELD_GPUS, "idle_cost", "idle_energy_j", "power_w", "net_bytes_per_s", "io_bytes_per_s",
    "pcie_bytes_per_s", "gpus", "cpu_util_pct", "samples_per_s",
}  # fmt: skip
"""The evidence of a job that is the sum of its pods'."""
_MAXIMA = {"idle_s", "gpu_mem_pct", "gpu_mem_most_pct"}
_NOT_OF_A_JOB = {"mem_limit_bytes", "mem_limit_used_pct"}
_OF_EVERY_POD = {
    "cpu_request_cores": min, "cpu_most_cores": max, "cpu_enough_cores": max,
    "mem_request_bytes": min, "mem_most_bytes": max, "mem_enough_bytes": max,
}  # fmt: skip
"""Said of a job only where it is said of each of its pods; and how the pods' values are combined."""


class JobInsightOperator(Operator):
    """Keeps the state of one job: the newest part of each of its pods, when anything about any of them last
    changed, and what was published last.

    Pods that are silent leave in ``update``, never in ``flush``. So which of them have left does not depend
    on when commits and restarts happened.
    """

    def __init__(self, uid: str) -> None:
        self._uid = uid
        self._parts: dict[str, JobInsightPart] = {}
        self._clock = EventClock()
        self._taken_ms: dict[str, int] = {}
        """By pod, what the clock said at its newest part; the pod that has been silent longest is first."""
        self._latest = LatestChange()
        self._published: JobInsight | None = None
        self._changed = False
        self._analyses = JobAnalyses()

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part; nothing is sent before ``flush``. Raises ``DecodeError``."""
        part = decode_under_key(JobInsightPart, record.value, _TOPIC, key=self._uid, field="job.uid")
        self._clock.advance(part.ts_ms, RANK_SAMPLE_MS, confirm=CONFIRMING_PARTS)
        silent = takewhile(lambda uid: self._clock.now_ms - self._taken_ms[uid] > STALE_MS, self._taken_ms)
        for uid in list(silent):
            del self._taken_ms[uid], self._parts[uid]
            self._changed = True
        known = self._parts.get(part.pod_uid)
        if known is None or _newness(part) >= _newness(known):
            self._parts[part.pod_uid] = part
            self._taken_ms.pop(part.pod_uid, None)
            self._taken_ms[part.pod_uid] = self._clock.now_ms
            self._changed = True
        if self._latest.add(part, several=len(self._parts) > 1):
            self._changed = True
        self._analyses.note(part)
        return []

    def flush(self) -> list[Emission]:
        """Return the job's insight, if it changed; for the sinks with each part, as they may have just
        started."""
        if not self._changed:
            return []
        self._changed = False
        newest = max(self._parts.values(), key=lambda part: (part.ts_ms, part.pod_uid))
        insight = job_insight(self._uid, self._parts.values(), self._latest.ms)
        now = JobInsight(
            job=replace(newest.job, role=None, replica=None, revision=None), namespace=newest.namespace,
            insight=insight, state=job_state(self._parts.values()),
        )  # fmt: skip
        before, self._published = self._published, now
        outs: list[Emission] = [ProducerRecord("job-insights", self._uid, encode(now), insight.ts_ms)]
        if before is None or before.insight != insight:
            outs.append(ProducerRecord("insights", insight.subject.key, encode(insight), insight.ts_ms))
        return outs + self._analyses.records(insight.subject, _ranks(_counted(self._parts.values())))

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        return {
            "v": SNAPSHOT_VERSION,
            "parts": {uid: to_plain(part) for uid, part in self._parts.items()},
            "clock": to_plain(self._clock),
            "taken_ms": self._taken_ms.copy(),
            "latest": to_plain(self._latest),
            "published": None if self._published is None else to_plain(self._published),
            "changed": self._changed,
            "said": to_plain(self._analyses),
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a job's insight")
        self._parts = {uid: from_plain(JobInsightPart, part, _TOPIC) for uid, part in plain["parts"].items()}
        self._clock = from_plain(EventClock, plain["clock"], _TOPIC)
        self._taken_ms = dict(plain["taken_ms"])
        self._latest = from_plain(LatestChange, plain["latest"], _TOPIC)
        published = plain["published"]
        self._published = None if published is None else from_plain(JobInsight, published, "job-insights")
        self._changed = plain["changed"]
        self._analyses = from_plain(JobAnalyses, plain["said"], _TOPIC)


def _counted(parts: Iterable[JobInsightPart]) -> list[JobInsightPart]:
    """Return of each name the newest pod, if it has not ended; if all have, those that ended last."""
    by_name: dict[str, JobInsightPart] = {}
    for part in sorted(parts, key=lambda part: part.pod_uid):
        by_name[part.pod_name] = max(
            by_name.get(part.pod_name, part), part,
            key=lambda pod: (pod.created_ms or 0, pod.ts_ms, pod.pod_uid),
        )  # fmt: skip
    last = list(by_name.values())
    ended_ms = max(part.gone_ms or 0 for part in last)
    present = [part for part in last if part.gone_ms is None]
    return present or [part for part in last if ended_ms - (part.gone_ms or 0) <= _TOGETHER_MS]


def _newness(part: JobInsightPart) -> tuple[int, int, int, int]:
    return part.epoch or 0, part.ts_ms, part.latest_end_ms, part.state.seen_ms if part.state else 0


def job_insight(uid: str, every: Iterable[JobInsightPart], ts_ms: int) -> Insight:
    """Return the insight of a job at ``ts_ms``, from the parts of its pods, at least one, in any order."""
    parts = _counted(every)
    kind, confidence = _vote(((part.kind, part.confidence, part.gpus) for part in parts), last="idle")
    those = [part for part in parts if part.kind == kind]
    evidence = _evidence(parts)
    limit, sure = _vote(((part.bottleneck, part.bottleneck_confidence, part.gpus) for part in those), last="")
    text = advice(limit, kind, evidence)
    gap, least, most = largest_gap(parts)
    held = [] if parts[0].job.kind in _EACH_ALONE else _held_down(parts)
    if held and limit not in ("power", "heat"):
        limit, sure = held[0].bottleneck, held[0].bottleneck_confidence
        of_held = _evidence(held)
        evidence = {name: of_held[name] for name in _HELD_BY if name in of_held} | evidence
        evidence[HELD_GPUS] = sum(int(part.evidence.get(HELD_GPUS, part.gpus)) for part in held)
        names = ", ".join(sorted(part.pod_name for part in held)[:_NAMED])
        names += f" and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
        text = f"{advice(limit, kind, evidence)} ({names})"
    elif kind == "training" and gap >= _GAP_PCT[0]:
        limit = "imbalance"
        evidence["rank_gap_pct"] = gap = round(gap, -1)
        sure = 0.5 + 0.48 * min((gap - _GAP_PCT[0]) / (_GAP_PCT[1] - _GAP_PCT[0]), 1.0)
        text = f"{most} works more than {least}, which waits: spread the work evenly, or look for a slow node"
    return Insight(
        subject=job_subject(uid), ts_ms=ts_ms,
        since_ms=min(part.since_ms for part in those), kind=kind, confidence=round(confidence, 3),
        bottleneck=limit, bottleneck_confidence=round(sure, 3), evidence=evidence, advice=text,
        anomalies=job_anomalies(parts),
    )  # fmt: skip


def _held_down(parts: list[JobInsightPart]) -> list[JobInsightPart]:
    """Return the pods that hold back all others: surely held down by heat, or by power far below their limit
    or below their own other GPUs; of two causes those of heat. Empty where all pods are: their vote tells."""
    held = [
        part
        for part in parts
        if part.bottleneck_confidence >= _SURELY_HELD
        and (
            part.bottleneck == "heat"
            or (
                part.bottleneck == "power"
                and (
                    HELD_GPUS in part.evidence
                    or part.evidence.get("power_pct", FAR_BELOW_LIMIT_PCT) < FAR_BELOW_LIMIT_PCT
                )
            )
        )
    ]
    if len(held) == len(parts):
        return []
    return [part for part in held if part.bottleneck == "heat"] or held


def job_state(every: Iterable[JobInsightPart]) -> WorkloadState | None:
    """Return the state of a job from the parts of its pods, in any order; None of one whose pods have
    ended."""
    return merged_state(_ranks([part for part in _counted(every) if part.gone_ms is None]))


def _ranks(parts: Iterable[JobInsightPart]) -> list[Rank]:
    return [(max(part.gpus, 1), part.state) for part in parts if part.state is not None]


def _vote(words: Iterable[tuple[str, float, int]], last: str) -> tuple[str, float]:
    """Return the word of most GPUs, weighted by confidence, and how sure that is. ``words``: word,
    confidence, GPUs of each pod. ``last`` wins only if no pod has another word."""
    weights: dict[str, float] = defaultdict(float)
    total = 0.0
    for word, confidence, gpus in words:
        weights[word] += confidence * max(gpus, 1)
        total += 0.0 if word == last else max(gpus, 1)
    others = {word: weight for word, weight in weights.items() if word != last} or weights
    best = max(sorted(others), key=lambda word: others[word])
    if best != last:
        return best, others[best] / total
    return best, max(min(weights[best] / max(total, 1.0), 1.0), 0.5)


def _evidence(parts: list[JobInsightPart]) -> dict[str, float]:
    """Tell how many pods there are, and means, sums or maxima of their evidence, whichever has a meaning: a
    maximum of any pods, a mean or sum of those that have most of the GPUs, as it stands for all."""
    by_name: dict[str, list[float]] = defaultdict(list)
    gpus: dict[str, int] = defaultdict(int)
    for part in parts:
        for name, value in part.evidence.items():
            by_name[name].append(value)
            gpus[name] += max(part.gpus, 1)
    all_gpus = sum(max(part.gpus, 1) for part in parts)
    evidence: dict[str, float] = {"pods": len(parts)}
    for name, values in sorted(by_name.items()):
        is_of_most = name in _MAXIMA or 2 * gpus[name] > all_gpus
        if name in _NOT_OF_A_JOB or not is_of_most:
            continue
        if name in _OF_EVERY_POD:
            if len(values) == len(parts):
                evidence[name] = three_digits(_OF_EVERY_POD[name](values))
        elif name in _MAXIMA:
            evidence[name] = three_digits(max(values))
        else:
            evidence[name] = three_digits(sum(values) if name in _SUMS else sum(values) / len(values))
    return evidence

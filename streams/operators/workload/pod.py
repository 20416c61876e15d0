"""The insight of one pod: spans of both sources in, what it is, what holds it back and what it asks for too
much out, when that changed."""

from collections.abc import Mapping
from typing import Any

from contract.codec import DecodeError, encode, from_plain, to_plain
from contract.log import ConsumerRecord, ProducerRecord
from contract.records.deadletter import Reason
from contract.records.derived import pod_subject
from contract.records.insight_parts import InsightPart, JobInsightPart, PodInsight
from contract.records.insights import Insight
from contract.records.pods import Pod
from streams.operators.base import Emission, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key
from streams.operators.workload.codes import SLOTS, SOURCES, SPAN_MS, from_text
from streams.operators.workload.join import TOPIC, Join, Joint
from streams.operators.workload.rank_samples import Beats
from streams.operators.workload.rules.judgement import Judgement
from streams.operators.workload.rules.rightsizing import Size, sized
from streams.operators.workload.track import Prices, Track

SNAPSHOT_VERSION = 4
PROVISIONAL = 6
"""Spans after which a pod is judged by its GPU alone, as long as the other source never told of it."""


class PodInsightOperator:
    """The state of one pod. What it says is a function of its spans, in the order of time, and of
    who it is, as known by then: in the end the same, whenever that became known."""

    def __init__(self, uid: str, prices: Prices) -> None:
        self._uid = uid
        self._prices = prices
        self._pod: Pod | None = None
        self._node = ""
        self._gpus = 1
        self._join = Join()
        self._track = Track(prices)
        self._alone: Track | None = None
        self._alone_spans = 0
        self._beats = Beats()
        self._spoke_ms = 0
        self._gone_ms: int | None = None

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part. Raises ``DecodeError``."""
        part = decode_under_key(InsightPart, record.value, TOPIC, key=self._uid)
        if part.source == "pods":
            return self._identified(part, record.ts_ms)
        _check(part)
        if self._join.is_repeat(part):
            return []
        asked = None if self._pod is None else self._pod.gpu_request
        outs: list[Emission] = []
        for span in self._join.take(part, gpus=asked != 0):
            outs += self._joined(span)
        return outs + self._provisional(part)

    def _identified(self, part: InsightPart, ts_ms: int) -> list[Emission]:
        known, self._pod = self._pod, part.pod or self._pod
        ended, self._gone_ms = self._gone_ms, _gone_ms(part, ts_ms, self._gone_ms)
        told, sizes = self._track.teller.told, self._track.sizer.sizes
        if told is None:
            return []
        asks_anew = sized(told, sizes, known) != sized(told, sizes, self._pod)
        outs = self._say(told) if asks_anew else self._to_annotate(told) if known is None else []
        job = None if self._pod is None else self._pod.job
        if known is not None and known.job == job and not asks_anew and ended == self._gone_ms:
            return outs
        return outs + self._to_job()

    def _joined(self, span: Joint) -> list[Emission]:
        self._alone = None
        self._node, self._gpus = span.gpu.node or self._node, span.gpu.gpus or 1
        sizes = self._track.sizer.sizes
        told = self._track.take(span)
        outs = self._resized(sizes) if told is None else self._say(told)
        if self._speaks(span.end_ms, told is not None or self._track.sizer.sizes is not sizes):
            outs += self._to_job()
        return outs

    def _resized(self, before: Mapping[str, Size]) -> list[Emission]:
        """What was told is told again, should the pod ask for too much, and another size do than before."""
        told, now = self._track.teller.told, self._track.sizer.sizes
        if told is None or now is before or sized(told, now, self._pod) == sized(told, before, self._pod):
            return []
        return self._say(told)

    def _provisional(self, part: InsightPart) -> list[Emission]:
        """Where nothing but the GPU's side ever came, that is judged until the other comes."""
        if part.source != "nvml" or self._join.has_cgroup:
            return []
        self._alone = self._alone or Track(self._prices)
        self._alone_spans += 1
        told = self._alone.take(Joint(part, None))
        self._node = part.node or self._node
        if self._alone_spans < PROVISIONAL:
            return []
        # What was judged earlier is told now, if nothing newer is.
        first = self._alone.teller.told if self._alone_spans == PROVISIONAL else None
        told = told or first
        return [] if told is None else self._say(told)

    def _say(self, told: Judgement) -> list[Emission]:
        insight = self._insight(told)
        out = ProducerRecord("insights", insight.subject.key, encode(insight), insight.ts_ms)
        return [out, *self._to_annotate(told)]

    def _to_annotate(self, told: Judgement) -> list[Emission]:
        if self._pod is None:
            return []
        both = PodInsight(pod=self._pod, insight=self._insight(told))
        return [ProducerRecord("pod-insights", self._uid, encode(both), both.insight.ts_ms)]

    def _insight(self, told: Judgement) -> Insight:
        told = sized(told, self._track.sizer.sizes, self._pod)
        subject = pod_subject(self._node or "unknown", self._uid)
        return Insight(
            subject=subject, ts_ms=told.ts_ms, since_ms=told.since_ms,
            kind=told.kind, confidence=told.confidence,
            bottleneck=told.bottleneck, bottleneck_confidence=told.bottleneck_confidence,
            evidence=told.evidence, advice=told.advice,
        )  # fmt: skip

    def _speaks(self, ts_ms: int, told: bool) -> bool:
        """Whether the job has to hear of the pod; what it hears is kept, for a job that is known later."""
        if self._track.teller.told is None:
            return False
        beat = self._beats.is_due(ts_ms)
        if beat:
            self._beats.take(ts_ms, self._track.recent())
        if told or beat:
            self._spoke_ms = ts_ms
        return told or beat

    def _to_job(self) -> list[Emission]:
        told = self._track.teller.told
        if told is None or self._pod is None or self._pod.job is None:
            return []
        told = sized(told, self._track.sizer.sizes, self._pod)
        beats = self._beats
        part = JobInsightPart(
            job=self._pod.job, namespace=self._pod.namespace,
            pod_uid=self._uid, pod_name=self._pod.name, node=self._node or self._pod.node,
            ts_ms=self._spoke_ms, told_ms=told.ts_ms, since_ms=told.since_ms,
            kind=told.kind, confidence=told.confidence,
            bottleneck=told.bottleneck, bottleneck_confidence=told.bottleneck_confidence,
            gpus=self._gpus, figures=beats.figures, figures_ms=beats.moved_ms,
            figures_before=None if beats.before == beats.figures else beats.before, beat_ms=beats.beat_ms,
            created_ms=self._pod.created_ms, gone_ms=self._gone_ms,
            evidence=told.evidence, advice=told.advice,
        )  # fmt: skip
        return [ProducerRecord("job-insight-parts", part.job.uid, encode(part), self._spoke_ms)]

    def settle(self) -> list[Emission]:
        """Nothing is held back."""
        return []

    def close(self) -> list[Emission]:
        """A span that has no other half stays without it; nothing is told early."""
        return []

    def snapshot(self) -> Snapshot:
        """Plain data."""
        return {
            "v": SNAPSHOT_VERSION,
            "pod": None if self._pod is None else to_plain(self._pod),
            "node": self._node,
            "gpus": self._gpus,
            "join": self._join.snapshot(),
            "track": self._track.snapshot(),
            "alone": None if self._alone is None else self._alone.snapshot(),
            "alone_spans": self._alone_spans,
            "beats": self._beats.snapshot(),
            "spoke_ms": self._spoke_ms,
            "gone_ms": self._gone_ms,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for a version that is not ours."""
        check_version(plain, SNAPSHOT_VERSION, "a pod's insight")
        self._pod = None if plain["pod"] is None else from_plain(Pod, plain["pod"], TOPIC)
        self._node, self._gpus = plain["node"], plain["gpus"]
        self._join.restore(plain["join"])
        self._track.restore(plain["track"])
        self._alone = None if plain["alone"] is None else self._revived(plain["alone"])
        self._alone_spans = plain["alone_spans"]
        self._beats.restore(plain["beats"])
        self._spoke_ms, self._gone_ms = plain["spoke_ms"], plain["gone_ms"]

    def _revived(self, plain: dict[str, Any]) -> Track:
        track = Track(self._prices)
        track.restore(plain)
        return track


def _gone_ms(part: InsightPart, ts_ms: int, before_ms: int | None) -> int | None:
    """When the pod ended, as an identity of ``ts_ms`` says; None while it is there."""
    if part.pod is not None and part.pod.finished_ms is not None:
        return part.pod.finished_ms
    ended = part.gone or (part.pod is not None and part.pod.finished)
    if not ended:
        return None
    return ts_ms if before_ms is None else before_ms


def _check(part: InsightPart) -> None:
    """Raise ``DecodeError`` for a part that no node of ours wrote."""
    channels = SOURCES.get(part.source)
    if channels is None:
        raise DecodeError(TOPIC, "source", Reason.SCHEMA, f"{part.source!r:.80} is none of {sorted(SOURCES)}")
    if part.start_ms % SPAN_MS:
        raise DecodeError(TOPIC, "start_ms", Reason.SCHEMA, f"{part.start_ms} begins no span")
    try:
        fits = part.codes is not None and from_text(part.codes, len(channels)).shape[1] == SLOTS
    except ValueError as error:
        raise DecodeError(TOPIC, "codes", Reason.SCHEMA, str(error)) from error
    if not fits:
        raise DecodeError(TOPIC, "codes", Reason.SCHEMA, f"expected {len(channels)} rows of {SLOTS}")

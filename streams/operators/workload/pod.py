"""Finds the insight of one pod: what kind it is, what holds it back and what it asks for too much, published
when any of that changed."""

from collections.abc import Sequence
from functools import partial

from dutycycle.contract.codec import DecodeError, encode, from_plain, to_plain
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.records.derived import pod_subject
from dutycycle.contract.records.insights import Anomaly, Insight
from dutycycle.contract.records.parts import InsightPart, JobInsightPart, PodInsight
from dutycycle.contract.records.pods import Pod
from streams.operators.base import Emission, Operator, Snapshot
from streams.operators.columns.arrays import check_version
from streams.operators.keyed import decode_under_key
from streams.operators.workload.anomalies.kinds import HANG
from streams.operators.workload.anomalies.wording import anomaly_of
from streams.operators.workload.channels import SOURCE_CHANNELS, SPAN_MS, SPAN_S, codes_from_text
from streams.operators.workload.join import TOPIC, JoinedSpan, SpanJoin
from streams.operators.workload.ranks import RankSamples
from streams.operators.workload.recent_minutes import Prices, RecentMinutes
from streams.operators.workload.rules.bottleneck import Assessment
from streams.operators.workload.rules.reported import ReportedSteps
from streams.operators.workload.rules.rightsizing import with_sizes
from streams.operators.workload.rules.state import STATE_MS

SNAPSHOT_VERSION = 17
REPEAT_MS = STATE_MS
"""So often the insight is sent to the sinks and to the job even if it is the same: a sink that has just
started knows nothing, and what is missing on an object has to come back. ``insights`` has changes alone."""
_COMMON = (
    "since_ms", "kind", "confidence", "bottleneck", "bottleneck_confidence", "evidence", "anomalies",
)  # fmt: skip
"""What a pod's insight and its job's part have in common."""
_GPU_ONLY_SPANS = 3
"""Spans after which a pod is judged by its GPU alone, as long as ``cgroup`` never sent any."""


class PodInsightOperator(Operator):
    """Keeps the state of one pod.

    What it publishes is a function of the pod's spans, in the order of time, and of what is known of the pod
    by then. The last insight is the same, whenever the pod's identity became known.
    """

    def __init__(self, uid: str, prices: Prices, *, anomalies: bool = True) -> None:
        self._uid = uid
        self._new_minutes = partial(RecentMinutes, prices, anomalies=anomalies)
        self._pod: Pod | None = None
        self._node = ""
        self._gpus = 1
        self._join = SpanJoin()
        self._epoch = 0  # so often was the clock of its node set back
        self._begin()
        self._gone_ms: int | None = None
        self._ended_ms = 0  # the latest end that it ever had

    def _begin(self) -> None:
        """Begin the pod's time: nothing is known of what it does, or of when."""
        self._minutes = self._new_minutes()
        self._gpu_only: RecentMinutes | None = None
        self._gpu_only_spans = 0
        self._rank = RankSamples()
        self._steps = ReportedSteps()
        self._job_ms = 0  # the end of the span with which the job was last told of the pod

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Take a part. Raises ``DecodeError``."""
        part = decode_under_key(InsightPart, record.value, TOPIC, key=self._uid)
        if part.source == "pods":
            return [*self._identify(part, record.ts_ms)]
        if part.source == "processes":
            if part.steps is None:
                raise DecodeError(TOPIC, "steps", Reason.SCHEMA, "is absent")
            self._steps.add(part.start_ms, part.steps)
            return []
        _check(part)
        if self._join.is_repeat(part):
            return []
        if part.source == "nvml" and self._join.begins_epoch(part):
            self._epoch += 1
            self._begin()
        wants_gpu = self._pod is None or self._pod.gpu_request != 0
        if not wants_gpu and not self._join.has_gpu:
            if part.source == "cgroup":
                self._join.add(part, wants_gpu=False)
                return [*self._add_cpu_only(part)]
            self._begin()  # it asked for no GPU, and is on one
        outs: list[Emission] = []
        for span in self._join.add(part, wants_gpu=wants_gpu):
            if self._join.has_cgroup:  # else it was judged already, by its GPU alone
                outs += self._add(span)
        return outs + self._add_gpu_only(part)

    def _identify(self, part: InsightPart, ts_ms: int) -> list[ProducerRecord]:
        known, self._pod = self._pod, part.pod or self._pod
        ended, self._gone_ms = self._gone_ms, _gone_ms(part, ts_ms, self._gone_ms)
        # Whether the job was told of an end that was taken back must not decide what it holds, nor of what
        # time that is. No count of the changes: identities may come again.
        self._ended_ms = max(self._ended_ms, self._gone_ms or 0)
        published, sizes = self._minutes.debouncer.published, self._minutes.sizer.sizes
        if published is None:
            return []
        resized = with_sizes(published, sizes, known) != with_sizes(published, sizes, self._pod)
        resized = resized or self._anomalies(known) != self._anomalies(self._pod)
        outs = self._publish(published) if resized else self._to_annotate(published) if known is None else []
        job = None if self._pod is None else self._pod.job
        if known is not None and known.job == job and not resized and ended == self._gone_ms:
            return outs
        return outs + self._to_job()

    def _add_cpu_only(self, part: InsightPart) -> list[ProducerRecord]:
        """Judge a pod without a GPU by what its training reports, once there is such a report."""
        if self._minutes.debouncer.published is None and not self._steps.figures(part.start_ms):
            return []
        no_gpu = InsightPart(
            uid=self._uid, source="nvml", node=part.node, start_ms=part.start_ms, tick_ms=part.tick_ms, gpus=0
        )
        return self._add(JoinedSpan(no_gpu, part))

    def _add(self, span: JoinedSpan) -> list[ProducerRecord]:
        self._gpu_only = None
        self._node = span.gpu.node or self._node
        self._gpus = 1 if span.gpu.gpus is None else span.gpu.gpus
        sizes, anomalies = self._minutes.sizer.sizes, self._minutes.anomalies
        silence = self._minutes.silence(span.gpu.start_ms)
        outs = [] if silence is None else self._publish(silence)
        changed = self._minutes.add(span, self._steps)
        published, resized = self._minutes.debouncer.published, self._minutes.sizer.sizes
        others = anomalies is not self._minutes.anomalies
        if changed is None and published is not None:
            # With other sizes or anomalies the same assessment may say something else.
            says_else = others or (
                resized is not sizes
                and with_sizes(published, resized, self._pod) != with_sizes(published, sizes, self._pod)
            )
            changed = published if says_else else None
        outs += [] if changed is None else self._publish(changed)
        if published is not None:
            is_due = self._rank.is_due(span.end_ms)
            if is_due:
                self._rank.add(span.end_ms, self._minutes.recent())
            if is_due or outs or others or resized is not sizes:
                self._job_ms = span.end_ms
                outs += self._to_job()
        return outs + self._repeated(self._minutes, span.end_ms, outs)

    def _add_gpu_only(self, part: InsightPart) -> list[ProducerRecord]:
        """Judge spans where only ``nvml`` ever sent some, until ``cgroup`` sends some as well."""
        if part.source != "nvml" or self._join.has_cgroup:
            return []
        self._gpu_only = self._gpu_only or self._new_minutes()
        self._gpu_only_spans += 1
        anomalies = self._gpu_only.anomalies
        silence = self._gpu_only.silence(part.start_ms)
        outs = [] if silence is None else self._publish(silence)
        changed = self._gpu_only.add(JoinedSpan(part, None), self._steps)
        if anomalies is not self._gpu_only.anomalies:
            changed = changed or self._gpu_only.debouncer.published
        self._node = part.node or self._node
        if self._gpu_only_spans < _GPU_ONLY_SPANS:
            return outs
        if self._gpu_only_spans == _GPU_ONLY_SPANS:  # what was judged while it was too early
            changed = changed or self._gpu_only.debouncer.published
        if changed is not None:
            return outs + self._publish(changed)
        return outs + self._repeated(self._gpu_only, part.start_ms + SPAN_MS, outs)

    def _repeated(
        self, minutes: RecentMinutes, end_ms: int, outs: Sequence[ProducerRecord]
    ) -> list[ProducerRecord]:
        """Return what was published last, once more, if that is due at the end of this span and not in
        ``outs``."""
        published = minutes.debouncer.published
        if published is None or end_ms % REPEAT_MS:
            return []
        again = [*self._to_annotate(published), *self._to_job()]
        return [out for out in again if all(out.topic != other.topic for other in outs)]

    def _publish(self, judged: Assessment) -> list[ProducerRecord]:
        insight = self._insight(judged)
        out = ProducerRecord("insights", insight.subject.key, encode(insight), insight.ts_ms)
        return [out, *self._to_annotate(judged)]

    def _to_annotate(self, judged: Assessment) -> list[ProducerRecord]:
        if self._pod is None:
            return []
        both = PodInsight(pod=self._pod, insight=self._insight(judged), state=self._shown.state)
        return [ProducerRecord("pod-insights", self._uid, encode(both), both.insight.ts_ms)]

    def _insight(self, judged: Assessment) -> Insight:
        fields = with_sizes(judged, self._minutes.sizer.sizes, self._pod).fields()
        # An anomaly that begins or ends is a change, too.
        ts_ms = max(fields.pop("ts_ms"), self._shown.anomalies_changed_ms)
        return Insight(
            subject=pod_subject(self._node or "unknown", self._uid), ts_ms=ts_ms, **fields,
            anomalies=self._anomalies(self._pod),
        )  # fmt: skip

    @property
    def _shown(self) -> RecentMinutes:
        """Return the minutes that the pod is judged by now."""
        return self._gpu_only or self._minutes

    def _anomalies(self, pod: Pod | None) -> tuple[Anomaly, ...]:
        """Return what is told of the pod. One GPU alone waits for nobody, unless there are other ranks in its
        job."""
        waits = self._gpus > 1 or (pod is not None and pod.job is not None)
        return tuple(
            anomaly_of(anomaly) for anomaly in self._shown.anomalies if waits or anomaly.kind != HANG
        )

    def _to_job(self) -> list[ProducerRecord]:
        published = self._minutes.debouncer.published
        if published is None or self._pod is None or self._pod.job is None:
            return []
        judged = self._insight(published)
        rank = self._rank
        part = JobInsightPart(
            job=self._pod.job, namespace=self._pod.namespace, pod_uid=self._uid, pod_name=self._pod.name,
            ts_ms=self._job_ms, epoch=self._epoch or None, insight_ms=judged.ts_ms, gpus=self._gpus,
            **{name: getattr(judged, name) for name in _COMMON},
            rank_figures=rank.figures, rank_before=None if rank.before == rank.figures else rank.before,
            rank_changed_ms=rank.changed_ms, rank_sample_ms=rank.sample_ms,
            created_ms=self._pod.created_ms, gone_ms=self._gone_ms,
            ended_ms=None if self._ended_ms == (self._gone_ms or 0) else self._ended_ms,
            state=self._minutes.state,
        )  # fmt: skip
        return [ProducerRecord("job-insight-parts", part.job.uid, encode(part), self._job_ms)]

    def close(self) -> list[Emission]:
        """End the pod's time. A span without its other half stays unjudged. Of a pod that ends while the
        other source might still have come, what its GPU alone says is published now."""
        waits = self._gpu_only is not None and self._gpu_only_spans < _GPU_ONLY_SPANS
        published = self._gpu_only.debouncer.published if self._gpu_only is not None and waits else None
        return [] if published is None else [*self._publish(published)]

    def snapshot(self) -> Snapshot:
        """Return plain data."""
        return {
            "v": SNAPSHOT_VERSION,
            "pod": None if self._pod is None else to_plain(self._pod),
            "node": self._node,
            "gpus": self._gpus,
            "join": self._join.snapshot(),
            "epoch": self._epoch,
            "track": self._minutes.snapshot(),
            "gpu_only": None if self._gpu_only is None else self._gpu_only.snapshot(),
            "gpu_only_spans": self._gpu_only_spans,
            "rank": to_plain(self._rank),
            "steps": to_plain(self._steps),
            "job_ms": self._job_ms,
            "gone_ms": self._gone_ms,
            "ended_ms": self._ended_ms,
        }

    def restore(self, plain: Snapshot) -> None:
        """Go on from a snapshot; raises ``ValueError`` for one of another version."""
        check_version(plain, SNAPSHOT_VERSION, "a pod's insight")
        self._pod = None if plain["pod"] is None else from_plain(Pod, plain["pod"], TOPIC)
        self._node, self._gpus = plain["node"], plain["gpus"]
        self._join.restore(plain["join"])
        self._epoch = plain["epoch"]
        self._minutes.restore(plain["track"])
        self._gpu_only = None
        if plain["gpu_only"] is not None:
            self._gpu_only = self._new_minutes()
            self._gpu_only.restore(plain["gpu_only"])
        self._gpu_only_spans = plain["gpu_only_spans"]
        self._rank = from_plain(RankSamples, plain["rank"], TOPIC)
        self._steps = from_plain(ReportedSteps, plain["steps"], TOPIC)
        self._job_ms, self._gone_ms = plain["job_ms"], plain["gone_ms"]
        self._ended_ms = plain.get("ended_ms") or self._gone_ms or 0


def _gone_ms(part: InsightPart, ts_ms: int, before_ms: int | None) -> int | None:
    """Tell when the pod ended, as an identity of ``ts_ms`` says; None while it is there."""
    if part.pod is not None and part.pod.finished_ms is not None:
        return part.pod.finished_ms
    ended = part.gone or (part.pod is not None and part.pod.finished)
    if not ended:
        return None
    return ts_ms if before_ms is None else before_ms


def _check(part: InsightPart) -> None:
    """Raise ``DecodeError`` for a part that no node operator wrote."""
    channels = SOURCE_CHANNELS.get(part.source)
    if channels is None:
        expected = sorted(SOURCE_CHANNELS)
        raise DecodeError(TOPIC, "source", Reason.SCHEMA, f"{part.source!r:.80} is none of {expected}")
    if part.start_ms % SPAN_MS:
        raise DecodeError(TOPIC, "start_ms", Reason.SCHEMA, f"{part.start_ms} begins no span")
    try:
        fits = part.codes is not None and codes_from_text(part.codes, len(channels)).shape[1] == SPAN_S
    except ValueError as error:
        raise DecodeError(TOPIC, "codes", Reason.SCHEMA, str(error)) from error
    if not fits:
        raise DecodeError(TOPIC, "codes", Reason.SCHEMA, f"expected {len(channels)} rows of {SPAN_S}")

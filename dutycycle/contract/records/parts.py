"""Defines the internal records that carry what a node's samples say to its pods, their job, and to the Node
object.

Each is cumulative: everything so far, not what is new. So the newest supersedes the ones before it, a
repeat changes nothing, and no arrival order between sources matters.
"""

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from dutycycle.contract.records.base import RecordBase, VersionedRecord, written
from dutycycle.contract.records.derived import OtherCycle, Peaks, Totals, TrendMetric
from dutycycle.contract.records.insights import Anomaly, Insight
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.processes import Loop, ProcessSample
from dutycycle.contract.units import Amount, Count, Label, Millis, NodeName, Number, Share, Uid


class Tally(RecordBase, frozen=True, kw_only=True):
    """Holds a metric so far: its maximum and when, sum and count for the mean, and how often each value came,
    as ``streams.operators.peaks.histogram`` writes it."""

    max: Number
    at_ms: Millis
    sum: Number
    count: Count
    histogram: Annotated[bytes, Meta(min_length=1, max_length=32_768)] | None = None


Tallies = Mapping[str, Tally]
"""Tallies by metric."""


class PodPart(VersionedRecord, frozen=True, kw_only=True):
    """What one source knows of a pod so far: its use from ``nvml`` or ``cgroup``, its identity from ``pods``.

    ``opened_ms`` names the accumulation: a part with the same source and ``opened_ms`` supersedes, one
    with another adds. ``gone`` says that the pod was deleted. ``attribution`` says by scope where the
    figures of a GPU come from: see ``PodPeaks``. ``processes`` are those that needed most, and
    ``processes_omitted`` further ones are left out.
    """

    uid: Uid
    source: Label
    node: NodeName | None = None
    opened_ms: Millis = written(int)
    first_ms: Millis = written(int)
    last_ms: Millis = written(int)
    samples: Count = written(int)
    metrics: Tallies = written(dict)
    gpus: Mapping[str, Tallies] = written(dict)
    processes: Mapping[str, Tallies] = written(dict)
    processes_omitted: Count = written(int)
    attribution: Mapping[str, Label] = written(dict)
    pod: Pod | None = None
    gone: bool = written(bool)
    totals: Totals | None = None


class JobPart(VersionedRecord, frozen=True, kw_only=True):
    """What one pod adds to its job so far. A part with more ``samples``, or a final one, counts.

    ``gone``: the pod is not only ``final``, but deleted. ``returned``: it had ended, and is there again; such
    a part counts as a final one does, of both the later.
    """

    job: JobRef
    namespace: Label | None = None
    pod_uid: Uid
    pod_name: Label
    node: NodeName
    first_ms: Millis
    last_ms: Millis
    samples: Count
    final: bool
    metrics: Tallies
    gpus: Mapping[str, Peaks] = written(dict)
    attribution: Mapping[str, Label] = written(dict)
    totals: Totals | None = None
    gone: bool = False
    returned: bool | None = None


class GpuAnalysis(RecordBase, frozen=True, kw_only=True):
    """Holds what is known of one GPU beyond its samples: absent is what nothing is known of.

    Cycle and slope are those of ``gpu_util_pct``. ``maxima`` has, by metric, the largest value in the windows
    of the last hour.
    """

    cyclic: bool | None = None
    period_s: Amount | None = None
    slope_per_s: Number | None = None
    maxima: Mapping[str, Number] = written(dict)


class PodOnGpu(RecordBase, frozen=True, kw_only=True):
    """Holds what a pod used of one GPU since it was first seen there. ``attribution``: the least sure of the
    ways in which that was known. A pod that is away for ten minutes is forgotten, and begins anew."""

    pod_uid: Uid
    gpu: Uid
    attribution: Label
    totals: Totals = written(dict)


class NodePart(VersionedRecord, frozen=True, kw_only=True):
    """What is known of a node's GPUs: for the annotations of the Node, and for the counters of Prometheus.

    The newest by ``ts_ms`` counts, of those with the same ``since_ms``: the beginning of the node's state, or
    of its time if its clock was set back. ``gpus`` and ``totals`` are by UUID. ``totals`` and ``pods``: the
    ledger since the node, or the pod on that GPU, was first seen; what is not known is absent.
    """

    node: NodeName
    ts_ms: Millis
    since_ms: Millis = written(int)
    gpus: Mapping[str, GpuAnalysis]
    totals: Mapping[str, Totals] = written(dict)
    pods: tuple[PodOnGpu, ...] = ()


class PodTrend(RecordBase, frozen=True, kw_only=True):
    """Holds what was published at ``ts_ms`` of the trends of a pod, from one source."""

    ts_ms: Millis
    metrics: Mapping[str, TrendMetric]


class WorkloadState(RecordBase, frozen=True, kw_only=True):
    """Says what holds of a pod or job at ``seen_ms``, beside its insight.

    ``period_s`` and ``confidence``: the cycle of its utilization, if there is one, and of a pod since when,
    its further cycles, and ``cycle_ms``, when any of this changed. ``lost_ms``: since when a training that
    used to have a cycle has none. ``period_source`` is ``reported`` where the training's own steps
    contradicted the cycle that was found: then a step is the period. ``cycle_steps``: steps in a cycle, by
    count.
    ``steps_per_s`` and ``samples_per_s``: what it reported in its last two minutes, absent where it did not.
    ``idle_since_ms``: since when a pod uses none of its GPUs. ``mem_full_ms``:
    when host memory reaches its limit; ``gpu_mem_full_ms``: when the memory of one of its GPUs is full.
    ``trends``: by source.
    """

    seen_ms: Millis
    period_s: Amount | None = None
    period_source: Label | None = None
    confidence: Share | None = None
    cycle_steps: Count | None = None
    steps_per_s: Amount | None = None
    samples_per_s: Amount | None = None
    cycle_since_ms: Millis | None = None
    other_cycles: tuple[OtherCycle, ...] | None = None
    cycle_ms: Millis | None = None
    lost_ms: Millis | None = None
    idle_since_ms: Millis | None = None
    mem_full_ms: Millis | None = None
    gpu_mem_full_ms: Millis | None = None
    trends: Mapping[str, PodTrend] | None = None


GpuMeans = tuple[Number | None, Number | None, Number | None, Number | None]
"""Means of one GPU over ten seconds: see ``InsightPart``."""


class PodSteps(RecordBase, frozen=True, kw_only=True):
    """Holds what the training of a pod reported at one tick: ``steps`` that took ``seconds``, of the process
    that did most; ``samples`` of all its processes, absent where one does not count them."""

    steps: Count
    seconds: Amount
    samples: Count | None = None


def steps_of_pods(sample: ProcessSample) -> dict[str, PodSteps]:
    """Return what each pod's training reported at the tick of ``sample``, by uid; without those that reported
    no step."""
    loops: dict[str, list[Loop]] = defaultdict(list)
    for process in sample.processes:
        if process.loop is not None and process.loop.steps:
            loops[process.pod_uid].append(process.loop)
    steps: dict[str, PodSteps] = {}
    for uid, of_pod in loops.items():
        most = max(of_pod, key=lambda loop: loop.steps)
        samples = [loop.samples for loop in of_pod if loop.samples is not None]
        counted = sum(samples) if len(samples) == len(of_pod) else None
        steps[uid] = PodSteps(steps=most.steps, seconds=most.seconds, samples=counted)
    return steps


class InsightPart(VersionedRecord, frozen=True, kw_only=True):
    """Ten seconds of one pod from one source, or its identity (``source`` is ``pods``), or what its training
    reported at the tick ``start_ms`` (``source`` is ``processes``).

    ``codes`` are bytes as base64, a row of ten for each channel of the source, one a second: see
    ``streams.operators.workload.channels``. ``tick_ms``: from tick to tick, absent for about a second or
    less; of ticks that are further apart than ten seconds not each span has a part. ``gpus`` counts those
    that the pod holds, ``mem_limit_bytes`` is its limit of host memory. ``mem_full_ms``: when that is
    reached, or from ``nvml`` the memory of one of its GPUs is full. ``period_s`` is the cycle of its
    utilization, where there is one, or else of the work inside of one of its GPUs, which ``period_metric``
    names; ``cycle_ms``: when that changed last. ``trend`` comes every half minute. ``epoch_ms`` names the
    node's time since its clock was last set back; absent if it never was.
    In the last ten seconds of each minute ``gpu_means`` has, by ``<node>/<index>`` of each GPU that it holds
    alone, means: utilization and power (of its limit) in percent, degrees, and MHz of the SMs at work; and
    ``held_down`` of those whose clocks power or heat held down, for which share of that time each did, in
    percent.
    ``frozen`` has, by the same, since when the source of a GPU repeats itself: such a GPU has no figures."""

    uid: Uid
    source: Label
    node: NodeName | None = None
    start_ms: Millis = written(int)
    epoch_ms: Millis | None = None
    codes: Annotated[str, Meta(min_length=1, max_length=4096)] | None = None
    tick_ms: Millis | None = None
    gpus: Count | None = None
    mem_limit_bytes: Amount | None = None
    period_s: Amount | None = None
    period_metric: Label | None = None
    period_confidence: Share | None = None
    period_since_ms: Millis | None = None
    other_periods: tuple[OtherCycle, ...] | None = None
    cycle_ms: Millis | None = None
    trend: PodTrend | None = None
    gpu_means: Mapping[str, GpuMeans] | None = None
    held_down: Mapping[str, tuple[Number, Number]] | None = None
    frozen: Mapping[str, Millis] | None = None
    mem_full_ms: Millis | None = None
    pod: Pod | None = None
    gone: bool = written(bool)
    steps: PodSteps | None = None


class JobInsightPart(VersionedRecord, frozen=True, kw_only=True):
    """The insight of a pod, for its job. The newest by ``ts_ms`` counts.

    Of two ``epoch`` the higher counts: so often was the clock of the pod's node set back, absent for never.
    ``ts_ms`` is the time until which the pod was seen, ``insight_ms`` that of its insight. ``gpus`` counts
    the pod's. ``rank_figures`` are for the comparison of ranks: means over the minutes before
    ``rank_sample_ms``, which is the same for all pods of the job; they stay as they are since
    ``rank_changed_ms`` until they move by enough. ``rank_before`` are those of the sample before, if they
    were others. ``gone_ms`` is when the pod ended, ``ended_ms`` the latest end that it ever had,
    where that was taken back or is another.
    """

    job: JobRef
    namespace: Label | None = None
    pod_uid: Uid
    pod_name: Label
    ts_ms: Millis
    epoch: Count | None = None
    insight_ms: Millis
    since_ms: Millis
    kind: Label
    confidence: Share
    bottleneck: Label
    bottleneck_confidence: Share
    gpus: Count
    rank_figures: Mapping[str, Number] = written(dict)
    rank_before: Mapping[str, Number] | None = None
    rank_changed_ms: Millis = written(int)
    rank_sample_ms: Millis = written(int)
    created_ms: Millis | None = None
    gone_ms: Millis | None = None
    ended_ms: Millis | None = None
    state: WorkloadState | None = None
    evidence: Mapping[str, Number] = written(dict)
    anomalies: tuple[Anomaly, ...] = ()

    @property
    def latest_end_ms(self) -> int:
        """Return the latest end that the pod ever had; 0 for none."""
        return self.ended_ms or self.gone_ms or 0


class PodInsight(VersionedRecord, frozen=True, kw_only=True):
    """A pod's insight together with its identity, keyed like its peaks, for the annotations of the pod."""

    pod: Pod
    insight: Insight
    state: WorkloadState | None = None


class JobInsight(VersionedRecord, frozen=True, kw_only=True):
    """A job's insight together with its identity, keyed like its peaks, for the annotations of the job."""

    job: JobRef
    namespace: Label | None = None
    insight: Insight
    state: WorkloadState | None = None

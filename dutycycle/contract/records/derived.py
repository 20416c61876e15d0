"""Holds what streams make of the samples: windows, trends, cycles, peaks. A metric is a sample's field
name."""

from collections.abc import Mapping

from dutycycle.contract.records.base import RecordBase, VersionedRecord, written
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.units import Amount, Count, Label, Millis, NodeName, Number, Share, Uid


class Subject(RecordBase, frozen=True, kw_only=True):
    """Names what a derived record is about: a GPU, a node, a pod or a job. ``key`` is the same as one
    string."""

    kind: Label
    node: NodeName | None = None
    gpu: Uid | None = None
    pod_uid: Uid | None = None
    job_uid: Uid | None = None

    @property
    def key(self) -> str:
        """Return ``gpu/<node>/<uuid>``, ``node/<node>``, ``pod/<pod uid>`` or ``job/<job uid>``; of a kind
        that is not known the kind alone."""
        parts = {
            "gpu": (self.node, self.gpu),
            "node": (self.node,),
            "pod": (self.pod_uid,),
            "job": (self.job_uid,),
        }.get(self.kind, ())
        return "/".join((self.kind, *(part or "" for part in parts)))


def gpu_subject(node: str, uuid: str) -> Subject:
    """Return the GPU (or MIG slice) ``uuid`` of ``node``."""
    return Subject(kind="gpu", node=node, gpu=uuid)


def node_subject(node: str) -> Subject:
    """Return the host itself."""
    return Subject(kind="node", node=node)


def pod_subject(node: str, pod_uid: str) -> Subject:
    """Return a pod, with the node that it runs on."""
    return Subject(kind="pod", node=node, pod_uid=pod_uid)


def job_subject(job_uid: str) -> Subject:
    """Return a job, over all its nodes."""
    return Subject(kind="job", job_uid=job_uid)


def source_key(subject: Subject, source: str) -> str:
    """Return ``<subject>/<source>``: the key on compacted topics that have a record of each source of a
    subject."""
    return f"{subject.key}/{source}"


class WindowMetric(RecordBase, frozen=True, kw_only=True):
    """Holds what a window says of one metric, in its unit: of a gauge ``mean`` to ``p99``, of a cumulative
    counter ``increase``.

    ``std`` is the population's, percentiles interpolate linearly.
    """

    count: Count
    mean: Number | None = None
    std: Amount | None = None
    min: Number | None = None
    max: Number | None = None
    p50: Number | None = None
    p95: Number | None = None
    p99: Number | None = None
    increase: Amount | None = None


class WindowAggregate(VersionedRecord, frozen=True, kw_only=True):
    """One closed window ``[start_ms, end_ms)`` of one subject, in event time.

    A metric without a measured value is left out, and so is a window without any. ``source``: the samples
    that it is computed from, ``nvml``, ``cgroup`` or ``cuda``. A pod has a record of each.
    """

    subject: Subject
    source: Label
    size_ms: Count
    start_ms: Millis
    end_ms: Millis
    metrics: Mapping[str, WindowMetric]


class Forecast(RecordBase, frozen=True, kw_only=True):
    """Holds the value expected ``horizon_s`` after ``ts_ms`` and the 5-95 % interval, in the metric's unit.

    ``method``, how it was made: ``persistence`` (it stays as it is), ``blend``, ``exhaustion`` or ``cycle``;
    absent where it is not known.
    """

    horizon_s: Amount
    value: Number
    p05: Number
    p95: Number
    method: Label | None = None


class TrendMetric(RecordBase, frozen=True, kw_only=True):
    """Holds level, slope and forecast of one metric, in its unit.

    ``exhausts_in_s`` is absent unless memory is running out.
    """

    level: Number
    slope_per_s: Number
    forecast: tuple[Forecast, ...]
    exhausts_in_s: Amount | None = None


class Trend(VersionedRecord, frozen=True, kw_only=True):
    """The trends of all metrics of a subject from one ``source``, ``nvml`` or ``cgroup``, at ``ts_ms``."""

    subject: Subject
    source: Label
    ts_ms: Millis
    metrics: Mapping[str, TrendMetric]


class OtherCycle(RecordBase, frozen=True, kw_only=True):
    """Holds a further cycle of the same metric."""

    period_s: Amount
    confidence: Share


class CycleMetric(RecordBase, frozen=True, kw_only=True):
    """Describes the periodicity of one metric. Without a cycle there is no ``period_s``. ``period_source``:
    ``reported`` where a training's own steps contradicted what was found, of a job alone."""

    cyclic: bool
    period_s: Amount | None = None
    period_source: Label | None = None
    confidence: Share | None = None
    since_ms: Millis | None = None
    others: tuple[OtherCycle, ...] | None = None


class Cycle(VersionedRecord, frozen=True, kw_only=True):
    """The cycles of all metrics of a subject from one ``source``; one of them changed at ``ts_ms``."""

    subject: Subject
    source: Label
    ts_ms: Millis
    metrics: Mapping[str, CycleMetric]


class Peak(RecordBase, frozen=True, kw_only=True):
    """Holds the most a metric ever was, when, and its mean over all samples, in the metric's unit.

    Of a pod's or job's ``gpu_util_pct`` and ``mem_copy_util_pct``: the most of any GPU, the mean over all.
    ``p95``, of ``metrics.P95_METRICS``: 95 % of the samples were no higher; off by at most 0.5 or 1/64 of
    itself, whichever is more.
    """

    max: Number
    mean: Number
    at_ms: Millis
    p95: Number | None = None


Peaks = Mapping[str, Peak]
"""Peaks by metric."""


Totals = Mapping[str, Amount]
"""What was used in all: ``gpu_s`` (time on GPUs), ``gpu_busy_s``, ``gpu_sm_s``, ``gpu_tensor_s``,
``gpu_working_s``, ``gpu_untouched_s``, ``energy_j`` (joules), and ``cpu_s``, as
``dutycycle.contract.records.hours`` defines them."""


class PodPeaks(VersionedRecord, frozen=True, kw_only=True):
    """A pod's utilization so far: ``gpus`` by ``<node>/<index>``, ``processes`` by ``<node>/<index>/<pid>``.

    ``final`` once the pod is known to have ended. GPU memory of the pod is ``gpu_mem_used_bytes`` in
    ``metrics`` (host memory is ``mem_used_bytes``) and ``mem_used_bytes`` below a GPU. ``attribution``, by
    ``<node>/<index>``: where the figures of ``gpus`` come from: ``measured`` (the pod's own processes),
    ``allocated`` (wholly or partly the device's, which the pod alone was given), or ``unknown``: it was given
    the device, and no figure can be had, which is not idleness. Of many processes, one after the other, those
    are kept that needed most; ``processes_omitted`` further ones are left out.
    """

    pod: Pod
    first_ms: Millis
    last_ms: Millis
    samples: Count
    final: bool
    metrics: Peaks
    gpus: Mapping[str, Peaks] = written(dict)
    processes: Mapping[str, Peaks] | None = None
    processes_omitted: Count | None = None
    attribution: Mapping[str, Label] | None = None
    totals: Totals | None = None


class PodOfJob(RecordBase, frozen=True, kw_only=True):
    """Holds what one pod of a job needed at most.

    ``former``: it is deleted, or of an earlier revision or run of an owner that does not end.
    """

    node: NodeName
    metrics: Peaks
    gpus: Mapping[str, Peaks] = written(dict)
    attribution: Mapping[str, Label] | None = None
    former: bool = False


class JobPeaks(VersionedRecord, frozen=True, kw_only=True):
    """A job's utilization over all its pods, by pod name, kept after they are gone.

    A metric's ``max`` over the job is the largest that any one pod reached; its ``mean`` is over all
    samples of all pods, of utilization of all their GPUs. Where the record would not fit into a message of
    Kafka, ``pods`` is without the GPUs of ``gpus_omitted`` pods and without ``pods_omitted`` further pods, as
    it is without those that ended first, of more than 2,000; ``pod-peaks`` has all of them.

    All this is over the whole life of the job. An owner that does not end has ``current`` beside it: the
    peaks of its revisions, or runs, with pods that have not ended; where there are none, of the newest.
    ``earlier``: those of revisions before it, the newest of them. ``pods_now`` and ``gpus_now``: of any job,
    the pods that have not ended, and their GPUs.
    """

    job: JobRef
    namespace: Label | None = None
    first_ms: Millis
    last_ms: Millis
    final: bool
    metrics: Peaks
    pods: Mapping[str, PodOfJob]
    gpus_omitted: Count | None = None
    pods_omitted: Count | None = None
    totals: Totals | None = None
    pods_now: Count | None = None
    gpus_now: Count | None = None
    current: Peaks | None = None
    earlier: Mapping[Label, Peaks] | None = None

    @property
    def pod_count(self) -> int:
        """Return how many pods it had, with those that the record leaves out."""
        return len(self.pods) + (self.pods_omitted or 0)

    @property
    def known_gpus(self) -> set[str]:
        """Return the GPUs of the pods that the record has, each as ``<node>/<index>``."""
        return {gpu for pod in self.pods.values() for gpu in pod.gpus}


class NodePeaks(VersionedRecord, frozen=True, kw_only=True):
    """What a node needed at most on the day (UTC) that began at ``day_ms``, up to ``last_ms``, by one
    ``source``: ``nvml`` or ``cgroup``.

    Written once a minute; the record with the most ``samples`` of a day and source replaces the others.
    ``metrics``: of the GPUs together (``gpu_util_pct`` as of a pod; the sums ``gpu_mem_used_bytes`` and
    ``gpu_power_w``), or of the host. ``gpus`` by ``<node>/<index>``. Maxima of a GPU are those of
    the driver's samples where there are any, as in windows; those of sums are of the ticks' values.
    """

    node: NodeName
    source: Label
    day_ms: Millis
    first_ms: Millis
    last_ms: Millis
    samples: Count
    metrics: Peaks
    gpus: Mapping[str, Peaks] = written(dict)

"""Says what kind of job something is, and what holds it back: seen from outside, and from inside; and what
trials of a Job have shown."""

from collections.abc import Mapping

from dutycycle.contract.records.base import RecordBase, VersionedRecord, written
from dutycycle.contract.records.derived import Subject
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.units import Amount, Count, Label, Millis, Number, Share, Uid


class Anomaly(RecordBase, frozen=True, kw_only=True):
    """Says what is odd about a pod or job since ``since_ms``, by its own past or by its GPUs among one
    another.

    ``kind``: ``slow_steps``, ``hot_gpu``, ``slow_gpu``, ``power`` (it does not fit utilization), ``hang``,
    ``stall`` (its steps stopped), or ``frozen`` (its source repeats itself, and the figures are unknown).
    ``gpu`` is ``<node>/<index>``, where it is about one GPU, and ``pod``, on a job, the name of the pod that
    it is about. ``evidence``: the figures when it was found, units at the end of the names.
    """

    kind: Label
    since_ms: Millis
    pod: Label | None = None
    gpu: Label | None = None
    evidence: Mapping[str, Number] = written(dict)
    advice: Label | None = None


class Insight(VersionedRecord, frozen=True, kw_only=True):
    """What a pod or job does and what holds it back, written when that changed.

    ``kind``: ``training``, ``inference``, ``loading``, ``idle``, ``interactive``, or ``unknown``, which is
    said rather than guessed. ``bottleneck``: ``gpu``, ``memory_bandwidth``, ``input``, ``communication``,
    ``power``, ``heat``, ``imbalance``, ``launch``, ``transfers``, ``occupancy``, ``precision``, ``host``,
    ``checkpoint``, ``idle``, ``over_provisioned``, ``none`` (nothing holds it back but its demand), or
    ``unknown``. ``evidence``: the figures that this rests on, units at the end of the names. ``anomalies``:
    those that hold now, absent for none.
    """

    subject: Subject
    ts_ms: Millis
    since_ms: Millis
    kind: Label
    confidence: Share
    bottleneck: Label
    bottleneck_confidence: Share
    evidence: Mapping[str, Number] = written(dict)
    advice: Label | None = None
    anomalies: tuple[Anomaly, ...] = ()


class ProfileVerdict(VersionedRecord, frozen=True, kw_only=True):
    """What a profile says of the program in a pod, as ``dutycycle profile --pod`` has read it.

    ``subject`` is the pod, or its job, which gets the same record under its own key. ``bottleneck``,
    ``evidence`` and ``advice`` are as in an insight; one further word is ``synchronization``, which cannot be
    seen from outside. No stage reads it, and none writes it.
    """

    subject: Subject
    pod: Pod
    ts_ms: Millis
    source: Label
    product: Label
    bottleneck: Label
    bottleneck_confidence: Share
    evidence: Mapping[str, Number]
    advice: Label | None = None


class Trial(RecordBase, frozen=True, kw_only=True):
    """Holds one of the runs. ``name`` is such as ``2gpu-4pods-packed``; ``gpus`` are those of one of its
    ``pods``.

    ``placement``: ``packed`` (all pods on one node), ``spread`` (each on a node of its own), or absent: where
    the scheduler liked; ``gpu_model``: the value of the node label that it asked
    for, absent for any. ``ended`` says how it ended. A figure that could not be measured is absent.
    ``gpu_s_per_unit`` and ``energy_j_per_unit`` count all its GPUs, idle ones too.
    """

    name: Label
    gpus: Count
    pods: Count
    placement: Label | None = None
    gpu_model: Label | None = None
    ended: Label
    gpu_minutes: Amount
    rate_per_s: Amount | None = None
    gpu_s_per_unit: Amount | None = None
    energy_j_per_unit: Amount | None = None
    bottleneck: Label | None = None
    idle_gpus: Count | None = None


class Trials(VersionedRecord, frozen=True, kw_only=True):
    """The trials of the Job ``job``, and which was best by ``goal``: ``gpu-seconds``, ``joules`` or ``rate``.

    ``unit`` is what is counted: ``sample`` or ``step`` as trainings report them, else ``cycle`` of GPU
    utilization; absent where nothing was found to count. ``best`` and ``ties`` are names of ``trials``.
    Those in ``ties`` differ from ``best`` by no more than noise. ``job_uid``: of the Job in the cluster.
    """

    id: Uid
    namespace: Label
    job: Label
    job_uid: Uid | None = None
    ts_ms: Millis
    goal: Label
    unit: Label | None = None
    best: Label | None = None
    ties: tuple[Label, ...] = ()
    trials: tuple[Trial, ...]

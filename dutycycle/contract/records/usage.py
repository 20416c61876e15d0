"""What was used of the GPUs of a node so far: the state of the counters that Prometheus reads."""

from collections.abc import Mapping

from dutycycle.contract.records.base import RecordBase, VersionedRecord, written
from dutycycle.contract.units import Amount, Count, Label, Millis, NodeName, Uid


class GpuUsage(RecordBase, frozen=True, kw_only=True):
    """A GPU so far. ``sm_s``, ``tensor_s``: absent while it never told. ``driver_j``: the driver's own
    counter when it was read last; ``guessed_j``: what was counted by power since then; ``owed_j``: what its
    next increases do not add."""

    busy_s: Amount = written(float)
    sm_s: Amount | None = None
    tensor_s: Amount | None = None
    energy_j: Amount = written(float)
    driver_j: Amount | None = None
    guessed_j: Amount = written(float)
    owed_j: Amount = written(float)


class PodUsage(RecordBase, frozen=True, kw_only=True):
    """A pod on one GPU so far, of which it was known by ``attribution``; absent is what never was."""

    pod_uid: Uid
    gpu: Uid
    attribution: Label
    busy_s: Amount | None = None
    sm_s: Amount | None = None
    tensor_s: Amount | None = None
    energy_j: Amount | None = None
    seen_ms: Millis = written(int)


class NodeUsage(VersionedRecord, frozen=True, kw_only=True):
    """The counters of a node's GPUs and pods, for a sink that starts again.

    They include the samples of ``partition`` up to ``offset``. Those of every node of that partition include
    all records before ``complete_to``, where a reader begins.
    """

    node: NodeName
    partition: Count
    offset: Count
    complete_to: Count
    collector: Uid
    seq: Count
    ts_ms: Millis
    gpus: Mapping[str, GpuUsage] = written(dict)
    pods: tuple[PodUsage, ...] = ()

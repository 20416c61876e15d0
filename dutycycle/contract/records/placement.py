"""Holds what the extender said of a pod that was to be placed."""

from dutycycle.contract.records.base import RecordBase, VersionedRecord
from dutycycle.contract.units import Count, Label, Millis, NodeName, Uid


class NodeScore(RecordBase, frozen=True, kw_only=True):
    """Holds a node's score. ``score``: 0 to 10, as kube-scheduler was told. ``why``: its terms in words."""

    node: NodeName
    score: Count
    why: Label


class Placement(VersionedRecord, frozen=True, kw_only=True):
    """The best of the ``considered`` nodes, the best first. ``left_out``: those that ``filter`` refused.

    ``expected``: what the pod is predicted to need, with the evidence; None without similar pods. The
    scheduler decides, by more than these scores.
    """

    uid: Uid
    namespace: Label
    name: Label
    ts_ms: Millis
    considered: Count
    left_out: Count
    nodes: tuple[NodeScore, ...]
    expected: Label | None = None

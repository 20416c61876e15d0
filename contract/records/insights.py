"""What kind of job something is, and what holds it back."""

from collections.abc import Mapping

from contract.records.base import VersionedRecord, written
from contract.records.derived import Subject
from contract.units import Label, Millis, Number, Share


class Insight(VersionedRecord, frozen=True, kw_only=True):
    """What a pod or job does and what holds it back, written when that changed.

    ``kind``: ``training``, ``inference``, ``loading``, ``idle``, ``interactive``, or ``unknown``, which is
    said rather than guessed. ``bottleneck``: ``gpu``, ``memory_bandwidth``, ``input``, ``communication``,
    ``power``, ``heat``, ``imbalance``, ``idle``, ``over_provisioned``, ``none`` (nothing holds it back but
    its demand), or ``unknown``. ``evidence``: the figures that this rests on, units at the end of the
    names.
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

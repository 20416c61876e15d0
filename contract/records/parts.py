"""The internal records that carry peaks from a node's samples to its pods, and from pods to their job.

Each is cumulative: everything so far, not what is new. So the newest supersedes the ones before it, a
repeat changes nothing, and no arrival order between sources matters. ``NodePart`` alone is news: it brings
what was found about a GPU to whoever annotates its node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from contract.records.derived import Peaks
from contract.records.pods import JobRef, Pod
from contract.units import MOST, Amount, Count, Label, Millis, NodeName, Range, Uid

_SUM = MOST * 1e15


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """A metric so far: its maximum and when, and sum and count for the mean."""

    max: Annotated[float, Range(-MOST, MOST)]
    at_ms: Millis
    sum: Annotated[float, Range(-_SUM, _SUM)]
    count: Count


Tallies = Mapping[str, Tally]
"""Tallies by metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPart:
    """What one source knows of a pod so far: ``nvml`` or ``cgroup`` its use, ``pods`` its identity.

    ``opened_ms`` names the accumulation: a part with the same source and ``opened_ms`` supersedes, one
    with another adds. ``gone`` says that the pod was deleted. ``attribution`` says by scope where the
    figures of a GPU come from: see ``PodPeaks``. ``processes`` are those that needed most, and
    ``processes_omitted`` further ones are left out.
    """

    v: int = 1
    uid: Uid
    source: Label
    node: NodeName | None = None
    opened_ms: Millis = 0
    first_ms: Millis = 0
    last_ms: Millis = 0
    samples: Count = 0
    metrics: Tallies = field(default_factory=dict)
    gpus: Mapping[str, Tallies] = field(default_factory=dict)
    processes: Mapping[str, Tallies] = field(default_factory=dict)
    processes_omitted: Count = 0
    attribution: Mapping[str, Label] = field(default_factory=dict)
    pod: Pod | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """What one pod adds to its job so far. A part with more ``samples``, or final, supersedes."""

    v: int = 1
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
    gpus: Mapping[str, Peaks] = field(default_factory=dict)
    attribution: Mapping[str, Label] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePart:
    """What was found about one GPU since the last part: absent is what nothing was found about.

    ``maxima`` has, by metric, the largest maximum of the windows that closed, the newest at ``ts_ms``.
    """

    v: int = 1
    node: NodeName
    gpu: Uid
    ts_ms: Millis
    cyclic: bool | None = None
    period_s: Amount | None = None
    slope_per_s: float | None = None
    maxima: Mapping[str, float] = field(default_factory=dict)

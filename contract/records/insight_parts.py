"""The internal records that insights are found from: from nodes to pods, and from pods to their job."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from contract.records.insights import Insight
from contract.records.pods import JobRef, Pod
from contract.units import Amount, Count, Label, Millis, NodeName, Share, Text, Uid


@dataclass(frozen=True, slots=True, kw_only=True)
class InsightPart:
    """Ten seconds of one pod from one source, or (``source`` is ``pods``) who it is.

    ``codes`` are bytes as base64, a row of ten for each channel of the source, one a second: see
    ``streams.operators.workload.channels``. ``gpus`` counts those that the pod holds, ``gpu_mem_total_bytes``
    is that of those it holds alone, ``mem_limit_bytes`` its limit of host memory. ``period_s`` is the cycle
    of its utilization, where there is one."""

    v: int = 1
    uid: Uid
    source: Label
    node: NodeName | None = None
    start_ms: Millis = 0
    codes: Annotated[str, Text(4096)] | None = None
    gpus: Count | None = None
    gpu_mem_total_bytes: Amount | None = None
    mem_limit_bytes: Amount | None = None
    period_s: Amount | None = None
    period_confidence: Amount | None = None
    pod: Pod | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInsightPart:
    """What a pod's insight says to its job. The newest by ``ts_ms`` supersedes.

    ``told_ms`` is the time of the insight, ``ts_ms`` that until which the pod was seen. ``figures`` are for
    comparing ranks: means over the minutes before ``beat_ms``, which is the same for all pods;
    ``figures_before`` are those of the beat before, if they were others. They stay as they were at
    ``figures_ms`` until they moved. ``gone_ms`` is when the pod ended. ``gpus`` counts the pod's.
    """

    v: int = 1
    job: JobRef
    namespace: Label | None = None
    pod_uid: Uid
    pod_name: Label
    node: NodeName
    ts_ms: Millis
    told_ms: Millis
    since_ms: Millis
    kind: Label
    confidence: Share
    bottleneck: Label
    bottleneck_confidence: Share
    gpus: Count
    figures: Mapping[str, float] = field(default_factory=dict)
    figures_ms: Millis = 0
    figures_before: Mapping[str, float] | None = None
    beat_ms: Millis = 0
    created_ms: Millis | None = None
    gone_ms: Millis | None = None
    evidence: Mapping[str, float] = field(default_factory=dict)
    advice: Label | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodInsight:
    """A pod's insight together with who the pod is, keyed like its peaks: what an annotation needs."""

    v: int = 1
    pod: Pod
    insight: Insight


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInsight:
    """A job's insight together with what the job is, keyed like its peaks: what an annotation needs."""

    v: int = 1
    job: JobRef
    namespace: Label | None = None
    insight: Insight

"""Declares the topics: their records, keys, retention and clean-up. Full names carry a prefix, a setting."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.records.deadletter import DeadLetter
from dutycycle.contract.records.derived import (
    Cycle,
    JobPeaks,
    NodePeaks,
    PodPeaks,
    Trend,
    WindowAggregate,
    source_key,
)
from dutycycle.contract.records.health import GpuEvent, NodeHealth
from dutycycle.contract.records.hours import HOUR_MS, UsageHour
from dutycycle.contract.records.insights import Insight, ProfileVerdict, Trials
from dutycycle.contract.records.models import ModelEvent, ModelForecast, ModelScore
from dutycycle.contract.records.parts import (
    InsightPart,
    JobInsight,
    JobInsightPart,
    JobPart,
    NodePart,
    PodInsight,
    PodPart,
)
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import CgroupSample, CudaSample, NvmlSample

DEFAULT_PREFIX = "dutycycle."
_DAY_MS = 24 * HOUR_MS
_KEYS: Mapping[str, Callable[[Any], str]] = {
    "node": lambda record: record.node,
    "subject": lambda record: record.subject.key,
    "subject/source": lambda record: source_key(record.subject, record.source),
    "pod uid": lambda record: record.uid if hasattr(record, "uid") else record.pod.uid,
    "job uid": lambda record: record.job.uid,
}
"""The key of a record, by what a topic's key is; the other keys say more than their record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """Describes one topic, without its prefix.

    ``retention_ms`` is meaningless for a compacted topic (``cleanup="compact"``: the newest record of
    each key stays). ``segment_bytes``: Kafka compacts what is older than the newest segment, so who reads a
    topic from its beginning reads so much of each partition at least; None is the broker's own, a gigabyte.
    ``internal`` topics are ours to change; the others are the contract.
    """

    name: str
    key: str
    writer: str
    record: type
    cleanup: str = "delete"
    retention_ms: int = 7 * _DAY_MS
    max_bytes: int = 1_000_000
    segment_bytes: int | None = None
    internal: bool = False

    def key_of(self, record: Any) -> str | None:
        """Return the key under which a record of the topic lies; None where it does not follow from the
        record."""
        key_of = _KEYS.get(self.key)
        return None if key_of is None else key_of(record)

    def is_under_its_key(self, key: str | None, record: Any) -> bool:
        """Tell whether a record of the topic lies under ``key`` rightly: what a stranger writes under
        another's key would be there twice, as two nodes or pods."""
        return self.key_of(record) in (None, key)

    def config(self) -> dict[str, str]:
        """Return the topic's settings as Kafka names them."""
        config = {
            "cleanup.policy": self.cleanup,
            "max.message.bytes": str(max(self.max_bytes, 1_048_588)),
            # A node whose clock runs hours ahead is noticed by the streams; the broker shall not refuse it.
            "message.timestamp.after.max.ms": str(2**63 - 1),
        }
        if self.cleanup == "delete":
            config["retention.ms"] = str(self.retention_ms)
        if self.segment_bytes is not None:
            config["segment.bytes"] = str(self.segment_bytes)
        return config


_ALL = (
    Topic(name="nvml-samples", key="node", writer="collector", record=NvmlSample, retention_ms=2 * _DAY_MS),
    Topic(
        name="cgroup-samples", key="node", writer="collector", record=CgroupSample, retention_ms=2 * _DAY_MS
    ),
    Topic(name="cuda-samples", key="node", writer="collector", record=CudaSample, retention_ms=2 * _DAY_MS),
    Topic(
        name="processes", key="node", writer="collector", record=ProcessSample, retention_ms=2 * _DAY_MS
    ),
    Topic(name="gpu-events", key="node", writer="collector", record=GpuEvent, retention_ms=14 * _DAY_MS),
    Topic(name="pods", key="pod uid", writer="collector", record=Pod, cleanup="compact"),
    Topic(name="window-aggregates", key="subject", writer="streams", record=WindowAggregate),
    Topic(name="trends", key="subject/source", writer="streams", record=Trend, cleanup="compact"),
    Topic(name="cycles", key="subject/source", writer="streams", record=Cycle, cleanup="compact"),
    Topic(name="pod-peaks", key="pod uid", writer="streams", record=PodPeaks, cleanup="compact"),
    Topic(name="job-peaks", key="job uid", writer="streams", record=JobPeaks, cleanup="compact"),
    Topic(name="node-peaks", key="node", writer="streams", record=NodePeaks, retention_ms=14 * _DAY_MS),
    Topic(name="usage", key="node", writer="streams", record=UsageHour, retention_ms=14 * _DAY_MS),
    Topic(name="gpu-health", key="node", writer="streams", record=NodeHealth, cleanup="compact"),
    Topic(name="insights", key="subject", writer="streams", record=Insight, cleanup="compact"),
    Topic(
        name="profiles", key="pod or job uid", writer="dutycycle profile", record=ProfileVerdict,
        retention_ms=14 * _DAY_MS,
    ),
    Topic(
        name="trials", key="namespace/job", writer="dutycycle trial", record=Trials,
        retention_ms=14 * _DAY_MS,
    ),
    Topic(name="model-forecasts", key="subject", writer="streams", record=ModelForecast),
    Topic(name="model-scores", key="subject", writer="streams", record=ModelScore),
    Topic(name="model-events", key="subject", writer="streams", record=ModelEvent),
    Topic(
        name="dead-letters", key="key of the bad record", writer="streams, sinks", record=DeadLetter,
        retention_ms=14 * _DAY_MS,
    ),
    Topic(
        name="pod-parts", key="pod uid", writer="streams", record=PodPart, retention_ms=_DAY_MS, internal=True
    ),
    Topic(
        name="job-parts", key="job uid", writer="streams", record=JobPart, retention_ms=_DAY_MS, internal=True
    ),
    Topic(
        name="node-parts", key="node", writer="streams", record=NodePart, cleanup="compact",
        segment_bytes=16_777_216, internal=True,
    ),
    Topic(
        name="pod-insights", key="pod uid", writer="streams", record=PodInsight, retention_ms=_DAY_MS,
        internal=True,
    ),
    Topic(
        name="job-insights", key="job uid", writer="streams", record=JobInsight, retention_ms=_DAY_MS,
        internal=True,
    ),
    Topic(
        name="insight-parts", key="pod uid", writer="streams", record=InsightPart, retention_ms=_DAY_MS,
        internal=True,
    ),
    Topic(
        name="job-insight-parts", key="job uid", writer="streams", record=JobInsightPart,
        retention_ms=_DAY_MS, internal=True,
    ),
    Topic(
        name="placements", key="pod uid", writer="extender", record=Placement, retention_ms=_DAY_MS,
        internal=True,
    ),
)  # fmt: skip

TOPICS: dict[str, Topic] = {topic.name: topic for topic in _ALL}
"""Every topic by its name without the prefix."""

TICK_TOPICS = ("nvml-samples", "cgroup-samples", "cuda-samples", "processes", "gpu-events")
"""What a node's collector measures at each tick, where there is anything of it."""

SAMPLE_TOPICS = (*TICK_TOPICS, "pods")
"""What collectors write: the input of a replay."""

ALIKE_TOPICS = (*SAMPLE_TOPICS, "node-parts", "gpu-health")
"""They have equally many partitions. So all that is keyed by one node, or one pod, is read by one worker."""


def full_name(prefix: str, name: str) -> str:
    """Return the name on the broker: ``dutycycle.`` + ``nvml-samples``."""
    return prefix + TOPICS[name].name


def short_name(prefix: str, full: str) -> str | None:
    """Return the topic's name without the prefix, or None if it is none of ours."""
    name = full.removeprefix(prefix)
    return name if full.startswith(prefix) and name in TOPICS else None

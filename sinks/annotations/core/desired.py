"""Decides which annotations each object should carry, from the records so far. Pure: the writer reads and
writes.

A pod and a job are known from one record each, which is cumulative. A node is put together from its newest
sample, and the newest part and health that the streams send of its GPUs.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from dutycycle.contract.records.derived import JobPeaks, PodPeaks
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import ProfileVerdict
from dutycycle.contract.records.parts import JobInsight, NodePart, PodInsight
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.units import rfc3339
from dutycycle.view.newest import NewestRecords
from sinks.annotations.core import keys
from sinks.annotations.core.diff import Present, keep_what_fits, size_of, stays
from sinks.annotations.core.job import JobView
from sinks.annotations.core.node import NodeView
from sinks.annotations.core.targets import Target, job_target, node_target, placed_target, pod_target
from sinks.annotations.core.values import (
    level_forecast,
    measured,
    number,
    pod_values,
    significant,
    text,
)

Record = (
    NvmlSample
    | NodePart
    | NodeHealth
    | PodPeaks
    | PodInsight
    | JobPeaks
    | JobInsight
    | ProfileVerdict
    | Placement
)
TOPICS = (
    "nvml-samples", "node-parts", "pod-peaks", "pod-insights", "job-peaks", "job-insights", "profiles",
    "placements", "gpu-health",
)  # fmt: skip
"""What annotations are made of, without prefix."""
_TOPICS_OF_NODES = ("nvml-samples", "node-parts", "gpu-health")
_MOST_WAITING = 10_000
"""Insights of pods and jobs whose peaks have not come yet."""


@dataclass(frozen=True, slots=True)
class WantedAnnotations:
    """Says what an object should carry. ``texts``: by key with prefix, within what fits beside what is kept
    there.

    ``surplus``: what else may be taken away, keys that this kind of object would otherwise keep for ever.
    ``left_out``: how many keys do not fit; those of a job's pods it says itself.
    """

    texts: Mapping[str, str]
    surplus: frozenset[str]
    left_out: int


class Annotations:
    """Keeps the wanted annotations of every object that a record spoke of, until it is forgotten."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._newest = NewestRecords()
        """Of nodes: what comes late, or a worker tells again, changes nothing."""
        self._nodes: dict[str, NodeView] = {}
        self._pods: dict[Target, dict[str, Any]] = {}
        self._insights: OrderedDict[Target, dict[str, Any]] = OrderedDict()
        self._jobs: dict[Target, JobView] = {}
        self._profiles: dict[Target, dict[str, str]] = {}
        self._placements: dict[Target, dict[str, Any]] = {}
        self._by_target: tuple[dict[Target, Any], ...] = (
            self._pods, self._insights, self._jobs, self._profiles, self._placements,
        )  # fmt: skip

    def take(self, record: Record) -> Target | None:
        """Return the object whose annotations this record may have changed; None if it concerns none.

        Raises ``ValueError`` for a record that does not fit, and is then as if it had never come.
        """
        match record:
            case PodPeaks():
                target = pod_target(record.pod)
                if target is not None:
                    self._pods[target] = pod_values(record)
                return target
            case JobPeaks():
                target = job_target(record.job, record.namespace)
                if target is not None:
                    self._jobs[target] = JobView.of(self._prefix, record)
                return target
            case PodInsight():
                return self._insight(pod_target(record.pod), record)
            case JobInsight():
                return self._insight(job_target(record.job, record.namespace), record)
            case NvmlSample() | NodePart() | NodeHealth():
                return self._of_node(record)
            case ProfileVerdict():
                return self._profile(record)
            case Placement():
                return self._placement(record)

    def _insight(self, target: Target | None, record: PodInsight | JobInsight) -> Target | None:
        """Keep an insight until the object's peaks are known: written alone, it would remove their keys."""
        if target is None:
            return None
        insight = record.insight
        odd = "; ".join(
            f"{anomaly.kind}: {anomaly.advice}" if anomaly.advice else anomaly.kind
            for anomaly in insight.anomalies
        )
        value: dict[str, Any] = {
            keys.KIND: insight.kind, keys.BOTTLENECK: insight.bottleneck, keys.ADVICE: insight.advice,
            keys.ANOMALY: odd or None,
        }  # fmt: skip
        if (state := record.state) is not None:  # what holds of it now
            value |= {
                keys.CYCLE_PERIOD: None if state.period_s is None else significant(state.period_s),
                keys.CYCLE_CONFIDENCE: None if state.confidence is None else number(state.confidence, 2),
                keys.CYCLE_SOURCE: state.period_source,
                keys.CYCLE_STEPS: state.cycle_steps,
                keys.STEPS_PER_S: None if state.steps_per_s is None else significant(state.steps_per_s),
                keys.SAMPLES_PER_S: None if state.samples_per_s is None else significant(state.samples_per_s),
                keys.MEM_FULL: None if state.mem_full_ms is None else rfc3339(state.mem_full_ms),
                keys.GPU_MEM_FULL: None if state.gpu_mem_full_ms is None else rfc3339(state.gpu_mem_full_ms),
                keys.LEVEL_FORECAST: level_forecast(state.trends or {}),
            }
        self._insights[target] = measured(value)
        self._insights.move_to_end(target)
        if len(self._insights) > _MOST_WAITING + len(self._pods) + len(self._jobs):
            self._insights.popitem(last=False)
        return target if target in self._pods or target in self._jobs else None

    def _of_node(self, record: NvmlSample | NodePart | NodeHealth) -> Target | None:
        name, target = record.node, node_target(record.node)
        if target is None or (isinstance(record, NvmlSample) and not record.gpus and name not in self._nodes):
            return None
        self._nodes.setdefault(name, NodeView(name, self._newest))
        return target if self._newest.put(name, record) else None

    def _profile(self, record: ProfileVerdict) -> Target | None:
        pod = record.pod
        if record.subject.kind == "pod":
            target = pod_target(pod)
        else:
            target = job_target(pod.job, pod.namespace) if pod.job is not None else None
        if target is not None:
            value = {keys.PROFILE_BOTTLENECK: record.bottleneck, keys.PROFILE_ADVICE: record.advice}
            self._profiles[target] = measured(value)
        return target

    def _placement(self, record: Placement) -> Target | None:
        target = placed_target(record.namespace, record.name, record.uid)
        if target is not None:
            value = {
                "at": rfc3339(record.ts_ms), "expected": record.expected, "considered": record.considered,
                "left_out": record.left_out,
                "nodes": [{"node": node.node, "score": node.score, "why": node.why} for node in record.nodes],
            }  # fmt: skip
            self._placements[target] = {keys.PLACEMENT: measured(value)}
        return target

    def is_judged_anew(self, health: NodeHealth) -> bool:
        """Tell whether a node's GPUs are judged otherwise than before: that cannot wait. Before ``take``."""
        node = self._nodes.get(health.node)
        return node is None or node.is_news(health)

    def wanted(self, target: Target, present: Present) -> WantedAnnotations:
        """Return all that we want on the object that carries ``present``."""
        placement, profile = self._placements.get(target, {}), self._profiles.get(target, {})
        job = self._jobs.get(target)
        node = self._nodes.get(target.name) if target.kind == "node" else None
        if (profile or placement) and target not in self._pods and job is None:
            # Nothing else is known: perhaps it ended long ago, and this is a new worker. All of it stays.
            old = self._keys(keys.PROFILE_NAMES if profile else {keys.PLACEMENT})
            kept = {key: value for key, value in present.ours.items() if key not in old}
            texts = self._texts(profile | placement)
            taken = present.others_bytes + size_of(kept)
            fitting = kept | keep_what_fits(texts.items(), taken)
        elif target.kind == "job":
            known = self._texts(self._insights.get(target, {}) | profile)
            texts = fitting = {} if job is None else job.wanted(present, known)
        elif node is not None and node.sample is None:
            # Perhaps none of its GPUs answers any more: what was written of them stays.
            texts = self._texts(node.values())
            fitting = keep_what_fits((dict(present.ours) | texts).items(), present.others_bytes)
        else:
            figures = self._pods.get(target, {}) | self._insights.get(target, {}) | profile | placement
            texts = self._texts(figures if node is None else node.values())
            kept_bytes = size_of(stays(target.kind, self._prefix, present.ours, texts))
            # What is there comes first: left out, its older value would stay, and take room all the same.
            ordered = sorted(texts.items(), key=lambda pair: pair[0] not in present.ours)
            fitting = keep_what_fits(ordered, present.others_bytes + kept_bytes)
        ours: frozenset[str] = frozenset()  # advice that holds no more
        if target in self._insights:
            ours |= self._keys(keys.INSIGHT_NAMES | keys.STATE_NAMES)
        if target in self._profiles:
            ours |= self._keys(keys.PROFILE_NAMES)
        surplus = ours & present.ours.keys() - fitting.keys()
        if job is not None:
            surplus |= job.surplus(present, fitting)
        return WantedAnnotations(fitting, surplus, len(texts.keys() - fitting.keys()))

    def conditions(self, node: str) -> dict[str, bool]:
        """Return what holds of a node, by the name of the label; without what is not known."""
        view = self._nodes.get(node)
        return {} if view is None else view.conditions()

    def knows_gpus_of(self, node: str) -> bool:
        """Tell whether enough is known to write on a node: which GPUs it has, and their indexes."""
        view = self._nodes.get(node)
        return view is not None and view.is_known

    def adopt(self, target: Target, present: Present) -> None:
        """Learn, from what an earlier process wrote on a node, what this one does not know yet."""
        view = self._nodes.get(target.name) if target.kind == "node" else None
        if view is None:
            return

        def written(name: str) -> dict[str, Any]:
            try:
                parsed = orjson.loads(present.ours.get(self._key(name), "{}"))
            except orjson.JSONDecodeError:  # somebody else's hand: there is nothing to learn from it
                return {}
            return parsed if type(parsed) is dict else {}

        view.adopt(written)

    def forget(self, target: Target) -> None:
        """Drop what is known of an object; the next record of it begins anew."""
        for known in self._by_target:
            known.pop(target, None)
        if target.kind == "node":
            self._nodes.pop(target.name, None)
            for topic in _TOPICS_OF_NODES:
                self._newest.hear(topic, target.name, None)

    def clear(self) -> None:
        """Drop all."""
        self._nodes.clear()
        self._newest = NewestRecords()
        for known in self._by_target:
            known.clear()

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _keys(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self._key, names))

    def _texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        return {self._key(name): text(value) for name, value in values.items()}

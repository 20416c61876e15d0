"""Turns identities of pods, and steps of trainings, into parts: a pod's operator has one source topic."""

from collections import defaultdict
from collections.abc import Collection, Sequence

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import InsightPart, PodPart, PodSteps
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import Loop, ProcessSample
from streams.operators.base import Emission, Snapshot
from streams.operators.keyed import decode_under_key

TOPIC = "pods"
PROCESSES = "processes"
PARTS = ("pod-parts", "insight-parts")
"""The topics that an identity is forwarded to."""


class PodForwarder:
    """Forwards, without state, each record of ``pods`` as one of ``pod-parts`` and one of ``insight-parts``,
    as far as those are among ``topics``; a tombstone says that the pod is gone."""

    def __init__(self, uid: str, topics: Collection[str] = PARTS) -> None:
        self._uid = uid
        self._topics = topics

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Forward one identity; raises ``DecodeError``."""
        if record.value is None:
            part = PodPart(uid=self._uid, source="pods", gone=True)
        else:
            pod = decode_under_key(Pod, record.value, TOPIC, key=self._uid)
            part = PodPart(uid=self._uid, source="pods", pod=pod)
        insight_part = InsightPart(uid=self._uid, source="pods", pod=part.pod, gone=part.gone)
        return [
            ProducerRecord(topic, self._uid, encode(forwarded), record.ts_ms)
            for topic, forwarded in zip(PARTS, (part, insight_part), strict=True)
            if topic in self._topics
        ]

    def flush(self) -> list[Emission]:
        """Return nothing: nothing is held back."""
        return []

    def close(self) -> list[Emission]:
        """Return nothing: nothing is open."""
        return []

    def snapshot(self) -> Snapshot:
        """Return a version alone: there is no state."""
        return {"v": 1}


class StepForwarder:
    """Forwards, without state, of each record of ``processes`` the steps of each pod whose training reports
    some."""

    def __init__(self, node: str) -> None:
        self._node = node

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Forward the steps of one tick; raises ``DecodeError``."""
        sample = decode_under_key(ProcessSample, record.value, PROCESSES, key=self._node, field="node")
        loops: dict[str, list[Loop]] = defaultdict(list)
        for process in sample.processes:
            if process.loop is not None and process.loop.steps:
                loops[process.pod_uid].append(process.loop)
        return [
            ProducerRecord("insight-parts", uid, encode(self._part(uid, sample.ts_ms, loop)), sample.ts_ms)
            for uid, loop in loops.items()
        ]

    def _part(self, uid: str, ts_ms: int, loops: Sequence[Loop]) -> InsightPart:
        most = max(loops, key=lambda loop: loop.steps)
        samples = [loop.samples for loop in loops if loop.samples is not None]
        steps = PodSteps(
            steps=most.steps, seconds=most.seconds,
            samples=sum(samples) if len(samples) == len(loops) else None,
        )  # fmt: skip
        return InsightPart(uid=uid, source=PROCESSES, node=self._node, start_ms=ts_ms, steps=steps)

    def flush(self) -> list[Emission]:
        """Return nothing: nothing is held back."""
        return []

    def close(self) -> list[Emission]:
        """Return nothing: nothing is open."""
        return []

    def snapshot(self) -> Snapshot:
        """Return a version alone: there is no state."""
        return {"v": 1}

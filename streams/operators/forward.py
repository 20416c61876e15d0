"""Turns identities of pods, and steps of trainings, into parts: a pod's operator has one source topic."""

from collections.abc import Collection

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import InsightPart, PodPart, steps_of_pods
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from streams.operators.base import Emission, Operator
from streams.operators.keyed import decode_under_key

TOPIC = "pods"
PROCESSES = "processes"
PARTS = ("pod-parts", "insight-parts")
"""The topics that an identity is forwarded to."""


class PodForwarder(Operator):
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


class StepForwarder(Operator):
    """Forwards, without state, of each record of ``processes`` the steps of each pod whose training reports
    some."""

    def __init__(self, node: str) -> None:
        self._node = node

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Forward the steps of one tick; raises ``DecodeError``."""
        sample = decode_under_key(ProcessSample, record.value, PROCESSES, key=self._node, field="node")
        parts = [
            InsightPart(uid=uid, source=PROCESSES, node=self._node, start_ms=sample.ts_ms, steps=steps)
            for uid, steps in steps_of_pods(sample).items()
        ]
        return [ProducerRecord("insight-parts", part.uid, encode(part), sample.ts_ms) for part in parts]

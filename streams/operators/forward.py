"""Turns identities of pods into parts, so that a pod's operator has a single source topic."""

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import InsightPart, PodPart
from dutycycle.contract.records.pods import Pod
from streams.operators.base import Emission, Snapshot
from streams.operators.keyed import decode_under_key

TOPIC = "pods"


class PodForwarder:
    """Stateless: each record of ``pods`` becomes one of ``pod-parts`` and one of ``insight-parts``; a
    tombstone says that the pod is gone."""

    def __init__(self, uid: str) -> None:
        self._uid = uid

    def update(self, record: ConsumerRecord) -> list[Emission]:
        """Forward one identity; raises ``DecodeError``."""
        if record.value is None:
            part = PodPart(uid=self._uid, source="pods", gone=True)
        else:
            pod = decode_under_key(Pod, record.value, TOPIC, key=self._uid)
            part = PodPart(uid=self._uid, source="pods", pod=pod)
        insight_part = InsightPart(uid=self._uid, source="pods", pod=part.pod, gone=part.gone)
        return [
            ProducerRecord("pod-parts", self._uid, encode(part), record.ts_ms),
            ProducerRecord("insight-parts", self._uid, encode(insight_part), record.ts_ms),
        ]

    def flush(self) -> list[Emission]:
        """Nothing is held back."""
        return []

    def close(self) -> list[Emission]:
        """Nothing is open."""
        return []

    def snapshot(self) -> Snapshot:
        """There is no state."""
        return {"v": 1}

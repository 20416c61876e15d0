"""The dead letter of a stage's input, as an output like any other."""

from contract.codec import encode
from contract.log import ConsumerRecord, ProducerRecord
from contract.records import deadletter
from contract.records.deadletter import Reason
from contract.topics import DEFAULT_PREFIX


def dead_letter(
    record: ConsumerRecord, reason: Reason, error: str, *, prefix: str = DEFAULT_PREFIX
) -> ProducerRecord:
    """The dead letter of ``record``, under the record's own key and timestamp."""
    letter = deadletter.dead_letter(
        prefix + record.topic, record.partition, record.offset, record.ts_ms, record.value, reason, error
    )
    return ProducerRecord("dead-letters", record.key or "", encode(letter), letter.ts_ms)

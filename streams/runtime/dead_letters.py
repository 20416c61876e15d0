"""What becomes of a record that no operator can use. A replay and a worker do the same."""

from contract.codec import encode
from contract.log import ConsumerRecord, ProducerRecord
from contract.records.deadletter import DeadLetter, Reason
from contract.topics import DEFAULT_PREFIX, TOPICS


def unfit(record: ConsumerRecord) -> tuple[Reason, str] | None:
    """The reason why ``record`` is of no use to any operator, and words for it; None if it is fit."""
    if not record.has_text_key:
        return Reason.KEY, "no key, or none in UTF-8: a record without a key belongs to nobody"
    most = TOPICS[record.topic].max_bytes
    if record.value is not None and len(record.value) > most:
        return Reason.SIZE, f"{len(record.value)} bytes, at most {most} are taken"
    return None


def dead_letter(
    record: ConsumerRecord, reason: Reason, error: str, *, prefix: str = DEFAULT_PREFIX
) -> ProducerRecord:
    """The dead letter of ``record``, under the record's own key and timestamp."""
    letter = DeadLetter.of(record, prefix, reason, error)
    return ProducerRecord("dead-letters", record.key or "", encode(letter), letter.ts_ms)

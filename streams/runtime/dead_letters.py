"""Decides what becomes of a record that no operator can use. A replay and a worker do the same."""

from dutycycle.contract.codec import DecodeError, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import DeadLetter, Reason
from dutycycle.contract.topics import DEFAULT_PREFIX, TOPICS


def check_key_and_size(record: ConsumerRecord) -> None:
    """Raises ``DecodeError`` for a record that is of no use to any operator."""
    if not record.has_text_key:
        raise DecodeError(record.topic, "key", Reason.KEY, "no key, or none in UTF-8: it belongs to nobody")
    most = TOPICS[record.topic].max_bytes
    if record.value is not None and len(record.value) > most:
        detail = f"{len(record.value)} bytes, at most {most} are taken"
        raise DecodeError(record.topic, "payload", Reason.SIZE, detail)


def dead_letter(
    record: ConsumerRecord, reason: Reason, error: str, *, prefix: str = DEFAULT_PREFIX
) -> ProducerRecord:
    """Return the dead letter of ``record``, under the record's own key and timestamp."""
    letter = DeadLetter.of(record, prefix, reason, error)
    return ProducerRecord("dead-letters", record.key or "", encode(letter), letter.ts_ms)

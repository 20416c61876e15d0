"""The dead letter of a stage's input, as an output like any other."""

from contract.codec import encode
from contract.records import deadletter
from contract.records.deadletter import Reason
from contract.topics import DEFAULT_PREFIX
from streams.operators.base import Input, Out


def dead_letter(record: Input, reason: Reason, error: str, *, prefix: str = DEFAULT_PREFIX) -> Out:
    """The dead letter of ``record``, under the record's own key and timestamp."""
    letter = deadletter.dead_letter(
        prefix + record.topic, record.partition, record.offset, record.ts_ms, record.value, reason, error
    )
    return Out("dead-letters", record.key or "", encode(letter), letter.ts_ms)

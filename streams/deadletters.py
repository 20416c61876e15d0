"""The dead letter of a stage's input, as an output like any other."""

from streams.operators.base import Input, Out
from wire import deadletter
from wire.codec import encode
from wire.deadletter import Reason
from wire.topics import DEFAULT_PREFIX


def dead_letter(record: Input, reason: Reason, error: str, *, prefix: str = DEFAULT_PREFIX) -> Out:
    """The dead letter of ``record``, under the record's own key and timestamp."""
    letter = deadletter.dead_letter(
        prefix + record.topic, record.partition, record.offset, record.ts_ms, record.value, reason, error
    )
    return Out("dead-letters", record.key or "", encode(letter), letter.ts_ms)

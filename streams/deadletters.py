"""Makes a dead letter of a record that could not be used."""

from base64 import b64encode

from streams.operators.base import Input, Out
from wire.codec import encode
from wire.deadletter import DeadLetter, Reason

KEPT_BYTES = 65_536
_ERROR_LENGTH = 500


def dead_letter(record: Input, reason: Reason, error: str, *, prefix: str = "dutycycle.") -> Out:
    """The dead letter of ``record``: at most the first 64 KiB of its payload, and a printable error.

    Its key and timestamp are the record's own, so that a repeat is recognised.
    """
    letter = DeadLetter(
        topic=prefix + record.topic,
        partition=record.partition,
        offset=record.offset,
        ts_ms=max(record.ts_ms, 0),
        reason=reason.value,
        error=_printable(error),
        payload_b64=b64encode((record.value or b"")[:KEPT_BYTES]).decode(),
    )
    return Out("dead-letters", record.key or "", encode(letter), letter.ts_ms)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in text)[:_ERROR_LENGTH] or "unknown"

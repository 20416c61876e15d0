"""Holds what could not be used, with the reason, so that nothing is lost in silence."""

from base64 import b64encode
from enum import StrEnum

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.units import Count, Label, Millis, printable_text

KEPT_BYTES = 65_536
"""How much of a payload a dead letter keeps."""
_ERROR_LENGTH = 500


class Reason(StrEnum):
    """Says why a record could not be used. Small and fixed: it is a metric's label."""

    DECODE = "decode"
    """Not JSON, or not a JSON object."""
    SCHEMA = "schema"
    """A field is missing, or has a wrong type or an impossible value."""
    VERSION = "version"
    """A version that this reader does not know."""
    KEY = "key"
    """The Kafka key does not match the record."""
    SIZE = "size"
    """Larger than any record of its topic may be."""
    OPERATOR = "operator"
    """Our own code raised an error for it."""
    REJECTED = "rejected"
    """The database or the API server refused it permanently."""


class DeadLetter(VersionedRecord, frozen=True, kw_only=True):
    """A record that could not be used. ``payload_b64`` holds at most the first 64 KiB of it."""

    topic: Label
    partition: Count
    offset: Count
    ts_ms: Millis
    reason: Label
    error: Label
    payload_b64: str

    @classmethod
    def of(cls, record: ConsumerRecord, prefix: str, reason: Reason, error: str) -> "DeadLetter":
        """Return the dead letter of a record that was read: ``error`` is cut to 500 printable characters.

        Made of the record alone, so that a repeat is the same bytes.
        """
        printable = printable_text(error)[:_ERROR_LENGTH]
        return cls(
            topic=prefix + record.topic,
            partition=record.partition,
            offset=record.offset,
            ts_ms=max(record.ts_ms, 0),
            reason=reason.value,
            error=printable or "unknown",
            payload_b64=b64encode((record.value or b"")[:KEPT_BYTES]).decode(),
        )

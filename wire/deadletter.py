"""What could not be used, with the reason, so that nothing is lost in silence."""

from dataclasses import dataclass
from enum import StrEnum

from wire.units import Count, Label, Millis


class Reason(StrEnum):
    """Why a record could not be used. Small and fixed: it is a metric's label."""

    DECODE = "decode"
    """Not JSON, or not a JSON object."""
    SCHEMA = "schema"
    """A field is missing, or has a wrong type or an impossible value."""
    VERSION = "version"
    """A version that this reader does not know."""
    KEY = "key"
    """The Kafka key is not the one that the record calls for."""
    SIZE = "size"
    """Larger than any record of its topic may be."""
    OPERATOR = "operator"
    """Our own code failed on it."""
    REJECTED = "rejected"
    """The system behind a sink refused it for good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that could not be used. ``payload_b64`` holds at most the first 64 KiB of it."""

    v: int = 1
    topic: Label
    partition: Count
    offset: Count
    ts_ms: Millis
    reason: Label
    error: Label
    payload_b64: str

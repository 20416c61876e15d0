"""Decodes records of one key, and refuses those of another key."""

from operator import attrgetter
from typing import TypeVar

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.records.deadletter import Reason

R = TypeVar("R")


def decode_under_key(
    record_type: type[R], value: bytes | None, topic: str, *, key: str, field: str = "uid"
) -> R:
    """Return a record of ``topic`` whose ``field``, such as ``job.uid``, is its ``key``.

    Raises ``DecodeError`` for what is no such record, and for one of another key.
    """
    record = decode(record_type, value or b"", topic)
    if (named := attrgetter(field)(record)) != key:
        detail = f"{named!r:.80} under the key {key!r:.80}: the key is the record's {field}"
        raise DecodeError(topic, field, Reason.KEY, detail)
    return record

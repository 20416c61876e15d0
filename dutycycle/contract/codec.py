"""Turns records into JSON bytes and back, checked against the types of their fields.

A record's class is its schema. Absent fields are left out of the JSON; on reading, unknown fields are ignored
and a ``null`` in an optional field counts as absent. A string is never taken for a number.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from itertools import chain
from math import isfinite
from typing import Any, TypeVar

import msgspec
import orjson

from dutycycle.contract.records.base import VersionedRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.units import TEXT_PATTERN

_R = TypeVar("_R")
_MISSING = re.compile(r"Object missing required field `(.+)`")
_NO_NAME = "no name of letters, digits, '.', '_' and '-'"
_printable = re.compile(TEXT_PATTERN).fullmatch


class DecodeError(ValueError):
    """Says why a payload is no record of its topic.

    ``field`` is a path such as ``gpus[1].power_w``, where ``[...]`` is a key of an object, or ``payload`` for
    all of it. ``reason`` is what a dead letter says, ``brief`` the message without the topic.
    """

    def __init__(self, topic: str, field: str, reason: Reason, detail: str) -> None:
        super().__init__(f"{topic}: {field}: {detail}")
        self.brief = f"{field}: {detail}"
        self.topic = topic
        self.field = field
        self.reason = reason
        self.detail = detail


class _OtherVersion(VersionedRecord, frozen=True, tag=0):
    """Is the alternative to a record: where there is one, msgspec insists on ``v`` and looks at it first."""


def encode(record: Any) -> bytes:
    """Return a record as JSON bytes, fields in the order of its class, absent ones left out.

    Raises ``ValueError`` naming the field that holds NaN or an infinity, or the record that holds another
    thing that JSON cannot carry, such as a string that is no Unicode.
    """
    try:
        data = orjson.dumps(
            msgspec.to_builtins(record)
        )  # not msgspec's own: they differ in how 1e16 and more are written
    except TypeError as error:
        raise ValueError(f"{type(record).__name__}: {error}") from error
    path = None
    if b"null" in data:
        path = _first(record, lambda value: isinstance(value, float) and not isfinite(value))
    if path is not None:
        raise ValueError(f"{type(record).__name__}{path} is NaN or infinite: leave out what was not measured")
    return bytes(memoryview(data))  # orjson's keeps the buffer it was written into: 4 to 17 kB


def _first(value: Any, is_wrong: Callable[[Any], bool]) -> str | None:
    """Return the path to the first value, or key of an object, that is wrong."""
    if is_wrong(value):
        return ""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, msgspec.Struct):
        parts = ((f".{name}", getattr(value, name)) for name in value.__struct_fields__)
    elif isinstance(value, Mapping):
        parts = (("[...]", part) for part in chain(value, value.values()))
    elif isinstance(value, list | tuple):
        parts = ((f"[{at}]", part) for at, part in enumerate(value))
    return next((at + path for at, part in parts if (path := _first(part, is_wrong)) is not None), None)


def to_plain(record: Any) -> Any:
    """Return a record as dicts, tuples and scalars, absent fields left out."""
    return msgspec.to_builtins(record)


def decode(record_type: type[_R], data: bytes, topic: str) -> _R:
    """Return a record of ``topic`` from its Kafka payload; raises ``DecodeError``, a wrong version first."""
    try:
        record: _R = _decoder_of(record_type)(data)
    except msgspec.ValidationError as error:
        raise _explained(topic, str(error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        detail = f"not JSON: {str(error).removeprefix('JSON is malformed: ')}"
        raise DecodeError(topic, "payload", Reason.DECODE, detail) from error
    if type(record) is _OtherVersion:
        raise _explained(topic, "Invalid value 0 - at `$.v`")
    # No text but ASCII that can be printed: nothing else, and nothing escaped
    is_plain = data.isascii() and b"\\" not in data and b"\x7f" not in data
    path = None
    if not is_plain:
        path = _first(record, lambda value: isinstance(value, str) and not _printable(value))
    if path is not None:
        field = path.removeprefix(".")
        raise DecodeError(topic, field, Reason.SCHEMA, "holds characters that cannot be printed")
    return record


def _decoder(record_type: Any) -> Callable[[bytes], Any]:
    versioned = issubclass(record_type, VersionedRecord)
    return msgspec.json.Decoder(record_type | _OtherVersion if versioned else record_type).decode


_decoder_of: Callable[[Any], Callable[[bytes], Any]] = cache(_decoder)


def from_plain(record_type: type[_R], plain: Any, topic: str) -> _R:
    """Return a record from parsed JSON, of text that was checked when it was decoded; raises ``DecodeError``
    naming the first field that is wrong."""
    try:
        return msgspec.convert(plain, record_type)
    except msgspec.ValidationError as error:
        raise _explained(topic, str(error)) from error


def _explained(topic: str, message: str) -> DecodeError:
    """Return what msgspec's message means: what is wrong, and `` - at `$.path` `` where it is not the
    whole."""
    detail, _, path = message.partition(" - at `$")
    field = path.rstrip("`").removeprefix(".")
    if missing := _MISSING.fullmatch(detail):
        field, detail = f"{field}.{missing[1]}".removeprefix("."), "missing"
    if not field:
        return DecodeError(topic, "payload", Reason.DECODE, detail)
    if field == "v" and detail.startswith("Invalid value "):
        detail = f"version {detail.removeprefix('Invalid value ')}, this reader knows 1"
        return DecodeError(topic, field, Reason.VERSION, detail)
    detail = _NO_NAME if " matching regex " in detail else detail
    return DecodeError(topic, field, Reason.SCHEMA, detail)

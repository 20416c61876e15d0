"""Records to JSON bytes and back, checked against the dataclasses that describe them.

A record's dataclass is its schema: the checks are compiled from its annotations, once per type. Absent
fields are left out of the JSON; on reading, unknown fields are ignored and a ``null`` counts as absent.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import orjson

from contract._plain import Encoder, encoder_of
from contract._schema import Decoder, SchemaError, decoder_of
from contract.records.deadletter import Reason

KNOWN_VERSION = 1
R = TypeVar("R")


class DecodeError(ValueError):
    """A payload that is no record of its topic.

    ``field`` is a path such as ``gpus[1].power_w``, or ``payload`` for the whole; ``reason`` is what a
    dead letter says.
    """

    def __init__(self, topic: str, field: str, reason: Reason, detail: str) -> None:
        super().__init__(f"{topic}: {field}: {detail}")
        self.brief = f"{field}: {detail}"
        """Without the topic, which a dead letter has already."""
        self.topic = topic
        self.field = field
        self.reason = reason
        self.detail = detail


_decoder: Callable[[Any], Decoder] = cache(decoder_of)
_encoder: Callable[[Any], Encoder] = cache(encoder_of)


def encode(record: Any) -> bytes:
    """A record as JSON bytes, fields in the order of its dataclass, absent ones left out.

    Raises ``ValueError`` naming the field that holds NaN or an infinity, or the record that holds another
    thing that JSON cannot carry, such as a string that is no Unicode.
    """
    try:
        return orjson.dumps(_encoder(type(record))(record))
    except TypeError as error:
        raise ValueError(f"{type(record).__name__}: {error}") from error


def to_plain(record: Any) -> Any:
    """A record as dicts, lists and scalars, absent fields left out."""
    return _encoder(type(record))(record)


def parse(data: bytes, topic: str) -> dict[str, Any]:
    """The JSON object in ``data``, of a version that we know; its fields are not checked yet."""
    try:
        plain = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        detail = f"not JSON at byte {error.pos}: {error.msg}"
        raise DecodeError(topic, "payload", Reason.DECODE, detail) from error
    if type(plain) is not dict:
        detail = f"a JSON {_json_name(plain)}, not an object"
        raise DecodeError(topic, "payload", Reason.DECODE, detail)
    version = plain.get("v")
    if type(version) is not int:
        raise DecodeError(topic, "v", Reason.SCHEMA, "missing or no integer: a record says its version")
    if version != KNOWN_VERSION:
        raise DecodeError(topic, "v", Reason.VERSION, f"version {version}, this reader knows {KNOWN_VERSION}")
    return plain


def from_plain(record_type: type[R], plain: Any, topic: str) -> R:
    """A record from parsed JSON; raises ``DecodeError`` naming the first field that is wrong."""
    try:
        record: R = _decoder(record_type)(plain)
    except SchemaError as bad:
        raise DecodeError(topic, bad.path or "payload", Reason.SCHEMA, bad.detail) from bad
    return record


def check(kind: Any, value: Any) -> None:
    """Raise ``ValueError`` unless ``value`` fits a field type of ``contract.units``, such as ``Uid``."""
    _decoder(kind)(value)


def decode(record_type: type[R], data: bytes, topic: str) -> R:
    """A record of ``topic`` from its Kafka payload; raises ``DecodeError``."""
    return from_plain(record_type, parse(data, topic), topic)


def _json_name(value: Any) -> str:
    names = {list: "array", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")

"""Compiles a dataclass into a function that turns it into plain JSON values, absent fields left out."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from math import isfinite
from operator import attrgetter
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

Encoder = Callable[[Any], Any]


@cache
def encoder_of(kind: type) -> Encoder:
    """The encoder of one record type."""
    hints = get_type_hints(kind)
    names = tuple(field.name for field in fields(kind))
    steps = [(name, attrgetter(name), _step(kind, name, hints[name])) for name in names]

    def encode(record: Any) -> dict[str, Any]:
        plain = {}
        for name, get, step in steps:
            value = get(record)
            if value is None:
                continue
            if step is not None:
                value = step(value)
            elif type(value) is float and not isfinite(value):
                raise ValueError(f"{kind.__name__}.{name} is {value}: leave out what was not measured")
            plain[name] = value
        return plain

    return encode


def _step(kind: type, name: str, hint: Any) -> Encoder | None:
    """What a field's value has to go through; None for one that is plain already."""
    if _holds_records(hint):
        return _nested(hint)
    return partial(_checked, f"{kind.__name__}.{name}") if _holds_floats(hint) else None


def _nested(hint: Any) -> Encoder:
    """The encoder of what ``hint`` says, in which there are records."""
    if is_dataclass(hint) and isinstance(hint, type):
        return encoder_of(hint)
    arguments = [one for one in get_args(hint) if one is not NoneType]
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        of_value = _inner(arguments[1])
        return lambda value: {key: of_value(one) for key, one in value.items()}
    if isinstance(origin, type) and issubclass(origin, tuple | list):
        of_item = _inner(arguments[0])
        return lambda value: [of_item(one) for one in value]
    if len(arguments) != 1:
        raise TypeError(f"{hint}: a field holds records of one kind")
    return _inner(arguments[0])  # it may be absent


def _inner(hint: Any) -> Encoder:
    return _nested(hint) if _holds_records(hint) else lambda value: value


def _checked(where: str, value: Any) -> Any:
    if not _all_finite(value):
        raise ValueError(f"{where} holds NaN or an infinity: leave it out")
    return value


def _all_finite(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_all_finite, value))
    return bool(isfinite(value))


def _holds_floats(hint: Any) -> bool:
    """Whether it is a tuple with floats in it; orjson would write their NaN as ``null``."""
    args = get_args(hint)
    return (get_origin(hint) is tuple and float in args) or any(map(_holds_floats, args))


def _holds_records(hint: Any) -> bool:
    return is_dataclass(hint) or any(map(_holds_records, get_args(hint)))

"""Compiles a dataclass into a function that turns it into plain JSON values, absent fields left out."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, get_args, get_origin, get_type_hints

Encoder = Callable[[Any], Any]


def encoder_of(kind: type) -> Encoder:
    """The encoder of one record type."""
    names = tuple(field.name for field in fields(kind))
    hints = get_type_hints(kind)
    nested = {name for name in names if _holds_records(hints[name])}
    series = {name for name in names if name not in nested and _holds_floats(hints[name])}
    cache: dict[type, Encoder] = {kind: lambda record: encode(record)}

    def encode(record: Any) -> dict[str, Any]:
        plain = {}
        for name in names:
            value = getattr(record, name)
            if value is None:
                continue
            if type(value) is float:
                if not isfinite(value):
                    raise ValueError(f"{kind.__name__}.{name} is {value}: leave out what was not measured")
            elif name in nested:
                value = _nested(value, cache)
            elif name in series and not _all_finite(value):
                raise ValueError(f"{kind.__name__}.{name} holds NaN or an infinity: leave it out")
            plain[name] = value
        return plain

    return encode


def _nested(value: Any, cache: dict[type, Encoder]) -> Any:
    if is_dataclass(value):
        kind = type(value)
        if kind not in cache:
            cache[kind] = encoder_of(kind)
        return cache[kind](value)
    if isinstance(value, Mapping):
        return {key: _nested(one, cache) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return [_nested(one, cache) for one in value]
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

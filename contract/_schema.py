"""Compiles a dataclass into a function that checks parsed JSON and builds the dataclass."""

import re
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from contract.units import Range, Text

Decoder = Callable[[Any], Any]
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_SHOWN = 60


class SchemaError(ValueError):
    """A value that its field does not allow; the path grows while it travels outwards."""

    def __init__(self, detail: str, path: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.path = path

    def within(self, step: str) -> "SchemaError":
        """The same error, seen from one level further out."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return SchemaError(self.detail, f"{step}{joint}{self.path}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def decoder_of(hint: Any) -> Decoder:
    """The checker of one annotation; for a dataclass, of all its fields."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, *extras = get_args(hint)
        return _annotated(base, extras)
    if origin in (Union, types.UnionType):
        (inner,) = (arg for arg in get_args(hint) if arg is not type(None))
        return decoder_of(inner)
    if origin is tuple:
        return _tuple(get_args(hint))
    if origin is not None and issubclass(origin, Mapping):
        return partial(_mapping, decoder_of(get_args(hint)[1]))
    if is_dataclass(hint) and isinstance(hint, type):
        return _dataclass(hint)
    return _scalar(hint)


def _scalar(hint: Any) -> Decoder:
    if hint is bool:
        return _boolean
    if hint is str:
        return _string
    return partial(_number, hint is int, Range())


def _annotated(base: Any, extras: list[Any]) -> Decoder:
    rule = extras[0]
    if isinstance(rule, Text):
        return partial(_text, rule)
    return partial(_number, base is int, rule)


def _number(whole: bool, allowed: Range, value: Any) -> Any:
    kind = type(value)
    if kind is not int and (whole or kind is not float):
        raise SchemaError(f"{_shown(value)} is no {'integer' if whole else 'number'}")
    if not allowed.low <= value <= allowed.high:
        raise SchemaError(f"{_shown(value)} is not within {allowed.low:g} to {allowed.high:g}")
    return value


def _boolean(value: Any) -> bool:
    if type(value) is not bool:
        raise SchemaError(f"{_shown(value)} is neither true nor false")
    return value


def _string(value: Any) -> str:
    if type(value) is not str:
        raise SchemaError(f"{_shown(value)} is no string")
    return value


def _text(rule: Text, value: Any) -> str:
    text = _string(value)
    if not 1 <= len(text) <= rule.longest:
        raise SchemaError(f"{_shown(text)} has {len(text)} characters, not 1 to {rule.longest}")
    if rule.name and not _NAME.fullmatch(text):
        raise SchemaError(f"{_shown(text)} is no name of letters, digits, '.', '_' and '-'")
    if not text.isprintable():
        raise SchemaError(f"{_shown(text)} holds characters that cannot be printed")
    return text


def _tuple(arguments: tuple[Any, ...]) -> Decoder:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return partial(_sequence, decoder_of(arguments[0]))
    return partial(_fixed, tuple(decoder_of(argument) for argument in arguments))


def _items(value: Any) -> list[Any]:
    if type(value) is not list:
        raise SchemaError(f"{_shown(value)} is no array")
    return value


def _sequence(item: Decoder, value: Any) -> tuple[Any, ...]:
    built: list[Any] = []
    try:
        built.extend(map(item, _items(value)))
    except SchemaError as bad:
        raise (bad.within(f"[{len(built)}]") if type(value) is list else bad) from None
    return tuple(built)


def _fixed(items: tuple[Decoder, ...], value: Any) -> tuple[Any, ...]:
    if len(_items(value)) != len(items):
        raise SchemaError(f"{_shown(value)} has {len(value)} items, not {len(items)}")
    return tuple(item(one) for item, one in zip(items, value, strict=True))


def _mapping(item: Decoder, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise SchemaError(f"{_shown(value)} is no object")
    built = {}
    for key, one in value.items():
        try:
            built[key] = item(one)
        except SchemaError as bad:
            raise bad.within(f"[{_shown(key)}]") from None
    return built


def _dataclass(kind: type) -> Decoder:
    hints = get_type_hints(kind, include_extras=True)
    decoders = [(field.name, decoder_of(hints[field.name])) for field in fields(kind)]
    required = [f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise SchemaError(f"{_shown(value)} is no object")
        built = {}
        for name, decoder in decoders:
            one = value.get(name)
            if one is None:
                continue
            try:
                built[name] = decoder(one)
            except SchemaError as bad:
                raise bad.within(name) from None
        for name in required:
            if name not in built:
                raise SchemaError("missing", name)
        return kind(**built)

    return decode

"""What of a dashboard is not in Grafana's schema, by Grafana's own classes, which are generated from it.

They read any JSON without a word: what they do not know, they leave out, and they check no type. So what they
write again is compared with what they read, and their values with the types that they declare.
"""

from collections.abc import Iterator
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()


def problems(dashboard: dict[str, Any]) -> list[str]:
    """Names that are not in the schema, and values of another type, each with its place."""
    found = Dashboard.from_json(dashboard)
    return [*_left_out(dashboard, _plain(found), ""), *_mistyped(found, Dashboard, "")]


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if hasattr(value, "to_json"):
        value = value.to_json()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items() if one is not None}
    return [_plain(one) for one in value] if isinstance(value, list) else value


def _left_out(given: Any, again: Any, place: str) -> Iterator[str]:
    if isinstance(given, dict) and isinstance(again, dict):
        for key, one in given.items():
            if key in again:
                yield from _left_out(one, again[key], f"{place}.{key}")
            else:
                yield f"{place}.{key}: no such name"
    elif isinstance(given, list) and isinstance(again, list):
        for number, (one, other) in enumerate(zip(given, again, strict=True)):
            yield from _left_out(one, other, f"{place}[{number}]")


def _mistyped(value: Any, hint: Any, place: str) -> Iterator[str]:
    kind: Any = get_origin(hint) or hint
    arguments = get_args(hint)
    if kind in (Union, UnionType):
        yield from min((list(_mistyped(value, one, place)) for one in arguments), key=len)
    elif kind is Literal or (isinstance(kind, type) and issubclass(kind, Enum)):
        options: Any = arguments if kind is Literal else kind
        allowed = [_plain(one) for one in options]
        if _plain(value) not in allowed:
            yield f"{place}: {value!r} is none of {allowed}"
    elif hasattr(kind, "from_json") and isinstance(value, dict):
        yield from _mistyped(kind.from_json(value), kind, place)
    elif not _is(value, kind):
        yield f"{place}: {value!r} is no {kind.__name__}"
    else:
        for name, one, declared in _parts(value, arguments[-1] if arguments else Any):
            yield from _mistyped(one, declared, place + name)


def _is(value: Any, kind: Any) -> bool:
    if kind in (Any, object) or (kind is float and type(value) is int):
        return True
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _parts(value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """What ``value`` has, each with its name and its declared type, which in a list or dict is ``hint``."""
    if hasattr(value, "to_json"):
        for name, declared in get_type_hints(type(value)).items():
            yield f".{name}", getattr(value, name), declared
    elif isinstance(value, list | dict):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield f"[{key}]", one, hint

"""Hypothesis strategies for every record, made from the same annotations that the codec checks."""

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from hypothesis import strategies as st

from contract.units import Range, Text

_MAX_INT = 2**53
_MAX_TEXT = 24
_NAME = r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?"
_PRINTABLE = st.characters(exclude_categories=["C", "Z"], codec="utf-8") | st.just(" ")


def value_of(hint: Any) -> st.SearchStrategy[Any]:
    """Values that one annotation allows."""
    origin = get_origin(hint)
    if origin is Annotated:
        base, rule = get_args(hint)
        return _text(rule) if isinstance(rule, Text) else _number(base, rule)
    if origin in (Union, types.UnionType):
        return value_of(next(arg for arg in get_args(hint) if arg is not type(None)))
    if origin is tuple:
        return _tuple(get_args(hint))
    if origin is not None and issubclass(origin, Mapping):
        return st.dictionaries(_text(Text()), value_of(get_args(hint)[1]), max_size=2)
    if is_dataclass(hint) and isinstance(hint, type):
        return record_of(hint)
    return _scalar(hint)


def record_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of one record type; each optional field is sometimes absent."""
    hints = get_type_hints(kind, include_extras=True)
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for field in fields(kind):
        if field.name == "v":
            continue
        bare = field.default is MISSING and field.default_factory is MISSING
        (required if bare else optional)[field.name] = value_of(hints[field.name])
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: kind(**values))


def _tuple(arguments: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return st.lists(value_of(arguments[0]), max_size=3).map(tuple)
    return st.tuples(*map(value_of, arguments))


def _scalar(hint: Any) -> st.SearchStrategy[Any]:
    if hint is bool:
        return st.booleans()
    return st.text(_PRINTABLE, max_size=_MAX_TEXT) if hint is str else _number(hint, Range())


def _text(rule: Text) -> st.SearchStrategy[str]:
    if rule.name:
        return st.from_regex(_NAME, fullmatch=True)
    return st.text(_PRINTABLE, min_size=1, max_size=min(rule.longest, _MAX_TEXT))


def _number(base: Any, rule: Range) -> st.SearchStrategy[Any]:
    low, high = max(rule.low, -_MAX_INT), min(rule.high, _MAX_INT)
    whole = st.integers(int(low), int(high))
    if base is int:
        return whole
    return whole | st.floats(max(rule.low, -1e308), min(rule.high, 1e308))

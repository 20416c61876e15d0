"""Hypothesis strategies for every record, made from the same types that the codec checks."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec import inspect

from dutycycle.contract.units import NAME_PATTERN

_MAX_INT = 2**53
_MAX_TEXT = 24
_PRINTABLE = st.characters(exclude_categories=["C", "Z"], codec="utf-8") | st.just(" ")
_KEYS = st.text(_PRINTABLE, min_size=1, max_size=_MAX_TEXT)


def record_of(kind: type[Any]) -> st.SearchStrategy[Any]:
    """Instances of one record type; each optional field is sometimes absent."""
    return _value(inspect.type_info(kind))


def _value(info: Any) -> st.SearchStrategy[Any]:
    return _MAKERS[type(info)](info)


def _integer(info: inspect.IntType) -> st.SearchStrategy[int]:
    low, high = (-_MAX_INT if info.ge is None else info.ge), (_MAX_INT if info.le is None else info.le)
    return st.integers(low, min(high, _MAX_INT))


def _float(info: inspect.FloatType) -> st.SearchStrategy[float]:
    return st.floats(-1e308 if info.ge is None else info.ge, 1e308 if info.le is None else info.le)


def _text(info: inspect.StrType) -> st.SearchStrategy[str]:
    if info.pattern == NAME_PATTERN:
        return st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,20}[A-Za-z0-9])?", fullmatch=True)
    return st.text(_PRINTABLE, min_size=info.min_length or 0, max_size=_MAX_TEXT)


def _record(info: inspect.StructType) -> st.SearchStrategy[Any]:
    required = {one.name: _value(one.type) for one in info.fields if one.required}
    optional = {one.name: _value(one.type) for one in info.fields if not one.required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda values: info.cls(**values))


_MAKERS: dict[Any, Callable[[Any], st.SearchStrategy[Any]]] = {
    inspect.StructType: _record,
    inspect.UnionType: lambda info: st.one_of(*map(_value, info.types)),
    inspect.NoneType: lambda _: st.none(),
    inspect.BoolType: lambda _: st.booleans(),
    inspect.IntType: _integer,
    inspect.FloatType: _float,
    inspect.StrType: _text,
    inspect.BytesType: lambda info: st.binary(min_size=info.min_length or 0, max_size=_MAX_TEXT),
    inspect.VarTupleType: lambda info: st.lists(_value(info.item_type), max_size=3).map(tuple),
    inspect.TupleType: lambda info: st.tuples(*map(_value, info.item_types)),
    inspect.DictType: lambda info: st.dictionaries(_KEYS, _value(info.value_type), max_size=2),
}

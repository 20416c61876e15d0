"""Makes the columns and rows of a topic's table, both of the declaration of its record.

A part of a record that is a struct becomes columns with its name before theirs (``host_cpu_util_pct``). Lists
and maps that ``_LEVELS`` names become rows; of an empty list there is one row without its columns. All other
lists and maps stay one value. A moment is a timestamp: ``start_ms`` becomes ``start_ts``.
"""

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from msgspec import inspect

from dutycycle.contract.records.derived import Subject
from dutycycle.contract.topics import TOPICS
from dutycycle.contract.units import END_OF_TIME_MS

_RECORD_TS = "record_ts"
"""The time of the record in Kafka, by which it belongs to an hour."""
Row = dict[str, Any]
_Read = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ColumnType:
    """Describes the type of a column: a word, and for ``list``, ``map`` and ``struct`` what is in it, by
    name."""

    word: str
    parts: tuple[tuple[str, "ColumnType"], ...] = ()

    def __str__(self) -> str:
        if self.word == "struct":
            return "{" + ", ".join(name for name, _ in self.parts) + "}"
        return " of ".join((self.word, *(str(kind) for _, kind in self.parts)))


@dataclass(frozen=True, slots=True)
class RowLevel:
    """Says what becomes rows: the items of ``field``, or of the value itself (``""``).

    The key of a map becomes the column ``key``. Columns of an item begin with ``prefix``.
    """

    field: str
    key: str | None = None
    prefix: str = ""
    below: tuple["RowLevel", ...] = ()


_METRICS = RowLevel("metrics", key="metric")
_BY_METRIC = (RowLevel("", key="metric"),)
_LEVELS: dict[str, tuple[RowLevel, ...]] = {
    "nvml-samples": (RowLevel("gpus"),),
    "cgroup-samples": (
        RowLevel("pods", prefix="pod_", below=(RowLevel("containers", prefix="container_"),)),
    ),
    "cuda-samples": (RowLevel("pods", prefix="pod_"),),
    "processes": (RowLevel("processes"),),
    "gpu-health": (RowLevel("gpus"),),
    "window-aggregates": (_METRICS,),
    "trends": (_METRICS,),
    "cycles": (_METRICS,),
    "pod-peaks": (
        _METRICS,
        RowLevel("gpus", key="gpu", below=_BY_METRIC),
        RowLevel("processes", key="process", below=_BY_METRIC),
    ),
    "node-peaks": (_METRICS, RowLevel("gpus", key="gpu", below=_BY_METRIC)),
    "job-peaks": (
        _METRICS,
        RowLevel(
            "pods", key="pod", prefix="pod_", below=(_METRICS, RowLevel("gpus", key="gpu", below=_BY_METRIC))
        ),
    ),
    "usage": (RowLevel("gpus"), RowLevel("pods")),
    "trials": (RowLevel("trials", prefix="trial_"),),
}


class Table:
    """Turns the records of one topic into rows of its table."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.columns: dict[str, ColumnType] = {_RECORD_TS: ColumnType("timestamp")}
        record = inspect.type_info(TOPICS[topic].record)
        self._root = _Items(record, RowLevel("", below=_LEVELS.get(topic, ())), self.columns, {_RECORD_TS})

    def rows(self, record: Any, ts_ms: int | None) -> Iterator[Row]:
        """Return the rows of one record; a column whose value is absent may be missing in them."""
        return self._root.rows(record, {_RECORD_TS: ts_ms})


@cache
def table(topic: str) -> Table:
    """Return the table of a topic, which is named without its prefix."""
    return Table(topic)


class _Items:
    """Reads the items of one level into rows, and adds what they have to ``columns``."""

    def __init__(
        self, item: inspect.Type, level: RowLevel, columns: dict[str, ColumnType], taken: set[str]
    ) -> None:
        self._level = level
        taken = set(taken)  # a name means one thing in a row; another branch may use it for the same
        if level.key is not None:
            _add(columns, taken, level.key, ColumnType("text"))
        self._columns = None
        if isinstance(item, inspect.StructType):
            below = {level_below.field for level_below in level.below}
            self._columns = _StructColumns(item, level.prefix, below, columns, taken)
        self._below = [
            _Items(_item_of(item, level_below), level_below, columns, taken) for level_below in level.below
        ]

    def rows(self, value: Any, above: Row) -> Iterator[Row]:
        """Yield the rows of one item; ``above``: what all of them have."""
        row = dict(above)
        if self._columns is not None:
            self._columns.fill(value, row)
        # Of a record whose lists are all empty there is a row that says so; of empty maps there is none.
        alone = not self._below or any(items._level.key is None for items in self._below)
        for items in self._below:
            field, key = items._level.field, items._level.key
            content = (getattr(value, field) if field else value) or ()
            alone = alone and not content
            if key is None:
                for item in content:
                    yield from items.rows(item, row)
            elif content:
                for name, item in content.items():
                    yield from items.rows(item, {**row, key: name})
        if alone:
            yield row


class _StructColumns:
    """Fills the columns of a struct, with those of the structs in it, but for the fields in ``but``."""

    def __init__(
        self,
        struct: inspect.StructType,
        prefix: str,
        but: set[str],
        columns: dict[str, ColumnType],
        taken: set[str],
    ) -> None:
        self._subject = prefix.removesuffix("_") if struct.cls is Subject else None
        if self._subject is not None:
            _add(columns, taken, self._subject, ColumnType("text"))
        self._values: list[tuple[str, str, _Read]] = []
        self._structs: list[tuple[str, _StructColumns]] = []
        for field in struct.fields:
            kind_of_field = _not_none(field.type)
            if field.name in but:
                continue
            if isinstance(kind_of_field, inspect.StructType):
                inner = _StructColumns(kind_of_field, f"{prefix}{field.name}_", set(), columns, taken)
                self._structs.append((field.name, inner))
                continue
            kind, read = _kind(kind_of_field)
            name = prefix + field.name
            if isinstance(kind_of_field, inspect.IntType) and kind_of_field.le == END_OF_TIME_MS:
                kind, name = ColumnType("timestamp"), name.removesuffix("ts_ms").removesuffix("ms") + "ts"
            _add(columns, taken, name, kind)
            self._values.append((field.name, name, read))

    def fill(self, value: Any, row: Row) -> None:
        """Put the values of a struct into a row."""
        if self._subject is not None:
            row[self._subject] = value.key
        for field, name, read in self._values:
            content = getattr(value, field)
            if content is not None:
                row[name] = read(content)
        for field, inner in self._structs:
            content = getattr(value, field)
            if content is not None:
                inner.fill(content, row)


def _add(columns: dict[str, ColumnType], taken: set[str], name: str, kind: ColumnType) -> None:
    if name in taken or columns.setdefault(name, kind) != kind:
        raise ValueError(f"two columns would be named {name}")
    taken.add(name)


def _not_none(info: inspect.Type) -> inspect.Type:
    """Return the type without None; of a number that is whole or not, the one that holds both."""
    if not isinstance(info, inspect.UnionType):
        return info
    types = [member for member in info.types if not isinstance(member, inspect.NoneType)]
    return next((member for member in types if isinstance(member, inspect.FloatType)), types[0])


def _item_of(info: inspect.Type, level: RowLevel) -> inspect.Type:
    if level.field and isinstance(info, inspect.StructType):
        info = _not_none(next(field.type for field in info.fields if field.name == level.field))
    if isinstance(info, inspect.DictType):
        return _not_none(info.value_type)
    if isinstance(info, inspect.VarTupleType):
        return _not_none(info.item_type)
    raise TypeError(f"{level.field}: neither a list nor a map")


def _kind(info: inspect.Type) -> tuple[ColumnType, _Read]:
    """Return the type of a value, and what turns the value into lists, dicts and scalars of exactly that
    type."""
    info = _not_none(info)
    match info:
        case inspect.StructType():
            parts = [(field.name, *_kind(field.type)) for field in info.fields]
            return ColumnType("struct", tuple((name, kind) for name, kind, _ in parts)), lambda value: {
                name: read(part) for name, _, read in parts if (part := getattr(value, name)) is not None
            }
        case inspect.DictType():
            kind, read = _kind(info.value_type)
            return ColumnType("map", (("", kind),)), lambda mapping: {
                key: None if item is None else read(item) for key, item in mapping.items()
            }
        case inspect.VarTupleType():
            return _list(*_kind(info.item_type))
        case inspect.TupleType():  # a pair of numbers
            return _list(ColumnType("number"), float)
        case inspect.FloatType():
            return ColumnType("number"), float
        case inspect.IntType():
            return ColumnType("integer"), _as_it_is
        case inspect.BoolType():
            return ColumnType("boolean"), _as_it_is
        case inspect.StrType():
            return ColumnType("text"), _as_it_is
        case inspect.BytesType():  # as in JSON
            return ColumnType("text"), lambda content: b64encode(content).decode()
        case _:
            raise TypeError(f"no column can hold {info}")


def _list(kind: ColumnType, read: _Read) -> tuple[ColumnType, _Read]:
    return ColumnType("list", (("", kind),)), lambda items: [
        None if item is None else read(item) for item in items
    ]


def _as_it_is(value: Any) -> Any:
    return value

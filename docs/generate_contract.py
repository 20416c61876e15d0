"""Writes docs/contract.md: the prose of contract.template.md, with tables made from the code.

``python -m docs.generate_contract`` writes the page; a test says when that was forgotten. A place in the
template is ``{{topics}}``, ``{{record NvmlSample}}``, ``{{reasons}}`` or ``{{settings}}``.
"""

import re
from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from msgspec import inspect

from docs.contract_meanings import meaning
from dutycycle.contract.catalogue import CATALOGUE, NODE_PEAK_COLUMNS, PEAK_COLUMNS, UNITS
from dutycycle.contract.health.xids import XIDS
from dutycycle.contract.records import (
    deadletter,
    derived,
    health,
    hours,
    insights,
    models,
    pods,
    processes,
    samples,
)
from dutycycle.contract.records.base import RecordBase
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import PREFIX, SETTING_GROUPS
from dutycycle.contract.topics import TOPICS, Topic
from dutycycle.contract.units import END_OF_TIME_MS, MAX_AMOUNT, MAX_INTEGER, NAME_PATTERN

HERE = Path(__file__).parent
PAGE = HERE / "contract.md"
TEMPLATE = HERE / "contract.template.md"
_PLACE = re.compile(r"\{\{(\w+)(?: (\w+))?\}\}")
_DAY_MS = 86_400_000
_LISTS = {
    "columns": PEAK_COLUMNS,
    "p95": tuple(row.field for row in CATALOGUE if row.p95 and "pod" in row.subjects),
    "nodes": NODE_PEAK_COLUMNS,
}
"""Places of the template that have names of metrics."""
_UNITS = {
    "slope_per_s": "the metric's, per s", **{unit.suffix: unit.text for unit in UNITS},
    "_ms": "ms", "_s": "s", "cpu_request": "cores", "cpu_limit": "cores", "gpu_request": "GPUs",
    "cpu_count": "CPUs", "pcie_width": "lanes",
    **dict.fromkeys(
        ("mean", "std", "min", "max", "p05", "p50", "p95", "p99", "increase", "level", "value"),
        "the metric's",
    ),
}  # fmt: skip


def page() -> str:
    """The whole page."""
    return _PLACE.sub(lambda place: _filled(place[1], place[2]), TEMPLATE.read_text(encoding="utf-8"))


def records() -> dict[str, type]:
    """Every record that the page has to describe, by its name."""
    modules = (samples, processes, health, pods, derived, hours, insights, models, deadletter)
    every = [value for module in modules for value in vars(module).values() if isinstance(value, type)]
    return {
        record.__name__: record
        for record in every
        if issubclass(record, RecordBase) and record.__module__ != RecordBase.__module__
    }


def _filled(what: str, name: str | None) -> str:
    if what == "record":
        return table(("field", "type", "unit", "", "meaning"), _fields(records()[str(name)]))
    if what in _LISTS:
        return _names(_LISTS[what])
    tables = {
        "topics": _topics, "internal": _internal, "reasons": _reasons, "settings": _settings,
        "xids": _xids,
    }  # fmt: skip
    return tables[what]()


def _names(metrics: Iterable[str]) -> str:
    return ", ".join(f"`{metric}`" for metric in metrics)


def _topics() -> str:
    rows = (
        (f"`{one.name}`", one.key, one.writer, _kept(one), _link(one.record)) for one in _of(internal=False)
    )
    return table(("topic", "key", "written by", "kept", "record"), rows)


def _xids() -> str:
    return "\n".join(
        f"| {code} | {xid.name} | {xid.severity} | {xid.level} | {xid.action} |" for code, xid in XIDS.items()
    )


def _internal() -> str:
    return table(
        ("topic", "key", "kept", "what it carries"),
        ((f"`{one.name}`", one.key, _kept(one), _first_line(one.record)) for one in _of(internal=True)),
    )


def _of(*, internal: bool) -> Iterable[Topic]:
    return (one for one in TOPICS.values() if one.internal is internal)


def _kept(topic: Topic) -> str:
    if topic.cleanup == "compact":
        return "compact: the newest of each key"
    days = topic.retention_ms // _DAY_MS
    return f"delete: {days} day{'s' if days > 1 else ''}"


def _reasons() -> str:
    text = Path(deadletter.__file__).read_text(encoding="utf-8")
    said = dict(re.findall(r'^    [A-Z]+ = "(\w+)"\n    """(.+)"""$', text, re.MULTILINE))
    return table(("reason", "meaning"), ((f"`{one}`", said[one]) for one in Reason))


def _settings() -> str:
    return "\n\n".join(f"**{group.__doc__}**\n\n{_group(group)}" for group in SETTING_GROUPS)


def _group(group: type) -> str:
    rows = (
        (f"`{PREFIX}{one.name.upper()}`", f"`{default}`" if (default := _default(one)) else "", _help(one))
        for one in fields(group)
    )
    return table(("variable", "default", "meaning"), rows)


def _default(setting: Field[Any]) -> str:
    value: Any = setting.default
    if setting.metadata["parse"] is parsers.share:
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(one if isinstance(one, str) else f"{one:g}s" for one in value)
    if isinstance(value, float):
        return f"{value:g}s"
    if setting.name.endswith("_bytes"):
        return f"{value // 1024**2}MB"
    return "" if value in (None, "") else str(value)


def _help(setting: Field[Any]) -> str:
    return str(setting.metadata["help"]) + (" (never shown)" if setting.metadata["secret"] else "")


def _fields(record: type) -> Iterable[tuple[str, ...]]:
    info = inspect.type_info(record)
    if isinstance(info, inspect.StructType):
        if info.tag_field:
            yield f"`{info.tag_field}`", "integer", "", "required", meaning(record.__name__, info.tag_field)
        for one in info.fields:
            unit = next((unit for end, unit in _UNITS.items() if one.name.endswith(end)), "")
            needed = "required" if one.required else ""
            yield f"`{one.name}`", _type(one.type), unit, needed, meaning(record.__name__, one.name)


def _type(info: inspect.Type) -> str:
    match info:
        case inspect.UnionType():
            *_, widest = (one for one in info.types if not isinstance(one, inspect.NoneType))
            return _type(widest)
        case inspect.VarTupleType():
            return f"array of {_type(info.item_type)}"
        case inspect.TupleType():
            return "[" + ", ".join(map(_type, info.item_types)) + "]"
        case inspect.DictType():
            return f"object of {_type(info.value_type)}"
        case inspect.StructType():
            return _link(info.cls)
        case inspect.StrType():
            return _text(info)
        case inspect.IntType() | inspect.FloatType():
            return _number(info)
    return "boolean"


def _text(info: inspect.StrType) -> str:
    if info.pattern == NAME_PATTERN:
        return "name"
    return f"string (1–{info.max_length})" if info.max_length else "string"


def _number(info: inspect.IntType | inspect.FloatType) -> str:
    kind = "integer" if isinstance(info, inspect.IntType) else "number"
    if info.ge is None or info.le == END_OF_TIME_MS:
        return kind
    if info.le in (MAX_AMOUNT, MAX_INTEGER):
        return f"{kind} ≥ {info.ge:g}"
    return f"{kind} {info.ge:g}–{info.le:g}"


def _link(record: Any) -> str:
    name = record.__name__
    return f"[{name}](#{name.lower()})"


def _first_line(record: type) -> str:
    return (record.__doc__ or "").partition("\n")[0].replace("``", "`")


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(one.replace("|", "\\|") for one in line) + " |" for line in lines)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()

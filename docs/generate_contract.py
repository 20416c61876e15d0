"""Writes docs/contract.md: the prose of contract.template.md, with tables made from the code.

``python -m docs.generate_contract`` writes the page; a test says when that was forgotten. A place in the
template is ``{{topics}}``, ``{{record NvmlSample}}``, ``{{reasons}}`` or ``{{settings}}``.
"""

import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from contract.records import deadletter, derived, insights, pods, samples
from contract.records.deadletter import Reason
from contract.settings.settings import PREFIX, Settings
from contract.topics import TOPICS, Topic
from contract.units import END_OF_TIME_MS, MOST, Range, Text
from docs.contract_meanings import meaning

HERE = Path(__file__).parent
PAGE = HERE / "contract.md"
TEMPLATE = HERE / "contract.template.md"
_PLACE = re.compile(r"\{\{(\w+)(?: (\w+))?\}\}")
_DAY_MS = 86_400_000
_UNITS = {
    "_bytes_per_s": "bytes/s", "_bytes": "bytes", "_pct": "%", "_w": "W", "_j": "J", "_c": "°C",
    "_mhz": "MHz", "_ms": "ms", "_per_s": "1/s", "_s": "s",
}  # fmt: skip


def page() -> str:
    """The whole page."""
    return _PLACE.sub(lambda place: _filled(place[1], place[2]), TEMPLATE.read_text(encoding="utf-8"))


def records() -> dict[str, type]:
    """Every record that the page has to describe, by its name."""
    modules = (samples, pods, derived, insights, deadletter)
    every = [value for module in modules for value in vars(module).values()]
    return {one.__name__: one for one in every if isinstance(one, type) and is_dataclass(one)}


def _filled(what: str, name: str | None) -> str:
    if what == "record":
        return table(("field", "type", "unit", "", "meaning"), _fields(records()[str(name)]))
    tables = {"topics": _topics, "internal": _internal, "reasons": _reasons, "settings": _settings}
    return tables[what]()


def _topics() -> str:
    rows = (
        (f"`{one.name}`", one.key, one.writer, _kept(one), _link(one.record)) for one in _of(internal=False)
    )
    return table(("topic", "key", "written by", "kept", "record"), rows)


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
    rows = (
        (f"`{PREFIX}{one.name.upper()}`", f"`{default}`" if (default := _default(one)) else "", _help(one))
        for one in fields(Settings)
    )
    return table(("variable", "default", "meaning"), rows)


def _default(setting: Field[Any]) -> str:
    value: Any = setting.default
    if isinstance(value, tuple):
        return ",".join(f"{one:g}s" for one in value)
    if isinstance(value, float):
        return f"{value:g}s"
    if setting.name.endswith("_bytes"):
        return f"{value // 1024**2}MB"
    return "" if value in (None, "") else str(value)


def _help(setting: Field[Any]) -> str:
    return str(setting.metadata["help"]) + (" (never shown)" if setting.metadata["secret"] else "")


def _fields(record: type) -> Iterable[tuple[str, ...]]:
    hints = get_type_hints(record, include_extras=True)
    for one in fields(record):
        needed = "required" if one.default is MISSING and one.default_factory is MISSING else ""
        needed = "required" if one.name == "v" else needed
        unit = next((unit for end, unit in _UNITS.items() if one.name.endswith(end)), "")
        yield f"`{one.name}`", _type(hints[one.name]), unit, needed, meaning(record.__name__, one.name)


def _type(hint: Any) -> str:
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(*args)
    if origin in (Union, types.UnionType):
        return _type(next(one for one in args if one is not type(None)))
    if origin is tuple:
        each = args[0] if args[-1] is Ellipsis else None
        return f"array of {_type(each)}" if each else "[" + ", ".join(map(_type, args)) + "]"
    if origin is not None and issubclass(origin, Mapping):
        return f"object of {_type(args[1])}"
    if is_dataclass(hint):
        return _link(hint)
    return {bool: "boolean", str: "string", int: "integer", float: "number"}[hint]


def _annotated(base: type, rule: Range | Text) -> str:
    if isinstance(rule, Text):
        return "name" if rule.name else f"string (1–{rule.longest})"
    kind = "integer" if base is int else "number"
    if rule.high == END_OF_TIME_MS:
        return kind
    if rule.high < MOST:
        return f"{kind} {rule.low:g}–{rule.high:g}"
    return f"{kind} ≥ {rule.low:g}"


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

"""Answers on the screen: tables as kubectl prints them, JSON and YAML for programs, remarks on stderr."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from dutycycle.kubectl.annotations import Json, MaxUsage
from dutycycle.process import print_remark
from dutycycle.words import aligned

DASH = "-"
"""What was not measured. An idle thing has a 0."""
_YAML_WIDTH = 1000
"""Sentences stay on their line."""


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """Holds one object. ``cells`` go below the headers after its name, ``annotations`` and ``more`` into
    JSON."""

    namespace: str
    name: str
    cells: list[str]
    usage: MaxUsage
    annotations: Json
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """Holds rows with their headers. ``there`` counts the objects that were looked at, annotated or not."""

    what: str
    headers: list[str]
    rows: list[AnswerRow]
    there: int
    namespaced: bool
    remarks: list[str] = field(default_factory=list)


def print_answer(answer: Answer, form: str, *, headers: bool = True) -> None:
    """Print it, a table with ``headers`` or without; remarks go to stderr."""
    if is_data(form):
        emit(
            [
                ({"namespace": row.namespace} if row.namespace else {})
                | {"name": row.name}
                | dict(row.more)
                | {"annotations": row.annotations}
                for row in unique(answer.rows)
            ],
            form,
        )
    elif answer.rows:
        leading = [[row.namespace] * answer.namespaced + [row.name] for row in answer.rows]
        lines = [first + row.cells for first, row in zip(leading, answer.rows, strict=True)]
        sys.stdout.write(aligned(answer.headers, lines, headers=headers))
    for remark in answer.remarks:
        print_remark(remark)


def is_data(form: str) -> bool:
    """Tell whether it is for programs: the whole objects, and no words around them."""
    return form in ("json", "yaml")


def emit(value: Any, form: str) -> None:
    """Print ``value`` as JSON, indented, or as YAML; one line end at the end."""
    if form == "json":
        sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
        return
    import yaml  # a tenth of a second that tables do without

    sys.stdout.write(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_YAML_WIDTH))


def unique(rows: list[AnswerRow]) -> list[AnswerRow]:
    """Return one row an object, where a table has several."""
    return list({(row.namespace, row.name, *row.more.values()): row for row in rows}.values())


def format_number(value: float | None) -> str:
    """Return a number as ``271.8``, ``62.4`` or ``0``; a dash for None."""
    return DASH if value is None else f"{value:.1f}".removesuffix(".0")


def format_percent(value: float | None) -> str:
    """Return a percentage as ``97%``; a dash for None."""
    return DASH if value is None else f"{value:.0f}%"


def format_megabytes(value: float | None) -> str:
    """Return megabytes as ``246MB``, ``11.7GB`` or ``10GB``; a dash for None."""
    if value is None:
        return DASH
    return f"{value:.0f}MB" if round(value) < 1000 else f"{format_number(value / 1000)}GB"


_FORMS = {
    "gpu_pct": format_percent, "gpu_mem_bus_pct": format_percent, "gpu_mem_mb": format_megabytes,
    "cpu_pct": format_percent, "cpu_p95_pct": format_percent, "mem_mb": format_megabytes,
    "net_mbps": format_number, "disk": format_number,
}  # fmt: skip


def format_usage(usage: MaxUsage, *names: str) -> list[str]:
    """Return these figures of ``MaxUsage``, each in its unit; a dash for None."""
    return [_FORMS[name](getattr(usage, name)) for name in names]


def age_of(moment_ms: int, now_ms: int) -> str:
    """Tell how long ago a moment is."""
    return format_age((now_ms - moment_ms) / 1000)


def format_age(seconds: float | None) -> str:
    """Return an age as kubectl's AGE: ``5s``, ``3m``, ``2h``, ``4d``; a dash for None."""
    if seconds is None:
        return DASH
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length or (unit != "m" and seconds >= length):
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"

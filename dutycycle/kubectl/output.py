"""An answer on its way to the screen: a table for people, JSON for programs, remarks beside it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from dutycycle.kubectl import table
from dutycycle.kubectl.figures import Json, Usage


@dataclass(frozen=True, slots=True)
class Row:
    """One object. ``cells`` go below the headers after its name, ``found`` and ``more`` into JSON."""

    namespace: str
    name: str
    cells: list[str]
    usage: Usage
    found: Json
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """Rows with their headers. ``there`` counts the objects that were looked at, annotated or not."""

    what: str
    headers: list[str]
    rows: list[Row]
    there: int
    namespaced: bool
    remarks: list[str] = field(default_factory=list)


def show(answer: Answer, form: str) -> None:
    """Print it; remarks go to stderr."""
    if form == "json":
        emit_json([_plain(row) for row in unique(answer.rows)])
    elif answer.rows:
        leading = [[row.namespace] * answer.namespaced + [row.name] for row in answer.rows]
        lines = [first + row.cells for first, row in zip(leading, answer.rows, strict=True)]
        sys.stdout.write(table.render(answer.headers, lines))
    for remark in answer.remarks:
        print(remark, file=sys.stderr)  # noqa: T201


def emit_json(value: Any) -> None:
    """Indented, one line end at the end."""
    sys.stdout.buffer.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


def unique(rows: list[Row]) -> list[Row]:
    """One row an object, where a table has several."""
    return list({(row.namespace, row.name, *row.more.values()): row for row in rows}.values())


def _plain(row: Row) -> dict[str, Any]:
    where = {"namespace": row.namespace} if row.namespace else {}
    return where | {"name": row.name} | dict(row.more) | {"annotations": row.found}

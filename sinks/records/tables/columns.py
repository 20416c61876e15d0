"""Defines types of columns that SQLite and PostgreSQL have in different ways."""

from datetime import datetime
from typing import Any

from sqlalchemy import TIMESTAMP, Dialect, Text, TypeDecorator
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.types import TypeEngine, UserDefinedType

from sinks.records.rows import written


class Document(UserDefinedType[str]):
    """Holds JSON as text in our rows: ``jsonb`` in PostgreSQL, which sorts keys; SQLite keeps the text."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the column's type in SQLite, which knows it by affinity only."""
        return "JSON"


@compiles(Document, "postgresql")
def _jsonb(*_: Any, **__: Any) -> str:
    return "JSONB"


class UtcTime(TypeDecorator[str]):
    """Holds a moment as text in our rows (``rows.moment``): ``timestamptz`` in PostgreSQL, that text in
    SQLite."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column's type."""
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if dialect.name == "postgresql" else Text())

    def process_result_value(self, value: Any, _dialect: Dialect) -> str | None:
        """Return the moment as text again."""
        return written(value) if isinstance(value, datetime) else value

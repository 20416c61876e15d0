"""Writes the two formats of a table's file. Rows are packed as they come: packed, they need little memory."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import IO, Any, Protocol

import orjson

from dutycycle.contract.errors import NotInstalledError
from dutycycle.tables.columns import ColumnType

Columns = Mapping[str, ColumnType]


class Format(Protocol):
    """Says how rows are packed, and packs written."""

    def pack(self, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return rows of one table, packed. A value that a row lacks is absent."""
        ...

    def size(self, pack: Any) -> int:
        """Tell how much memory a pack takes, in bytes."""
        ...

    def write(self, file: IO[bytes], columns: Columns, packs: Sequence[Any]) -> None:
        """Write one file of all packs."""
        ...


class Csv:
    """Writes CSV with a line of names; lists and maps are JSON, timestamps ISO 8601 in UTC, absent values are
    empty."""

    def pack(self, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the lines."""
        shown: list[tuple[str, Callable[[Any], Any]]]
        shown = [(name, _SHOWN.get(kind.word, lambda value: value)) for name, kind in columns.items()]
        return _lines(
            [None if (value := row.get(name)) is None else show(value) for name, show in shown]
            for row in rows
        )

    def size(self, pack: bytes) -> int:
        """Return its length."""
        return len(pack)

    def write(self, file: IO[bytes], columns: Columns, packs: Sequence[bytes]) -> None:
        """Write the names, then the lines."""
        file.write(_lines([columns]))
        file.writelines(packs)


def _lines(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


_SHOWN: dict[str, Callable[[Any], Any]] = {
    "timestamp": lambda ts_ms: (
        datetime.fromtimestamp(ts_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{ts_ms % 1000:03}Z"
    ),
    "boolean": _json,
    **dict.fromkeys(("list", "map", "struct"), _json),
}


class Parquet:
    """Writes Parquet, compressed by zstd. Raises ``NotInstalledError`` where pyarrow is not installed."""

    def __init__(self) -> None:
        try:
            import pyarrow as pa  # here, not above: only this format needs it
            from pyarrow import parquet
        except ModuleNotFoundError as error:
            raise NotInstalledError("pyarrow") from error
        self._pa, self._parquet = pa, parquet

    def pack(self, columns: Columns, rows: Sequence[Mapping[str, Any]]) -> Any:
        """Return a record batch."""
        return self._pa.RecordBatch.from_pylist(list(rows), schema=self._schema(columns))

    def size(self, pack: Any) -> int:
        """Return the bytes of its buffers."""
        return int(pack.nbytes)

    def write(self, file: IO[bytes], columns: Columns, packs: Sequence[Any]) -> None:
        """Write one file of all packs, compressed."""
        table = self._pa.Table.from_batches(packs, schema=self._schema(columns))
        self._parquet.write_table(table, file, compression="zstd")

    def _schema(self, columns: Columns) -> Any:
        return self._pa.schema([(name, self._type(kind)) for name, kind in columns.items()])

    def _type(self, kind: ColumnType) -> Any:
        pa = self._pa
        parts = [(name, self._type(part)) for name, part in kind.parts]
        match kind.word:
            case "list":
                return pa.list_(parts[0][1])
            case "map":
                return pa.map_(pa.string(), parts[0][1])
            case "struct":
                return pa.struct(parts)
            case word:
                return scalar_types(pa)[word]


def scalar_types(pa: Any) -> Mapping[str, Any]:
    """Give the types of pyarrow for the words of ``ColumnType``; for those of CSV, where the rest is text."""
    words = {
        "timestamp": pa.timestamp("ms", tz="UTC"),
        "integer": pa.int64(),
        "number": pa.float64(),
        "boolean": pa.bool_(),
    }
    return defaultdict(pa.string, words)


FORMATS: dict[str, type[Csv | Parquet]] = {"csv": Csv, "parquet": Parquet}

"""Writes records as tables: a folder a topic, below it one an hour, in the style of Hive."""

import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.topics import TOPICS, short_name
from dutycycle.contract.trace import TraceError, TraceRecord, TraceWriter
from dutycycle.contract.units import END_OF_TIME_MS
from dutycycle.process import print_remark
from dutycycle.tables.columns import Row, table
from dutycycle.tables.formats import FORMATS, Format

TRACE = "jsonl"
NAMES = (TRACE, *FORMATS)
"""The values of ``--format``."""
_NO_HOUR = "__HIVE_DEFAULT_PARTITION__"
"""What Hive calls a partition without a value."""
_MOST_ROWS = 4096
_MOST_BYTES = 64 * 1024 * 1024
_Place = tuple[str, str]
"""A topic and an hour."""


def writer(out: str, name: str, prefix: str, *, overwrite: bool) -> "TraceWriter | TableWriter":
    """Open a writer of the format ``name``: a trace, or tables below the folder ``out``."""
    if name == TRACE:
        return TraceWriter(out, overwrite=overwrite)
    return TableWriter(out, name, prefix, overwrite=overwrite)


class TableWriter:
    """Writes tables; a context manager. Files depend on the records alone.

    ``topic=window-aggregates/hour=2026-11-22T21/part-0.parquet``: all is written below ``.partial`` first,
    and gets its place at the end. After an error nothing stays; but a trace that is damaged further on gives
    the tables of what came before.

    Held in memory are ``most_bytes`` of packed rows, and a few thousand others. When there are more, the hour
    that has most of them becomes a file, and the next file of that hour is ``part-1``.
    """

    def __init__(
        self, out: str, name: str, prefix: str, *, overwrite: bool, most_bytes: int = _MOST_BYTES
    ) -> None:
        if out == "-":
            raise SettingError(f"--format {name} needs a folder: --out DIR")
        self._format: Format = FORMATS[name]()
        self._name, self._prefix, self._overwrite, self._most_bytes = name, prefix, overwrite, most_bytes
        self._out = Path(out)
        self._partial = self._out / ".partial"
        self._is_new = False
        self._rows: dict[_Place, list[Row]] = defaultdict(list)
        self._waiting = 0
        self._packs: dict[_Place, list[Any]] = defaultdict(list)
        self._sizes: Counter[_Place] = Counter()
        self._files: Counter[_Place] = Counter()
        self._unreadable: Counter[str] = Counter()

    def __enter__(self) -> "TableWriter":
        with self._explained():
            self._is_new = not self._out.exists()
            self._out.mkdir(parents=True, exist_ok=True)
            if not self._overwrite and any(self._out.glob("topic=*")):
                raise DutycycleError(f"{self._out} has tables already: give another folder, or --force")
            shutil.rmtree(self._partial, ignore_errors=True)  # of a run that was killed
            self._partial.mkdir()
        return self

    def write(self, record: TraceRecord) -> None:
        """Add the rows of a record; a tombstone has none, and one that cannot be read is counted."""
        topic = short_name(self._prefix, record.topic)
        if topic is None or record.payload is None:
            return
        try:
            decoded: Any = decode(TOPICS[topic].record, record.payload, topic)
        except DecodeError as error:
            if not self._unreadable[topic]:
                print_remark(f"dutycycle: not in the tables: {error}")
            self._unreadable[topic] += 1
            return
        ts_ms = record.ts_ms
        if ts_ms is not None and not 0 <= ts_ms <= END_OF_TIME_MS:
            ts_ms = None
        hour = (
            _NO_HOUR if ts_ms is None else datetime.fromtimestamp(ts_ms // 1000, UTC).strftime("%Y-%m-%dT%H")
        )
        rows = self._rows[topic, hour]
        before = len(rows)
        rows.extend(table(topic).rows(decoded, ts_ms))
        self._waiting += len(rows) - before
        if self._waiting >= _MOST_ROWS:
            self._pack()

    def _pack(self) -> None:
        for place, rows in self._rows.items():
            pack = self._format.pack(table(place[0]).columns, rows)
            self._packs[place].append(pack)
            self._sizes[place] += self._format.size(pack)
        self._rows.clear()
        self._waiting = 0
        while self._sizes.total() > self._most_bytes:
            self._write_file(self._sizes.most_common(1)[0][0])

    def _write_file(self, place: _Place) -> None:
        topic, hour = place
        folder = self._partial / f"topic={topic}" / f"hour={hour}"
        path = folder / f"part-{self._files[place]}.{self._name}"
        with self._explained():
            folder.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                self._format.write(file, table(topic).columns, self._packs.pop(place))
        self._files[place] += 1
        del self._sizes[place]

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        try:
            if failure is None or issubclass(failure, TraceError):
                self._pack()
                for place in sorted(self._packs):
                    self._write_file(place)
                with self._explained():
                    for old in self._out.glob("topic=*"):
                        shutil.rmtree(old)
                    for new in self._partial.iterdir():
                        new.rename(self._out / new.name)
        finally:
            shutil.rmtree(self._partial, ignore_errors=True)
            if self._is_new and not any(self._out.iterdir()):
                self._out.rmdir()
        for topic, count in self._unreadable.items():
            print_remark(f"dutycycle: {count} of {topic} are not in the tables")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            raise DutycycleError(f"cannot write tables into {self._out}: {reason}") from error

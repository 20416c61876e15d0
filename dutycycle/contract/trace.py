"""Trace files: a stream in JSON Lines, in the envelope that ``kcat -J`` prints. ``trace_reader`` reads them.

``.gz`` and ``.zst`` are written by suffix; ``-`` is standard output.
"""

import gzip
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import msgspec
import orjson
import zstandard
from msgspec import Struct

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord, ProducerRecord

_OTHER_FORMATS = frozenset(
    {".arrow", ".bz2", ".csv", ".db", ".feather", ".orc", ".parquet", ".tsv", ".xlsx", ".xz", ".zip"}
)


class TraceError(DutycycleError):
    """Says why a trace cannot be read on: ``file:line: reason``; line 0 when it cannot even be opened."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"{name}:{line}: {reason}" if line else f"{name}: {reason}")
        self.name = name
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """Holds one Kafka record. ``topic`` is its full name; ``payload`` None is a tombstone."""

    topic: str
    key: str | None
    payload: bytes | None
    partition: int = 0
    offset: int | None = None
    ts_ms: int | None = None


def trace_line(
    record: ConsumerRecord | ProducerRecord, prefix: str, offset: int | None = None
) -> TraceRecord:
    """Return a record, whose topic is without ``prefix``, as a line of a trace."""
    return TraceRecord(
        topic=prefix + record.topic, key=record.key, payload=record.value, offset=offset, ts_ms=record.ts_ms
    )


def encode_line(record: TraceRecord) -> bytes:
    """Return one line of a trace, with its line end."""
    envelope: dict[str, Any] = {"topic": record.topic, "partition": record.partition}
    if record.offset is not None:
        envelope["offset"] = record.offset
    if record.ts_ms is not None:
        envelope |= {"tstype": "create", "ts": record.ts_ms}
    envelope["key"] = record.key
    envelope["payload"] = (
        None if record.payload is None else record.payload.decode("utf-8", "surrogateescape")
    )
    try:
        return orjson.dumps(envelope) + b"\n"
    except TypeError:  # bytes that are no UTF-8: shown as kcat does, with the replacement character
        for name, value in envelope.items():
            if isinstance(value, str):
                envelope[name] = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return orjson.dumps(envelope) + b"\n"


class _Line(Struct):
    """Is a line as ``kcat -J`` prints it; a payload may stand there as the object that it is."""

    topic: str
    key: str | None
    payload: str | dict[str, Any] | None
    partition: int | None = None
    offset: int | None = None
    ts: int | None = None


_parse = msgspec.json.Decoder(_Line).decode


def decode_line(line: bytes) -> TraceRecord:
    """Return one line of a trace; raises ``ValueError`` with the reason."""
    try:
        parsed = _parse(line)
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}: a line has topic, key and payload, as kcat -J prints them") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {str(error).removeprefix('JSON is malformed: ')}") from error
    payload = orjson.dumps(parsed.payload) if isinstance(parsed.payload, dict) else parsed.payload
    return TraceRecord(
        topic=parsed.topic,
        key=parsed.key,
        payload=payload.encode() if isinstance(payload, str) else payload,
        partition=parsed.partition or 0,
        offset=parsed.offset,
        ts_ms=parsed.ts,
    )


class TraceWriter:
    """Writes a trace; a context manager. Bytes depend on the records alone, so a replay repeats exactly.

    A file is written under another name beside it and renamed at the end, so that a trace that is there stays
    whole until the new one is. After an error the new one gets the name only if it holds a record; what came
    before a damaged line is of use.

    ``resume_at`` is what ``checkpoint`` said: the file is cut there, and written on. A trace with checkpoints
    keeps its other name after an error, so that a later run can resume it.

    Raises ``DutycycleError`` where the file cannot be opened or written, is there already without
    ``overwrite``, or has a name that promises another format. ``BrokenPipeError`` is left to the
    caller: whoever reads the output has seen enough.
    """

    def __init__(self, path: str, *, overwrite: bool = True, resume_at: int | None = None) -> None:
        self.path = path
        self._overwrite = overwrite
        self._resume_at = resume_at
        self._partial: Path | None = None
        self._written = False
        self._no_room = False
        self._checkpoints = resume_at is not None
        self._raw: IO[bytes] | None = None
        self._stream: Any = None

    def __enter__(self) -> "TraceWriter":
        if self.path == "-":
            self._stream = sys.stdout.buffer
            return self
        file = Path(self.path)
        suffix = Path(file.name.removesuffix(".gz").removesuffix(".zst")).suffix.lower()
        if suffix in _OTHER_FORMATS:  # the name promises something else than JSON lines
            raise DutycycleError(
                f"{file}: a trace is JSON lines, not {suffix[1:]}: name it .jsonl, .jsonl.gz or .jsonl.zst"
            )
        with self._explained():
            if file.is_file() or not file.exists():  # a device or a pipe is written as it is
                if file.is_file() and not self._overwrite:
                    raise DutycycleError(f"{self.path} is there already: give another name, or --force")
                self._partial = file = file.with_name(f"{file.name}.partial")
            if self._resume_at is None:
                self._raw = file.open("wb")
            else:
                self._raw = file.open("r+b")
                self._raw.truncate(self._resume_at)
                self._raw.seek(self._resume_at)
            self._stream = self._compressed(self._raw)
        return self

    def _compressed(self, raw: IO[bytes]) -> Any:
        if self.path.endswith(".gz"):
            return gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0)
        if self.path.endswith(".zst"):
            compressor = zstandard.ZstdCompressor(level=6, write_checksum=True)
            return compressor.stream_writer(raw, closefd=False)
        return raw

    def checkpoint(self) -> int:
        """Store what was written so far, as a whole: the size of the file, in bytes; 0 for ``-``."""
        raw = self._raw
        if raw is None:
            return 0
        with self._explained():
            if self._stream is not raw:
                self._stream.close()
            raw.flush()
            os.fsync(raw.fileno())
            size = raw.tell()  # a new stream may begin with a header at once
            self._stream = self._compressed(raw)
            self._checkpoints = True
            return size

    def write(self, record: TraceRecord) -> None:
        """Append one record."""
        with self._explained():
            self._stream.write(encode_line(record))
        self._written = True

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        with self._explained():
            if self.path == "-":
                self._stream.flush()
                return
            try:
                self._stream.close()
            except OSError:
                self._no_room = True
                raise
            finally:
                try:
                    if self._raw is not None:
                        self._raw.close()
                finally:
                    # The file gets its name, or goes: on a full disk, what could not be closed does not stay.
                    complete = failure is None and not self._no_room
                    if self._partial is not None and (complete or not self._checkpoints):
                        if complete or (self._written and not self._no_room):
                            self._partial.replace(self.path)
                        else:
                            self._partial.unlink()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            self._no_room = True
            reason = error.strerror or str(error)
            raise DutycycleError(f"cannot write the trace {self.path}: {reason}") from error

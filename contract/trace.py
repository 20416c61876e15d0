"""Trace files: a stream in JSON Lines, in the envelope that ``kcat -J`` prints.

``.gz`` and ``.zst`` are read and written by suffix; ``-`` is standard input or output. One bad line ends
the reading with an error that names the file, the line and the reason: what came before it was given out.
"""

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import orjson
import zstandard
from msgspec import Struct

from contract.errors import DutycycleError

_OTHER_FORMATS = frozenset(
    {".arrow", ".bz2", ".csv", ".db", ".feather", ".orc", ".parquet", ".tsv", ".xlsx", ".xz", ".zip"}
)
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
LONGEST_LINE = 64 * 1024 * 1024
_CHUNK = 1 << 14
_MAX_WINDOW = 1 << 27


class _Lines(Protocol):
    """What all ways of opening a file have in common."""

    def readline(self, size: int, /) -> bytes: ...


class TraceError(DutycycleError):
    """A trace that cannot be read on: ``file:line: reason``; line 0 when it cannot even be opened."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        super().__init__(f"{name}:{line}: {reason}" if line else f"{name}: {reason}")
        self.name = name
        self.line = line
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRecord:
    """One Kafka record. ``topic`` is its full name; ``payload`` None is a tombstone."""

    topic: str
    key: str | None
    payload: bytes | None
    partition: int = 0
    offset: int | None = None
    ts_ms: int | None = None


def encode_line(record: TraceRecord) -> bytes:
    """One line of a trace, with its line end."""
    envelope: dict[str, Any] = {"topic": record.topic, "partition": record.partition}
    if record.offset is not None:
        envelope["offset"] = record.offset
    if record.ts_ms is not None:
        envelope |= {"tstype": "create", "ts": record.ts_ms}
    envelope["key"] = record.key
    envelope["payload"] = (
        None if record.payload is None else record.payload.decode("utf-8", "surrogateescape")
    )
    return _dumps(envelope) + b"\n"


def _dumps(envelope: dict[str, Any]) -> bytes:
    try:
        return orjson.dumps(envelope)
    except TypeError:  # bytes that are no UTF-8: shown as kcat does, with the replacement character
        return orjson.dumps({name: _shown(value) for name, value in envelope.items()})


def _shown(value: Any) -> Any:
    if type(value) is not str:
        return value
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Line(Struct):
    """A line as ``kcat -J`` prints it; a payload may stand there as the object that it is."""

    topic: str
    key: str | None
    payload: str | dict[str, Any] | None
    partition: int | None = None
    offset: int | None = None
    ts: int | None = None


_parse = msgspec.json.Decoder(_Line).decode


def decode_line(line: bytes) -> TraceRecord:
    """One line of a trace; raises ``ValueError`` with the reason."""
    try:
        found = _parse(line)
    except msgspec.ValidationError as error:
        raise ValueError(f"{error}: a line has topic, key and payload, as kcat -J prints them") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not JSON: {str(error).removeprefix('JSON is malformed: ')}") from error
    payload = orjson.dumps(found.payload) if isinstance(found.payload, dict) else found.payload
    return TraceRecord(
        topic=found.topic,
        key=found.key,
        payload=payload.encode() if isinstance(payload, str) else payload,
        partition=found.partition or 0,
        offset=found.offset,
        ts_ms=found.ts,
    )


def read_lines(path: str, longest_line: int = LONGEST_LINE) -> Iterator[tuple[int, TraceRecord]]:
    """The records of one trace file, in order, each with the number of its line, from 1.

    Blank lines are passed over. Raises ``TraceError``, after the records before the damage.
    """
    number = 0
    try:
        with _open_read(path) as stream:
            number = 1
            for line in _lines(stream, longest_line):
                if line.strip():
                    yield number, decode_line(line)
                number += 1
    except _DAMAGE as error:  # before OSError, of which BadGzipFile is one
        raise TraceError(path, number, f"the compressed stream is damaged or cut off: {error}") from error
    except OSError as error:
        raise TraceError(path, number, error.strerror or str(error)) from error
    except ValueError as error:
        raise TraceError(path, number, str(error)) from error


def _lines(stream: _Lines, longest: int) -> Iterator[bytes]:
    while line := stream.readline(longest):
        if len(line) == longest:
            raise ValueError(f"a line of over {longest} bytes")
        yield line


@contextmanager
def _open_read(path: str) -> Iterator[_Lines]:
    if path == "-":
        yield sys.stdin.buffer
    elif path.endswith(".gz"):
        # Not wrapped in another buffer: filling that one would lose what was read before the damage.
        with gzip.open(path, "rb") as stream:
            yield stream
    elif path.endswith(".zst"):
        with Path(path).open("rb") as raw:
            yield io.BufferedReader(_ZstdReader(raw))
    else:
        with Path(path).open("rb") as stream:
            yield stream


class _ZstdReader(io.RawIOBase):
    """Decompresses ``raw``, frame after frame. Raises ``EOFError`` when it ends inside a frame, which
    zstandard's own reader takes for the end of the file.
    """

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._frame: Any = None
        self._input = b""
        self._output = memoryview(b"")  # a slice of it is no copy: a chunk may hold a million records

    def readable(self) -> bool:
        """Always: it is a reader."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``; 0 at the end of the last frame."""
        while not self._output:
            if not self._step():
                return 0
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

    def _step(self) -> bool:
        if not self._input:
            self._input = self._raw.read(_CHUNK)
        if not self._input:
            if self._frame is not None:
                raise EOFError("the file ends inside a frame")
            return False
        if self._frame is None:
            self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
        self._output = memoryview(self._frame.decompress(self._input))
        self._input = b""
        if self._frame.eof:
            self._input, self._frame = self._frame.unused_data, None
        return True


def _check_format(file: Path) -> None:
    """Raises ``DutycycleError`` for a name that promises something else than JSON lines."""
    name = file.name.removesuffix(".gz").removesuffix(".zst")
    suffix = Path(name).suffix.lower()
    if suffix in _OTHER_FORMATS:
        raise DutycycleError(
            f"{file}: a trace is JSON lines, not {suffix[1:]}: name it .jsonl, .jsonl.gz or .jsonl.zst"
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
        self._checkpoints = resume_at is not None
        self._raw: IO[bytes] | None = None
        self._stream: Any = None

    def __enter__(self) -> "TraceWriter":
        with self._explained():
            self._stream = self._open()
        return self

    def _open(self) -> Any:
        if self.path == "-":
            return sys.stdout.buffer
        file = Path(self.path)
        _check_format(file)
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
        return self._compressed(self._raw)

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
            finally:
                if self._raw is not None:
                    self._raw.close()
            if self._partial is None:
                return
            if failure is not None and self._checkpoints:
                return
            if failure is None or self._written:
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
            reason = error.strerror or str(error)
            raise DutycycleError(f"cannot write the trace {self.path}: {reason}") from error

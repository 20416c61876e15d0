"""Reads trace files, plain or compressed: their first bytes tell. ``-`` is standard input."""

import codecs
import gzip
import io
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import IO, Any, Protocol, cast

import zstandard

from dutycycle.contract.trace import TraceError, TraceRecord, decode_line

_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
_LONGEST_LINE = 64 * 1024 * 1024
_CHUNK = 1 << 14
_MAX_WINDOW = 1 << 27  # what `zstd -d` takes without --long: a file cannot ask for more memory
_GZIP_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


class _Lines(Protocol):
    """Declares what all ways of opening a file have in common."""

    def readline(self, size: int, /) -> bytes: ...


class TraceReader:
    """Gives the records of one trace file in order, each with the number of its line, from 1.

    Blank lines are passed over. The first bad line raises ``TraceError``, after the records before it. With
    ``bad``, that is told of each bad line instead, and the reading goes on; where a compressed stream is
    damaged there is no next line, and the reading ends.
    """

    def __init__(
        self, path: str, *, bad: Callable[[TraceError], None] | None = None, longest_line: int = _LONGEST_LINE
    ) -> None:
        self.path = path
        self._bad = bad
        self._longest = longest_line
        self._raw: IO[bytes] | None = None

    def position(self) -> int:
        """Tell how many bytes of the file were read; 0 for standard input."""
        return 0 if self._raw is None or self._raw.closed else self._raw.tell()

    def __iter__(self) -> Iterator[tuple[int, TraceRecord]]:
        number = 0
        try:
            with nullcontext(sys.stdin.buffer) if self.path == "-" else Path(self.path).open("rb") as raw:
                self._raw = None if self.path == "-" else raw
                stream = self._decompressed(cast("io.BufferedReader", raw))
                for number in count(1):
                    if not (line := stream.readline(self._longest)):
                        return
                    if number == 1:
                        if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                            fix = "write it by --out FILE, or convert it: iconv -f UTF-16 -t UTF-8 FILE > NEW"
                            raise TraceError(
                                self.path, 1, f"is in UTF-16, as what PowerShell redirects: {fix}"
                            )
                        line = line.removeprefix(codecs.BOM_UTF8)  # editors of Windows put it before UTF-8
                    record = self._record(number, line, stream)
                    if record is not None:
                        yield number, record
        except _DAMAGE as error:  # before OSError, of which BadGzipFile is one
            self._refuse(number, f"the compressed stream is damaged or cut off: {error}", error)
        except OSError as error:
            raise TraceError(self.path, number, error.strerror or str(error)) from error

    def _record(self, number: int, line: bytes, stream: _Lines) -> TraceRecord | None:
        """Return what stands in a line; None for nothing, and for a bad line that was told."""
        if len(line) == self._longest:
            self._refuse(number, f"a line of over {self._longest} bytes")
            while line and not line.endswith(b"\n"):
                line = stream.readline(self._longest)
            return None
        try:
            return decode_line(line) if line.strip() else None
        except ValueError as error:
            is_log = number == 1 and b'"topic"' not in line
            hint = "; a log of another program becomes a trace by dutycycle import" if is_log else ""
            self._refuse(number, f"{error}{hint}", error)
            return None

    def _refuse(self, number: int, reason: str, cause: Exception | None = None) -> None:
        error = TraceError(self.path, number, reason)
        if self._bad is None:
            raise error from cause
        self._bad(error)

    def _decompressed(self, raw: io.BufferedReader) -> _Lines:
        """Return the lines of a stream. A file may have any name, and a pipe has none: no suffix is asked."""
        begin = raw.peek(len(_ZSTD_MAGIC))
        if begin.startswith(_GZIP_MAGIC):
            # Not wrapped in another buffer: filling that one would lose what was read before the damage.
            return gzip.GzipFile(fileobj=raw)
        if begin.startswith(_ZSTD_MAGIC):
            return io.BufferedReader(ZstdReader(raw))
        return raw


class ZstdReader(io.RawIOBase):
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
        """Tell that it is a reader, always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``; 0 at the end of the last frame."""
        while not self._output:
            self._input = self._input or self._raw.read(_CHUNK)
            if not self._input:
                if self._frame is not None:
                    raise EOFError("the file ends inside a frame")
                return 0
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW).decompressobj()
            self._output = memoryview(self._frame.decompress(self._input))
            self._input = b""
            if self._frame.eof:
                self._input, self._frame = self._frame.unused_data, None
        count = min(len(buffer), len(self._output))
        buffer[:count] = self._output[:count]
        self._output = self._output[count:]
        return count

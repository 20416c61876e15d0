"""Reads Zstandard frames, and notices when the last one was cut off, which the library's reader does not."""

import io
from typing import IO, Any

import zstandard

_CHUNK = 1 << 17
_MAX_WINDOW = 1 << 27


class ZstdReader(io.RawIOBase):
    """Decompresses ``raw``, frame after frame; raises ``EOFError`` when it ends inside a frame."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__()
        self._raw = raw
        self._frame: Any = None
        self._input = b""
        self._output = b""

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
        self._output = self._frame.decompress(self._input)
        self._input = b""
        if self._frame.eof:
            self._input, self._frame = self._frame.unused_data, None
        return True

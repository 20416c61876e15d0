"""Mends JSON as profilers really write it, so that a strict parser reads on.

Python and C write ``NaN``, ``Infinity``, ``nan`` and ``-inf`` for numbers that are none, names of kernels
have control characters, bytes that are no UTF-8 and backslashes that escape nothing, scripts leave a comma
behind the last event, editors put a mark at the beginning, and Windows writes UTF-16. None of these is JSON,
and each would end the reading there.
"""

import codecs
import re
from typing import Protocol

from dutycycle.encodings import encoding_by_mark

_WORD = re.compile(rb"[-+\w()]*\Z").search
_ESCAPE = re.compile(rb"\\u?[0-9a-fA-F]{0,4}\Z").search
"""What may go on in the next bytes."""
_LONGEST_WORD = 16
_NO_NUMBER = re.compile(rb"(?<!\w)[-+]?(?:nan(?:\(\w*\))?|inf(?:inity)?)(?!\w)", re.IGNORECASE)
_NO_ESCAPE = re.compile(rb"\\(?![/bfnrt]|u[0-9a-fA-F]{4})")
_LAST_COMMA = re.compile(rb",(?=[ \t\r\n]*[\]}])")
_CONTROL = bytes(range(32))
_SPACES = bytes.maketrans(_CONTROL, b" " * 32)
_QUOTE, _BACKSLASH = b"\xff\xfe", b"\xff\xfd"
"""Stand for what is escaped, while strings are told from the rest: no UTF-8 has these bytes."""
_LONGEST_MARK = 4


class ByteSource(Protocol):
    """Gives bytes, and none at the end."""

    def read(self, size: int, /) -> bytes: ...


class LenientJson:
    """Gives the bytes of ``source`` with ``null`` for what is no number, and strings that a parser reads.

    What is cut off stays cut off.
    """

    def __init__(self, source: ByteSource) -> None:
        self._source = source
        self._decoder: codecs.IncrementalDecoder | None = None
        self._in_string = False
        self._rest = b""
        self._ready = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        """Give at most ``size`` bytes, and none only at the end."""
        while size and not self._ready and not (self._ended and not self._rest):
            chunk = b"" if self._ended else self._source.read(max(size, 1))
            self._ended = self._ended or not chunk
            if self._decoder is None:
                while len(chunk) < _LONGEST_MARK and (more := self._source.read(_LONGEST_MARK - len(chunk))):
                    chunk += more
                self._decoder = codecs.getincrementaldecoder(encoding_by_mark(chunk) or "utf-8")("replace")
            self._rest += self._decoder.decode(chunk, self._ended).encode()
            self._ready = self._mend()
        given, self._ready = self._ready[:size], self._ready[size:]
        return given

    def _mend(self) -> bytes:
        """Take what was read, but not what may go on in the next bytes."""
        end = len(self._rest)
        if not self._ended:
            word = _WORD(self._rest, max(end - _LONGEST_WORD, 0))
            end = word.start() if word else end
            escape = _ESCAPE(self._rest[:end], max(end - _LONGEST_WORD, 0))
            end = len(self._rest[: escape.start() if escape else end].rstrip(b"\\"))
            before = self._rest[:end].rstrip(b" \t\r\n")
            end = len(before) - 1 if before.endswith(b",") else end
        text, self._rest = self._rest[:end], self._rest[end:]
        escapes = b"\\" in text
        if escapes:
            text = text.replace(rb"\\", _BACKSLASH).replace(rb"\"", _QUOTE)
            text = _NO_ESCAPE.sub(_BACKSLASH, text)
        pieces = text.split(b'"')
        strings, others = slice(not self._in_string, None, 2), slice(self._in_string, None, 2)
        self._in_string ^= len(pieces) % 2 == 0
        joined, words = b"".join(pieces[strings]), b'"'.join(pieces[others]).lower()
        has_control = len(joined.translate(None, _CONTROL)) < len(joined)
        if has_control:
            pieces[strings] = [piece.translate(_SPACES) for piece in pieces[strings]]
        has_no_number = b"nan" in words or b"inf" in words
        if has_no_number:
            pieces[others] = [_NO_NUMBER.sub(b"null", piece) for piece in pieces[others]]
        has_last_comma = _LAST_COMMA.search(words) is not None
        if has_last_comma:
            pieces[others] = [_LAST_COMMA.sub(b"", piece) for piece in pieces[others]]
        if has_control or has_no_number or has_last_comma:
            text = b'"'.join(pieces)
        return text.replace(_QUOTE, rb"\"").replace(_BACKSLASH, rb"\\") if escapes else text

"""Tells how a text file is encoded: what programs and people hand over is not always UTF-8."""

import codecs
import re

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
"""The one of UTF-32 begins with the one of UTF-16."""
_NO_TEXTS = (
    (b"\x1f\x8b", "is packed by gzip: unpack it"), (b"\x28\xb5\x2f\xfd", "is packed by zstd: unpack it"),
    (b"\xfd7zXZ", "is packed by xz: unpack it"), (b"BZh", "is packed by bzip2: unpack it"),
    (b"PK\x03\x04", "is a zip archive: unpack it"),
    (b"version https://git-lfs.github.com/", "is a pointer of Git LFS: git lfs pull"),
)  # fmt: skip
_BESIDE_A_LETTER = re.compile("(?<=[^\0-\x7f])\ufffd|\ufffd(?=[^\0-\x7f])").findall


def encoding_by_mark(head: bytes) -> str | None:
    """Tell how a file is encoded from its byte order mark; None for one without."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if head.startswith(mark)), None)


def explain_packed(head: bytes) -> str | None:
    """Tell from its first bytes that a file stands for its text, or has it packed, and what to do; None for
    others."""
    return next((reason for mark, reason in _NO_TEXTS if head.startswith(mark)), None)


def encoding_of(head: bytes) -> str:
    """Tell how a file is encoded from its first bytes.

    PowerShell writes UTF-16, editors of Windows a mark before UTF-8, and older programs cp1252. A wrong byte
    takes UTF-8 neither from a heading that has letters of it nor from a text that has more of them.
    """
    if (encoding := encoding_by_mark(head)) is not None:
        return encoding
    even, odd = head[::2].count(0), head[1::2].count(0)
    # Of digits and Latin letters every second byte is 0; in a hole that a crash left each is. A first line
    # without one is of single bytes, to which PowerShell has added.
    is_wide = b"\0" in head.partition(b"\n")[0]
    if is_wide and max(even, odd) > len(head) / 4 and min(even, odd) < max(even, odd) / 4:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)  # it may end within a character
    except UnicodeDecodeError:
        texts = (part.decode("utf-8", "replace") for part in (head.partition(b"\n")[0], head))
        return "utf-8" if any(map(_is_mostly_utf8, texts)) else "cp1252"
    return "utf-8"


def _is_mostly_utf8(text: str) -> bool:
    """Tell whether a text, read as UTF-8, has more letters beyond ASCII than wrong bytes.

    A wrong byte beside such a letter, or another one, counts three times: a word of Big5 is wrong bytes, and
    letters by chance.
    """
    wrong = text.count("\N{REPLACEMENT CHARACTER}") + len(_BESIDE_A_LETTER(text))
    return sum(not letter.isascii() for letter in text) > 2 * wrong

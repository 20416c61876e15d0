"""Tells how a text file is encoded: what programs and people hand over is not always UTF-8."""

import codecs

_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
"""The one of UTF-32 begins with the one of UTF-16."""


def encoding_by_mark(head: bytes) -> str | None:
    """Tell how a file is encoded from its byte order mark; None for one without."""
    return next((encoding for mark, encoding in _BYTE_ORDER_MARKS if head.startswith(mark)), None)


def encoding_of(head: bytes) -> str:
    """Tell how a file is encoded from its first bytes.

    PowerShell writes UTF-16, editors of Windows a mark before UTF-8, and older programs cp1252.
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
        return "cp1252"
    return "utf-8"

"""Gives the lines of a log, however it is packed and encoded, and tells logs of formats that are not read."""

import bz2
import codecs
import gzip
import io
import json
import lzma
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import zstandard

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.trace_reader import ZstdReader
from dutycycle.encodings import encoding_of
from dutycycle.imports.table.json_log import flat_lines, is_json
from dutycycle.imports.table.spellings import read_meaning

LONGEST_LINE = 64 * 1024
_TIME = r"\d{4}-\d\d-\d\dT[\d:.]{8,}(?:Z|[-+]\d\d:?\d\d) "
_BEFORE_LINES = (
    (re.compile(r"\[pod/\S+\] ").match, re.compile(rf"\[pod/\S+\] (?:{_TIME}(?=[A-Za-z\d]))?")),
    (re.compile(rf"{_TIME}std(?:out|err) [FP] ").match, re.compile(rf"{_TIME}std(?:out|err) [FP] ")),
    (re.compile(rf"{_TIME}[A-Za-z][^,;\t]*[,;\t]").match, re.compile(_TIME)),
)
"""How the first line tells, and what stands before each, in the log of a container: as ``kubectl logs
--prefix``, a runtime's file, and ``kubectl logs --timestamps`` have it. A time alone is the line's own, but
before a heading."""
_OF_DOCKER = re.compile(r'\{"log": ?"').match
_HEAD_BYTES = 4096
_MOST_BEFORE = 20
"""Lines that a program may write before its log, such as a warning or its settings."""
_BEGINS_NO_JSON = tuple("|+#=")
_BEGINS_A_TABLE = (*_BEGINS_NO_JSON, *'0123456789"')
_PACKED: tuple[tuple[bytes, Callable[[Any], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"\x28\xb5\x2f\xfd", lambda raw: io.BufferedReader(ZstdReader(raw))),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"BZh", bz2.open),
)  # fmt: skip
"""How a packed file begins, and what unpacks it."""
_DAMAGE = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
_AROUND = " \r\n\t\0"
_NULS = re.compile("\0+")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[A-Za-z]|\([A-Z0-9])")
"""What a terminal takes for colors and places, as ``script`` and ``watch`` write them to a file."""
_PLAIN = b"\t\n\r" + bytes(range(32, 127))
_PAIRS = re.compile(f"[{''.join(chr(high << 8 | low) for high in _PLAIN for low in _PLAIN)}]{{8,}}")
"""Characters of UTF-16 that are two of ASCII: so many in a row are no word of any language."""
_OTHER_ENCODINGS = ("gb18030", "cp932", "big5", "cp949", "cp1251", "koi8-r", "cp866")
"""Of Chinese, Japanese, Chinese again, Korean and Russian Windows and terminals."""
_NOT_WESTERN = re.compile(r"[^\0-\x7f]{3}").search
"""Of letters with accents, and of signs such as the degree, no Western word has three in a row."""
_CELLS = re.compile(r"[,;\t|]").split
_BEGINS_WITH_A_DIGIT = re.compile(r'[ "]*[0-9]').match
_SMI = (
    "of nvidia-smi its CSV (--query-gpu=timestamp,index,… --format=csv -l 1), table, text and XML of -q, "
    "dmon and pmon are read"
)
_BINARY = (
    (b"PAR1", "is Parquet"),
    (b"ARROW1", "is a file of Arrow"),
    (b"SQLite format 3\0", "is a database of SQLite"),
    (b"\x89HDF\r\n", "is HDF5"),
    (b"\x80\x04\x95", "is a pickle of Python"),
    (b"\x80\x05\x95", "is a pickle of Python"),
    (b"FEA1", "is a file of Feather"),
    (b"ORC", "is ORC"),
    (b"Obj\x01", "is Avro"),
    (b"\x93NUMPY", "is an array of NumPy"),
    (b"\xd0\xcf\x11\xe0", "is a workbook of Excel"),
)
"""How files of tables begin that are no text."""
_CONTROL = bytes(range(1, 7)) + bytes(range(14, 27)) + bytes(range(28, 32)) + b"\x7f"
"""What no text has, also none that a terminal wrote; NULs stand where a crash lost text."""
_MOST_CONTROL = 0.02
_IS_XML = re.compile(r"<(\?xml|!DOCTYPE|html)").match
_IS_A_PROFILE = re.compile(
    rb'(?:\xef\xbb\xbf)?\s*(?:\{.*"traceEvents"|\[\s*\{[^{}]*"ph": *"[A-Za-z]"'
    rb'|\{\s*"schemaVersion": *\d+,\s*"'
    rb'(?:deviceProperties|distributedInfo|record_shapes|with_\w+|cu\w+_version)")',
    re.DOTALL,
).match
"""As PyTorch and other programs begin a trace for Chrome: an object, or the events alone."""
_OTHER_FORMATS = (
    (re.compile(r"PK\x03\x04").match, "is a zip archive, or a workbook: unpack it, or save it as CSV"),
    (re.compile(r"=+ *ROCm").match,
     "is text of rocm-smi: give CSV with a heading, and --columns util=NAME,mem_used=NAME[MiB]"),
    (re.compile(r'\{"topic": ?"').match, "is a trace already: dutycycle replay FILE"),
    (re.compile(r'\{"status": ?"(?:success|error)"|\{"(?:data": ?\{")?resultType"'
                r'|\[?\{"metric": ?\{.*\}, ?"values?": ?\[').match,
     "is an answer of Prometheus: see dutycycle record --from-prometheus"),
    (re.compile(r"# (HELP|TYPE) |[A-Za-z_:][\w:]*\{(?:\w+=\"[^\"]*\",? ?)+\} [-+\dNI]").match,
     "is a page of a Prometheus exporter: see dutycycle record --from-prometheus"),
    (re.compile(r"[\w.-]+(?:,[\w.-]+=[^ ,]+)+ [\w.-]+=\S+ \d{10,19}$").match,
     "is line protocol of InfluxDB: write its values as CSV with a heading, a column each"),
    (re.compile(r"Time,[-\d]+ ?[\d:.]*,Watts,").match,
     "is a log of a power meter (PTDaemon): it measures a whole machine, and no GPU"),
    (re.compile(r"version https://git-lfs\.github\.com/").match, "is a pointer of Git LFS: git lfs pull"),
    (re.compile(r":W&B").match, "is a run of Weights & Biases: dutycycle import wandb FILE"),
)  # fmt: skip
"""How a log begins that no reader reads, and what to do with it."""


def _count_known(heading: str) -> int:
    """Count the columns of a heading that are known."""
    return sum(read_meaning(cell.strip(' "')) is not None for cell in _CELLS(heading))


class LogFile:
    """Reads one log: plain, or packed by gzip, zstd, xz or bzip2, in UTF-8, UTF-16, UTF-32 or cp1252, or in
    the encoding in which its heading has words that are known.

    It can be read several times. A pipe gives its bytes once, and so they are kept in ``folder``; without one
    it can be read once. ``damage`` is what ended a packed file before its end; absent for one that is whole.
    ``is_json``: known once its first line is read.
    """

    def __init__(self, path: str, folder: Path | None = None) -> None:
        self.path = path
        self.damage: str | None = None
        self.is_json = False
        self._bytes = Path(path)
        if folder is not None and not self._bytes.is_file():
            with self._bytes.open("rb") as pipe, NamedTemporaryFile(dir=folder, delete=False) as kept:
                shutil.copyfileobj(pipe, kept)
            self._bytes = Path(kept.name)

    def read_lines(self) -> Iterator[tuple[int, str]]:
        """Give the lines with their numbers and their ends: the last may have none.

        NULs stand where a crash lost what was written, or where a log was emptied that is written on: what is
        before them is a line without an end. Of JSON a line is an object; what a program says before it is as
        it is, and so are its settings in JSON above a table. Raises ``DutycycleError`` for an archive, and
        for a file that no reader reads, by its first line with text.
        """
        lines = self._read_text()
        head: list[tuple[int, str]] = []
        begin: int | None = None
        for number, line in lines:
            text = line.strip(_AROUND)
            head.append((number, line))
            if begin is not None:  # settings in JSON, if the heading of a table comes below
                if text.startswith(_BEGINS_NO_JSON) or (text[:1].isalpha() and _count_known(text) > 1):
                    begin = None
                    break
            elif is_json(text):
                begin = len(head) - 1
                if all(before.isspace() for _, before in head[:begin]):
                    break
            elif text.startswith(_BEGINS_A_TABLE) or _count_known(text):
                break
            if len(head) >= _MOST_BEFORE:
                break
        self.is_json = begin is not None
        if begin is None:
            yield from chain(head, lines)
        else:
            yield from head[:begin]
            yield from flat_lines(chain(head[begin:], lines))

    def _read_text(self) -> Iterator[tuple[int, str]]:
        with self._bytes.open("rb") as raw:
            head = raw.peek(_HEAD_BYTES)
            unpack = next((unpack for mark, unpack in _PACKED if head.startswith(mark)), None)
            stream = raw if unpack is None else unpack(raw)
            try:
                head = stream.peek(_HEAD_BYTES)[:_HEAD_BYTES]
                if head[257:262] == b"ustar":
                    raise DutycycleError(f"{self.path} is a tar archive: unpack it")
                if binary := next((what for mark, what in _BINARY if head.startswith(mark)), None):
                    raise DutycycleError(f"{self.path} {binary}: write its values as CSV with a heading")
                encoding = encoding_of(head)
                if encoding == "cp1252":
                    encoding = self._encoding_of_heading(head)
                text = io.TextIOWrapper(stream, encoding, errors="replace", newline=None)
                if encoding == "utf-16" and head.startswith(codecs.BOM_UTF16_BE):
                    encoding = "utf-16-be"
                begun = False
                for number, line in _unwrapped(enumerate(_lines_of(text, encoding), start=1)):
                    if not begun:
                        self._check_format(line.strip(_AROUND), head, encoding)
                        begun = not line.isspace()
                    if "\0" in line:
                        yield from ((number, part) for part in _NULS.split(line) if part)
                    else:
                        yield number, line
            except _DAMAGE as error:
                if unpack is None:
                    raise
                self.damage = f"cannot be unpacked to its end: {error}; what comes before is read"

    def _encoding_of_heading(self, head: bytes) -> str:
        """Tell the encoding of a log that is in none of Unicode, by its heading. Raises ``DutycycleError``
        where none has a known word: whatever is said of its columns could not be read."""
        heading, *below = head.strip(_AROUND.encode()).splitlines()
        cells = _CELLS(heading.decode("cp1252", "replace"))
        is_heading = len(cells) > 1 and not any(map(_BEGINS_WITH_A_DIGIT, cells))
        if not is_heading or heading[:1] in b"[{" or not any(map(_NOT_WESTERN, cells)):
            return "cp1252"
        known = Counter[str]()
        for encoding in ("cp1252", *_OTHER_ENCODINGS):
            with suppress(UnicodeDecodeError):
                known[encoding] = _count_known(heading.decode(encoding))
        for encoding, words_known in known.most_common(1):
            if words_known:
                return encoding
        if any(_count_known(line.decode("cp1252", "replace")) for line in below):
            return "cp1252"  # the heading stands below a title, in letters that all encodings have
        raise DutycycleError(
            f"{self.path}: its heading is neither in UTF-8 nor in a language that is known: convert it from "
            "the encoding that it was written in, such as SHIFT_JIS, GB18030, EUC-KR or KOI8-R: iconv -f "
            "ENCODING -t UTF-8 FILE > NEW, and say which column is which: --columns time=NAME,util=NAME"
        )

    def _check_format(self, line: str, head: bytes, encoding: str) -> None:
        for matches, sentence in _OTHER_FORMATS:
            if matches(line):
                raise DutycycleError(f"{self.path} {sentence}")
        if _IS_XML(line) and b"nvidia_smi_log" not in head.replace(b"\0", b""):
            raise DutycycleError(f"{self.path} is XML, and not of nvidia-smi -q -x: {_SMI}")
        if _IS_A_PROFILE(head):
            raise DutycycleError(f"{self.path} is a profile: dutycycle profile FILE")
        controls = len(head) - len(head.translate(None, _CONTROL))
        if not encoding.startswith(("utf-16", "utf-32")) and controls > _MOST_CONTROL * len(head):
            raise DutycycleError(f"{self.path} is no text: unpack it, or write its values as CSV")


def _unwrapped(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Give the lines as their program wrote them, where the log is that of a container.

    What is written in another way than the first line stays as it is.
    """
    prefix: re.Pattern[str] | None = None
    begun = of_docker = False
    for number, line in lines:
        if not begun and not line.isspace():
            begun, of_docker = True, _OF_DOCKER(line) is not None
            prefix = next((pattern for tells, pattern in _BEFORE_LINES if tells(line)), None)
        text = line
        if of_docker:
            with suppress(ValueError, KeyError, TypeError):
                text = str(json.loads(line)["log"])
        elif prefix is not None and (match := prefix.match(line)):
            text = line[match.end() :]
        yield number, text


def _lines_of(text: io.TextIOWrapper, encoding: str) -> Iterator[str]:
    """Give the lines of a file in ``encoding``, also where another program went on with another.

    PowerShell adds UTF-16 to whatever is there (``>>``), and others add single bytes to its UTF-16. Codes for
    a terminal are no part of a line.
    """
    narrow, rest = "utf-16-be" if encoding.endswith("be") else "utf-16-le", ""

    def undo(pairs: re.Match[str]) -> str:
        return pairs[0].encode(narrow).decode("ascii").replace("\r\n", "\n").replace("\r", "\n")

    while line := text.readline(LONGEST_LINE):
        if "\x1b" in line:
            line = _ESCAPES.sub("", line)
        if "\0" in line and "\0\0" not in line and 3 * line.count("\0") >= len(line):
            line = line.replace("\0", "").lstrip("\ufffd\ufeffÿþ")  # the mark of UTF-16
        if not encoding.startswith("utf-16") or line.isascii() or not _PAIRS.search(line):
            line, rest = rest + line, ""
            if line:
                yield line
            continue
        *lines, rest = re.split(r"(?<=\n)", rest + _PAIRS.sub(undo, line))
        yield from lines
    if rest:
        yield rest

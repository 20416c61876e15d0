"""Reads records that differ from an earlier one in their numbers alone, without decoding them.

From tick to tick a node sends the same JSON with other numbers. So a record that was decoded becomes a
*template*: its text, with a gap for each number that may change, and what those have to be. The next record
is compared with the text, and the numbers are read out of it. A record that does not fit in every byte, or
has a number that is out of range or is written in an unusual way, is decoded as if there were no template: so
one can never be accepted here that would be refused there, and the numbers are the same to the last bit.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from msgspec import inspect

from dutycycle.contract.codec import decode
from dutycycle.contract.records.base import TickRecord
from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints, keep_once
from streams.operators.columns.series import Series
from streams.operators.columns.tick import Layout, TickRow

R = TypeVar("R", bound=TickRecord)
Cells = Iterable[float | None]
Pairs = Sequence[Sequence[float]]
Range = tuple[float, float, bool]
"""Least and largest value, and whether it has to be whole."""

MOST_DIGITS = 15
"""A number of so many digits is exact, and so is a power of ten up to that; their ratio is rounded once."""
_POWERS = 10.0 ** np.arange(MOST_DIGITS + 1)
WORTH = 16
"""A template costs as much as it saves in so many records."""
MOST_PASSED = 1024
"""Records that are decoded, at most, before a template is made again, where templates never fit for long."""
_MOVING = ("seq", "ts_ms")
"""The numbers of a record itself that change."""
_STEP = 2.0**-20
"""Numbers are told from one another as multiples of this: no constant of a record is one, as all of them are
below 1."""
_MINUS, _POINT, _ZERO, _COMMA, _OPEN, _CLOSE = (ord(character) for character in "-.0,[]")
_SHORTEST = len("[0,0],")
"""Bytes of a pair."""
_NO_PAIRS, _NO_ENDS = np.empty((0, 2)), np.empty(0, np.int64)
_GAP = re.compile(
    rb'"(?P<text>[^"]*)"\s*(?P<key>:)?'
    rb"|(?P<pairs>\[\[[^]\"]*\](?:,\[[^]\"]*\])*\])"
    rb"|(?P<number>-?[0-9][0-9.eE+-]*)"
)


class GapValues(NamedTuple):
    """Holds what a record has in its gaps. ``cells``: as ``cells_of`` would take them out of it, NaN is
    absent. ``pairs``: those of all lists of pairs in it, in their order, shape (n, 2); ``pair_ends``: where
    each list ends there, of use until the next record is read."""

    seq: int
    ts_ms: int
    cells: Floats
    pairs: Floats = _NO_PAIRS
    pair_ends: Ints = _NO_ENDS

    def lists(self) -> list[Floats]:
        """Return each list of pairs."""
        return [self.pairs[begin:end] for begin, end in pairwise((0, *self.pair_ends.tolist()))]


@kernel
def _number(data: Any, at: int) -> tuple[float, int, bool]:
    """Return the number that begins ``at``, where it ends (-1: it is none, or not written plainly), and
    whether it is whole."""
    negative = at < data.size and data[at] == _MINUS
    begin = at = at + 1 if negative else at
    mantissa, digits, point = 0, 0, -1
    while at < data.size:
        digit = int(data[at]) - _ZERO
        if 0 <= digit <= 9:
            mantissa = mantissa * 10 + digit
            digits += 1
        elif data[at] == _POINT and point < 0:
            point = digits
        else:
            break
        at += 1
        if digits > MOST_DIGITS:
            break
    whole = point if point >= 0 else digits
    plain = whole > 0 and point != digits and digits <= MOST_DIGITS
    if not plain or (data[begin] == _ZERO and whole > 1) or (negative and mantissa == 0):
        return 0.0, -1, False
    value = mantissa / _POWERS[digits - whole]
    return -value if negative else value, at, point < 0


@kernel
def _is(data: Any, at: int, byte: int) -> bool:
    return bool(at < data.size and data[at] == byte)


@kernel
def _pairs(data: Any, at: int, of_it: Floats, pairs: Floats, count: int) -> tuple[int, int]:
    """Read ``[[whole,number],…]`` into ``pairs`` from ``count`` on. Where it ends (-1: it is none), and how
    many there are then."""
    if not _is(data, at, _OPEN):
        return -1, count
    while True:
        if not _is(data, at + 1, _OPEN):
            return -1, count
        moment, at, whole = _number(data, at + 2)
        if not whole or not _is(data, at, _COMMA):
            return -1, count
        value, at, _ = _number(data, at + 1)
        if at < 0 or not of_it[0] <= value <= of_it[1] or not _is(data, at, _CLOSE):
            return -1, count
        pairs[count, 0], pairs[count, 1] = moment, value
        count, at = count + 1, at + 1
        if _is(data, at, _CLOSE):
            return at + 1, count
        if not _is(data, at, _COMMA):
            return -1, count


@entry(
    "boolean(Array(uint8, 1, 'C', readonly=True), Array(uint8, 1, 'C', readonly=True), int64[::1],"
    " float64[:, ::1], float64[::1], float64[:, ::1], int64[::1])"
)
def _fill(
    data: Any, text: Any, ends: Ints, ranges: Floats, numbers: Floats, pairs: Floats, pair_ends: Ints
) -> bool:
    """Read the gaps of ``data`` into ``numbers`` and ``pairs``; whether all of it is as in the template.

    ``text``: all of the template but its gaps, of which each comes where the text is at one of ``ends``, and
    has a row in ``ranges``: least and largest value, whether it is whole, and whether it is a list of pairs.
    """
    at = begin = number = lists = count = 0
    for gap in range(ends.size):
        length = ends[gap] - begin
        if at + length > data.size:
            return False
        other, piece, expected = np.uint8(0), data[at : at + length], text[begin : begin + length]
        for place in range(length):  # of slices, whose places are never negative: many bytes at once
            other |= piece[place] ^ expected[place]
        if other != 0:
            return False
        begin, at = begin + length, at + length
        if gap == len(ranges):
            break
        of_it = ranges[gap]
        if of_it[3] == 0.0:
            value, at, whole = _number(data, at)
            if at < 0 or not of_it[0] <= value <= of_it[1] or (of_it[2] == 1.0 and not whole):
                return False
            numbers[number] = value
            number += 1
        else:
            at, count = _pairs(data, at, of_it, pairs, count)
            if at < 0:
                return False
            pair_ends[lists] = count
            lists += 1
    return bool(at == data.size)


class _Template:
    """Holds a record's text with gaps, and which cells the numbers in these are."""

    def __init__(self, data: bytes, fields: "_Fields") -> None:
        begin, key = 0, ""
        self._pieces: list[bytes] = []
        self._given: list[bytes] = []
        self._rows: list[tuple[float, float, float, float]] = []
        names: list[str] = []
        for match in _GAP.finditer(data):
            if match["key"]:
                key = match["text"].decode()
            kinds = fields.numbers if match["number"] else fields.lists if match["pairs"] else {}
            if key in kinds:
                self._pieces.append(data[begin : match.start()])
                self._given.append(match.group())
                self._rows.append((*kinds[key], float(kinds is fields.lists)))
                names += [] if kinds is fields.lists else [key]
                begin = match.end()
        self._pieces.append(data[begin:])
        self._text = np.frombuffer(b"".join(self._pieces), np.uint8)
        self._ends = keep_once(np.cumsum([len(piece) for piece in self._pieces]))
        self._ranges = keep_once(np.array(self._rows, np.float64).reshape(-1, 4))
        if any(names.count(name) != 1 for name in _MOVING):
            raise ValueError("the record has parts of which nothing is known, with names of its own")
        self._seq, self._ts_ms = (names.index(name) for name in _MOVING)
        self._pair_ends = np.zeros(len(self._rows) - len(names), np.int64)
        self._numbers, self._cells = np.zeros(len(names)), np.zeros(0, np.int64)

    def numbered(self) -> bytes:
        """Return the record with the multiple of ``_STEP`` in each gap that tells which number is there."""
        number, parts = 0, [self._pieces[0]]
        for given, row, piece in zip(self._given, self._rows, self._pieces[1:], strict=True):
            number += not row[3]
            parts += [given if row[2] or row[3] else repr(number * _STEP).encode(), piece]
        return b"".join(parts)

    def bind(self, cells: Cells) -> None:
        """Know which numbers the ``cells`` of the numbered record are; constants come after the numbers."""
        count = self._numbers.size
        places: list[int] = []
        constants: list[float] = []
        for cell in cells:
            number = 0.0 if cell is None else cell / _STEP
            if 1 <= number <= count and number.is_integer():
                places.append(int(number) - 1)
            else:
                places.append(count + len(constants))
                constants.append(np.nan if cell is None else cell)
        self._cells = keep_once(np.array(places, np.int64))
        self._numbers = np.append(self._numbers, constants)
        self._pieces, self._given, self._rows = [], [], []  # the text is kept once

    def read(self, data: bytes) -> GapValues | None:
        """Return what is in the gaps; None if the record does not fit."""
        lists = self._pair_ends.size
        pairs = np.empty((len(data) // _SHORTEST, 2)) if lists else _NO_PAIRS
        raw, numbers = np.frombuffer(data, np.uint8), self._numbers
        if not _fill(raw, self._text, self._ends, self._ranges, numbers, pairs, self._pair_ends):
            return None
        seq, ts_ms = int(numbers[self._seq]), int(numbers[self._ts_ms])
        return GapValues(seq, ts_ms, numbers.take(self._cells), pairs, self._pair_ends)


class TickReader(ABC, Generic[R]):
    """Turns the records of one node and topic into ticks. Keeps the layout of the last that was decoded and,
    if that was worth it, its template: so an unchanged node costs no look-up.

    ``cells_of``: the numbers of a record that are read, None is absent. Each is one of the record as it is,
    or depends on none that may change. ``pairs_of``: its lists of pairs that are not empty, in order.
    """

    def __init__(
        self, record_type: type[R], topic: str, cells_of: Callable[[R], Cells],
        pairs_of: Callable[[R], list[Pairs]] = lambda _: [],
    ) -> None:  # fmt: skip
        self._record_type, self._topic = record_type, topic
        self._cells_of, self._pairs_of = cells_of, pairs_of
        self._fields = _fields_of(record_type)
        self._template: _Template | None = None
        self._fitted = self._passed = 0
        self._patience = 1
        self._collector, self._interval_ms = "", 0
        self._layout: Layout

    def read(self, sample: R, data: bytes = b"") -> TickRow:
        """Return the tick in columns. ``data``: the record that it was decoded from."""
        self._learn(data, sample)
        self._collector, self._interval_ms = sample.collector, sample.interval_ms
        return self._tick(self._take(sample))

    def read_unchanged(self, data: bytes | None) -> TickRow | None:
        """Return the tick of a record that differs from the last one in numbers alone; None of another one,
        which is to be decoded."""
        record = None if self._template is None or data is None else self._template.read(data)
        if record is None:
            self._template = None  # what is known of the last record will be of another one
            return None
        self._fitted += 1
        return self._tick(record)

    def _tick(self, record: GapValues) -> TickRow:
        row, bursts = self._row(record), self._bursts_of(record)
        return TickRow(
            self._collector, record.seq, record.ts_ms, self._interval_ms, self._layout, row, bursts
        )

    @abstractmethod
    def _take(self, sample: R) -> GapValues:
        """Return what a template would read of the sample, and lay out columns anew where it has others."""

    @abstractmethod
    def _row(self, record: GapValues) -> Floats:
        """Return all numbers of a tick, as of ``TickRow``."""

    def _bursts_of(self, record: GapValues) -> tuple[tuple[Series, Any], ...]:
        """Return the driver's own samples, as of ``TickRow``."""
        return ()

    def _learn(self, data: bytes, record: R) -> None:
        """Take the record that was decoded as the template. If those before were of little use, only one of
        twice as many is taken each time."""
        self._template = None
        self._passed += 1
        if self._passed < self._patience:
            return
        self._patience = 1 if self._fitted >= WORTH else min(2 * self._patience, MOST_PASSED)
        self._fitted = self._passed = 0
        if b"\\" in data or not data.isascii():
            return
        try:
            template = _Template(data, self._fields)
            template.bind(self._cells_of(decode(self._record_type, template.numbered(), self._topic)))
        except ValueError:  # a name stands where the record's type has none of that name
            return
        numbers = template.read(data)
        if numbers is None:
            return
        # What is read out of the text has to be what was decoded; lists may stand in another order.
        cells = np.array([*self._cells_of(record)], np.float64)
        lists = [[[*pair] for pair in pairs] for pairs in self._pairs_of(record)]
        if np.array_equal(numbers.cells, cells, equal_nan=True) and lists == [
            pairs.tolist() for pairs in numbers.lists()
        ]:
            self._template = template


class _Fields(NamedTuple):
    """Lists the fields of a record and its parts that hold a number which may change, or a list of pairs."""

    numbers: dict[str, Range]
    lists: dict[str, Range]


def _all_of(record_type: Any) -> _Fields:
    """Return the fields that may change. What is a whole number everywhere stays: it counts or names
    something. But for those of the record itself."""
    numbers: dict[str, Range] = {}
    lists: dict[str, Range] = {}
    whole: dict[str, Range] = {}
    for name, kind in _all_fields(inspect.type_info(record_type)):
        if isinstance(kind, inspect.FloatType):
            _narrow(numbers, name, kind, False)
        elif isinstance(kind, inspect.IntType):
            _narrow(whole, name, kind, True)
        elif isinstance(kind, inspect.VarTupleType) and isinstance(kind.item_type, inspect.TupleType):
            for alternative in _alternatives(kind.item_type.item_types[1]):
                _narrow(lists, name, alternative, False)
    return _Fields(numbers | {name: whole[name] for name in _MOVING}, lists)


_fields_of: Callable[[Any], _Fields] = cache(_all_of)


def _narrow(known: dict[str, Range], name: str, kind: Any, whole: bool) -> None:
    """Narrow the range of all fields of one name: what is in it is in that of each of them."""
    low, high, _ = known.get(name, (-np.inf, np.inf, whole))
    low = low if kind.ge is None else max(low, kind.ge)
    high = high if kind.le is None else min(high, kind.le)
    known[name] = low, high, whole


def _all_fields(kind: Any) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a record and of its parts, each with one of the types that it may have."""
    for alternative in _alternatives(kind):
        if isinstance(alternative, inspect.StructType):
            for field in alternative.fields:
                yield from ((field.encode_name, other) for other in _alternatives(field.type))
                yield from _all_fields(field.type)
        elif isinstance(alternative, inspect.VarTupleType):
            yield from _all_fields(alternative.item_type)


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)

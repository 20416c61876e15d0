"""Counts how often each value came, for percentiles: in buckets that are the same everywhere, so that counts
add up.

Below 128 a bucket is a whole number; from there on each doubling has 32 of them. So a value is off by at most
0.5 or 1/64 of itself, whichever is more. The buckets are like those of HdrHistogram; the guarantee is that of
DDSketch (Masson et al., DDSketch: A Fast and Fully-Mergeable Quantile Sketch, VLDB 2019), but without its
logarithm, whose last bit depends on the machine.

As bytes a histogram is pairs of integers of variable length (7 bits a byte, the last byte is below 128): how
far a bucket is from the one before, and its count. A zero in place of a distance begins another histogram:
those that are joined by it count together.
"""

from collections.abc import Iterable
from itertools import pairwise
from math import frexp
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bytes, Floats, Ints, bytes_of

PAGE = 32
PAGES = 64
"""A page has the counts of 32 buckets, of one doubling of the value; so far go the values, 2 ** 67."""
_LINEAR = 128
_MOST_BYTES = 8
"""Two for the distance and five for a count of 32 bits, with room."""
Places = npt.NDArray[np.int32]
Counts = npt.NDArray[np.uint32]


def bucket_of(value: float) -> int:
    """Return the bucket of a value; below zero counts as zero."""
    if value < _LINEAR:
        return max(int(value + 0.5), 0)
    mantissa, exponent = frexp(value)
    return min(_LINEAR + (exponent - 9) * PAGE + int(mantissa * 2 * PAGE + 0.5), PAGE * PAGES - 1)


def value_of(bucket: int) -> float:
    """Return the value that stands for a bucket."""
    if bucket < _LINEAR:
        return bucket
    doublings, step = divmod(bucket - _LINEAR, PAGE)
    return (PAGE + step) * 2.0 ** (doublings + 2)


_bucket = kernel(bucket_of)


@entry("int64(int32[:, ::1], int64, int64[::1], float64[:, ::1])")
def _place(places: Places, used: int, rows: Ints, values: Floats) -> int:
    """Give each value, shape (ticks, m), its page; ``rows`` as in ``Histograms.with_room``. How many pages
    are used then; so far ``used`` were."""
    for tick in range(len(values)):
        for at in range(len(rows)):
            if rows[at] >= 0 and not np.isnan(values[tick, at]):
                page = _bucket(values[tick, at]) // PAGE
                if places[rows[at], page] < 0:
                    places[rows[at], page] = used
                    used += 1
    return used


@kernel
def count(places: Places, pages: Counts, row: int, value: float) -> None:
    """Count a value that has a page in the histogram ``row``."""
    bucket = _bucket(value)
    page = places[row, bucket // PAGE]
    if pages[page, bucket % PAGE] < np.uint32(0xFFFFFFFF):
        pages[page, bucket % PAGE] += np.uint32(1)


@kernel
def _put(out: Bytes, at: int, number: int) -> int:
    while number >= 128:
        out[at] = number % 128 + 128
        number //= 128
        at += 1
    out[at] = number
    return at + 1


@entry("void(int32[:, ::1], uint32[:, ::1], uint8[::1], int64[::1])")
def _write(places: Places, pages: Counts, out: Bytes, ends: Ints) -> None:
    """Write each row into ``out``, and where it ends there into ``ends``."""
    at = 0
    for row in range(len(places)):
        last = -1
        for page in range(PAGES):
            if places[row, page] >= 0:
                for step in range(PAGE):
                    number = pages[places[row, page], step]
                    if number > 0:
                        at = _put(out, at, page * PAGE + step - last)
                        at = _put(out, at, number)
                        last = page * PAGE + step
        ends[row] = at


@kernel
def _add(raw: Bytes, counts: Ints) -> None:
    """Add what was written to ``counts``, by bucket. What is no histogram is passed over."""
    bucket, distance, number, shift, second = -1, 0, 0, 0, False
    for byte in raw:
        if shift < 49:
            number += int(byte & 127) << shift
        shift += 7
        if byte >= 128:
            continue
        if second:
            bucket += distance
            if bucket < len(counts):
                counts[bucket] += number
        elif number == 0:
            bucket = -1
        else:
            distance = min(number, len(counts))
        second = not second and number > 0
        number = shift = 0


@entry("int64[::1](uint8[::1])")
def _read(raw: Bytes) -> Ints:
    counts = np.zeros(PAGE * PAGES, np.int64)
    _add(raw, counts)
    return counts


@entry("int64(uint8[::1], int64)")
def _percentile(raw: Bytes, percent: int) -> int:
    """Return the bucket, or -1 without any value."""
    counts = _read(raw)
    left = (percent * counts.sum() + 99) // 100
    last = -1
    for bucket in range(len(counts)):
        if counts[bucket] > 0 and (left > 0 or last < 0):
            last = bucket
            left -= counts[bucket]
    return last


@entry("uint8[::1](uint8[::1])")
def _merge(raw: Bytes) -> Bytes:
    counts = _read(raw)
    out = np.empty(12 * np.count_nonzero(counts), np.uint8)
    last, at = -1, 0
    for bucket in range(len(counts)):
        if counts[bucket] > 0:
            at = _put(out, at, bucket - last)
            at = _put(out, at, counts[bucket])
            last = bucket
    return out[:at]


def merged(histograms: Iterable[bytes]) -> bytes:
    """Return one histogram for several; in whatever order they come, the same bytes."""
    every = list(histograms)
    return every[0] if len(every) == 1 else _merge(bytes_of(b"\0".join(every))).tobytes()


def percentile(histogram: bytes, percent: int) -> float | None:
    """Return the value, as exact as its bucket, that ``percent`` of all values do not exceed (the inverse of
    the empirical distribution: definition 1 of Hyndman and Fan, 1996); None without any."""
    bucket = _percentile(bytes_of(histogram), percent)
    return None if bucket < 0 else value_of(bucket)


class Histograms:
    """Keeps histograms, one a row. ``_places``: where in ``_pages`` the counts of each page of buckets are,
    or -1."""

    def __init__(self) -> None:
        self._places: Places = np.full((0, PAGES), -1, np.int32)
        self._pages: Counts = np.zeros((0, PAGE), np.uint32)
        self._used = 0

    def __len__(self) -> int:
        return len(self._places)

    def with_room(self, size: int, rows: Ints, values: Floats) -> tuple[Places, Counts]:
        """Return what ``count`` needs to count ``values``, shape (ticks, m), in ``rows``, shape (m,), of
        ``size`` in all; -1 counts nowhere."""
        if size > len(self._places):
            more: Places = np.full((size - len(self._places), PAGES), -1, np.int32)
            self._places = np.concatenate((self._places, more))
        self._used = _place(self._places, self._used, rows, values)
        if self._used > len(self._pages):
            pages: Counts = np.zeros((self._used + self._used // 4, PAGE), np.uint32)
            pages[: len(self._pages)] = self._pages
            self._pages = pages
        return self._places, self._pages

    def written(self) -> list[bytes]:
        """Return each row as bytes; empty without a value."""
        out: Bytes = np.empty(self._used * PAGE * _MOST_BYTES, np.uint8)
        ends: Ints = np.zeros(len(self._places), np.int64)
        _write(self._places, self._pages, out, ends)
        raw, all_ends = out[: ends[-1] if len(ends) else 0].tobytes(), [0, *ends.tolist()]
        return [raw[begin:end] for begin, end in pairwise(all_ends)]

    def retain(self, keep: Ints) -> None:
        """Keep only the rows ``keep``, in that order."""
        self._places = self._places[keep]
        there = self._places >= 0
        self._pages = self._pages[self._places[there]]
        self._used = len(self._pages)
        self._places[there] = np.arange(self._used)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {"rows": self.written()}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        rows = plain["rows"]
        counts = np.array([_read(bytes_of(row)) for row in rows]).reshape(len(rows), PAGES, PAGE)
        there = counts.any(axis=2)
        self._pages = counts[there].astype(np.uint32)
        self._used = len(self._pages)
        self._places = np.full((len(rows), PAGES), -1, np.int32)
        self._places[there] = np.arange(self._used)

"""Defines the value types of record fields. A field's unit is the last part of its name; its range is here.

A value that could not be measured is absent (``None`` in the record, no key in the JSON): never 0. A number
stays as it was written, whole or not: ``5`` is not read as ``5.0``.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, TypeVar

from msgspec import Meta

_Number = TypeVar("_Number", int, float)

END_OF_TIME_MS = 4_102_444_800_000
"""2100-01-01. A timestamp past it is in another unit (microseconds, nanoseconds), not in the future."""

MAX_AMOUNT = 1e21
"""No quantity of one machine comes near (a zettabyte); sums and squares of what is below stay finite."""
MAX_INTEGER = 2**63 - 1
"""What Kafka, SQL and numpy hold in an integer."""

NAME_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?\Z"
TEXT_PATTERN = (
    r"[^\x00-\x1f\x7f-\xa0\xad\u061c\u180e\u1680\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff\ufff9-\ufffb"
    r"\U000e0001-\U000e007f]*"
)
"""Nothing that could break a line, hide, or turn the direction of what a terminal or a log shows. All text in
records that are read is of such characters: ``dutycycle.contract.codec`` sees to it."""

MIB, GIB = 1024**2, 1024**3
JOULES_PER_KWH = 3_600_000

Number = int | float
"""Any finite number."""
Pct = Annotated[int, Meta(ge=0, le=100)] | Annotated[float, Meta(ge=0, le=100)]
"""Percent of one device, 0-100."""
Amount = Annotated[int, Meta(ge=0, le=MAX_INTEGER)] | Annotated[float, Meta(ge=0, le=MAX_AMOUNT)]
"""A quantity that is never negative: bytes, rates, watts, joules, megahertz, seconds."""
CpuPct = Amount
"""Percent of one core: 100 is one core busy all the time."""
Share = Annotated[int, Meta(ge=0, le=1)] | Annotated[float, Meta(ge=0, le=1)]
"""A part of a whole, or a chance."""
Celsius = Annotated[int, Meta(ge=-273, le=1000)] | Annotated[float, Meta(ge=-273.15, le=1000)]
Millis = Annotated[int, Meta(ge=0, le=END_OF_TIME_MS)]
"""Integer Unix milliseconds."""
Count = Annotated[int, Meta(ge=0, le=MAX_INTEGER)]
NodeName = Annotated[str, Meta(min_length=1, max_length=253, pattern=NAME_PATTERN)]
"""A node's name: a DNS subdomain, or a host name with underscores or capitals."""
Uid = Annotated[str, Meta(min_length=1, max_length=512)]
Label = Annotated[str, Meta(min_length=1, max_length=1024)]
"""A name that a person gave: printable, not empty."""


def rfc3339(ms: int) -> str:
    """Give Unix milliseconds as Kubernetes writes times: in UTC, whole seconds."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def utc_day(ms: int) -> str:
    """Give the day of Unix milliseconds in UTC: ``2026-11-20``."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%d")


def unix_ms(text: str) -> int:
    """Read the Unix milliseconds of an RFC 3339 time. Raises ``ValueError`` for what is none."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def sum_of_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def sum_of_all(values: Iterable[_Number | None]) -> _Number | None:
    """Return the sum of the values; None where there is none, and where one is not known: without it, it is
    another sum."""
    parts = list(values)
    known = [value for value in parts if value is not None]
    return sum(known) if known and len(known) == len(parts) else None


def weighted_mean(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    """Return the mean of the values that are known, each by its weight; None where none has any.

    ``pairs``: a value and its weight.
    """
    known = [(value, weight) for value, weight in pairs if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def printable_text(text: str) -> str:
    """Return a text with ``?`` for each letter that cannot be shown."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)

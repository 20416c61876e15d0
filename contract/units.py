"""The value types of record fields. A field's unit is the last part of its name; its range is here.

A value that could not be measured is absent (``None`` in the dataclass, no key in the JSON): never 0.
"""

from dataclasses import dataclass
from typing import Annotated

END_OF_TIME_MS = 4_102_444_800_000
"""2100-01-01. A timestamp past it is in another unit (microseconds, nanoseconds), not in the future."""

MOST = 1e21
"""No quantity of one machine comes near (a zettabyte); sums and squares of what is below stay finite."""


@dataclass(frozen=True, slots=True)
class Range:
    """A closed interval that a number has to lie in."""

    low: float = float("-inf")
    high: float = float("inf")


@dataclass(frozen=True, slots=True)
class Text:
    """A string of 1 to ``longest`` characters, all printable; with ``name``, of ``[A-Za-z0-9._-]`` only."""

    longest: int = 1024
    name: bool = False


Pct = Annotated[float, Range(0, 100)]
"""Percent of one device, 0-100."""
CpuPct = Annotated[float, Range(0, MOST)]
"""Percent of one core: 100 is one core busy all the time."""
Amount = Annotated[float, Range(0, MOST)]
"""A quantity that is never negative: bytes, rates, watts, joules, megahertz, seconds."""
Share = Annotated[float, Range(0, 1)]
"""A part of a whole, or a chance."""
Celsius = Annotated[float, Range(-273.15, 1000)]
Millis = Annotated[int, Range(0, END_OF_TIME_MS)]
"""Integer Unix milliseconds."""
Count = Annotated[int, Range(0)]
NodeName = Annotated[str, Text(253, name=True)]
"""A node's name: a DNS subdomain, or a host name with underscores or capitals."""
Uid = Annotated[str, Text(512)]
Label = Annotated[str, Text(1024)]
"""A name that a person gave: printable, not empty."""

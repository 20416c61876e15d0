"""Defines what all records are: values that cannot change, and whose absent fields are not written."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from dutycycle.contract.units import Count, Millis, NodeName, Uid

_T = TypeVar("_T")


class RecordBase(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Is a record or a part of one. A field that is absent is ``None`` here and has no key in the JSON."""


class VersionedRecord(RecordBase, frozen=True, kw_only=True, tag_field="v", tag=1):
    """Is a record that stands alone in a message: its JSON begins with ``"v":1``."""


class TickRecord(VersionedRecord, frozen=True, kw_only=True):
    """Is of a node at one tick, which (``node``, ``collector``, ``seq``) names for ever."""

    node: NodeName
    collector: Uid
    seq: Count
    ts_ms: Millis
    interval_ms: Count


def written(empty: Callable[[], _T]) -> _T:
    """Return the default of a field that is written all the same: that it is empty, zero or false says
    something."""
    # A plain default, or ``default_factory=dict`` itself, would be left out.
    default: _T = field(default_factory=lambda: empty())
    return default

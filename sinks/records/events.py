"""Reads what happened to GPUs: incidents that the driver told, or that its counters show."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import literal, select

from sinks.records.query import reading
from sinks.records.rows import EVENT_TABLE, moment
from sinks.records.tables.columns import UtcTime
from sinks.records.tables.schema import TABLES

MOST_EVENTS = 100


def gpu_events(url: str, node: str, gpu: str | None, since_ms: int) -> Sequence[Mapping[str, Any]]:
    """Return the newest events of a GPU, or of all those of a node, a row for each pod that it hit.

    Raises ``DutycycleError`` when the database cannot be read.
    """
    events = TABLES[EVENT_TABLE]
    wanted = select(events).where(events.c.node == node, events.c.at >= literal(moment(since_ms), UtcTime))
    if gpu is not None:
        wanted = wanted.where(events.c.gpu == gpu)
    with reading(url) as connection:
        newest = wanted.order_by(events.c.at.desc()).limit(MOST_EVENTS)
        return [dict(row) for row in connection.execute(newest).mappings()]

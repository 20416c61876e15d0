"""Rolls up usage, which is kept so long by the hour and then by the day; and what nodes needed by the day."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, func, insert, literal_column, select

from dutycycle.contract.settings.groups import Settings
from sinks.records.rows import COSTS, PARTS, USED, written
from sinks.records.tables.schema import node_peaks, rolled_up, usage_costs, usage_days, usage_hours
from sinks.records.tables.views import DAY_OF_HOUR

_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Says for how many seconds of event time usage is kept, by the hour and by the day."""

    hours_s: float = 90 * _DAY_S
    days_s: float = 1825 * _DAY_S

    @classmethod
    def of(cls, settings: Settings) -> "Retention":
        """Return the retention as it is set."""
        return cls(hours_s=settings.usage_hours, days_s=settings.usage_days)


KEEP = Retention()


def roll_up(connection: Connection, keep: Retention) -> int:
    """Make days of whole days (UTC) of hours that are old, and forget old days; how many rows those were.

    What is old is seen from the newest hour. The cost of a day is as it was by the prices of its hours. An
    hour that became a part of its day counts no more if it is written again.
    """
    newest = connection.scalar(select(func.max(usage_hours.c.hour)))
    if newest is None:
        return 0
    last = datetime.fromisoformat(newest).astimezone(UTC)
    until = written(_day_of(last - timedelta(seconds=keep.hours_s)))
    before = connection.scalar(select(rolled_up.c.until).with_for_update())
    gone = 0
    if before is None or until > before:
        connection.execute(delete(rolled_up))
        connection.execute(insert(rolled_up).values(until=until))
        if before is not None:  # those were moved already: they are repeats
            connection.execute(delete(usage_hours).where(usage_hours.c.hour < before))
        hours = usage_costs.c
        day: ColumnElement[Any] = literal_column(DAY_OF_HOUR[connection.dialect.name])
        names = ("node", "pod_uid", "gpu")
        sums = (*USED, *COSTS, *PARTS)
        query = (
            select(
                day.label("day"), *(hours[name] for name in names), func.max(hours.gpu_model),
                # The less sure of several, as ``ownership.words`` has it: in the order of the alphabet.
                func.min(hours.attribution), *(func.sum(hours[name]) for name in sums),
            )
            .where(hours.hour < until)
            .group_by(day, *(hours[name] for name in names))
        )  # fmt: skip
        columns = ["day", *names, "gpu_model", "attribution", *sums]
        connection.execute(insert(usage_days).from_select(columns, query))
        gone = connection.execute(delete(usage_hours).where(usage_hours.c.hour < until)).rowcount
    oldest = written(_day_of(last - timedelta(seconds=keep.days_s)))
    for days in (usage_days, node_peaks):
        gone += connection.execute(delete(days).where(days.c.day < oldest)).rowcount
    return gone


def _day_of(at: datetime) -> datetime:
    return at.replace(hour=0, minute=0, second=0, microsecond=0)

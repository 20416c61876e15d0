"""Reads what an address asks for, times and choices, checked before anything is read; and who asks."""

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.parsers import duration

Query = Mapping[str, str]
SPANS = {
    "today": "today",
    "7d": "7 days",
    "30d": "30 days",
    "this-month": "this month",
    "last-month": "last month",
}
"""Times that a page offers, by what its address says. Any other duration is taken, too."""
DAY_MS = 24 * HOUR_MS
_LONGEST_S = 5 * 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Viewer:
    """Names somebody as he is known, with "" where nobody is asked. ``namespaces``: those whose pods he may
    see, None for all."""

    name: str = ""
    namespaces: frozenset[str] | None = None

    @property
    def scope(self) -> Hashable:
        """Give what all have alike to whom the same pages are shown; whoever sees nothing is told who he
        is."""
        return self.name if self.namespaces is not None and not self.namespaces else self.namespaces


EVERYBODY = Viewer()
"""Who asks where nobody is asked who he is."""


class PageError(DutycycleError):
    """Says of a question why it cannot be answered, in words for who asked. ``status``: of HTTP; 404 is all
    that is said of what may not be seen."""

    def __init__(self, text: str, status: int = 400) -> None:
        super().__init__(text)
        self.status = status


def span_of(text: str, now_ms: int) -> tuple[int, int]:
    """Give the beginning and the end of a time, in UTC and from a whole hour on. Raises ``PageError``."""
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    if text == "today":
        return now_ms // DAY_MS * DAY_MS, now_ms
    if text == "this-month":
        return _ms(month), now_ms
    if text == "last-month":
        return _ms((month - timedelta(days=1)).replace(day=1)), _ms(month)
    try:
        back_s = duration(text)
    except ValueError as error:
        raise PageError(f"since={text}: {error}, or one of {', '.join(SPANS)}") from error
    if back_s > _LONGEST_S:
        raise PageError(f"since={text}: expected five years at most")
    return round(now_ms - 1000 * back_s) // HOUR_MS * HOUR_MS, now_ms


def choice(query: Query, name: str, choices: Collection[str], default: str) -> str:
    """Give what was chosen of a few words. Raises ``PageError`` for another one."""
    chosen = query.get(name) or default
    if chosen not in choices:
        raise PageError(f"{name}={chosen}: expected one of {', '.join(filter(None, choices))}")
    return chosen


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)

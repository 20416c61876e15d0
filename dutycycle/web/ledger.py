"""Reads of the records what pages show again and again, and takes it for a while as it was read."""

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.web.questions import DAY_MS, span_of
from dutycycle.web.subject.past import HardwareKey, Past, read_past
from dutycycle.words import moment
from sinks.records.location import default_records_url
from sinks.records.query import read_namespaces
from sinks.records.usage import UsageQuery, ledger_until, usage

_TODAY_S = 20.0
"""For so long the sums of today are taken as they were read, ..."""
_NAMED_S = 60.0
"""... the names of namespaces, ..."""
_PAST_MS, _PASTS = 60_000, 32
"""... and the past of a GPU or node; of so many it is kept."""


class LedgerReader:
    """Reads the records at ``url``. ``today``: sums since midnight UTC, None where nothing is known of it;
    ``written_ms``: up to when the ledger was written of which they are; ``problem``: why they are those of
    before, empty while they are not."""

    def __init__(self, settings: Settings) -> None:
        self.url = settings.records or default_records_url()
        self._settings = settings
        self.today: Mapping[str, Any] | None = None
        self.written_ms: int | None = None
        self.problem = ""
        self._today_ms = 0
        """Says when ``today`` was read, which may be long before it was tried last."""
        self._tried_s = self._named_s = float("-inf")
        self._names: set[str] = set()
        self._pasts: dict[tuple[HardwareKey, str, frozenset[str] | None], Past] = {}
        """Keeps what was read of a span for a viewer, the oldest first."""

    def read_today(self) -> None:
        """Read what was used since midnight UTC; where that fails it stays as it was."""
        if time.monotonic() - self._tried_s < _TODAY_S:
            return
        end_ms = time.time_ns() // 1_000_000
        query = UsageQuery(by=("day",), start_ms=end_ms // DAY_MS * DAY_MS, end_ms=end_ms)
        try:
            sums = next(iter(usage(self.url, query)), None)
            written_ms = ledger_until(self.url, end_ms)
            self.today, self.written_ms, self._today_ms, self.problem = sums, written_ms, end_ms, ""
        except DutycycleError as error:
            # Who never had records is told so on the pages of these.
            if self.today is not None:
                self.problem = f"Today's sums are as of {moment(self._today_ms)} UTC: {error}"
        self._tried_s = time.monotonic()

    def namespaces(self) -> set[str]:
        """Name those of the records as of a minute ago at most; those of before while they cannot be read."""
        if time.monotonic() - self._named_s >= _NAMED_S:
            with suppress(DutycycleError):  # said on the pages of the records
                self._names = read_namespaces(self.url)
            self._named_s = time.monotonic()
        return self._names

    def past(self, hardware: HardwareKey, span: str, namespaces: frozenset[str] | None) -> Past:
        """Return what a GPU or node did in ``span``, one of ``PAST_SPANS``. ``namespaces``: those whose names
        may be told, None for all."""
        key, now_ms = (hardware, span, namespaces), time.time_ns() // 1_000_000
        past = self._pasts.get(key)
        if past is None or now_ms - past.end_ms > _PAST_MS:
            past = read_past(self._settings, self.url, hardware, *span_of(span, now_ms), namespaces)
            self._pasts.pop(key, None)
            self._pasts[key] = past
            if len(self._pasts) > _PASTS:
                del self._pasts[next(iter(self._pasts))]
        return past

"""Makes the pages: from a ``LiveState``, and from the ledger, to HTML by the templates."""

import csv
import io
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import duration
from dutycycle.contract.units import JOULES_PER_KWH
from dutycycle.live.source import Source
from dutycycle.live.views import figures
from dutycycle.live.views.depth import insights_on
from dutycycle.live.views.findings import says
from dutycycle.live.views.inside import inside
from dutycycle.live.views.spans import Line, text_of
from dutycycle.live.views.tables.columns import TableColumn, sort_rows
from dutycycle.live.views.tables.gpus import GPUS
from dutycycle.live.views.tables.jobs import JOBS
from dutycycle.live.views.tables.nodes import NODES
from dutycycle.live.views.tables.pods import PODS
from dutycycle.live.views.tables.processes import PROCESSES
from dutycycle.live.views.tables.table import TableView
from dutycycle.live.views.warnings import warnings
from dutycycle.report.page import moment
from dutycycle.web import fleet
from dutycycle.web.charts import charts_of
from dutycycle.web.idle import idle_holders
from dutycycle.words import UNKNOWN, kind_words, named_figure, short_duration
from sinks.records.location import default_records_url
from sinks.records.tables.views import SUMS
from sinks.records.usage import GROUPS, UsageQuery, usage

TABLES: Mapping[str, TableView] = {
    "gpus": GPUS, "jobs": JOBS, "pods": PODS, "nodes": NODES, "processes": PROCESSES,
}  # fmt: skip
_WIDE = 24
"""Cells of a history, and of a bar with its figure."""
_MOST_ROWS = 500
_DAY_MS = 24 * HOUR_MS
_TODAY_S = 20.0
"""For so long the sums of today are taken as they were read."""
_BLOCKS = frozenset("░▏▎▍▌▋▊▉█▁▂▃▄▅▆▇· ")
Query = Mapping[str, str]


class PageError(DutycycleError):
    """Says of a question why it cannot be answered, in words for who asked."""


class Pages:
    """Makes HTML. ``source``: what is shown of now; ``settings``: where the ledger is, and prices."""

    def __init__(self, source: Source, settings: Settings) -> None:
        self._source = source
        self._url = settings.records or default_records_url()
        self._settings = settings
        self._today: tuple[float, Mapping[str, Any] | None] = (float("-inf"), None)
        self._templates = Environment(
            loader=PackageLoader("dutycycle.web"), autoescape=True, undefined=StrictUndefined,
            trim_blocks=True, lstrip_blocks=True,
        )  # fmt: skip
        self._templates.filters |= {
            "moment": moment, "duration": short_duration, "json": _json, "hours": hours,
        }  # fmt: skip
        self._templates.tests["blocks"] = _is_blocks
        self._templates.globals |= {
            "place": source.place, "title_of_all": source.title, "UNKNOWN": UNKNOWN, "link": _link,
        }  # fmt: skip

    def fleet(self, query: Query) -> str:
        """Show the grid of GPUs, today's sums, and the warnings of now. Raises ``PageError``."""
        state, color = self._source.state, query.get("color", "use")
        if color not in fleet.COLORS:
            raise PageError(f"color={color}: expected one of {', '.join(fleet.COLORS)}")
        chosen = fleet.GridFilter(
            **{name: query.get(name, "") for name in ("model", "node", "namespace", "state")}
        )
        if chosen.state and chosen.state not in fleet.STATES:
            raise PageError(f"state={chosen.state}: expected one of {', '.join(fleet.STATES)}")
        gpus = fleet.shown_gpus(state, chosen)
        return self._render(
            "fleet", title="Fleet", color=color, colors=fleet.COLORS, chosen=asdict(chosen),
            squares=fleet.squares(state, gpus, color), shown=len(gpus), counts=fleet.counts(state),
            choices={**fleet.choices(state), "state": list(fleet.STATES)},
            today=self._today[1], warnings=warnings(state, self._source.degraded()),
        )  # fmt: skip

    def table(self, name: str, query: Query) -> str:
        """Show one of ``TABLES``, sorted and filtered as the query says. Raises ``PageError``."""
        state, view = self._source.state, TABLES[name]
        columns: Sequence[TableColumn[Any]] = view.columns(state)
        rows, sort = view.matching(state, query.get("q", "")), query.get("sort", "")
        if sort:
            column = next((column for column in columns if column.title == sort), None)
            if column is None:
                raise PageError(f"sort={sort}: expected one of {', '.join(each.title for each in columns)}")
            rows = sort_rows(rows, column, reverse=query.get("reverse", "") == "1")
        shown = [
            (view.subject(row), [column.cell(row, _width_of(column)) for column in columns])
            for row in rows[:_MOST_ROWS]
        ]
        return self._render(
            "table", title=view.title, name=name, columns=columns, rows=shown, count=len(rows),
            empty=view.empty, sort=sort, reverse=query.get("reverse", "") == "1", q=query.get("q", ""),
        )  # fmt: skip

    def subject(self, query: Query) -> str:
        """Show one GPU, pod, job or node in depth. Raises ``PageError`` for one that is not there."""
        state, key = self._source.state, query.get("key", "")
        row = state.row(key)
        if row is None:
            raise PageError(f"{key}: is not there any more, or was not seen yet")
        verdicts = [
            {
                "title": "" if title == row.title else title,
                "sure": kind_words(insight.kind, insight.confidence),
                "insight": insight,
                "evidence": [named_figure(*figure) for figure in insight.evidence.items()],
            }
            for title, insight in insights_on(state, row)
        ]
        return self._render(
            "subject", title=row.title, kind=figures.kind(row).strip(), more=figures.more(row),
            says=says(state, row), figures=list(figures.now(row)), verdicts=verdicts,
            charts=charts_of(row), seen_ms=row.ts_ms, age_s=(state.now_ms - row.seen_ms) / 1000,
            silent=row.silent_s(state.now_ms) is not None,
            blocks=_blocks(figures.windows(row), figures.peaks(row), inside(state, row, 100)),
        )  # fmt: skip

    def idle(self, _: Query) -> str:
        """Show who holds GPUs and does not use them, and which ones nobody holds."""
        state = self._source.state
        free = [row for row in state.gpus() if fleet.use_of(row, state) == "free"]
        return self._render(
            "idle", title="Idle", holders=idle_holders(state, self._settings.price_gpu_hour),
            price=self._settings.price_gpu_hour, free=free,
        )  # fmt: skip

    def usage(self, query: Query) -> str:
        """Show what was used, idle and paid in a time, of whom. Raises ``DutycycleError``."""
        by, since, rows = self._usage_rows(query)
        return self._render(
            "usage", title="Usage", by=by, since=since, rows=rows[:_MOST_ROWS], count=len(rows),
            groups=GROUPS, kwh=JOULES_PER_KWH, namespace=query.get("namespace", ""),
            question=urlencode({name: value for name, value in query.items() if value}),
        )  # fmt: skip

    def usage_csv(self, query: Query) -> str:
        """Write the same as a table for other programs, in the ledger's own units."""
        by, _, rows = self._usage_rows(query)
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow((*by, *SUMS))
        writer.writerows([row[name] for name in (*by, *SUMS)] for row in rows)
        return out.getvalue()

    def failure(self, title: str, text: str) -> str:
        """Say what is wrong."""
        return self._render("failure", title=title, text=text)

    def login(self, *, refused: bool) -> str:
        """Ask for the token."""
        return self._render("login", title="Sign in", refused=refused)

    def _render(self, template: str, **values: Any) -> str:
        state = self._source.state
        return self._templates.get_template(f"{template}.html").render(
            page=template, now_ms=state.now_ms, ticks=state.ticks, tables=TABLES, **{"name": "", **values}
        )

    def _usage_rows(self, query: Query) -> tuple[tuple[str, ...], str, Sequence[Mapping[str, Any]]]:
        by = tuple(filter(None, map(str.strip, query.get("by", "namespace").split(","))))
        if not by or len(set(by)) < len(by) or len(by) > 4:
            raise PageError(f"by={','.join(by)}: expected one to four names, each once, such as team,day")
        since = query.get("since", "7d")
        try:
            back_s = duration(since)
        except ValueError as error:
            raise PageError(f"since={since}: {error}") from error
        end_ms = time.time_ns() // 1_000_000
        start_ms = round(end_ms - 1000 * back_s) // HOUR_MS * HOUR_MS
        asked = UsageQuery(by=by, start_ms=start_ms, end_ms=end_ms, namespace=query.get("namespace") or None)
        return by, since, usage(self._url, asked)

    def read_today(self) -> None:
        """Read what was used since midnight UTC, for the grid, which does without where that fails."""
        if time.monotonic() - self._today[0] < _TODAY_S:
            return
        end_ms = time.time_ns() // 1_000_000
        query = UsageQuery(by=("day",), start_ms=end_ms // _DAY_MS * _DAY_MS, end_ms=end_ms)
        try:
            sums = next(iter(usage(self._url, query)), None)
        except DutycycleError:  # said on the page of the usage
            sums = None
        self._today = time.monotonic(), sums


def hours(seconds: float | None) -> str:
    """Write seconds as hours; unknown is a dot."""
    return UNKNOWN if seconds is None else f"{seconds / 3600:,.2f}"


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode()


def _is_blocks(text: str) -> bool:
    """Tell whether it is a bar or a history, which says nothing when it is read aloud."""
    return not text.isspace() and bool(text) and _BLOCKS.issuperset(text) and text != UNKNOWN


def _link(path: str, **query: Any) -> str:
    """Write an address on this page; what is empty is left out."""
    kept = {name: value for name, value in query.items() if value not in ("", None, False)}
    return f"{path}?{urlencode(kept)}" if kept else path


def _width_of(column: TableColumn[Any]) -> int:
    return _WIDE if "history" in column.title else max(column.comfort, column.width)


def _blocks(*parts: Iterable[Line]) -> list[list[Line]]:
    """Keep the parts that have anything to say."""
    return [lines for lines in map(list, parts) if any(text_of(line).strip() for line in lines)]

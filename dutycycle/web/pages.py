"""Makes the pages: from a ``LiveState``, and from the ledger, to HTML by the templates."""

import io
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import urlencode

import orjson

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.parsers import duration
from dutycycle.contract.units import JOULES_PER_KWH
from dutycycle.html import templates_of
from dutycycle.live.model.limits import OTHERS, limited, namespace_of
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, PodRow, Row
from dutycycle.live.source import Source
from dutycycle.live.views import figures
from dutycycle.live.views.depth import insights_on
from dutycycle.live.views.findings import says
from dutycycle.live.views.spans import Line, text_of
from dutycycle.live.views.tables.columns import TableColumn, TableView, sort_rows
from dutycycle.live.views.tables.gpus import GPUS
from dutycycle.live.views.tables.jobs import JOBS
from dutycycle.live.views.tables.nodes import NODES
from dutycycle.live.views.tables.pods import PODS
from dutycycle.live.views.tables.processes import PROCESSES, on_gpus
from dutycycle.live.views.warnings import warnings
from dutycycle.tables.columns import ColumnType
from dutycycle.tables.formats import FORMATS, Format
from dutycycle.web import about, fleet
from dutycycle.web.idle import idle_holders
from dutycycle.web.jobs import DEFAULT_REPORT, REPORTS, history_values, job_values
from dutycycle.web.ledger import LedgerReader, usage_charts
from dutycycle.web.pools import NodePools
from dutycycle.web.questions import (
    EVERYBODY,
    SPANS,
    PageError,
    Query,
    Viewer,
    choice,
    span_of,
)
from dutycycle.web.studies.runs import run_of
from dutycycle.web.studies.study import StudyQuestion
from dutycycle.web.subject.charts import charts_of
from dutycycle.web.subject.health import health_of
from dutycycle.web.subject.past import DEFAULT_PAST, PAST_SPANS, HardwareKey, Past
from dutycycle.words import (
    UNKNOWN,
    bytes_text,
    digits,
    evidence_figures,
    kind_words,
    percent_text,
)
from sinks.records.usage import (
    GROUPS,
    USAGE_SUMS,
    UsageQuery,
    group_text,
    hours_since,
    is_part,
    label_names,
    ledger_until,
    usage,
)

TABLES: Mapping[str, TableView] = {
    "gpus": GPUS, "jobs": JOBS, "pods": PODS, "nodes": NODES, "processes": PROCESSES,
}  # fmt: skip
_WIDE = 24
"""Cells of a history, and of a bar with its figure."""
_MOST_ROWS = 500
_PARTLY = "≥: at least; of a part of the GPU time its energy is not known, or it has no price"
_OFFERED = ("model", "job", "node", "day", "week")
"""What the usage can be asked by with a click, beside namespaces and the labels of pods."""
_BLOCKS = frozenset("░▏▎▍▌▋▊▉█▁▂▃▄▅▆▇· ")

CellRow = tuple[str, list[Line]]
"""The key of what a row is about, and its cells."""


class Pages:
    """Makes HTML. ``source``: what is shown of now; ``settings``: where the ledger is, and prices; ``pools``:
    of its nodes."""

    def __init__(self, source: Source, settings: Settings, pools: NodePools) -> None:
        self._source, self._pools = source, pools
        self.ledger = LedgerReader(settings)
        self._url = self.ledger.url
        self._settings = settings
        self._templates = templates_of("dutycycle.web")
        self._templates.filters |= {
            "json": lambda value: orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY).decode(),
            "hours": hours,
            "percent": percent_text, "bytes": bytes_text, "amount": amount,
            "digits": lambda value: UNKNOWN if value is None else digits(value),
            "anchor": about.anchor, "explain": about.address_of, "group": group_text,
        }  # fmt: skip
        # A bar or a history says nothing when it is read aloud.
        self._templates.tests["blocks"] = lambda text: (
            not text.isspace() and bool(text) and _BLOCKS.issuperset(text) and text != UNKNOWN
        )
        self._templates.globals |= {
            "place": source.place, "title_of_all": source.title, "UNKNOWN": UNKNOWN, "link": _link,
            "PARTLY": _PARTLY,
        }  # fmt: skip

    def fleet(self, query: Query, viewer: Viewer) -> str:
        """Show the grid of GPUs, today's sums, and the warnings of now. Raises ``PageError``."""
        state, color = self._seen_by(viewer), choice(query, "color", fleet.COLORS, "use")
        chosen = fleet.GridFilter(
            **{name: query.get(name, "") for name in ("model", "node", "namespace", "state", "pool")}
        )
        choice(query, "state", ("", *fleet.STATES), "")
        every, pools = state.gpus(), self._pools.of_node
        gpus = fleet.shown_gpus(state, every, chosen, pools)
        choices = fleet.choices(state, every, pools)
        if chosen.pool and chosen.pool not in choices.get("pool", ()):
            choices["pool"] = sorted({*choices.get("pool", ()), chosen.pool})
        return self._render(
            "fleet", viewer, title="Fleet", color=color, colors=fleet.COLORS, chosen=asdict(chosen),
            squares=fleet.squares(state, gpus, color), shown=len(gpus), counts=fleet.counts(state, every),
            choices={**choices, "state": list(fleet.STATES)}, pools=pools, pools_problem=self._pools.problem,
            today=self.ledger.today, ledger_ms=self.ledger.written_ms,
            problems=[*self._source.degraded(), *filter(None, [self.ledger.problem])],
            warnings=fleet.joined_warnings(warnings(state, ())),
        )  # fmt: skip

    def table(self, name: str, query: Query, viewer: Viewer) -> str:
        """Show one of ``TABLES``, sorted and filtered as the query says. Raises ``PageError``."""
        state, view = self._seen_by(viewer), TABLES[name]
        columns: Sequence[TableColumn[Any]] = view.columns(state)
        rows, sort = view.matching(state, query.get("q", "")), query.get("sort", "")
        if sort:
            column = next((column for column in columns if column.title == sort), None)
            if column is None:
                raise PageError(f"sort={sort}: expected one of {', '.join(each.title for each in columns)}")
            rows = sort_rows(rows, column, reverse=query.get("reverse", "") == "1")
        return self._render(
            "table", viewer, title=view.title, name=name, columns=columns,
            rows=_cells(view, columns, rows), count=len(rows),
            empty=view.empty, sort=sort, reverse=query.get("reverse", "") == "1", q=query.get("q", ""),
        )  # fmt: skip

    def subject(self, query: Query, viewer: Viewer, past: Past | None = None) -> str:
        """Show one GPU, pod, job or node in depth. Raises ``PageError`` for one that is not there.

        ``past``: of a GPU or node, as ``read_past`` gives it.
        """
        state, key = self._seen_by(viewer), query.get("key", "")
        row = state.row(key)
        if row is None or key == f"pod/{OTHERS}":
            raise PageError(f"{key}: is not there any more, or was not seen yet", 404)
        verdicts = [
            {
                "title": "" if title == row.title else title,
                "sure": kind_words(insight.kind, insight.confidence),
                "insight": insight,
                "evidence": evidence_figures(insight.evidence),
            }
            for title, insight in insights_on(state, row)
        ]
        blocks = [list(figures.windows(row)), list(figures.peaks(row))]
        return self._render(
            "subject", viewer, title=row.title, kind=figures.kind(row).strip(), more=figures.more(row),
            says=says(state, row), figures=list(figures.now(row)), verdicts=verdicts,
            charts=charts_of(row), seen_ms=row.ts_ms, age_s=(state.now_ms - row.seen_ms) / 1000,
            silent=row.is_silent,
            blocks=[lines for lines in blocks if any(text_of(line).strip() for line in lines)],
            inside=_inside(state, row),
            health=health_of(state, row), past=past, is_part=is_part, past_spans=PAST_SPANS, key=key,
            since=choice(query, "since", PAST_SPANS, DEFAULT_PAST),
            # A key of a job or pod is its kind and its uid.
            uid=row.key.partition("/")[2] if isinstance(row, JobRow | PodRow) else "",
            is_job=isinstance(row, JobRow),
        )  # fmt: skip

    def hardware_of(self, query: Query) -> HardwareKey | None:
        """Name the GPU or node that a page is asked of; None for others."""
        state, row = self._source.state, self._source.state.row(query.get("key", ""))
        if isinstance(row, GpuRow):
            return HardwareKey(row.node, row.now.uuid, ((row.now.uuid, row.name),))
        if not isinstance(row, NodeRow):
            return None
        gpus = ((gpu.now.uuid, gpu.name) for gpu in state.gpus() if gpu.node == row.name)
        return HardwareKey(row.name, None, tuple(gpus))

    def read_past(self, hardware: HardwareKey, query: Query, viewer: Viewer) -> Past:
        """Read what a GPU or node did before, for its page. Raises ``PageError``."""
        return self.ledger.past(hardware, choice(query, "since", PAST_SPANS, DEFAULT_PAST), viewer.namespaces)

    def idle(self, _: Query, viewer: Viewer) -> str:
        """Show who holds GPUs and does not use them, and which ones nobody holds."""
        state = self._seen_by(viewer)
        free = [row for row in state.gpus() if fleet.use_of(row, state) == "free"]
        price = self._settings.price_gpu_hour
        holders, everybodys = idle_holders(state, price), idle_holders(self._source.state, price)
        return self._render(
            "idle", viewer, title="Idle", holders=holders, price=price, free=free,
            hidden_gpus=sum(len(holder.gpus) for holder in everybodys)
            - sum(len(holder.gpus) for holder in holders),
        )  # fmt: skip

    def usage(self, query: Query, viewer: Viewer) -> str:
        """Show what was used, idle and paid in a time, of whom. Raises ``DutycycleError``."""
        asked, since, rows = self._usage_rows(query, viewer)
        by = asked.columns
        chosen = {"by": ",".join(asked.by), "since": since, "namespace": query.get("namespace", "")}
        return self._render(
            "usage", viewer, title="Usage", by=by, since=since, rows=rows[:_MOST_ROWS], count=len(rows),
            charts=usage_charts(by, rows, hours_since(self._url)),
            ledger_ms=ledger_until(self._url, time.time_ns() // 1_000_000),
            partly=any(is_part(row, name) for row in rows[:_MOST_ROWS] for name in ("energy_j", "cost")),
            is_part=is_part, groups=GROUPS, kwh=JOULES_PER_KWH, namespace=chosen["namespace"], spans=SPANS,
            chosen=chosen,
            offered=("namespace", *label_names(self._url, viewer.namespaces), *_OFFERED),
            question=urlencode({name: value for name, value in query.items() if value}),
        )  # fmt: skip

    def usage_file(self, form: str, query: Query, viewer: Viewer) -> bytes:
        """Write the same as a file for other programs, in the ledger's own units; ``form``: one of
        ``FORMATS``. Raises ``NotInstalledError`` for Parquet without pyarrow."""
        asked, _, rows = self._usage_rows(query, viewer)
        columns = dict.fromkeys(asked.columns, ColumnType("text")) | dict.fromkeys(
            USAGE_SUMS, ColumnType("number")
        )
        writer: Format = FORMATS[form]()
        file = io.BytesIO()
        writer.write(file, columns, [writer.pack(columns, rows)])
        return file.getvalue()

    def history(self, query: Query, viewer: Viewer) -> str:
        """Show the jobs of the records, those that run and those that ended. Raises ``DutycycleError``."""
        values = history_values(self._url, query, viewer)
        ledger_ms = ledger_until(self._url, time.time_ns() // 1_000_000)
        return self._render("history", viewer, title="Jobs, now and ended", ledger_ms=ledger_ms, **values)

    def job(self, query: Query, viewer: Viewer) -> str:
        """Show one job of the records, with the runs before it. Raises ``DutycycleError``."""
        values = job_values(self._url, query, viewer)
        is_live = self._source.state.row(f"job/{values['job'].uid}") is not None
        return self._render("job", viewer, title=values["job"].title, is_live=is_live, **values)

    def report_of(self, query: Query, viewer: Viewer) -> tuple[object, StudyQuestion]:
        """Say of which runs a report, or with ``other`` a comparison, is to be made: a key that stays the
        same while they go on, and the question. Raises ``DutycycleError``."""
        back = choice(query, "back", REPORTS, DEFAULT_REPORT)
        uids = [query.get("uid", ""), *filter(None, [query.get("other")])]
        back_ms = round(1000 * duration(back))
        # The earlier one first: changes are from it to the later.
        state = self._seen_by(viewer)
        every = [run_of(state, self._url, uid, back_ms, viewer.namespaces) for uid in uids]
        runs = tuple(sorted(every, key=lambda run: run.start_ms))
        links = [("fleet", "Fleet"), ("history", "All jobs")]
        links += [(_link("job", uid=run.uid), run.name) for run in runs]
        if len(runs) == 1:
            longer = {text: name for text, name in REPORTS.items() if text != back}
            links += [(_link("report", uid=uids[0], back=text), name) for text, name in longer.items()]
        key = (*uids, back, viewer.namespaces)
        return key, StudyQuestion(runs, tuple(links), viewer.namespaces)

    def about(self, _: Query, viewer: Viewer) -> str:
        """Show what the figures are, and how they are made."""
        return self._render("about", viewer, title="What it means", terms=about.TERMS, rows=about.metrics())

    def failure(self, title: str, text: str) -> str:
        """Say what is wrong."""
        return self._render("failure", EVERYBODY, title=title, text=text)

    def login(self, *, refused: bool) -> str:
        """Ask for the token."""
        return self._render("login", EVERYBODY, title="Sign in", refused=refused)

    def _seen_by(self, viewer: Viewer) -> LiveState:
        """Give what of now may be seen."""
        state = self._source.state
        return state if viewer.namespaces is None else limited(state, viewer.namespaces)

    def _render(self, template: str, viewer: Viewer, **values: Any) -> str:
        state = self._source.state
        return self._templates.get_template(f"{template}.html").render(
            page=template, now_ms=state.now_ms, ticks=state.ticks, tables=TABLES, viewer=viewer,
            **{"problems": self._source.degraded(), "name": "", **values},
        )  # fmt: skip

    def _usage_rows(
        self, query: Query, viewer: Viewer
    ) -> tuple[UsageQuery, str, Sequence[Mapping[str, Any]]]:
        by = tuple(filter(None, map(str.strip, query.get("by", "namespace").split(","))))
        if not by or len(set(by)) < len(by) or len(by) > 4:
            raise PageError(f"by={','.join(by)}: expected one to four names, each once, such as team,day")
        since = query.get("since") or "7d"
        start_ms, end_ms = span_of(since, time.time_ns() // 1_000_000)
        asked = UsageQuery(
            by=by, start_ms=start_ms, end_ms=end_ms, namespace=query.get("namespace") or None,
            namespaces=viewer.namespaces,
        )  # fmt: skip
        return asked, since, usage(self._url, asked)

    def namespaces(self) -> set[str]:
        """Name those that are known now, and those of the records."""
        return {namespace_of(pod) for pod in self._source.state.pods()} - {""} | self.ledger.namespaces()


def hours(seconds: float | None) -> str:
    """Write seconds as hours; unknown is a dot."""
    return UNKNOWN if seconds is None else f"{seconds / 3600:,.2f}"


def amount(money: float | None) -> str:
    """Write money with two places; unknown is a dot."""
    return UNKNOWN if money is None else f"{money:,.2f}"


def _link(path: str, **query: Any) -> str:
    """Write an address on this page; what is empty is left out."""
    kept = {name: value for name, value in query.items() if value not in ("", None, False)}
    return f"{path}?{urlencode(kept)}" if kept else path


def _cells(view: TableView, columns: Sequence[TableColumn[Any]], rows: Sequence[Any]) -> list[CellRow]:
    """Give of each row the key of what it is about, and its cells."""
    widths = [
        (column, _WIDE if "history" in column.title else max(column.comfort, column.width))
        for column in columns
    ]
    return [
        (view.subject(row), [column.cell(row, width) for column, width in widths])
        for row in rows[:_MOST_ROWS]
    ]


def _inside(state: LiveState, row: Row) -> list[tuple[str, Sequence[TableColumn[Any]], list[CellRow]]]:
    """Give the tables of what is in and on a GPU, node, pod or job, each where there is anything."""
    near = LiveState(now_ms=state.now_ms, local=state.local)
    gpus, pods = state.gpus(), state.pods()
    if isinstance(row, NodeRow):
        gpus = [gpu for gpu in gpus if gpu.node == row.name]
        pods = [pod for pod in pods if pod.node == row.name]
    elif isinstance(row, GpuRow):
        gpus, pods = [gpu for gpu in gpus if gpu is row], [pod for pod in pods if pod.uid in row.pods]
    else:
        uids = {pod.uid for pod in row.pods.values()} if isinstance(row, JobRow) else {row.uid}
        gpus = [gpu for gpu in gpus if not uids.isdisjoint(gpu.pods)]
        pods = [pod for pod in pods if pod.uid in uids]
    others: list[GpuRow | PodRow] = [*gpus, *pods]
    near.rows = {other.key: other for other in others}
    tables: list[tuple[TableView, Sequence[Any]]] = [
        (view, [other for other in view.rows(near) if view.subject(other) != row.key])
        for view in (GPUS, PODS)
    ]
    processes = on_gpus(near)
    if isinstance(row, PodRow):  # others may be on its GPUs, too
        processes = [on_gpu for on_gpu in processes if on_gpu.process.pod_uid == row.uid]
    tables.append((PROCESSES, processes))
    return [
        (view.title, columns, _cells(view, columns, rows))
        for view, rows in tables
        if rows
        for columns in (view.columns(near),)
    ]
